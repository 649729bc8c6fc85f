"""Filters: which documents a search is about, by folder, namespace or metadata.

A condition is NAME:VALUE. `folder` is the path of a document's id, or of its address where its id has none;
`namespace` is the part before the colon of a wiki's title; any other name is a key of the metadata, whose
value may be one of several between commas. Conditions of one name are alternatives, different names are all
required.

Every search that a pipeline is made of is filtered before its results are joined or re-ranked, and asked for
more until it has enough. Scores are computed over the whole index: filters do not change BM25's weights.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from linkseek.app.pipelines.catalogue import Pipelines
from linkseek.app.pipelines.pipeline_entry import OpenPipeline
from linkseek.indexer.documents import document_folder
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.machine.once import Once
from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.program.text import nearest
from linkseek.retriever.queries import evenly_spread
from linkseek.retriever.ranking import Query, Ranking
from linkseek.retriever.search.explanation import Explanation

MAX_RESULTS = 50_000
"""Results of a search that are filtered at most."""
MAX_CONDITIONS = 20
FOLDER, NAMESPACE = "folder", "namespace"

_DOCUMENTS = 5_000  # whose values are offered
_VALUES = 50  # of a name that are offered; keys of the metadata with more are not
_VALUE_CHARACTERS = 80
_LEVELS = 3  # of folders
_GROWTH = 4
_NAMESPACE = re.compile(r"([^\W\d_][\w ]{1,30}):(?=[^\s_/])")
_SCHEME = r"^[a-z]+://"


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions NAME:VALUE; false without any."""

    conditions: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.conditions)

    @property
    def by_name(self) -> dict[str, list[str]]:
        """The values of each name."""
        values: dict[str, list[str]] = {}
        for condition in self.conditions:
            name, _, value = condition.partition(":")
            values.setdefault(name.strip(), []).append(value.strip())
        return values


NO_FILTER = Filter()


def read_filter(conditions: Sequence[str]) -> Filter:
    """A filter from texts. Raises `UsageError` for one that is not NAME:VALUE, and for too many."""
    listed = dict.fromkeys(conditions)
    for text in listed:
        name, _, value = text.partition(":")
        if not (name.strip() and value.strip()):
            raise UsageError(f'the filter "{text[:100]}" is not NAME:VALUE', "Such as folder:docs.")
    if len(listed) > MAX_CONDITIONS:
        raise UsageError(f"{len(listed)} filters", f"At most {MAX_CONDITIONS}.")
    return Filter(tuple(listed))


def kept_documents(index: OpenIndex, only: Filter) -> NDArray[np.bool_]:
    """Which documents a filter keeps, bool [documents]."""
    masks = [np.zeros(0, bool)]
    for ids, urls, metadata in index.documents.table.batches(["id", "url", "metadata"]):
        paths = _paths(ids, urls)
        each = [
            reduce(pc.or_, [_has(name, value, ids, paths, metadata) for value in values])
            for name, values in only.by_name.items()
        ]
        masks.append(np.asarray(reduce(pc.and_, each).to_numpy(zero_copy_only=False), bool))
    return np.concatenate(masks)


def _paths(ids: pa.Array, urls: pa.Array) -> pa.Array:
    """The paths that folders are taken from: ids with a slash, or else addresses; without the scheme."""
    paths = pc.if_else(pc.match_substring(ids, "/"), ids, pc.fill_null(urls, ""))
    return pc.replace_substring_regex(paths, _SCHEME, "")


def _has(name: str, value: str, ids: pa.Array, paths: pa.Array, metadata: pa.Array) -> pa.Array:
    """Whether documents fulfil a condition, bool [documents]."""
    if name == FOLDER:
        return pc.starts_with(paths, value.rstrip("/") + "/")
    own = pc.fill_null(pc.map_lookup(metadata, pa.scalar(name), "first"), "")
    tests = [
        pc.equal(own, value),
        pc.starts_with(own, f"{value}, "),
        pc.ends_with(own, f", {value}"),
        pc.match_substring(own, f", {value}, "),
    ]
    if name == NAMESPACE:
        tests += [pc.starts_with(ids, f"{written}:") for written in (value, value.replace(" ", "_"))]
    return reduce(pc.or_, tests)


def offered_conditions(index: OpenIndex) -> list[str]:
    """Conditions that a page can offer, which keep some but not all documents, the commonest first.

    For a large index, they come from documents that are evenly spread over the index.
    """
    table = index.documents.table
    rows = evenly_spread(range(len(index.documents)), _DOCUMENTS)
    folders, namespaces = Counter[str](), Counter[str]()
    keys: dict[str, Counter[str]] = {}
    for row in rows:
        id_, url = str(table.value("id", row)), str(table.value("url", row) or "")
        parts = document_folder(id_, url).split("/")[:_LEVELS]
        folders.update("/".join(parts[: level + 1]) for level in range(len(parts)) if parts[0])
        if match := _NAMESPACE.match(id_):
            namespaces[match[1]] += 1
        for key, value in table.value("metadata", row) or ():
            keys.setdefault(str(key), Counter()).update({*str(value).split(", ")})
    found = {FOLDER: _common(folders, len(rows)), NAMESPACE: _common(namespaces, len(rows))}
    for key, counts in keys.items():
        if key not in found and ":" not in key and len(counts) <= min(_VALUES, len(rows) // 2):
            found[key] = _common(counts, len(rows))
    return [f"{name}:{value}" for name, values in found.items() for value in values]


def near_conditions(index: OpenIndex, conditions: Sequence[str]) -> str:
    """A hint for conditions that together keep no document: suggestions for those that keep none alone."""
    offered = offered_conditions(index)
    wrong = [text for text in conditions if not kept_documents(index, Filter((text,))).any()]
    return " ".join(nearest(text, offered) for text in wrong) if offered else ""


def _common(counts: Counter[str], documents: int) -> list[str]:
    """The commonest values of a name, without values that only one document or every document has."""
    kept = [(value, count) for value, count in counts.items() if 1 < count < documents]
    kept = [pair for pair in kept if pair[0].strip() and len(pair[0]) <= _VALUE_CHARACTERS]
    return [value for value, _ in sorted(kept, key=lambda pair: (-pair[1], pair[0]))[:_VALUES]]


class Filtered:
    """The pipelines of an index with one filter."""

    def __init__(self, pipelines: Pipelines, only: Filter) -> None:
        self._pipelines = pipelines
        self._mask = kept_documents(pipelines.index, only)  # [documents]
        self.excluded = len(self._mask) - int(self._mask.sum())
        """the number of excluded documents"""
        self._opened: Once[OpenPipeline] = Once(self._open)

    def open(self, name: str) -> OpenPipeline:
        """A pipeline whose results are of the documents that are kept. Raises as `Pipelines.open`."""
        return self._opened(name)

    def _open(self, name: str) -> OpenPipeline:
        plain, entry = self._pipelines.open(name), self._pipelines.entries[name]
        if not entry.members:
            share = self._mask.mean() if len(self._mask) else 0.0
            return self._filtered(plain, 1.25 / max(float(share), 1e-9))
        parts = replace(self._pipelines.parts, pipeline=self.open)
        return self._filtered(entry.open(parts, name), 1.0)  # what it may add by links is filtered, too

    def _filtered(self, opened: OpenPipeline, deeper: float) -> OpenPipeline:
        """deeper: the factor by which more results are requested at first."""
        limit = min(len(self._pipelines.index.passages), MAX_RESULTS)

        def with_depth(queries: Sequence[Query], k: int) -> tuple[Ranking, int]:
            """The k best kept results, and the number of results requested."""
            last = max(limit, k)
            depth = min(max(int(k * deeper), k), last)
            while True:
                ranking = opened.search(queries, depth)
                mask = self.keep(ranking.rows)  # [Q, depth]
                enough = (mask.sum(axis=1) >= k) | ((ranking.rows >= 0).sum(axis=1) < depth)
                if depth >= last or enough.all():
                    return _only(ranking, mask, k), depth
                depth = min(depth * _GROWTH, last)

        def search(queries: Sequence[Query], k: int) -> Ranking:
            return with_depth(queries, k)[0]

        def explain(query: Query, row: int, k: int) -> Explanation | None:
            ranking, depth = with_depth([query], k)
            return opened.explained(query, row, depth) if row in ranking.rows else None

        return replace(
            opened, search=search, rerank=opened.rerank and self._kept_of(opened.rerank), explain=explain
        )

    def _kept_of(self, rerank: Any) -> Any:
        def reranked(queries: Sequence[Query], before: Ranking, k: int) -> Ranking:
            if not (before.rows >= 0).any():  # the filter keeps no candidate
                return before.top(k)
            ranking: Ranking = rerank(queries, before, k)
            return _only(ranking, self.keep(ranking.rows), k)

        return reranked

    def keep(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether passages are kept, bool of the same shape; not -1."""
        mask = np.zeros(rows.shape, bool)
        some = rows >= 0
        mask[some] = self._mask[self._pipelines.index.passages.document_rows(rows[some])]
        return mask


def _only(ranking: Ranking, mask: NDArray[np.bool_], k: int) -> Ranking:
    rows = np.where(mask, ranking.rows, -1)
    return Ranking.of(ranking.query_ids, rows, ranking.scores, k, ranking.paths)
