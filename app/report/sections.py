"""Results as the sections of a report: the data that the template of each section shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

from linkseek.app.evaluation.by_question import compare_questions, missed_pages, sort_questions
from linkseek.app.evaluation.results import Binned, Comparison, Results
from linkseek.app.report import charts, tables, text
from linkseek.app.report.render import ReportSection
from linkseek.app.report.tables import ReportTable

_SHORT_LIST = 15  # pairs of six pipelines
_MAX_QUESTIONS = 20  # of a pair


class ReportFigure(NamedTuple):
    """A chart, and the same numbers as a table, which is shown on demand.

    chart: draws it. alternative: describes the chart in a sentence. omitted: the
    number of questions that it omits.
    """

    title: str
    alternative: str
    chart: Callable[[], charts.Chart]
    table: ReportTable
    omitted: int = 0


def sections(results: Results, only: tuple[str, ...] = ()) -> Iterator[ReportSection]:
    """The sections that have data, in order. only: those with these anchors."""
    for anchor, (title, data_of) in _SECTIONS.items():
        data = data_of(results) if not only or anchor in only else None
        if data is not None:
            yield ReportSection(anchor, title, f"{anchor}.j2", {"results": results, **data})


def opening(results: Results) -> ReportSection:
    """The facts about an evaluation, and the summary in a few sentences that the numbers bear out.

    A test without a significant result has not shown that two pipelines are equal; the sentences keep to
    that.
    """
    measure = results.main_measure
    scores = results.scores(measure)
    best = max(score.mean for score in scores.values())
    leaders = [name for name, score in scores.items() if score.mean == best]
    others = {name: score.mean for name, score in scores.items() if name not in leaders}
    rivals: list[tuple[str, str, Comparison | None]] = []  # role, name, leader against it
    if others:
        second = max(others, key=lambda name: others[name])
        roles = {second: "the runner-up"}
        if results.baseline == second:
            roles = {second: "the baseline and runner-up"}
        elif results.baseline in others:
            roles = {results.baseline: "the baseline", **roles}
        rivals = [(role, name, results.comparison(name, leaders[0], measure)) for name, role in roles.items()]
    lower = {
        name: [m for m in results.measures if (pair := results.significant(name, m)) and pair.difference < 0]
        for name in results.names
    }
    data = {
        "results": results,
        "lower": {name: measures for name, measures in lower.items() if measures},
        "measure": measure,
        "scores": scores,
        "leaders": leaders,
        "score": scores[leaders[0]],
        "rivals": rivals,
    }
    return ReportSection("summary", "", "summary.j2", data)


def _scores(results: Results) -> dict[str, Any]:
    table = tables.scores_table(results)
    return {"table": table, "marks": {cell.mark for row in table.rows for cell in row if cell.mark}}


def _significance(results: Results) -> dict[str, Any] | None:
    """Every pair: first by the main measure, then, folded, by the others."""
    if len(results.names) < 2:
        return None
    by_measure: dict[str, list[Comparison]] = {}
    for pair in results.comparisons:
        turned = pair.reversed() if pair.b == results.baseline else pair
        by_measure.setdefault(pair.measure, []).append(turned)
    measure = results.main_measure
    shown = by_measure.pop(measure, [])
    with_baseline = [pair for pair in shown if pair.a == results.baseline]
    rest: list[Comparison] = []
    caption = f"All pairs, by {measure}"
    if len(shown) > _SHORT_LIST and len(with_baseline) < len(shown):
        rest = [pair for pair in shown if pair not in with_baseline]
        shown, caption = with_baseline, f"Pairs with the baseline, by {measure}"
    others = []
    for other, pairs in by_measure.items():
        table = tables.pairs_table(other, pairs, f"All pairs, by {other}")
        others.append((other, sum(pair.significant for pair in pairs), table))
    without_baseline = tables.pairs_table(measure, rest, f"Pairs without the baseline, by {measure}")
    table = tables.pairs_table(measure, shown, caption)
    return {"table": table, "rest": without_baseline, "others": others}


def _missed(results: Results) -> dict[str, Any] | None:
    """Pages that their own words do not find. link: from a question to its search, where there is one."""
    missed = missed_pages(results)
    if missed is None:
        return None
    by_pipeline = Counter(name for entry in missed for name in entry.pipelines)
    return {
        "missed": missed,
        "asked": results.counts.queries,
        "pages": len({page for entry in missed for page in entry.pages}),
        "by_pipeline": {name: by_pipeline[name] for name in results.names},
        "folders": {folder: [*rows] for folder, rows in groupby(missed, lambda entry: entry.folder)},
        "link": lambda question: "",
    }


def _curves(results: Results) -> dict[str, Any] | None:
    curves = results.curves
    if not curves.pipelines or not curves.ks:
        return None
    last = curves.ks[-1]
    title = f"{curves.measure}@k for k from 1 to {last:,}"
    figure = ReportFigure(
        title,
        f"Lines of {title}; the table below has the values.",
        partial(charts.curves_chart, results),
        tables.curves_table(results, [k for k in curves.ks if k in charts.MARKED or k == last]),
    )
    return {"figures": [figure]}


def _kinds(results: Results) -> dict[str, Any] | None:
    """The main measure by overlap, length, title and links of questions, all measures by groups."""
    analyses = results.analyses
    binned = [
        (analyses.overlap, "By overlap of question and passage"),
        (analyses.length, "By length of the question"),
        (analyses.title, "By title: does the question name the article?"),
        (analyses.links, "By links to the article"),
    ]
    shown = [(one, title) for one, title in binned if one is not None]
    has_legend = bool(results.curves.pipelines)  # one is enough
    figures = [
        _bins_figure(results, one, title, with_legend=not (number or has_legend))
        for number, (one, title) in enumerate(shown)
    ]
    groups = analyses.groups or {}
    means = [own for group in groups.values() for own in group.pipelines.values()]
    measures = [measure for measure in results.measures if any(measure in own for own in means)]
    measures.sort(key=lambda measure: measure != results.main_measure)  # which comes first
    by_group = [(measure, tables.groups_table(results, groups, measure)) for measure in measures]
    return {"figures": figures, "groups": by_group}


def _bins_figure(results: Results, binned: Binned, title: str, *, with_legend: bool) -> ReportFigure:
    shows = f"{results.main_measure} of each pipeline, {title[:1].lower()}{title[1:]}, with 95 % intervals"
    return ReportFigure(
        title,
        f"{shows}; the table below has the values.",
        partial(charts.bins_chart, results, binned, with_legend=with_legend),
        tables.bins_table(results, binned),
        omitted=binned.without_value,
    )


def _latency(results: Results) -> dict[str, Any] | None:
    """Percentiles of every stage. Run files have none."""
    timed = [name for name, pipeline in results.pipelines.items() if pipeline.latency]
    untimed = [name for name in results.names if name not in timed]
    return {"table": tables.latency_table(results), "untimed": untimed} if timed else None


def _differences(results: Results) -> dict[str, Any] | None:
    """Some of the questions of each pair with the baseline."""
    measure, a = results.main_measure, results.baseline
    pairs = []
    for b in results.names:
        rows = sort_questions(compare_questions(results, a, b, measure), "", descending=False)
        if moved := [row for row in rows if row.change]:
            table = tables.questions_table(measure, a, b, moved[:_MAX_QUESTIONS])
            pairs.append((results.comparison(a, b, measure), b, table))
    return {"pairs": pairs} if pairs else None


def _origin(results: Results) -> dict[str, Any]:
    """Command, versions, hashes, counts, seeds and notes."""
    origin = results.provenance
    facts = origin.model_dump(exclude={"command", "date", "revision"}) if origin else {}
    test_set = {}
    if results.test_set:
        test_set = {"licence": results.test_set.licence, "source": results.test_set.source}
    index = facts.pop("index", {})
    hashes = {f"SHA-256 of {part}": digest for part, digest in index.pop("parts_sha256", {}).items()}
    machine = facts.pop("machine", {})
    units = {"cores": "{} cores", "memory_gb": "{} GB of memory"}
    lines = {
        "machine": [", ".join(units.get(key, "{}").format(text.facts(v)) for key, v in machine.items())],
        "versions": [text.facts(facts.pop("versions", {}))],
        "index": text.fact_lines(index | hashes),
        "corpus": [text.facts(facts.pop("corpus", {}))],
        "models": text.fact_lines(facts.pop("models", {})),
        "test set": text.fact_lines({key: v for key, v in test_set.items() if v} | facts.pop("test_set", {})),
        "files": text.fact_lines(facts.pop("files", {})),
    }
    return {"origin": origin, "lines": {name: texts for name, texts in lines.items() if any(texts)}}


_SECTIONS: dict[str, tuple[str, Callable[[Results], dict[str, Any] | None]]] = {
    "scores": ("Scores", _scores),
    "missed": ("Pages not found", _missed),
    "significance": ("Differences between pipelines", _significance),
    "curves": ("Scores by cutoff", _curves),
    "kinds": ("Kinds of questions", _kinds),
    "latency": ("Latency", _latency),
    "differences": ("Questions that differ most", _differences),
    "origin": ("Provenance", _origin),
}
