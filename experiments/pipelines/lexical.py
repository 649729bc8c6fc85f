"""BM25 and query likelihood as re-rankers: Lucene's scores of the candidates of any system.

A score is the same as in a search of the whole index, whose statistics it uses; a candidate without a word of
the query scores 0. So the rows QL and BM25 of HARP's table 2 and PHP's table 3 rank the same documents as the
models below them do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from linkseek.app.pipelines.pipeline_kinds import RerankEntry
from linkseek.indexer.encoding.encode import OnRows
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.search.lucene_index import BM25, Dirichlet, Similarity
from linkseek.plugins import PipelineEntry, PipelineParts
from linkseek.reranker.candidates import Candidates
from linkseek.reranker.models.scoring import IndexScorer
from linkseek.reranker.reranking import Reranker
from linkseek.retriever.ranking import Query


class Bm25RerankEntry(RerankEntry):
    """Re-ranks the best results of another pipeline by Lucene's BM25."""

    chosen_by = ("rerank", "bm25")
    similarity: ClassVar[Similarity] = BM25()

    def is_available(self, index: OpenIndex) -> bool:
        return index.has_lucene

    def reads(self, index: OpenIndex) -> bool:
        return True

    def fingerprint(self) -> dict[str, Any]:
        return PipelineEntry.fingerprint(self) | {"rerank_sha256": []}

    def reranker(self, parts: PipelineParts, name: str) -> Reranker:
        scorer = LexicalScorer(parts.index, self.chosen_by[1], self.similarity)
        candidates = Candidates(parts.index)
        return Reranker([scorer], candidates, depth=self.depth, weight=self.weight, long=self.long)


class QueryLikelihoodRerankEntry(Bm25RerankEntry):
    """Re-ranks the best results of another pipeline by Lucene's query likelihood."""

    chosen_by = ("rerank", "query-likelihood")
    similarity = Dirichlet()


class LexicalScorer(IndexScorer):
    """Scores passages of an index that Lucene holds too."""

    def __init__(self, index: OpenIndex, name: str, similarity: Similarity) -> None:
        """Raises `UsageError` if the index was built without BM25."""
        index.lucene()
        self.identity = {"name": name, **asdict(similarity)}
        self._similarity = similarity
        self._index = index

    def _scores(
        self, queries: Sequence[Query], rows: NDArray[np.int64], on_pairs: OnRows
    ) -> NDArray[np.float32]:
        scores, lucene = np.zeros(rows.shape, np.float32), self._index.local_lucene  # [Q, D]
        for number, query in enumerate(queries):
            filled = np.flatnonzero(rows[number] >= 0)
            for place, id_ in zip(filled, self._index.passages.ids(rows[number, filled]), strict=True):
                words = lucene.explain(query.text, id_, self._similarity)
                scores[number, place] = sum(word.score for word in words)
            on_pairs(len(filled))
        return scores
