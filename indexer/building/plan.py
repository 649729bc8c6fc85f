"""A build without its work: its plan, the fingerprints of its parts, and its summary.

A fingerprint is everything that the content of a part depends on, by content. A finished part with the same
fingerprint is reused instead of being built again (`building.workspace`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from linkseek.indexer.encoding.encode import Encoder
from linkseek.indexer.passages import Cutting
from linkseek.indexer.readers.choices import DEFAULT, Choices
from linkseek.indexer.readers.reader import Reader
from linkseek.indexer.search.faiss_index import AUTO
from linkseek.indexer.store.artifacts import DENSE, LATE, SPARSE, kind_and_name, vector_part
from linkseek.indexer.store.manifests import DocumentsPart, IndexManifest, PassagesPart

ChooseEncoder = Callable[[int, str], str]
"""The number of passages and their language -> the name of the encoder chosen for `AUTO_ENCODER`."""

AUTO_ENCODER = "auto"
AUTO_LANGUAGE = "auto"

OpenEncoder = Callable[[str, bool], Encoder]
"""(name, whether passages are read with their titles) -> the encoder."""


class Vectors(NamedTuple):
    """The part that an encoder makes, the encoder's name or path, and the type of its FAISS index, or how
    many terms of a passage are searched."""

    part: str
    encoder: str
    factory: str


@dataclass(frozen=True)
class BuildPlan:
    """The settings of a build, named like the options of the command, which explain them.

    Settings that are None are decided at the build: format and passage_words by the corpus, min_words as a
    fifth of passage_words. So are the language and the headings, if they are "auto".
    """

    corpus: Path
    format: str | None = None
    reading: Choices = DEFAULT
    passage_words: int | None = None
    min_words: int | None = None
    title: bool = True
    language: str = AUTO_LANGUAGE
    headings: str = "auto"
    base_url: str = ""
    bm25: bool = True
    encoders: Sequence[str] = ()
    faiss: str = AUTO
    sparse_terms: int = 0
    processes: int | None = None
    fresh: bool = False
    command: str = ""
    choose_encoder: ChooseEncoder | None = field(default=None, compare=False)
    reused: Sequence[Vectors] = ()
    """of an update: the vectors that the index has already"""

    def decided(self, passages: int) -> BuildPlan:
        """With the encoder chosen for `AUTO_ENCODER`, given the number of passages."""
        if AUTO_ENCODER not in self.encoders or self.choose_encoder is None:
            return self
        chosen = self.choose_encoder(passages, self.language)
        names = [chosen if name == AUTO_ENCODER else name for name in self.encoders]
        return replace(self, encoders=tuple(dict.fromkeys(names)))

    @property
    def vectors(self) -> list[Vectors]:
        """All vectors of the new index."""
        options = {DENSE: self.faiss, LATE: "", SPARSE: str(self.sparse_terms)}
        made = [Vectors(vector_part(name), name, options[kind_and_name(name)[0]]) for name in self.encoders]
        return [*self.reused, *made]

    def bm25_inputs(self, passages: PassagesPart) -> Inputs:
        """The fingerprint of the Lucene index."""
        return {"passages": passages.content_sha256, "title": self.title, "language": self.language}

    def vectors_inputs(self, passages: PassagesPart, encoder: Encoder, factory: str) -> Inputs:
        """The fingerprint of an encoder's part. factory: as of `Vectors`."""
        return {**encoded_inputs(passages, encoder), "title": self.title, "factory": factory}


@dataclass
class Built:
    """The manifest of a new index, when each stage ran, and which parts were not built anew.

    times: (start, end) of a stage in seconds since the build began; stages overlap. reused: parts of the
    plan that were finished before. retained: other parts of the old index that still fit.
    """

    manifest: IndexManifest
    times: dict[str, tuple[float, float]] = field(default_factory=dict)
    reused: list[str] = field(default_factory=list)
    retained: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> dict[str, float]:
        """The duration of each stage, in the order in which they began."""
        order = sorted(self.times, key=lambda name: self.times[name])
        return {name: self.times[name][1] - self.times[name][0] for name in order}


Inputs = dict[str, Any]
"""The fingerprint of a part that is to be built."""


def documents_inputs(reader: Reader) -> Inputs:
    """The fingerprint of the documents of a corpus."""
    return {
        "linkseek": version("linkseek"),  # another version may read the same file differently
        "format": reader.name,
        "corpus": str(reader.path.resolve()),
        **reader.state(),
        **reader.choices.to_json(),
    }


def passages_inputs(documents: DocumentsPart, cutting: Cutting) -> Inputs:
    """The fingerprint of passages."""
    return {"documents": documents.content_sha256, **asdict(cutting)}


def cutting_of(passages: PassagesPart) -> Cutting:
    """How passages were cut, by their fingerprint."""
    inputs = passages.fingerprint
    return Cutting(passages.words, int(inputs.get("min_words", 0)), bool(inputs.get("headings")))


def links_inputs(documents: DocumentsPart, passages: PassagesPart) -> Inputs:
    """The fingerprint of the link graph."""
    return {"documents": documents.content_sha256, "passages": passages.content_sha256}


def encoded_inputs(passages: PassagesPart, encoder: Encoder) -> Inputs:
    """The passages and the model of vectors, however they are computed and stored."""
    return {"passages": passages.content_sha256, "encoder": encoder.identity}


def shards_inputs(passages: PassagesPart, encoder: Encoder) -> Inputs:
    """The fingerprint of the shards of vectors."""
    how = {"token_budget": encoder.token_budget, "shard_rows": encoder.shard_rows}
    return {**encoded_inputs(passages, encoder), "execution": encoder.execution, **how}
