"""Words and vectors of a new index: copied for passages that the index in use has, made for others.

A stage says which part is built and reports its progress (`stages`); `PartSource` fills it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.building.plan import BuildPlan
from linkseek.indexer.encoding.encode import Encoder, OnRows, encode_passages
from linkseek.indexer.encoding.shards import Shard, ShardRows, TokenShards, interleaved, write_shard
from linkseek.indexer.encoding.token_codes import TokenCodes
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.machine.devices import usable_cores
from linkseek.indexer.machine.once import shared_property
from linkseek.indexer.passages import PassageStore
from linkseek.indexer.program.errors import DamagedIndexError, MismatchError, log_line
from linkseek.indexer.program.frozen import frozen
from linkseek.indexer.store.artifacts import BM25, encoder_of, link_or_copy
from linkseek.indexer.store.ids import IdTable, hash_ids
from linkseek.indexer.store.manifest_files import part_kind, verify_part
from linkseek.indexer.store.manifests import CodesPart, EncodedPart, PassagesPart

Bar = Callable[[str, float, str], AbstractContextManager[OnRows]]
"""A progress bar by its label, total and unit; advancing it raises when another stage has failed."""


class PartSource:
    """Fills the parts of words and of vectors."""

    def __init__(
        self,
        plan: BuildPlan,
        passages: PassageStore,
        old: OpenIndex | None = None,
        *,
        update: bool = False,
        merge: bool = False,
    ) -> None:
        """passages: the passages of the new index. old: the index in use, if parts of it may be copied.

        update: the old index is verified, its words are copied as well, and its vectors whatever machine made
        them, unless the model has changed, which is an error. A build copies intact vectors that it would
        make in the same way. merge: make one segment of Lucene's.
        """
        self.merge = merge
        self._plan = plan
        self._passages = passages
        self._old = old
        self._update = update

    @shared_property
    def _rows(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        assert self._old
        return same_passages(self._old.passages, self._passages)

    def unchanged(self, part: str, passages: PassagesPart) -> Mapping[str, Any] | None:
        """The fingerprint of a part of vectors of the index in use, if an update uses it as it is."""
        old = self._old.parts if self._old and self._update else None
        same = old and passages.content_sha256 == old.passages.content_sha256
        return old[part].fingerprint if old and same and part in old else None

    def lucene(self, folder: Path, on_rows: OnRows = lambda rows: None, limit: int | None = None) -> int:
        """Fill a new folder with a Lucene index; the number of its passages.

        For an update, passages are deleted and added in a copy of the old one. limit: the maximum number of
        passages.
        """
        from linkseek.indexer.search.lucene_writer import build_lucene, passage_texts

        old, texts, removed = self._old, passage_texts(self._passages), None
        if old and self._update:
            for name in old.parts[BM25].files:
                if name != "write.lock":  # each index has its own
                    link_or_copy(old.path / BM25 / name, folder / name)
            same, _ = self._rows
            stays = np.zeros(len(old.passages), np.bool_)
            stays[same[same >= 0]] = True
            on_rows(int(stays.sum()))
            removed = old.passages.ids(np.flatnonzero(~stays))
            added = map(self._passages.__getitem__, np.flatnonzero(same < 0).tolist())
            texts = ((passage.id, passage.title, passage.text) for passage in added)
        return build_lucene(
            islice(texts, limit),
            folder,
            index_title=self._plan.title,
            threads=self._plan.processes or usable_cores(),
            language=self._plan.language,
            on_rows=on_rows,
            removed=removed,
            merge=self.merge,
        )

    def encode(self, part: str, encoder: Encoder, folder: Path, bar: Bar) -> list[Shard]:
        """Write the shards of a part that the folder lacks: vectors that are there are copied; all shards."""
        old = self._fitting(part, encoder)
        if old is None:
            return self._encode(part, encoder, folder, bar)
        _, alike = self._rows
        new = alike < 0
        rows = np.flatnonzero(new)
        added = folder / sha256(rows.tobytes()).hexdigest()[:16]  # shards of other rows are not resumed
        added.mkdir(exist_ok=True)
        encoded = self._encode(part, encoder, added, bar, rows) if len(rows) else []
        coded = issubclass(part_kind(part), CodesPart)
        fresh = TokenShards(encoded).take if coded else ShardRows(encoded, encoder.dimension).take
        place = np.cumsum(new) - 1  # [P], the place of a new passage among these
        shards = []
        for number, start in enumerate(range(0, len(new), encoder.shard_rows)):
            block = slice(start, start + encoder.shard_rows)
            is_new = new[block]
            vectors = interleaved(is_new, fresh(place[block][is_new]), old(alike[block][~is_new]))
            shards.append(write_shard(folder, number, start, vectors))
        for leftover in folder.glob("*/"):
            shutil.rmtree(leftover)
        return shards

    def _encode(
        self, part: str, encoder: Encoder, folder: Path, bar: Bar, only: NDArray[np.int64] | None = None
    ) -> list[Shard]:
        """Encode all passages, or some rows; logs how many shards an earlier run had finished."""
        count = len(self._passages if only is None else only)
        with bar(f"encoding {encoder_of(part)}", count, "passages") as advance:

            def on_start(finished: int, total: int, rows: int) -> None:
                if finished:
                    log_line(f"{part}: {finished} of {total} shards are finished, resuming at the next")
                    advance(rows)

            return encode_passages(
                encoder, self._passages, folder, only=only, on_start=on_start, on_rows=advance
            )

    def _fitting(
        self, part: str, encoder: Encoder
    ) -> Callable[[NDArray[np.int64]], NDArray[np.float16] | TokenCodes] | None:
        """A function from rows of the index in use to their vectors, if these fit the encoder.

        Raises `MismatchError` if the model of an index that is updated has changed.
        """
        stored = self._old.parts.get(part) if self._old else None
        if not self._old or not isinstance(stored, EncodedPart):
            return None
        identity, location = frozen(encoder.identity), self._old.path / part
        is_same = {name: stored.encoder.get(name) for name in identity} == identity
        if self._update and not is_same:
            raise MismatchError(
                f"{encoder.location}: not the model that made the vectors of {part}",
                "Put that model back, or build the index again with --fresh.",
            )
        how = {"title": stored.fingerprint.get("title"), "execution": stored.execution}
        if not self._update:
            if not is_same or how != {"title": self._plan.title, "execution": frozen(encoder.execution)}:
                return None
            try:
                verify_part(location)
            except DamagedIndexError:
                return None
        if isinstance(stored, CodesPart):
            return partial(self._old.codes, part)
        vectors = self._old.own_dense(encoder_of(part)).vectors
        return lambda rows: vectors[rows]


def same_passages(old: PassageStore, new: PassageStore) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows in `old` of the passages of `new`, int64 [P] twice: with the same id, title and text, or -1;
    with the same title and text, as of a page that was renamed, or -1."""
    before = np.concatenate([np.empty(0, np.uint64), *(hashes for _, hashes in _contents(old))])
    contents = IdTable.build(before)
    same, alike = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for ids, hashes in _contents(new):
        row = old.rows_of(ids)
        is_same = (row >= 0) & (before[row] == hashes)
        same.append(np.where(is_same, row, -1))
        alike.append(np.where(is_same, row, contents.rows(hashes)))
    return np.concatenate(same), np.concatenate(alike)


def _contents(passages: PassageStore) -> Iterator[tuple[list[str], NDArray[np.uint64]]]:
    """The ids of passages, and the hashes of their titles and texts, batch by batch."""
    for columns in passages.table.batches(["id", "title", "text"]):
        ids, titles, texts = (column.to_pylist() for column in columns)
        yield ids, hash_ids(f"{title}\0{text}" for title, text in zip(titles, texts, strict=True))
