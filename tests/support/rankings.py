"""Rankings for tests, written as lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from linkseek.retriever.ranking import Ranking
from tests.support.tiny.corpus import write_jsonl


def ranking_of(query_ids: Sequence[str], results: Sequence[Sequence[tuple[int, float]]], k: int) -> Ranking:
    """A ranking from a list of (row, score) for each query, of any lengths and in any order."""
    rows = np.full((len(query_ids), k), -1, np.int64)  # [Q, k]
    scores = np.full((len(query_ids), k), -np.inf, np.float32)  # [Q, k]
    for query, pairs in enumerate(results):
        best = sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:k]
        for rank, (row, score) in enumerate(best):
            rows[query, rank], scores[query, rank] = row, score
    return Ranking(tuple(query_ids), rows, scores)


def judged_files(folder: Path, run: Mapping[str, list[str]], qrels: Mapping[str, str]) -> dict[str, Path]:
    """Rankings and relevant ids by question, as the files run, qrels and queries of a training."""
    files = {"run": folder / "r.trec", "qrels": folder / "q.txt", "queries": folder / "q.jsonl"}
    lines = (f"{q} Q0 {d} {n} {9 - n} t\n" for q, ids in run.items() for n, d in enumerate(ids))
    files["run"].write_text("".join(lines))
    files["qrels"].write_text("".join(f"{q} 0 {id_} 1\n" for q, id_ in qrels.items()))
    write_jsonl(files["queries"], [{"id": q, "text": f"ask {q}"} for q in run])
    return files
