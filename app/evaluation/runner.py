"""The evaluation runner: questions through pipelines, runs to disk, and every run measured alike.

What a pipeline is does not matter here: any function from queries to a `Ranking`. Runs that other
programs made are measured beside them. Nothing is printed; progress goes to stderr.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from app.evaluation import analyses
from app.evaluation.judgements import (
    FIRST_UNKNOWN,
    ForeignRun,
    Judgements,
    Numbers,
)
from app.evaluation.latency import measure_latency
from app.evaluation.measured import Measured, measure_rankings
from app.evaluation.measures import SEED, Plan, Values, bootstrap_interval, plan_measures
from app.evaluation.significance import compare
from indexer.base.errors import InputError, UsageError
from indexer.base.progress import progress
from indexer.base.settings import nearest
from indexer.base.text import counted
from indexer.index import Index, Level
from retriever.answers import AnswerKind
from retriever.ranking import Query, Ranking
from retriever.search.runs import Qrels, read_run, write_run

Pipeline = Callable[[Sequence[Query], int], Ranking]
"""(Q queries, k) -> a `Ranking` of Q queries and at most k columns."""


@dataclass(frozen=True, slots=True)
class _Ran:
    """A ranking and where it is from: the report's part that no measure decides."""

    ranking: Ranking
    level: Level
    run: str
    source: str
    seconds: float | None = None
    latency: dict[str, dict[str, float]] | None = None


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
    index: Index,
    queries: Sequence[Query],
    pipelines: Mapping[str, Pipeline],
    runs: Sequence[Path] = (),
    qrels: Qrels | None = None,
    qrels_name: str = "qrels",
    answer_kind: AnswerKind = "tokens",
    groups: Mapping[str, Sequence[str]] | None = None,
    test_set: Mapping[str, str] | None = None,
    baseline: str | None = None,
    depth: int = 100,
    measures: Sequence[str] = (),
    usual: Sequence[str] = (),
    batch_size: int = 256,
    latency: int = 0,
    recorded: Collection[str] = (),
    seed: int = SEED,
    notes: Sequence[str] = (),
    output: Path,
) -> dict[str, Any]:
    """Run, write, measure and compare; returns the part of results.json that depends on it.

    Pipelines' runs are written to output/runs/NAME.trec. depth: results a question, of run files
    too; an index with fewer passages gives all that it has. In judgements on documents, a document
    counts where its best passage stands, within the `depth` passages. groups: names of subsets, and
    their query ids. test_set: its name, description, licence and source, for the report. baseline:
    what the others are compared with, by default the first. usual: the test set's own measures, where
    none are asked for. latency: how many questions each pipeline is asked one at a time. recorded: the
    pipelines that read run files, so that their time says nothing. notes: what the caller has to say.
    Raises what `plan_measures`, `run_names`, `Numbers` and the readers raise, before any pipeline runs.
    """
    names = run_names(list(pipelines), runs)
    baseline = baseline or names[0]
    if baseline not in names:
        raise UsageError(f"--baseline {baseline}: it is not evaluated", nearest(baseline, names))
    plan = plan_measures(measures, queries, qrels is not None, depth, usual)
    query_ids = [query.id for query in queries]
    numbers = Numbers(index)
    judgements = None if qrels is None else numbers.judgements(qrels, query_ids, qrels_name)
    foreign = {path: numbers.run(read_run(path), query_ids, depth, str(path)) for path in runs}
    if not pipelines:
        plan = _without_accuracy_of_documents(plan, foreign)
    for path, run in foreign.items():
        if judgements is not None and (judgements.level, run.level) == ("passages", "documents"):
            raise InputError(
                f"{path}: ranks documents, but {qrels_name} judges passages",
                "Give a run of passages, or judgements on documents.",
            )

    ran: dict[str, _Ran] = {}
    for name, pipeline in pipelines.items():
        k = min(depth, len(index.passages))
        ranking, seconds = search(pipeline, queries, k, batch_size, name)
        path = Path("runs", f"{name}.trec")
        write_run(output / path, ranking, index.passages.ids, tag=name)
        ran[name] = _Ran(ranking, "passages", str(path), "pipeline")
        if name not in recorded:
            stages = measure_latency(pipeline, queries, k, latency, name) if latency else None
            ran[name] = replace(ran[name], seconds=seconds, latency=stages)
    for path, run in foreign.items():
        ran[_stem(path)] = _Ran(run.ranking, run.level, str(path), "file")

    answer_notes: list[str] = []
    measured = measure_rankings(
        index.passages,
        queries,
        {name: (of.ranking, of.level) for name, of in ran.items()},
        judgements,
        plan,
        answer_kind,
        answer_notes.append,
    )
    by_measure = {name: of.values for name, of in measured.items()}
    order = [measure.name for measure in (*plan.accuracy, *plan.judged)]
    return {
        "test_set": None if test_set is None else dict(test_set),
        "baseline": baseline,
        "pipelines": {name: _report(ran[name], of.values, seed) for name, of in measured.items()},
        "measures": order,
        "main_measure": plan.main.name,
        "comparisons": [asdict(comparison) for comparison in compare(by_measure, order, seed)],
        "curves": _curves(measured, plan),
        "analyses": _analyses(index, queries, measured, judgements, plan, groups or {}, seed),
        "differences": _differences(index, queries, measured, baseline),
        "counts": _counts(queries, judgements),
        "judged_level": None if judgements is None else judgements.level,
        "depth": depth,
        "batch_size": batch_size,
        "seeds": {"bootstrap": seed, "randomisation": seed},
        "notes": [*notes, *plan.notes, *_notes(queries, ran, foreign, judgements, plan), *answer_notes],
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


# --- the parts of the report ----------------------------------------------------------------------


def _report(ran: _Ran, values: Mapping[str, Values], seed: int) -> dict[str, Any]:
    return {
        "measures": {measure: _value_report(of, seed) for measure, of in values.items()},
        "run": ran.run,
        "source": ran.source,
        "seconds": ran.seconds,
        "queries_per_second": len(ran.ranking.query_ids) / ran.seconds if ran.seconds else None,
        "latency": ran.latency,
        "queries_without_results": int((ran.ranking.rows < 0).all(axis=1).sum()),
    }


def _value_report(values: Values, seed: int) -> dict[str, Any]:
    low, high = bootstrap_interval(np.array([*values.by_query().values()]), seed)
    return {
        "mean": values.mean,
        "low": low,
        "high": high,
        "queries": len(values.values),
        "per_query": dict(zip(values.query_ids, values.values.tolist(), strict=True)),
    }


def _curves(measured: Mapping[str, Measured], plan: Plan) -> dict[str, Any]:
    """A run with fewer results than the longest keeps its last value."""
    curves = {name: of.curve.tolist() for name, of in measured.items() if of.curve is not None}
    longest = max(map(len, curves.values()), default=0)
    return {
        "measure": "accuracy" if plan.accuracy else "recall",
        "ks": list(range(1, longest + 1)),
        "pipelines": {name: curve + curve[-1:] * (longest - len(curve)) for name, curve in curves.items()},
    }


def _analyses(
    index: Index,
    queries: Sequence[Query],
    measured: Mapping[str, Measured],
    judgements: Judgements | None,
    plan: Plan,
    groups: Mapping[str, Sequence[str]],
    seed: int,
) -> dict[str, Any]:
    main = plan.main.name
    values = {name: of.values[main] for name, of in measured.items() if main in of.values}
    report: dict[str, Any] = {}
    texts = analyses.gold_texts(queries, measured, judgements, index.passages)
    if texts:
        report["overlap"] = analyses.by_overlap(queries, texts, values, seed)
    report["length"] = analyses.by_length(queries, values, seed)
    if groups:
        report["groups"] = analyses.by_group(groups, {name: of.values for name, of in measured.items()})
    return report


def _differences(
    index: Index, queries: Sequence[Query], measured: Mapping[str, Measured], baseline: str
) -> list[dict[str, Any]]:
    def text_of(name: str, row: int) -> tuple[str, str]:
        if row >= FIRST_UNKNOWN:
            return "(not in the index)", ""
        item = (index.documents if measured[name].level == "documents" else index.passages)[row]
        return item.title, item.text

    known = [name for name, of in measured.items() if of.right is not None]
    return [
        difference
        for name in known
        if baseline in known and name != baseline
        for difference in analyses.list_differences(queries, baseline, name, measured, text_of)
    ]


def _counts(queries: Sequence[Query], judgements: Judgements | None) -> dict[str, Any]:
    counts = {
        "queries": len(queries),
        "queries_with_answers": sum(bool(query.answers) for query in queries),
    }
    if judgements is not None:
        counts["queries_with_judgements"] = len(judgements.relevance)
        counts["judgements"] = sum(map(len, judgements.relevance.values()))
        counts["judged_ids_not_in_index"] = judgements.unknown
    return counts


def _notes(
    queries: Sequence[Query],
    ran: Mapping[str, _Ran],
    foreign: Mapping[Path, ForeignRun],
    judgements: Judgements | None,
    plan: Plan,
) -> list[str]:
    """What does not show in the figures, for people."""
    notes = []
    for path, run in foreign.items():
        name = _stem(path)
        if run.unknown:
            notes.append(f"{name}: {run.unknown:,} of its ids are not in the index; they count as wrong")
        if plan.accuracy and run.level == "documents":
            notes.append(f"{name}: it ranks documents, so answers cannot be looked for in passages")
    for name, of in ran.items():
        if (of.ranking.rows < 0).all():
            notes.append(f"{name}: found nothing for any question")
    without = sum(not query.answers for query in queries)
    if plan.accuracy and without:
        left_out = counted(without, "question without answers is", "questions without answers are")
        notes.append(f"accuracy: {left_out} left out")
    if judgements is not None:
        if len(judgements.relevance) < len(queries):
            without = len(queries) - len(judgements.relevance)
            left_out = counted(without, "question without judgements is", "questions without judgements are")
            notes.append(f"{left_out} left out")
        if judgements.unknown:
            notes.append(f"{judgements.unknown:,} judged ids are not in the index; nothing can find them")
    return notes


def _without_accuracy_of_documents(plan: Plan, foreign: Mapping[Path, ForeignRun]) -> Plan:
    """Runs of documents alone have no accuracy; then nothing must be built on it."""
    if not plan.accuracy or any(run.level == "passages" for run in foreign.values()):
        return plan
    if not plan.judged:
        raise InputError(
            f"{next(iter(foreign))}: ranks documents, so answers cannot be looked for in passages",
            "Give judgements on documents with --qrels FILE.",
        )
    names = ", ".join(measure.name for measure in plan.accuracy)
    return replace(
        plan,
        accuracy=(),
        notes=[*plan.notes, f"left out, since every run ranks documents: {names}"],
    )


def _stem(path: Path) -> str:
    name = path.name
    for suffix in (".gz", ".bz2", ".zst"):
        name = name.removesuffix(suffix)
    return Path(name).stem
