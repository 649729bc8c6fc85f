"""The evaluation runner: questions through pipelines, runs to disk, and every run measured alike.

A pipeline is any function from queries to a `Ranking`. Runs of other programs are measured next to them.
Nothing is printed; progress goes to stderr.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from linkseek.app.evaluation import analyses
from linkseek.app.evaluation.judgements import ForeignRun, JudgedNumbers, Judgements
from linkseek.app.evaluation.measured import Measured, measure_rankings
from linkseek.app.evaluation.measures import SEED, MeasurePlan, Values, bootstrap_interval, plan_measures
from linkseek.app.evaluation.notes import notes, warnings
from linkseek.app.evaluation.results import (
    VERSION,
    Analyses,
    Curves,
    Percentiles,
    PipelineResults,
    Question,
    QuestionCounts,
    Results,
    Score,
    Seeds,
    TestSetFacts,
)
from linkseek.app.evaluation.significance import compare
from linkseek.app.testsets.definition import LoadedTestSet
from linkseek.app.testsets.known_items import MORE, without_copies
from linkseek.indexer.index import Level, OpenIndex
from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.indexer.program.paths import check_name, inside
from linkseek.indexer.program.progress import Advance, progress
from linkseek.indexer.program.text import nearest
from linkseek.retriever.queries import evenly_spread
from linkseek.retriever.ranking import Pipeline, Query, Ranking
from linkseek.retriever.search.runs import Qrels, read_run, write_run
from linkseek.retriever.search.searching import search


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationPlan:
    """One evaluation: the questions, the pipelines and runs, and how they are measured."""

    index: OpenIndex
    test_set: LoadedTestSet
    """With judgements of documents, a document has the rank of its best passage."""
    pipelines: Mapping[str, Pipeline]
    runs: Sequence[Path] = ()
    """TREC runs of other systems, named by their stems."""
    judged_by: str = "qrels"
    """The name of the judgements, for messages."""
    facts: TestSetFacts | None = None
    """Facts about a test set given by name."""
    baseline: str | None = None
    """The pipeline that the others are compared with; by default the first."""
    depth: int = 100
    """Results for a question, of run files too; an index with fewer passages gives all that it has."""
    measures: Sequence[str] = ()
    batch_size: int = 256
    latency: int = 0
    """How many questions each pipeline is asked one at a time."""
    seed: int = SEED
    notes: Sequence[str] = ()
    """Notes of the caller for the report."""
    output: Path | None = None
    """The folder for runs; None: they are not written."""


class _Run(NamedTuple):
    """A ranking with its origin for the results."""

    ranking: Ranking
    level: Level
    run: str
    seconds: float | None = None
    latency: dict[str, Percentiles] | None = None
    from_file: bool = False


def run_names(pipelines: Sequence[str], runs: Sequence[Path]) -> list[str]:
    """The names in the results: of pipelines, then the stems of run files.

    Raises `UsageError` for a name that occurs twice or cannot name a file.
    """
    names = [*pipelines, *map(_stem, runs)]
    for name, count in Counter(names).items():
        if count > 1:
            hint = "Give every pipeline once; rename a run file with the same name."
            raise UsageError(f'"{name}" is given twice', hint)
        check_name(name, "the pipeline or run")
    if not names:
        raise UsageError("there is nothing to evaluate", "Give --pipeline NAME or --run FILE.")
    return names


def check_baseline(baseline: str | None, names: Sequence[str]) -> str:
    """The baseline, by default the first of the names. Raises `UsageError` for one that is not among them."""
    if baseline is not None and baseline not in names:
        raise UsageError(f"--baseline {baseline}: it is not evaluated", nearest(baseline, names))
    return baseline or names[0]


def run_path(folder: Path, name: str) -> Path:
    """Where the run of a pipeline goes in the folder of an evaluation. Raises `UsageError` as `inside`."""
    return inside(folder / "runs", name, "the pipeline", "{}.trec")


def evaluate(plan: EvaluationPlan) -> Results:
    """Run, write, measure and compare; with an output, pipelines' runs are OUTPUT/runs/NAME.trec.

    Raises the errors of `plan_measures`, `run_names`, `JudgedNumbers` and the readers before any pipeline
    runs.
    """
    asked, names = plan.test_set, run_names(list(plan.pipelines), plan.runs)
    baseline = check_baseline(plan.baseline, names)
    has_qrels = asked.qrels is not None
    measures = plan_measures(plan.measures, asked.queries, has_qrels, plan.depth, asked.measures)
    query_ids = [query.id for query in asked.queries]
    numbers = JudgedNumbers(plan.index)
    judgements = None if asked.qrels is None else numbers.judgements(asked.qrels, query_ids, plan.judged_by)
    foreign = {path: numbers.run(read_run(path), query_ids, plan.depth, str(path)) for path in plan.runs}
    if not plan.pipelines:
        measures = _without_accuracy_of_documents(measures, foreign)
    for path, run in foreign.items():
        if judgements is not None and (judgements.level, run.level) == ("passages", "documents"):
            message = f"{path}: ranks documents, but {plan.judged_by} judges passages"
            raise InputError(message, "Give a run of passages, or judgements on documents.")

    runs = _run_all(plan) if plan.pipelines else {}
    for path, run in foreign.items():
        runs[_stem(path)] = _Run(run.ranking, run.level, str(path), from_file=True)
    answer_notes: list[str] = []
    measured = measure_rankings(
        plan.index.passages,
        asked.queries,
        {name: (run.ranking, run.level) for name, run in runs.items()},
        judgements,
        measures,
        asked.answer_kind,
        {_stem(path): run.whole for path, run in foreign.items() if run.whole is not None},
        answer_notes.append,
    )
    rankings = {name: run.ranking for name, run in runs.items()}
    runs_by_name = {_stem(path): run for path, run in foreign.items()}
    doubts = warnings(asked.queries, rankings, runs_by_name, judgements, asked.qrels, measures)
    skipped = notes(asked.queries, rankings, runs_by_name, judgements, measures, plan.depth)
    order = [measure.name for measure in (*measures.accuracy, *measures.judged)]
    main = telling_measure(measures, measured)
    with progress("intervals and tests"):
        return Results(
            version=VERSION,
            test_set=plan.facts,
            questions=[_question(query, asked.qrels) for query in asked.queries],
            answer_kind=asked.answer_kind,
            baseline=baseline,
            pipelines={name: _scored(runs[name], run.values, plan.seed) for name, run in measured.items()},
            measures=order,
            main_measure=main,
            comparisons=compare({name: run.values for name, run in measured.items()}, order, plan.seed),
            curves=_curves(measured, measures),
            analyses=_analyses(plan, measured, judgements, main),
            counts=_counts(asked.queries, judgements),
            judged_level=None if judgements is None else judgements.level,
            depth=plan.depth,
            batch_size=plan.batch_size,
            seeds=Seeds(bootstrap=plan.seed, randomisation=plan.seed),
            warnings=doubts,
            notes=[*plan.notes, *measures.notes, *skipped, *answer_notes],
        )


def telling_measure(measures: MeasurePlan, measured: Mapping[str, Measured]) -> str:
    """The main measure; where no two pipelines differ by it, the first of its kind by which some do.

    A re-ranking of 20 results cannot change accuracy@20.
    """

    def differs(name: str) -> bool:
        columns = {run.values[name].values.tobytes() for run in measured.values() if name in run.values}
        return len(columns) > 1

    plan = (measures.main, *measures.accuracy, *measures.judged)
    alike = [measure.name for measure in plan if measure.needs == measures.main.needs]
    return next(filter(differs, alike), measures.main.name)


def _run_all(plan: EvaluationPlan) -> dict[str, _Run]:
    """All pipelines, with the remaining time of all together, by the time that one question takes of each."""
    k = min(plan.depth, len(plan.index.passages))
    first = {
        name: seconds_of_a_question(run, plan.test_set.queries[0], k) for name, run in plan.pipelines.items()
    }
    timed = min(plan.latency, len(plan.test_set.queries))
    total = sum(first.values()) * (len(plan.test_set.queries) + timed)
    runs = {}
    with progress("all pipelines", total=100) as advance:
        for number, (name, pipeline) in enumerate(plan.pipelines.items(), start=1):
            label = f"{name} ({number} of {len(first)})"
            share = 100 * first[name] / total
            runs[name] = _run(plan, name, label, pipeline, k, partial(_advance_by, advance, share))
    return runs


def _advance_by(advance: Advance, share: float, count: float) -> None:
    advance(count * share)


def _run(
    plan: EvaluationPlan, name: str, label: str, pipeline: Pipeline, k: int, on_questions: Advance
) -> _Run:
    copies, passages = plan.test_set.copies, plan.index.passages
    depth = min(k + MORE * bool(copies), len(passages))
    ranking, seconds, _ = search(pipeline, plan.test_set.queries, depth, plan.batch_size, label, on_questions)
    ranking = without_copies(ranking, passages, copies, k) if copies else ranking
    path = ""
    if plan.output is not None:
        written = run_path(plan.output, name)
        write_run(written, ranking, passages.ids, tag=name)
        path = written.relative_to(plan.output).as_posix()
    latency = None
    if plan.latency:
        latency = measure_latency(pipeline, plan.test_set.queries, k, plan.latency, label, on_questions)
    return _Run(ranking, "passages", path, seconds, latency)


def _scored(run: _Run, values: Mapping[str, Values], seed: int) -> PipelineResults:
    return PipelineResults(
        measures={measure: _score(scores, seed) for measure, scores in values.items()},
        run=run.run,
        source="file" if run.from_file else "pipeline",
        seconds=run.seconds,
        queries_per_second=len(run.ranking.query_ids) / run.seconds if run.seconds else None,
        latency=run.latency,
        queries_without_results=int((run.ranking.rows < 0).all(axis=1).sum()),
    )


def _score(values: Values, seed: int) -> Score:
    low, high = bootstrap_interval(np.array([*values.by_query().values()]), seed)
    per_query = dict(zip(values.query_ids, values.values.tolist(), strict=True))
    return Score(mean=values.mean, low=low, high=high, queries=len(values.values), per_query=per_query)


def _curves(measured: Mapping[str, Measured], measures: MeasurePlan) -> Curves:
    """A run with fewer results than the longest keeps its last value."""
    curves = {name: run.curve.tolist() for name, run in measured.items() if run.curve is not None}
    longest = max(map(len, curves.values()), default=0)
    return Curves(
        measure="accuracy" if measures.accuracy else "recall",
        ks=list(range(1, longest + 1)),
        pipelines={name: curve + curve[-1:] * (longest - len(curve)) for name, curve in curves.items()},
    )


def _analyses(
    plan: EvaluationPlan, measured: Mapping[str, Measured], judgements: Judgements | None, main: str
) -> Analyses:
    values = {name: run.values[main] for name, run in measured.items() if main in run.values}
    queries, passages, links = plan.test_set.queries, plan.index.passages, plan.index.links
    having = analyses.measured_ids(values)
    rows = analyses.gold_rows([q for q in queries if q.id in having], measured, judgements)
    all_values = {name: run.values for name, run in measured.items()}
    bins = analyses.Bins(queries, rows, passages, values, plan.seed, plan.index.language)
    return Analyses(
        overlap=bins.by_overlap() if rows else None,
        length=bins.by_length(),
        title=bins.by_title() if rows else None,
        links=bins.by_links(links) if rows and len(links) else None,
        groups=analyses.by_group(plan.test_set.groups, all_values) if plan.test_set.groups else None,
    )


def _question(query: Query, qrels: Qrels | None) -> Question:
    judged = None if qrels is None else qrels.get(query.id, {})
    relevant = None if judged is None else [id_ for id_, relevance in judged.items() if relevance > 0]
    return Question(id=query.id, text=query.text, answers=list(query.answers), relevant=relevant)


def _counts(queries: Sequence[Query], judgements: Judgements | None) -> QuestionCounts:
    answered = sum(bool(query.answers) for query in queries)
    if judgements is None:
        return QuestionCounts(queries=len(queries), queries_with_answers=answered)
    return QuestionCounts(
        queries=len(queries),
        queries_with_answers=answered,
        queries_with_judgements=len(judgements.relevance),
        judgements=sum(map(len, judgements.relevance.values())),
        judged_ids_not_in_index=judgements.unknown,
    )


def _without_accuracy_of_documents(measures: MeasurePlan, foreign: Mapping[Path, ForeignRun]) -> MeasurePlan:
    """Runs of documents have no accuracy; if there are no others, it must not be the main measure."""
    if not measures.accuracy or any(run.level == "passages" for run in foreign.values()):
        return measures
    if not measures.judged:
        raise InputError(
            f"{next(iter(foreign))}: ranks documents, so its passages cannot be searched for answers",
            "Give judgements on documents with --qrels FILE.",
        )
    names = ", ".join(measure.name for measure in measures.accuracy)
    notes = [*measures.notes, f"skipped, since every run ranks documents: {names}"]
    return replace(measures, accuracy=(), notes=notes)


def _stem(path: Path) -> str:
    name = path.name
    for suffix in (".gz", ".bz2", ".zst"):
        name = name.removesuffix(suffix)
    return Path(name).stem


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
