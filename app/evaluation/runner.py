"""The evaluation runner: questions through pipelines, runs to disk, and every run measured alike.

What a pipeline is does not matter here: any function from queries to a `Ranking`. Runs that other
programs made are measured beside them. Nothing is printed; progress goes to stderr.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from app.evaluation.answers import find_answers
from app.evaluation.judgements import (
    DocumentIds,
    Judgements,
    Level,
    Numbers,
    Passages,
    to_documents,
)
from app.evaluation.measures import (
    Plan,
    Values,
    bootstrap_interval,
    measure_accuracy,
    measure_judged,
    plan_measures,
)
from indexer.errors import InputError, UsageError
from indexer.progress import progress
from retriever.ranking import Query, Ranking
from retriever.runs import Qrels, read_run, write_run

Pipeline = Callable[[Sequence[Query], int], Ranking]
"""(Q queries, k) -> a `Ranking` of Q queries and at most k columns."""


class Corpus(Protocol):
    """What is needed of `indexer.index.Index`."""

    @property
    def passages(self) -> Passages:
        """The passages by row and id."""

    @property
    def document_ids(self) -> DocumentIds:
        """Document ids to rows."""


def run_names(pipelines: Sequence[str], runs: Sequence[Path]) -> list[str]:
    """The names in the report: of pipelines, then the stems of run files.

    Raises `UsageError` for a name that occurs twice or is no file name.
    """
    names = [*pipelines, *map(_stem, runs)]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f'"{name}" is given twice',
                "Name every pipeline once; rename the run file if it is one.",
            )
        if name in ("", ".", "..") or "/" in name or "\\" in name:
            raise UsageError(f'the pipeline "{name}" cannot name a file', "Rename the pipeline.")
    if not names:
        raise UsageError("there is nothing to evaluate", "Give --pipeline NAME or --run FILE.")
    return names


def evaluate(
    *,
    index: Corpus,
    queries: Sequence[Query],
    pipelines: Mapping[str, Pipeline],
    runs: Sequence[Path] = (),
    qrels: Qrels | None = None,
    qrels_name: str = "qrels",
    depth: int = 100,
    measures: Sequence[str] = (),
    batch_size: int = 256,
    output: Path,
) -> dict[str, Any]:
    """Run, write and measure; returns the part of results.json that depends on it.

    Pipelines' runs are written to output/runs/NAME.trec. depth: results a question, of run files
    too; an index with fewer passages gives all that it has. In judgements on documents, a document
    counts where its best passage stands, within the `depth` passages. Raises what `plan_measures`,
    `run_names`, `Numbers` and the readers raise, before any pipeline runs.
    """
    run_names(list(pipelines), runs)
    plan = plan_measures(measures, queries, qrels is not None, depth)
    notes = plan.notes
    query_ids = [query.id for query in queries]
    numbers = Numbers(index.passages, index.document_ids)
    judgements = None if qrels is None else numbers.judgements(qrels, query_ids, qrels_name)
    foreign = {_stem(path): (path, numbers.run(read_run(path), query_ids, depth, str(path))) for path in runs}
    for path, run in foreign.values():
        if judgements is not None and (judgements.level, run.level) == ("passages", "documents"):
            raise InputError(
                f"{path}: ranks documents, but {qrels_name} judges passages",
                "Give a run of passages, or judgements on documents.",
            )

    reports: dict[str, Any] = {}

    def add(name: str, ranking: Ranking, level: Level, path: str, source: str, seconds: float | None) -> None:
        values = measure_ranking(index.passages, queries, ranking, level, judgements, plan)
        reports[name] = {
            "measures": {measure: _report(value) for measure, value in values.items()},
            "run": path,
            "source": source,
            "seconds": seconds,
            "queries_per_second": len(queries) / seconds if seconds else None,
            "queries_without_results": int((ranking.rows < 0).all(axis=1).sum()),
        }

    for name, pipeline in pipelines.items():
        k = min(depth, len(index.passages))
        ranking, seconds = search(pipeline, queries, k, batch_size, name)
        path = Path("runs", f"{name}.trec")
        write_run(output / path, ranking, index.passages.ids, tag=name)
        add(name, ranking, "passages", str(path), "pipeline", seconds)
    for name, (path, run) in foreign.items():
        add(name, run.ranking, run.level, str(path), "file", None)
        if run.unknown:
            notes.append(f"{name}: {run.unknown:,} of its ids are not in the index; they count as wrong")
        if plan.accuracy and run.level == "documents":
            notes.append(f"{name}: it ranks documents, so answers cannot be looked for in passages")

    with_answers = sum(bool(query.answers) for query in queries)
    if plan.accuracy and with_answers < len(queries):
        notes.append(f"accuracy: {len(queries) - with_answers:,} questions without answers are left out")
    counts: dict[str, Any] = {"queries": len(queries), "queries_with_answers": with_answers}
    if judgements is not None:
        judged = len(judgements.relevance)
        counts["queries_with_judgements"] = judged
        counts["judgements"] = sum(map(len, judgements.relevance.values()))
        counts["judged_ids_not_in_index"] = judgements.unknown
        if judged < len(queries):
            notes.append(f"{len(queries) - judged:,} questions without judgements are left out")
        if judgements.unknown:
            notes.append(f"{judgements.unknown:,} judged ids are not in the index; nothing can find them")
    return {
        "pipelines": reports,
        "counts": counts,
        "judged_level": None if judgements is None else judgements.level,
        "depth": depth,
        "batch_size": batch_size,
        "notes": notes,
    }


def search(
    pipeline: Pipeline, queries: Sequence[Query], depth: int, batch_size: int, name: str
) -> tuple[Ranking, float]:
    """All queries through one pipeline, in batches: a ranking [Q, depth], and the seconds."""
    rows = np.full((len(queries), depth), -1, np.int64)  # [Q, depth]
    scores = np.full((len(queries), depth), -np.inf, np.float32)  # [Q, depth]
    seconds = 0.0
    with progress(name, total=len(queries), unit="questions") as advance:
        for start in range(0, len(queries), batch_size):
            batch = queries[start : start + batch_size]
            began = time.perf_counter()
            ranking = pipeline(batch, depth).top(depth)
            seconds += time.perf_counter() - began
            if ranking.query_ids != tuple(query.id for query in batch):
                raise ValueError(f"pipeline {name}: answered other queries than it was asked")
            rows[start : start + len(batch), : ranking.depth] = ranking.rows
            scores[start : start + len(batch), : ranking.depth] = ranking.scores
            advance(len(batch))
    return Ranking(tuple(query.id for query in queries), rows, scores), seconds


def measure_ranking(
    passages: Passages,
    queries: Sequence[Query],
    ranking: Ranking,
    level: Level,
    judgements: Judgements | None,
    plan: Plan,
) -> dict[str, Values]:
    """Every planned measure of one ranking, by the measure's name.

    level: what the ranking's rows number. A ranking of documents has no accuracy: there are no
    passages to look for answers in.
    """
    values: dict[str, Values] = {}
    if plan.accuracy and level == "passages":
        rows = ranking.rows[:, : max(m.cutoff or 0 for m in plan.accuracy)]  # [Q, k]
        known: NDArray[np.int64] = np.where(rows < len(passages), rows, -1)
        answers = [query.answers for query in queries]
        found = find_answers(answers, known, lambda row: passages[row].text)  # [Q, k]
        values |= measure_accuracy(queries, found, plan.accuracy)
    if plan.judged and judgements is not None:
        if level == "passages" and judgements.level == "documents":
            ranking = to_documents(ranking, passages)
        values |= measure_judged(ranking, judgements.relevance, plan.judged)
    return values


def _report(values: Values) -> dict[str, Any]:
    low, high = bootstrap_interval(values.values)
    return {
        "mean": values.mean,
        "low": low,
        "high": high,
        "queries": len(values.values),
        "per_query": dict(zip(values.query_ids, values.values.tolist(), strict=True)),
    }


def _stem(path: Path) -> str:
    name = path.name
    for suffix in (".gz", ".bz2", ".zst"):
        name = name.removesuffix(suffix)
    return Path(name).stem
