"""python -m experiments neighbours: do neighbours help as candidates, where the re-ranker is a bi-encoder?

BM25's candidates are re-ranked by the dot products of an index's vectors, with a budget of pairs, alone and
with the neighbours of good candidates among them (`pipelines.adaptive`): by hyperlinks, and by BM25 as a
control. Vectors are there already, so a pair costs next to nothing, and all questions can be asked.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.pipelines.adaptive import passage_neighbours, score_adaptively
from linkseek.app.evaluation.significance import holm, randomisation_test
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.progress import progress
from linkseek.retriever.answers import find_answers
from linkseek.retriever.models.biencoder import BiEncoder, open_biencoder
from linkseek.retriever.queries import read_queries
from linkseek.retriever.ranking import Query, Ranking
from linkseek.retriever.search.searchers import Bm25

PROGRAM = "python -m experiments neighbours"
CUTS = (1, 5, 20)
KINDS = ("none", "links", "bm25")
_BATCH = 256  # questions


class NeighbourReranking:
    """One index with its vectors, and what re-ranking them answers."""

    def __init__(self, index: OpenIndex, encoder: BiEncoder, name: str) -> None:
        self._index, self._encoder = index, encoder
        self._vectors = index.own_dense(name).flat_vectors()
        self._near = {kind: passage_neighbours(index, kind) for kind in ("links", "bm25")}

    def answered(
        self, queries: list[Query], budgets: list[int]
    ) -> dict[tuple[int, str], NDArray[np.float64]]:
        """Whether an answer is in the first 1, 5 and 20, 0 or 1 [Q, 3], by budget and kind."""
        parts: dict[tuple[int, str], list[NDArray[np.float64]]] = {}
        with progress("re-ranking", len(queries), "questions") as advance:
            for start in range(0, len(queries), _BATCH):
                batch = queries[start : start + _BATCH]
                asked = self._encoder.search_vectors([query.text for query in batch])  # [Q, d]
                first = Bm25(self._index)(batch, max(budgets))
                for budget in budgets:
                    for kind in KINDS:
                        parts.setdefault((budget, kind), []).append(
                            self._of_batch(batch, asked, first, budget, kind)
                        )
                advance(len(batch))
        return {key: np.concatenate(values) for key, values in parts.items()}

    def _of_batch(
        self, batch: list[Query], asked: NDArray[np.float32], first: Ranking, budget: int, kind: str
    ) -> NDArray[np.float64]:
        def score(rows: NDArray[np.int64]) -> NDArray[np.float32]:
            vectors = self._vectors[np.maximum(rows, 0)].astype(np.float32)  # [Q, b, d]
            scores: NDArray[np.float32] = np.einsum("qbd,qd->qb", vectors, asked)
            return scores

        near = self._near.get(kind, lambda row: [])
        rows, scores = score_adaptively(first, score, near, budget)
        best = Ranking.of(first.query_ids, rows, scores, CUTS[-1]).rows
        column = self._index.passages.table.value
        relevant = find_answers(
            [query.answers for query in batch], best, lambda row: str(column("text", row))
        )
        return np.stack([relevant[:, :cut].any(axis=1) for cut in CUTS], axis=1).astype(float)


def main(argv: Sequence[str]) -> None:
    """Measure, and print a table in Markdown for each file of questions."""
    parser = argparse.ArgumentParser(
        "python -m experiments neighbours", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--index", type=Path, required=True, help="with links, BM25, Flat vectors")
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2", help="whose vectors re-rank")
    parser.add_argument("--queries", type=Path, nargs="+", required=True, help="questions with answers")
    parser.add_argument("--limit", type=int, help="questions of each file")
    parser.add_argument("--budget", type=int, nargs="+", default=[20, 100], help="pairs of a question")
    options = parser.parse_args(argv)
    index = OpenIndex.open(options.index)
    location = index.own_dense(options.encoder).encoder["location"]
    experiment = NeighbourReranking(index, open_biencoder(location), options.encoder)
    for file in options.queries:
        queries = list(read_queries(file, options.limit))
        _print(file.name.partition(".")[0], len(queries), experiment.answered(queries, options.budget))


def _print(name: str, questions: int, answered: dict[tuple[int, str], NDArray[np.float64]]) -> None:
    """p: of the paired randomisation test, Holm's correction over all differences of the file."""
    pairs = [(budget, kind, KINDS[0]) for budget, kind in answered if kind != KINDS[0]]
    pairs += [(budget, KINDS[1], KINDS[2]) for budget, kind in answered if kind == KINDS[1]]
    tested = [answered[budget, kind] - answered[budget, other] for budget, kind, other in pairs]
    corrected = np.reshape(
        holm(np.concatenate([randomisation_test(d) for d in tested]).tolist()), (-1, len(CUTS))
    )
    print(f"\n| {name}, {questions:,} | {' | '.join(f'@{cut}' for cut in CUTS)} |\n|---|{'---|' * len(CUTS)}")
    for (budget, kind), values in answered.items():
        print(f"| {budget}, {kind} | {' | '.join(f'{100 * value:.1f}' for value in values.mean(axis=0))} |")
    for (budget, kind, other), difference, of_pair in zip(pairs, tested, corrected, strict=True):
        cells = zip(difference.mean(axis=0), of_pair, strict=True)
        shown = " | ".join(f"{100 * mean:+.1f} (p = {p:.3f})" for mean, p in cells)
        print(f"| {budget}, {kind} - {other} | {shown} |", flush=True)
