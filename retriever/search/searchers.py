"""First-stage search: queries -> the best passages of an index.

`Bm25` and `QueryLikelihood` are Lucene's (`indexer.search.lucene_index`), `Dense` is FAISS's
(`indexer.search.faiss_index`) with the encoder that made the vectors. `RecordedRun` searches nothing: it
looks
up what another system found. Lucene's scores are Lucene's own, where
Anserini rounds them to four places and moves equal ones apart; we put equal ones in order of rows.
Which of the passages that tie at place k are in is decided by Lucene, by id.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from indexer.base.errors import DamagedIndexError, InputError, MismatchError, UsageError
from indexer.index import Index, resolve_ids
from indexer.search.lucene_index import BM25, Dirichlet, Similarity
from retriever.ranking import Query, Ranking
from retriever.search.runs import read_run, run_ranking
from retriever.search.stages import stage


class Searcher(Protocol):
    """Whatever turns queries into a `Ranking` of Q rows and k columns."""

    def search(self, queries: Sequence[Query], k: int) -> Ranking:
        """The k best passages of each query."""
        ...


class LuceneSearcher:
    """What `Bm25` and `QueryLikelihood` share: one Lucene index, one similarity."""

    def __init__(self, index: Index, similarity: Similarity) -> None:
        self.similarity = similarity
        self._passages = index.passages
        self._lucene = index.lucene()

    @stage("search")
    def search(self, queries: Sequence[Query], k: int) -> Ranking:
        """The k best passages of each query; -1 where fewer hold any of its words.

        Raises `DamagedIndexError` if the Lucene index is damaged or of other passages.
        """
        hits = self._lucene.search([query.text for query in queries], k, self.similarity)
        rows = np.full((len(queries), k), -1, np.int64)  # [Q, k]
        scores = np.full((len(queries), k), -np.inf, np.float32)  # [Q, k]
        found = np.arange(k) < np.array([len(ids) for ids, _ in hits], int)[:, None]  # [Q, k]
        rows[found] = self._rows([id_ for ids, _ in hits for id_ in ids])
        scores[found] = np.concatenate([best for _, best in hits] or [scores[:0, 0]])
        return Ranking.of([query.id for query in queries], rows, scores)

    def _rows(self, ids: Sequence[str]) -> NDArray[np.int64]:
        rows = self._passages.rows_of(ids)  # [n]: one look-up for all queries
        if (rows < 0).any():
            unknown = ids[int(np.argmax(rows < 0))]
            raise DamagedIndexError(
                f"{self._lucene.folder}: holds {unknown!r}, which is no passage of this index",
                "Build the index again.",
            )
        return rows


class Bm25(LuceneSearcher):
    """Okapi BM25 (Robertson et al. 1994) with Anserini's defaults."""

    def __init__(self, index: Index, k1: float = 0.9, b: float = 0.4) -> None:
        """k1: how slowly repetition saturates, >= 0. b: how much length counts, 0 to 1."""
        if not (0 <= k1 < float("inf") and 0 <= b <= 1):
            raise UsageError(f"BM25 with k1 = {k1}, b = {b}", "k1 is at least 0, b is from 0 to 1.")
        super().__init__(index, BM25(k1, b))


class QueryLikelihood(LuceneSearcher):
    """Query likelihood with Dirichlet smoothing (Zhai and Lafferty 2001)."""

    def __init__(self, index: Index, mu: float = 1000.0) -> None:
        """mu: how many words of the collection every passage is smoothed with, > 0."""
        if not 0 < mu < float("inf"):
            raise UsageError(f"query likelihood with mu = {mu}", "mu is a number above 0.")
        super().__init__(index, Dirichlet(mu))


class QueryEncoder(Protocol):
    """What turns questions into vectors; `retriever.models.biencoder.BiEncoder` is one."""

    @property
    def identity(self) -> dict[str, Any]:
        """Its name and the hash of its files, as in the manifest of the vectors."""
        ...

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of queries, float32 [Q, d]."""
        ...


class Dense:
    """Inner products of query and passage vectors (Karpukhin et al. 2020, section 3.1)."""

    def __init__(
        self,
        index: Index,
        encoder: QueryEncoder,
        name: str | None = None,
        device: str = "auto",
        **parameters: int,
    ) -> None:
        """name: of the vectors in the index, default its first. device: where they are searched.

        parameters: FAISS's, such as nprobe. Raises `MismatchError` if the vectors were not made by this
        encoder, and what `FaissIndex.on` raises.
        """
        vectors = index.dense(name)
        self._encoder = encoder
        self._parameters = parameters
        expected, given = vectors.encoder, encoder.identity
        if given["sha256"] != expected["sha256"]:
            raise MismatchError(
                f"the vectors were made by the encoder {expected['name']} "
                f"({expected['sha256'][:12]}), the queries' encoder is {given['name']} "
                f"({given['sha256'][:12]})",
                "Their inner products would mean nothing. Use the encoder of the index, or add this "
                "one: python indexer/build.py --index DIR --encoder NAME.",
            )
        self._vectors = vectors.on(device)

    def search(self, queries: Sequence[Query], k: int) -> Ranking:
        """The k best passages of each query."""
        query_ids = [query.id for query in queries]
        if not queries:
            return Ranking.from_lists(query_ids, [], k)
        with stage("encode question"):
            vectors = self._encoder.encode_queries([query.text for query in queries])  # [Q, d]
        with stage("search vectors"):
            rows, scores = self._vectors.search(vectors, k, **self._parameters)  # [Q, k]
            return Ranking.of(query_ids, rows, scores)


class RecordedRun:
    """Results of another system from a TREC run of passages, looked up by the query's id.

    Ids that the index does not hold are dropped, and the results below move up; `unknown` counts them.
    """

    def __init__(self, index: Index, path: Path) -> None:
        """Raises what `read_run` raises, and `InputError` for a run of other passages or of documents."""
        self.path = path
        run = read_run(path)
        ids = list(dict.fromkeys(id_ for results in run.values() for id_ in results))
        resolved = resolve_ids(index, ids)
        row_of = dict(zip(ids, resolved.passages.tolist(), strict=True))
        unknown = [id_ for id_ in ids if row_of[id_] < 0]
        self.unknown = len(unknown)
        documents = int(((resolved.documents >= 0) & (resolved.passages < 0)).sum())
        if documents > len(ids) - len(unknown):
            raise InputError(
                f"{path}: ranks documents (such as {unknown[0]!r}); a pipeline ranks passages",
                "Give a run of passages. A run of documents can be measured: app/evaluate.py --run FILE.",
            )
        if len(unknown) == len(ids):
            raise InputError(
                f"{path}: none of its ids (such as {ids[0]!r}) is a passage of the index",
                "Use the index that the run was made with.",
            )
        known: dict[str, dict[str, float]] = {}
        for query_id, results in run.items():
            best: dict[int, float] = {}
            for id_, score in results.items():  # two ids (a redirect's) may be one row: the better stays
                best.setdefault(row_of[id_], score)
            best.pop(-1, None)
            known[query_id] = {str(row): score for row, score in best.items()}
        self._ranking = run_ranking(known, list(known), lambda rows: np.array(rows, np.int64))  # [R, K]
        self._place = {query_id: place for place, query_id in enumerate(known)}

    @stage("look up run")
    def search(self, queries: Sequence[Query], k: int) -> Ranking:
        """The k best passages of each query; -1 for all of a query that the run lacks."""
        places = np.array([self._place.get(query.id, -1) for query in queries], np.int64)  # [Q]
        there, width = places >= 0, min(k, self._ranking.depth)
        rows = np.full((len(queries), k), -1, np.int64)  # [Q, k]
        scores = np.full((len(queries), k), -np.inf, np.float32)  # [Q, k]
        rows[there, :width] = self._ranking.rows[places[there], :width]
        scores[there, :width] = self._ranking.scores[places[there], :width]
        return Ranking(tuple(query.id for query in queries), rows, scores)

    def missing(self, queries: Sequence[Query]) -> int:
        """How many of the queries the run lacks. Raises `InputError` if it has none of them."""
        missing = sum(query.id not in self._place for query in queries)
        if missing == len(queries):
            raise InputError(
                f"{self.path}: the run has none of the questions (it has {next(iter(self._place))!r}; the "
                f"questions are {queries[0].id!r})",
                "Give a run of the same questions.",
            )
        return missing
