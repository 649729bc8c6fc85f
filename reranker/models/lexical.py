"""BM25 and query likelihood as re-rankers: Lucene's scores of the candidates of any system.

A score is the same as in a search of the whole index, whose statistics it uses; a candidate without a word of
the query scores 0. So the rows QL and BM25 of HARP's table 2 and PHP's table 3 rank the same documents as the
models below them do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.encoding.encode import OnRows
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.search.lucene_index import BM25, Dirichlet, Similarity
from linkseek.reranker.candidates import Candidates
from linkseek.retriever.ranking import Query

LEXICAL: Mapping[str, Similarity] = {"bm25": BM25(), "query-likelihood": Dirichlet()}
"""The names of these re-rankers, with the settings of the pipelines `bm25` and `ql`."""

_BLOCK_QUERIES = 64


class LexicalScorer:
    """Scores passages of an index that Lucene holds too."""

    def __init__(self, index: OpenIndex, name: str) -> None:
        """name: one of `LEXICAL`. Raises `UsageError` if the index was built without BM25."""
        self.identity = {"name": name, **asdict(LEXICAL[name])}
        self._similarity = LEXICAL[name]
        self._passages = index.passages
        self._lucene = index.lucene()

    def scores(
        self, queries: Sequence[Query], candidates: Candidates, rows: NDArray[np.int64], on_pairs: OnRows
    ) -> NDArray[np.float32]:
        """Scores [Q, D] of candidates by their rows [Q, D], of which -1 are empty places, which get 0.

        on_pairs: gets the number of pairs that were scored since its last call. Raises `InputError` for
        documents of an index of passages, which has no statistics of them.
        """
        if candidates.level == "documents":
            raise InputError(
                f"{self.identity['name']} scores passages of the index; the candidates are whole documents",
                "Build an index with --passage-words 0, whose passages are the documents.",
            )
        scores = np.zeros(rows.shape, np.float32)  # [Q, D]
        for start in range(0, len(queries), _BLOCK_QUERIES):
            block = slice(start, start + _BLOCK_QUERIES)
            ids = [
                self._passages.ids([candidates.index_row(row) for row in rows_of_query[rows_of_query >= 0]])
                for rows_of_query in rows[block]
            ]
            hits = self._lucene.search([q.text for q in queries[block]], 1, self._similarity, among=ids)
            for query, (own, (best, values)) in enumerate(zip(ids, hits, strict=True), start):
                score_of = dict(zip(best, values.tolist(), strict=True))
                scores[query, rows[query] >= 0] = [score_of.get(id_, 0.0) for id_ in own]
            on_pairs(sum(map(len, ids)))
        return scores
