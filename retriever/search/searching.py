"""A search with any pipeline: the one way from queries to a ranking, timed by stage."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import NamedTuple

import numpy as np

from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.program.progress import Advance, part_of, progress
from linkseek.retriever.ranking import Paths, Pipeline, Query, Ranking
from linkseek.retriever.search.stages import recorded_stages


class Ranked(NamedTuple):
    """The ranking of a search, and its seconds, in total and by stage."""

    ranking: Ranking
    seconds: float
    stages: Mapping[str, float]


def _ignore(count: float) -> None: ...


def search(
    pipeline: Pipeline,
    queries: Sequence[Query],
    k: int,
    batch_size: int = 256,
    name: str = "searching",
    on_questions: Advance = _ignore,
) -> Ranked:
    """The k best passages of all queries, in batches: a ranking [Q, k], and the time it took.

    Several queries have a progress bar. name: the pipeline's name, for the progress bar and errors.
    on_questions: gets the number of queries that were searched for since its last call. Raises `UsageError`
    for a k below 1, and for a pipeline that answers with anything but a ranking of its queries.
    """
    if k < 1:
        raise UsageError(f"{k} results for a question", "Ask for 1 or more.")
    rows = np.full((len(queries), k), -1, np.int64)  # [Q, k]
    scores = np.full((len(queries), k), -np.inf, np.float32)  # [Q, k]
    paths: list[Paths] = []
    seconds, several = 0.0, len(queries) > 1
    bar = progress(name, len(queries), "questions") if several else nullcontext(_ignore)
    with bar as advance, recorded_stages() as stages:

        def step(count: float) -> None:
            advance(count)
            on_questions(count)

        for start in range(0, len(queries), batch_size):
            batch = queries[start : start + batch_size]
            began = time.perf_counter()
            with part_of(step, len(batch)):
                ranking = pipeline(batch, k).top(k)
            seconds += time.perf_counter() - began
            if ranking.query_ids != tuple(query.id for query in batch):
                raise ValueError(f"pipeline {name}: answered queries that it was not given")
            rows[start : start + len(batch), : ranking.depth] = ranking.rows
            scores[start : start + len(batch), : ranking.depth] = ranking.scores
            paths += ranking.paths
    return Ranked(Ranking(tuple(query.id for query in queries), rows, scores, tuple(paths)), seconds, stages)


def own_pipeline(function: Pipeline, name: str, passages: int) -> Pipeline:
    """A function of the caller as a pipeline of an index with so many passages.

    Its results may have any order. Raises `UsageError` for anything but a ranking of the given queries.
    """

    def search(queries: Sequence[Query], k: int) -> Ranking:
        found = function(queries, k)
        if not isinstance(found, Ranking):
            raise UsageError(f"{name} returned a {type(found).__name__}", "Return a linkseek.Ranking.")
        rows, scores = np.asarray(found.rows), np.asarray(found.scores)
        if [*found.query_ids] != [query.id for query in queries] or len(rows) != len(queries):
            raise UsageError(f"{name} answered other questions", "Return a row for each, in their order.")
        if rows.ndim != 2 or rows.shape != scores.shape or rows.dtype.kind not in "iu":
            shapes = f"rows {rows.dtype} {rows.shape}, scores {scores.shape}"
            raise UsageError(f"{name} returned {shapes}", "Give both the shape (questions, k).")
        if rows.max(initial=-1) >= passages:
            raise UsageError(f"{name} returned row {rows.max()}", f"The index has {passages:,} passages.")
        return Ranking.of(found.query_ids, rows, scores, k, tuple(found.paths))

    return search
