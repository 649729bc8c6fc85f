"""The time of one question, stage by stage: percentiles over questions that are asked one at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from linkseek.app.evaluation.results import Percentiles
from linkseek.indexer.program.progress import Advance, progress
from linkseek.retriever.queries import evenly_spread
from linkseek.retriever.ranking import Pipeline, Query
from linkseek.retriever.search.searching import search

_WARM_UP = 5


def seconds_of_a_question(pipeline: Pipeline, query: Query, k: int) -> float:
    """About how long one question takes; the first one, which may load a model, is not counted."""
    pipeline([query], k)
    return search(pipeline, [query], k).seconds


def measure_latency(
    pipeline: Pipeline,
    queries: Sequence[Query],
    k: int,
    limit: int,
    name: str,
    on_question: Advance = lambda count: None,
) -> dict[str, Percentiles]:
    """Stage -> percentiles in seconds; in the order of stages, "total" last.

    limit: how many questions are asked at most, evenly spread over the file. A few are asked before and do
    not count, since the first ones are slower. A stage that a question skips counts 0 for it.
    """
    chosen = evenly_spread(queries, limit)
    for query in chosen[:_WARM_UP]:
        pipeline([query], k)
    seconds: list[dict[str, float]] = []
    with progress(f"{name}, time of each question", total=len(chosen), unit="questions") as advance:
        for query in chosen:
            asked = search(pipeline, [query], k)
            seconds.append({**asked.stages, "total": asked.seconds})
            advance(1)
            on_question(1)
    names = dict.fromkeys(stage for stages in seconds for stage in stages if stage != "total")
    report = {}
    for stage in [*names, "total"]:
        values = [stages.get(stage, 0.0) for stages in seconds]
        p50, p95, p99 = np.percentile(values, [50, 95, 99]).tolist()
        report[stage] = Percentiles(p50=p50, p95=p95, p99=p99, questions=len(chosen))
    return report
