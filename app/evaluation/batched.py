"""Queries through a pipeline in batches, with a progress bar and the time that they take."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext

import numpy as np

from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.program.progress import Advance, part_of, progress
from linkseek.retriever.ranking import Pipeline, Query, Ranking


def search(
    pipeline: Pipeline,
    queries: Sequence[Query],
    depth: int,
    batch_size: int,
    name: str,
    on_questions: Advance = lambda count: None,
) -> tuple[Ranking, float]:
    """All queries through one pipeline, in batches: a ranking [Q, depth], and the seconds.

    One query alone has no progress bar. Raises `UsageError` for a depth below 1.
    """
    if depth < 1:
        raise UsageError(f"{depth} results for a question", "Ask for 1 or more.")
    rows = np.full((len(queries), depth), -1, np.int64)  # [Q, depth]
    scores = np.full((len(queries), depth), -np.inf, np.float32)  # [Q, depth]
    seconds = 0.0
    several = len(queries) > 1
    with progress(name, len(queries), "questions") if several else nullcontext(_ignore) as advance:

        def step(count: float) -> None:
            advance(count)
            on_questions(count)

        for start in range(0, len(queries), batch_size):
            batch = queries[start : start + batch_size]
            began = time.perf_counter()
            with part_of(step, len(batch)):
                ranking = pipeline(batch, depth).top(depth)
            seconds += time.perf_counter() - began
            if ranking.query_ids != tuple(query.id for query in batch):
                raise ValueError(f"pipeline {name}: answered other queries than it was given")
            rows[start : start + len(batch), : ranking.depth] = ranking.rows
            scores[start : start + len(batch), : ranking.depth] = ranking.scores
    return Ranking(tuple(query.id for query in queries), rows, scores), seconds


def _ignore(count: float) -> None: ...
