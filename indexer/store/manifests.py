"""The records of an index: one for the index, and one for each of its parts (a folder of files).

Each is a manifest.json, written last: versions, the inputs that the part was made from (its fingerprint), its
counts, and size and SHA-256 of every file. A record is immutable, with all that it contains, so threads share
it. A key of the wrong type, and a missing one that has no default, is damage; keys that this version does not
know are kept, and keys that were not set are not written, so a manifest that is read and written stays the
same.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from linkseek.indexer.language.codes import ENGLISH, SEVERAL
from linkseek.indexer.program.frozen import FrozenDict, frozen
from linkseek.indexer.program.paths import name_problem, path_problem
from linkseek.indexer.store.artifacts import DENSE, encoder_of, partition_path

FORMAT_VERSION = 1

Json = Annotated[dict[str, Any], AfterValidator(frozen)]
"""A JSON object that the store does not interpret, such as an encoder's description of itself."""

Entries = dict[str, Any]
"""The values of a record that is being made, by its keys; checked when the record is made of them."""

Count = Annotated[int, Field(ge=0, lt=1 << 63)]
Settings = Annotated[dict[str, Annotated[int, Field(gt=0, lt=1 << 63)]], AfterValidator(frozen)]
"""Search parameters of FAISS by name."""


class ManifestRecord(BaseModel):
    """A part of a manifest. Values are JSON, of exactly the declared types."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    at_end: ClassVar[tuple[str, ...]] = ()
    """The keys that are written last, in this order."""

    @model_validator(mode="before")
    @classmethod
    def _is_frozen(cls, values: Any) -> Any:
        return frozen(values)

    def to_json(self) -> dict[str, Any]:
        """The JSON object that it is read from."""
        values = self.model_dump(mode="json", exclude_unset=True)
        return values | {key: values.pop(key) for key in self.at_end if key in values}

    def given(self) -> dict[str, Any]:
        """The values that were set, by their keys; without defaults."""
        return {name: getattr(self, name) for name in self.model_fields_set}

    def replace(self, **values: Any) -> Self:
        """The same record with some values replaced, which are checked."""
        return type(self).model_validate(self.given() | values)


class FileEntry(ManifestRecord):
    """Size and hash of a file."""

    bytes: Count
    sha256: str


def _are_inside(files: dict[str, FileEntry]) -> dict[str, FileEntry]:
    if any(map(path_problem, files)):
        raise ValueError("the path of a file leads out of its part")
    return FrozenDict(files)


Files = Annotated[dict[str, FileEntry], AfterValidator(_are_inside)]
"""The files of a part by their paths in it."""


class SkippedRecords(ManifestRecord):
    """The records that a build skipped for one reason, and the places of the first of them.

    part: whether these are parts of documents.
    """

    count: Count
    examples: tuple[str, ...] = ()
    part: bool = False


AllSkipped = Annotated[dict[str, SkippedRecords], AfterValidator(FrozenDict)]


class UpdateRecord(ManifestRecord):
    """One update. request: a hash of the request. file, sha256: of the documents that were added.

    rebuilt: the index then equalled a build of its only corpus, so a build undoes nothing.
    """

    request: str
    file: str | None = None
    sha256: str | None = None
    added: Count = 0
    replaced: Count = 0
    removed: Count = 0
    rebuilt: bool = False


class SourceRecord(ManifestRecord):
    """A corpus that documents of an index are from, and how many of them: they are neighbours.

    inputs: its path, its state when it was read, and how it was read (`building.plan.documents_inputs`).
    """

    inputs: Json
    documents: Count
    redirects: Count
    records: Count
    skipped: AllSkipped


class PartManifest(ManifestRecord):
    """A part: any folder of files with the inputs that they were made from."""

    at_end: ClassVar[tuple[str, ...]] = ("files",)

    format_version: int
    fingerprint: Json
    files: Files

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(file.bytes for file in self.files.values())


class AllDocuments(PartManifest):
    """The ids of the documents of all partitions of an index."""

    documents: Count
    redirects: Count
    skipped: AllSkipped


class DocumentsPart(AllDocuments):
    """Documents and redirects. source_sha256: of the corpus.

    sources: the corpora of the documents, in their order; a build has one, which its fingerprint describes.
    """

    records: Count
    content_sha256: str
    source_sha256: str | None = None
    update: UpdateRecord | None = None
    sources: tuple[SourceRecord, ...] = ()


class PassagesPart(PartManifest):
    """Passages. words: the most of a passage; 0: each is a whole document."""

    passages: Count
    words: Count
    content_sha256: str


class LinkCounts(ManifestRecord):
    """Numbers of links and redirects by outcome."""

    resolved_redirects: Count
    dangling_redirects: Count
    links: Count
    between_documents: Count
    dangling: Count
    cut: Count


class LinksPart(PartManifest):
    """The link graph. dangling_targets: the most frequent targets that do not exist: "x.html (12)"."""

    counts: LinkCounts
    dangling_targets: tuple[str, ...] = ()


class LucenePart(PartManifest):
    """A Lucene index."""

    passages: Count


class Tried(ManifestRecord):
    """A setting of searches with its recall, and the milliseconds of a question."""

    setting: Settings
    recall: float
    milliseconds: float = 0.0


class Recall(ManifestRecord):
    """What `linkseek recall` measured, of the exact best `depth`."""

    depth: Count
    questions: Count
    chosen: Tried
    tried: tuple[Tried, ...] = ()


_MOST_UNREAD = 0.2
"""Chosen on LibreOffice's help and MediaWiki's messages (`retriever.models.facts`)."""


class Reading(ManifestRecord):
    """How an encoder reads the passages of an index.

    unread: the share of words in a sample that its tokenizer does not know or cuts into short pieces.
    languages: the codes of the languages on its model's card.
    """

    unread: float = 0.0
    languages: tuple[str, ...] = ()

    def reads(self, language: str) -> bool:
        """Whether it can read these passages, given the language of their index."""
        is_named = language in self.languages or (language == SEVERAL and len(self.languages) > 1)
        if is_named and language not in (ENGLISH, SEVERAL):  # English is also where nothing shows another
            return True
        return self.unread <= _MOST_UNREAD and (is_named or not self.languages)


def _names_its_model(encoder: dict[str, Any]) -> dict[str, Any]:
    if not all(isinstance(encoder.get(name), str) for name in ("name", "sha256", "location")):
        raise ValueError("name, sha256 and location of an encoder are texts")
    prompts = ("query_prompt", "passage_prompt", "title_separator")
    if not all(isinstance(encoder.get(name, ""), str | None) for name in prompts):
        raise ValueError("prompts of an encoder are texts")
    return encoder


class EncodedPart(PartManifest):
    """What an encoder has made of the passages, however it is stored.

    encoder: its identity, and its location when it encoded. reading: of its passages by the encoder.
    """

    encoder: Annotated[Json, AfterValidator(_names_its_model)]
    execution: Json = FrozenDict()
    reading: Reading = Reading(languages=(ENGLISH,))
    vectors_sha256: str = ""
    rows: Count


class VectorsPart(EncodedPart):
    """An encoder's vectors in a FAISS index.

    code, codes_at: of a compact index, the type of its codes and where in the file they begin. search: the
    search parameters that `linkseek recall` chose.
    """

    at_end = ("files", "recall", "search")

    factory: str
    dimension: Count
    metric: str
    code: str = ""
    codes_at: Count = 0
    recall: Recall | None = None
    search: Settings = FrozenDict()


class CodesPart(EncodedPart):
    """Several codes for each passage. tokens: codes of all passages. width: bytes of one."""

    tokens: Count
    width: Count


class LatePart(CodesPart):
    """The token vectors of an encoder (`indexer.encoding.token_codes`)."""


class SparsePart(CodesPart):
    """Term weights (`indexer.encoding.impacts`), and a Lucene index of them.

    most: terms of a passage that are searched; 0: all. kept: their share in the sum of all weights.
    """

    most: Count = 0
    kept: float = 1.0


class ShardsPart(PartManifest):
    """The shards of an encoder's vectors, in a workspace or next to a FAISS index that loses precision."""

    shards: Count
    vectors_sha256: str


class Counts(LinkCounts):
    """The counts of an index."""

    documents: Count
    redirects: Count
    passages: Count


class CorpusRecord(ManifestRecord):
    """The corpus of an index, or the corpora of its partitions. base_url: the address of the site with its
    pages.
    """

    file: str = ""
    format: str = ""
    bytes: Count = 0
    sha256: str | None = None
    base_url: Annotated[str, AfterValidator(lambda url: urlsplit(url) and url)] = ""


class TextRecord(ManifestRecord):
    """How documents were cut and read; the options of `linkseek build` explain them."""

    title: bool = True
    passage_words: Count | None = None
    min_words: Count = 0
    language: str = ENGLISH
    headings: bool = False


def _are_parts(names: tuple[str, ...]) -> tuple[str, ...]:
    if any(name_problem(encoder_of(name) or name) for name in names):
        raise ValueError("a part is a name, or the folder of a kind of vectors and a name")
    return names


def _are_partitions(names: tuple[str, ...]) -> tuple[str, ...]:
    if names != tuple(map(partition_path, range(len(names)))):
        raise ValueError("partitions are numbered from 0")
    return names


class IndexManifest(ManifestRecord):
    """An index: its origin and contents.

    deleted_rows: none so far. default_encoder: the name under dense/ of the vectors that searches use.
    """

    format_version: int
    parts: Annotated[tuple[str, ...], AfterValidator(_are_parts)]
    created: str = ""
    command: str = ""
    versions: Annotated[dict[str, str], AfterValidator(frozen)] = FrozenDict()
    counts: Counts
    skipped: AllSkipped = FrozenDict()
    deleted_rows: tuple[Count, ...] = ()
    corpus: CorpusRecord = CorpusRecord()
    text: TextRecord = TextRecord()
    default_encoder: str | None = None
    updates: tuple[UpdateRecord, ...] = ()
    partitions: Annotated[tuple[str, ...], AfterValidator(_are_partitions)] = ()

    @property
    def encoders(self) -> tuple[str, ...]:
        """The names of the encoders with vectors of their own here."""
        return tuple(encoder_of(name) for name in self.parts if name.startswith(f"{DENSE}/"))
