"""The table of all measures, and which differences between pipelines are more than chance."""

from __future__ import annotations

from collections.abc import Sequence

from app.report import text
from app.report.document import (
    Block,
    Bullets,
    Cell,
    Data,
    Folded,
    Line,
    Paragraph,
    Section,
    Strong,
    Table,
    cell,
    names,
    numbers,
)
from app.report.results import Comparison, Results
from indexer.base.text import counted

BETTER, WORSE = "†", "‡"

_SHORT_LIST = 15  # pairs of six pipelines


def scores_section(results: Results) -> Section | None:
    """Pipelines down, measures across; intervals of the main measure, marks of significance."""
    measures = results.measured
    if not measures:
        return None
    marks = {(name, m): mark for name in results.names for m in measures if (mark := _mark(results, name, m))}
    rows = [
        (
            cell(Data(name, "name")),
            *(_score(results, name, measure, marks.get((name, measure), "")) for measure in measures),
        )
        for name in results.names
    ]
    table = Table(
        "Measures of each pipeline" + ("; the best of a column is bold" if len(results.names) > 1 else ""),
        (*names("pipeline"), *numbers(*(Data(text.label(m)) for m in measures))),
        tuple(rows),
    )
    return Section("scores", "Scores", (table, *_legend(results, set(marks.values()))))


def _mark(results: Results, name: str, measure: str) -> str:
    """Whether a pipeline differs significantly from the baseline, and in which direction."""
    found = None if name == results.reference else results.comparison(results.reference, name, measure)
    if found is None or not found.significant:
        return ""
    return BETTER if found.difference > 0 else WORSE


def _score(results: Results, name: str, measure: str, mark: str) -> Cell:
    score = results.score(name, measure)
    if score is None:
        return cell(text.NOTHING)
    means = [other.mean for n in results.names if (other := results.score(n, measure))]
    between = text.interval(measure, score.low, score.high) if measure == results.main else ""
    best = len(means) > 1 and score.mean == max(means)
    return cell(text.value(measure, score.mean), best=best, interval=between, mark=mark)


def _legend(results: Results, marks: set[str]) -> tuple[Block, ...]:
    main = results.main
    said: Line = (f"With {main}: its 95 % interval.",) if _has_interval(results, main) else ()
    baseline = Strong(Data(results.reference, "name"))
    if marks:
        words = {BETTER: "higher", WORSE: "lower"}
        explained = "; ".join(f"{mark} significantly {words[mark]}" for mark in sorted(marks))
        said += (
            f" {explained} than the baseline ",
            baseline,
            " (paired randomisation test, p < .05 after Holm's correction over all pairs).",
        )
    elif any(found.tested for found in results.comparisons):
        said += (" No difference from the baseline ", baseline, " is significant after Holm's correction.")
    if results.judged_level == "documents":
        said += (" Judgements are on documents: a document counts where its best passage stands.",)
    meant = text.meanings(results.measured)
    notes: list[Block] = [Paragraph(said, "note")] if said else []
    if meant:
        lines: list[Line] = [(Strong(name), f": {meaning}") for name, meaning in meant]
        notes.append(Folded(("What the measures mean",), (Bullets(tuple(lines)),)))
    return tuple(notes)


def _has_interval(results: Results, measure: str) -> bool:
    scores = [results.score(name, measure) for name in results.names]
    return any(score is not None and score.low is not None and score.high is not None for score in scores)


def significance_section(results: Results) -> Section | None:
    """Every pair of pipelines: first by the main measure, then, folded, by the others."""
    if len(results.names) < 2:
        return None
    if not results.comparisons:
        missing = Paragraph(("The results hold no comparisons of pairs.",))
        return Section("significance", "Differences between pipelines", (missing,))
    by_measure: dict[str, list[Comparison]] = {}
    for found in results.comparisons:
        turned = found.turned() if found.b == results.reference else found
        by_measure.setdefault(found.measure, []).append(turned)
    main = by_measure.pop(results.main, [])
    blocks: list[Block] = [Paragraph((_METHOD,), "note")]
    against = [found for found in main if found.a == results.reference]
    if len(main) > _SHORT_LIST and len(against) < len(main):
        others = [found for found in main if found not in against]
        blocks += [
            _pairs(results.main, against, f"Pairs with the baseline, by {results.main}"),
            Folded(
                (f"{results.main}: {counted(len(others), 'pair')} without the baseline",),
                (_pairs(results.main, others, f"Pairs without the baseline, by {results.main}"),),
            ),
        ]
    elif main:
        blocks.append(_pairs(results.main, main, f"All pairs, by {results.main}"))
    for measure, pairs in by_measure.items():
        summary = f": {counted(len(pairs), 'pair')}"
        if any(found.tested for found in pairs):
            summary += f", {sum(found.significant for found in pairs)} significant"
        table = _pairs(measure, pairs, f"All pairs, by {measure}")
        blocks.append(Folded((Data(measure), summary), (table,)))
    return Section("significance", "Differences between pipelines", tuple(blocks))


def _pairs(measure: str, pairs: Sequence[Comparison], caption: str) -> Table:
    unit = "points" if text.in_percent(measure) else "difference"
    columns = (
        *names("pipeline", "compared with"),
        *numbers(unit, "p", "p, t-test", "wins/ties/losses", "d"),
    )
    return Table(caption, columns, tuple(_pair(measure, found) for found in pairs), headers=2)


def _pair(measure: str, found: Comparison) -> tuple[Cell, ...]:
    outcome = [found.wins, found.ties, found.losses]
    effect = text.NOTHING
    if found.effect_size is not None:
        effect = text.decimals(found.effect_size, 2)
    return (
        cell(Data(found.b, "name")),
        cell(Data(found.a, "name")),
        cell(
            text.difference(measure, found.difference),
            best=found.significant,
            interval=text.difference_interval(measure, found.low, found.high),
        ),
        cell(text.probability(found.p_randomisation_holm), best=found.significant),
        cell(text.probability(found.p_t_holm)),
        cell("/".join(text.NOTHING if n is None else f"{n:,}" for n in outcome)),
        cell(effect),
    )


_METHOD = (
    "The pipeline's mean less that of the one it is compared with, over the questions that both were "
    "measured on, and the bootstrap's 95 % interval, which is not corrected for the number of pairs. "
    "p: paired randomisation test, and paired t-test beside it, after Holm's correction over the pairs of "
    "a measure; bold: p < .05. Wins, ties and losses of the pipeline. d: Cohen's d of the paired "
    "differences. A difference that is not significant is not shown to be zero."
)
