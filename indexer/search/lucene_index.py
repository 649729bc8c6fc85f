"""Lucene: open an index of passages and search it.

Queries are bags of words, as in Anserini and Pyserini; there is no query syntax. `lucene_writer` makes the
index.
"""

from __future__ import annotations

import errno
import re
import weakref
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import orjson
from numpy.typing import NDArray

from linkseek.indexer.language.codes import ENGLISH
from linkseek.indexer.program.errors import (
    DamagedIndexError,
    LinkseekError,
    MachineError,
    UsageError,
    raise_of_machine,
)
from linkseek.indexer.search.analyzers import analysis
from linkseek.indexer.search.jvm import java_class, java_error, java_reason, java_threads
from linkseek.indexer.search.spelling import NearWord, analysed, nearest

T = TypeVar("T")

MAX_QUERY_CHARACTERS = 1 << 17
"""The part of a query that is read; all its terms count (Lucene's limit of 1,024 terms is lifted)."""

_FORGOTTEN: SimpleQueue[Any] = SimpleQueue()
"""Readers of indexes that nobody uses any more. The next search closes them: only that unmaps their files,
and the collector of garbage, which puts them here, may not wait for Java."""

_MAKING_A_QUERY = Lock()
"""Held while a thread calls methods of objects of its own: pyjnius binds a method to the object of its class
that any thread asked for last."""

_TASK_QUERIES = 8
_COUNTED_HITS = 1000  # as `IndexSearcher` does: after this many, Lucene skips passages that cannot rank
_SKIPPING_TERMS = 100  # with more, skipping takes longer than adding up the weights of all passages
_ALL_HITS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class BM25:
    """Okapi BM25 as in Lucene: without the constant factor k1 + 1, lengths in 8 bits."""

    k1: float = 0.9
    b: float = 0.4


@dataclass(frozen=True, slots=True)
class Dirichlet:
    """Query likelihood, Dirichlet-smoothed (Zhai and Lafferty 2001); no term scores below 0."""

    mu: float = 1000.0


@dataclass(frozen=True, slots=True)
class ImpactSum:
    """The sum of a question's weights times a passage's impacts (`indexer.encoding.impacts`)."""


@dataclass(frozen=True, slots=True)
class WordScore:
    """What a form of a word adds to a score.

    word: the form, such as a stem. factors: Lucene's names of numbers, such as idf and tf.
    """

    word: str
    score: float
    factors: dict[str, float]


Similarity = BM25 | Dirichlet | ImpactSum
Question = str | Mapping[str, float]
"""A text, or terms with their weights."""
Hits = tuple[list[str], NDArray[np.float32]]
"""Passage ids and scores [n], best first; n <= k; equal scores by id (as bytes)."""


class LuceneIndex:
    """An open index. Any number of threads may search it at the same time."""

    def __init__(self, folder: Path, *more: Path, only: range | None = None, language: str = ENGLISH) -> None:
        """Open a folder, or several as one index, whose scores use the statistics of all folders.

        only: find the passages of these folders alone, with the scores that they have among all. language:
        the index's language, by which queries are analysed. Raises `DamagedIndexError` if one is missing or
        not a Lucene index.
        """
        self.folder = folder
        self._folders = (folder, *more)
        self._only = only
        self._language = language
        self._searchers: dict[Similarity, Any] = {}
        self._pool = java_threads()
        self.count: int = self._in_java(self._open)
        weakref.finalize(self, _FORGOTTEN.put, self._reader).atexit = False

    def search(self, texts: Sequence[Question], k: int, similarity: Similarity) -> list[Hits]:
        """The k best passages of each query, which is any text, or weights; no hits if no term is known.

        Only the first `MAX_QUERY_CHARACTERS` of a query are read. At the cut, equal scores are taken by id
        (as bytes), as Anserini does. Raises `DamagedIndexError` if a file is damaged.
        """
        if k < 1:
            raise UsageError(f"k = {k}: must be at least 1", "Choose a larger k.")
        with suppress(Empty):
            while True:
                self._pool.submit(_close, _FORGOTTEN.get_nowait())
        parts = [texts[at : at + _TASK_QUERIES] for at in range(0, len(texts), _TASK_QUERIES)]
        results = self._pool.map(lambda part: self._reading(self._search, part, k, similarity), parts)
        return [hits for part in results for hits in part]

    def near(self, words: Sequence[str]) -> list[NearWord | None]:
        """For each word that no passage contains, a term near to it; None for others.

        Raises `DamagedIndexError` if a file is damaged.
        """
        return self._in_java(self._near, words)

    def terms(self, words: Sequence[str]) -> list[list[str]]:
        """The terms of each word, as they are indexed."""
        return self._in_java(lambda: [self._terms(word) for word in words])

    def explain(self, text: str, id_: str, similarity: Similarity) -> list[WordScore]:
        """What each word of a query adds to the score of a passage, in any order.

        The values add up to the score of `search`. Empty if the passage has no word of the query. Raises
        `DamagedIndexError` if a file is damaged.
        """
        return self._in_java(self._explain, text, id_, similarity)

    def close(self) -> None:
        """Unmap the files; no search may follow."""
        self._pool.submit(_close, self._reader).result()

    def _in_java(self, method: Callable[..., T], *arguments: Any) -> T:
        return self._pool.submit(self._reading, method, *arguments).result()

    def _reading(self, method: Callable[..., T], *arguments: Any) -> T:
        """The result of a method that reads the index. Raises the error of its files."""
        try:
            return method(*arguments)
        except (java_error(), UnicodeDecodeError) as error:  # the latter of an id that was altered
            raise self._damaged(error) from None

    def _open(self) -> int:
        from jnius import cast

        reader = "org.apache.lucene.index.IndexReader"
        readers = []
        for folder in self._folders:
            self.folder = folder  # errors name it
            if not folder.is_dir():
                raise DamagedIndexError(f"{folder}: no such folder", _REBUILD)
            path = java_class("java.nio.file.Paths").get(str(folder))
            directory = java_class("org.apache.lucene.store.FSDirectory").open(path)
            opened = java_class("org.apache.lucene.index.DirectoryReader").open(directory)
            readers.append(cast(reader, opened))
        sizes = [int(reader.leaves().size()) for reader in readers]  # in segments
        several = java_class("org.apache.lucene.index.MultiReader")
        self._reader = readers[0] if len(readers) == 1 else cast(reader, several(readers, True))
        if self._only is not None:
            ends = sum(sizes[: self._only.start]), sum(sizes[: self._only.stop])
            self._segments = self._reader.leaves().subList(*ends)
        searchers = java_class("org.apache.lucene.search.IndexSearcher")
        searchers.setMaxClauseCount(2 * MAX_QUERY_CHARACTERS)  # no query can have more terms, in two forms
        # Made once: the same objects serve all threads.
        self._queries = java_class("io.anserini.search.query.BagOfWordsQueryGenerator")()
        self._prepare, _, self._forms = analysis(self._language)
        fields = java_class("org.apache.lucene.search.SortField")
        by_id = fields("id", java_class("org.apache.lucene.search.SortField$Type").STRING_VAL)
        self._order = java_class("org.apache.lucene.search.Sort")(fields.FIELD_SCORE, by_id)
        self._json = java_class("com.fasterxml.jackson.databind.ObjectMapper")()
        return int(self._reader.numDocs())

    def _searcher(self, similarity: Similarity) -> Any:
        searcher = self._searchers.get(similarity)
        if searcher is None:
            package = "org.apache.lucene.search.similarities"
            if isinstance(similarity, ImpactSum):
                java = java_class("io.anserini.search.similarity.ImpactSimilarity")()
            elif isinstance(similarity, BM25):
                java = java_class(f"{package}.BM25Similarity")(float(similarity.k1), float(similarity.b))
            else:
                java = java_class(f"{package}.LMDirichletSimilarity")(float(similarity.mu))
            some = self._only is not None  # a search of some segments is a protected method
            searcher = java_class("org.apache.lucene.search.IndexSearcher", private=some)(self._reader)
            searcher.setSimilarity(java)
            self._searchers[similarity] = searcher
        return searcher

    def _search(self, texts: Sequence[Question], k: int, similarity: Similarity) -> list[Hits]:
        searcher = self._searcher(similarity)
        results = []
        for text in texts:
            query = self._query(text)
            counted = (
                _ALL_HITS if len(text) > _SKIPPING_TERMS and isinstance(text, Mapping) else _COUNTED_HITS
            )
            find = self._search_all if self._only is None else self._search_segments
            top = find(searcher, query, min(k, max(int(self._reader.maxDoc()), 1)), counted)
            # All hits in one string, ids from the sort values: reading them one by one through
            # pyjnius takes longer than the search.
            results.append(_read_hits(self._json.writeValueAsString(top)))
        return results

    def _terms(self, text: str) -> list[str]:
        return analysed(self._forms[-1], self._prepare(text.encode("utf-8", "replace").decode()))

    def _near(self, words: Sequence[str]) -> list[NearWord | None]:
        searcher = self._searcher(BM25())
        with _MAKING_A_QUERY:
            terms = [self._terms(word) for word in words]
            return [nearest(self._reader, searcher, words[0]) if len(words) == 1 else None for words in terms]

    def _explain(self, text: str, id_: str, similarity: Similarity) -> list[WordScore]:
        searcher = self._searcher(similarity)
        query = self._query(text)
        with _MAKING_A_QUERY:
            one = _only(query, [id_])
        hits = orjson.loads(self._json.writeValueAsString(searcher.search(one, 1)))["scoreDocs"]
        if not hits:
            return []
        explained = searcher.explain(query, hits[0]["doc"])
        return list(_words_of(orjson.loads(self._json.writeValueAsString(explained))))

    def _query(self, text: Question) -> Any:
        if isinstance(text, Mapping):
            return _weighted(text)
        text = self._prepare(text[:MAX_QUERY_CHARACTERS].encode("utf-8", "replace").decode())
        bags = [self._queries.buildQuery("contents", form, text) for form in self._forms]
        if len(bags) == 1:
            return bags[0]
        with _MAKING_A_QUERY:
            every = java_class("org.apache.lucene.search.BooleanQuery$Builder")()
            for bag in bags:
                every.add(bag, java_class("org.apache.lucene.search.BooleanClause$Occur").SHOULD)
            return java_class("org.apache.lucene.search.BoostQuery")(every.build(), 1 / len(bags))

    def _search_all(self, searcher: Any, query: Any, limit: int, counted: int) -> Any:
        """As `IndexSearcher.search`, which always counts as many hits."""
        collectors = java_class("org.apache.lucene.search.TopFieldCollector")
        with _MAKING_A_QUERY:
            manager = collectors.createSharedManager(self._order, limit, None, counted)
        return searcher.search(query, manager)

    def _search_segments(self, searcher: Any, query: Any, limit: int, counted: int) -> Any:
        """The same of some segments."""
        collectors = java_class("org.apache.lucene.search.TopFieldCollector")
        with _MAKING_A_QUERY:
            collector = collectors.create(self._order, limit, counted)
            mode = collector.scoreMode()
        rewritten = searcher.rewrite(query)
        weight = searcher.createWeight(rewritten, mode, 1.0)
        searcher.search(self._segments, weight, collector)
        with _MAKING_A_QUERY:
            return collector.topDocs()

    def _damaged(self, error: Exception) -> LinkseekError:
        if "OutOfMemoryError" in str(error):
            return MachineError("Java ran out of memory while searching", "Ask for fewer passages (k).")
        reason = java_reason(error)
        if reason.startswith("AccessDenied"):
            raise_of_machine(PermissionError(errno.EACCES, f"Permission denied ({reason})", str(self.folder)))
        raise_of_machine(OSError(f"{self.folder}: {reason}"))
        return DamagedIndexError(f"{self.folder}: Lucene cannot read it ({reason})", _REBUILD)


_REBUILD = "Build the index again."


def _close(reader: Any) -> None:
    """Close a reader. (Its bound method must not be kept: pyjnius binds it to the last reader it saw.)"""
    reader.close()


def _weighted(weights: Mapping[str, float]) -> Any:
    """A query of terms, each with its weight."""
    every = java_class("org.apache.lucene.search.BooleanQuery$Builder")()
    should = java_class("org.apache.lucene.search.BooleanClause$Occur").SHOULD
    term, one = java_class("org.apache.lucene.index.Term"), java_class("org.apache.lucene.search.TermQuery")
    boosted = java_class("org.apache.lucene.search.BoostQuery")
    with _MAKING_A_QUERY:
        for name, weight in weights.items():
            every.add(boosted(one(term("contents", name)), weight), should)
        return every.build()


def _words_of(explained: dict[str, Any]) -> Iterator[WordScore]:
    """The words in an `Explanation` of Lucene, which is a tree of values and descriptions."""
    if word := _WEIGHT.match(explained["description"]):
        factors: dict[str, float] = {}
        for one in [*_below(explained)][1:]:
            name = str(one["description"]).partition(",")[0]  # "idf, computed as log(1 + ...) from:"
            factors.setdefault(name, float(one["value"]))
        yield WordScore(word[1], float(explained["value"]), factors)
        return
    for one in explained["details"]:
        yield from _words_of(one)


_WEIGHT = re.compile(r"weight\(contents:(.*) in \d+\) \[", re.DOTALL)


def _below(explained: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for one in explained["details"]:
        yield one
        yield from _below(one)


def _read_hits(json: str) -> Hits:
    """Read a `TopFieldDocs`; `fields` of a hit are its sort values: score, id (a `BytesRef`)."""
    hits = [hit["fields"] for hit in orjson.loads(json)["scoreDocs"]]
    ids = []
    for _, id_ in hits:
        start = id_["offset"]
        ids.append(b64decode(id_["bytes"])[start : start + id_["length"]].decode())
    return ids, np.array([score for score, _ in hits], np.float32)


def _only(query: Any, ids: Sequence[str]) -> Any:
    """A query that matches only passages of these ids, and scores them alike."""
    listed = java_class("java.util.ArrayList")()
    for id_ in ids:
        listed.add(java_class("org.apache.lucene.util.BytesRef")(id_.encode()))
    occur = java_class("org.apache.lucene.search.BooleanClause$Occur")
    both = java_class("org.apache.lucene.search.BooleanQuery$Builder")()
    both.add(query, occur.MUST)
    both.add(java_class("org.apache.lucene.search.TermInSetQuery")("id", listed), occur.FILTER)
    return both.build()
