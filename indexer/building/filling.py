"""Where words and vectors of a new index come from: from its passages, or from the index in use as well.

A stage says which part is built and reports its progress (`stages`); a `PartSource` fills it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from linkseek.indexer.building.plan import BuildPlan, Inputs, bm25_inputs, encoded_inputs
from linkseek.indexer.building.workspace import Workspace
from linkseek.indexer.encoding.encode import ALL, Encoder, OnRows, Share, encode_passages, rows_of_share
from linkseek.indexer.encoding.shards import Shard
from linkseek.indexer.passages import PassageStore
from linkseek.indexer.program.defaults import default_processes
from linkseek.indexer.program.errors import DamagedIndexError
from linkseek.indexer.program.frozen import frozen
from linkseek.indexer.program.log import log_line
from linkseek.indexer.search.faiss_index import FLAT, shards_from_flat
from linkseek.indexer.store.manifest_files import verify_part
from linkseek.indexer.store.manifests import PassagesPart, VectorsPart

Bar = Callable[[str, float, str], AbstractContextManager[OnRows]]
"""A progress bar by its label, total and unit; advancing it raises when another stage has failed."""


@dataclass(frozen=True)
class Encoding:
    """Vectors to be encoded into a folder: the part that they are for, the passages and the encoder."""

    part: str
    passages: PassagesPart
    store: PassageStore
    encoder: Encoder
    folder: Path

    @property
    def label(self) -> str:
        """For the progress bar."""
        return f"encoding {self.part.partition('/')[2]}"

    def on_start(self, advance: OnRows) -> Callable[[int, int, int], None]:
        """`on_start` of `encode_passages`: logs how many shards an earlier run had finished."""

        def log(finished: int, total: int, rows: int) -> None:
            if finished:
                log_line(f"{self.part}: {finished} of {total} shards are finished, resuming at the next")
                advance(rows)

        return log


class PartSource(Protocol):
    """Fills the parts of words and of vectors."""

    def bm25_inputs(self, passages: PassagesPart) -> Inputs:
        """The fingerprint of the Lucene index."""
        ...

    def lucene(self, folder: Path, passages: PassageStore, on_rows: OnRows) -> int:
        """Fill a new folder with a Lucene index; the number of its passages."""
        ...

    def unchanged(self, part: str, passages: PassagesPart) -> Mapping[str, Any] | None:
        """The fingerprint of a part of vectors of the index in use, if it is used as it is."""
        ...

    def encode(self, work: Encoding, bar: Bar, share: Share = ALL) -> list[Shard]:
        """Write the shards of a share that the folder lacks; all shards of the share."""
        ...


class Fresh:
    """Everything from the passages, but for vectors that a Flat index in use holds bit for bit."""

    def __init__(self, workspace: Workspace, plan: BuildPlan) -> None:
        self._workspace = workspace
        self._plan = plan

    def bm25_inputs(self, passages: PassagesPart) -> Inputs:
        """As of `PartSource`."""
        return bm25_inputs(self._plan, passages)

    def lucene(self, folder: Path, passages: PassageStore, on_rows: OnRows) -> int:
        """As of `PartSource`."""
        from linkseek.indexer.search.lucene_writer import build_lucene, passage_texts

        return build_lucene(
            passage_texts(passages),
            folder,
            index_title=self._plan.title,
            threads=self._plan.processes or default_processes(),
            language=self._plan.language,
            on_rows=on_rows,
        )

    def unchanged(self, part: str, passages: PassagesPart) -> Mapping[str, Any] | None:
        """None: a part with another fingerprint is built."""
        return None

    def encode(self, work: Encoding, bar: Bar, share: Share = ALL) -> list[Shard]:
        """As of `PartSource`."""
        self._recover(work)
        encoder, store = work.encoder, work.store
        with bar(work.label, rows_of_share(len(store), encoder.shard_rows, share), "passages") as advance:
            on_start = work.on_start(advance)
            return encode_passages(
                encoder, store, work.folder, share=share, on_start=on_start, on_rows=advance
            )

    def _recover(self, work: Encoding) -> None:
        """Take the same vectors out of an intact Flat index in use."""
        old = self._workspace.in_use(VectorsPart, work.part)
        if old is None or old.factory != FLAT or old.execution != frozen(work.encoder.execution):
            return
        inputs = frozen(encoded_inputs(work.passages, work.encoder))
        if all(old.fingerprint.get(key) == value for key, value in inputs.items()):
            with suppress(DamagedIndexError):
                verify_part(self._workspace.index / work.part)
                shards_from_flat(self._workspace.index / work.part, work.encoder.shard_rows, work.folder)
