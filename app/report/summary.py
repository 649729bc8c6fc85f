"""The head of a report, and what was found in a few sentences that the numbers bear out.

A test that finds nothing has not shown that two pipelines are equal; the sentences keep to that.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from app.report import text
from app.report.document import Block, Data, Facts, Line, Paragraph, Strong
from app.report.results import Comparison, Results, Score
from indexer.base.text import counted


def title_of(results: Results) -> Line:
    """Evaluation on NAME: of the test set, or of the file of questions."""
    name = results.test_set.name if results.test_set else None
    if not name:
        files = results.provenance.get("files")
        queries = files.get("queries") if isinstance(files, dict) else None
        path = queries.get("path") if isinstance(queries, dict) else None
        name = PurePath(path).name if isinstance(path, str) else None
    return ("Evaluation on ", Data(name)) if name else ("Evaluation",)


def opening(results: Results) -> tuple[Block, ...]:
    """What was asked, when and of which index; then the summary."""
    return (Facts(tuple(_facts(results))), Paragraph(tuple(_summary(results)), "summary"))


def _facts(results: Results) -> list[tuple[str, tuple[Line, ...]]]:
    rows: list[tuple[str, tuple[Line, ...]]] = []
    test_set, counts = results.test_set, results.counts
    if test_set and test_set.description:
        rows.append(("Test set", ((Data(test_set.description),),)))
    if "queries" in counts:
        parts = [f"{counts['queries']:,}"]
        for what in ("answers", "judgements"):
            number = counts.get(f"queries_with_{what}", 0)
            if number:
                parts.append(f"{'all' if number == counts['queries'] else f'{number:,}'} with {what}")
        rows.append(("Questions", ((", ".join(parts),),)))
    if results.depth is not None:
        rows.append(("Depth", ((f"{results.depth:,} results for each question",),)))
    index = results.provenance.get("index")
    if isinstance(index, dict) and isinstance(index.get("path"), str):
        rows.append(("Index", ((Data(index["path"], "code"), *_corpus(results.provenance.get("corpus"))),)))
    date = results.provenance.get("date")
    if isinstance(date, str):
        rows.append(("Date", ((Data(text.day(date)),),)))
    return rows


def _corpus(corpus: Any) -> Line:
    counts = corpus if isinstance(corpus, dict) else {}
    found = [
        counted(counts[f"{noun}s"], noun)
        for noun in ("passage", "document")
        if isinstance(counts.get(f"{noun}s"), int)
    ]
    return (f", {' of '.join(found)}",) if found else ()


def _summary(results: Results) -> Line:
    measure = results.main
    scores = {n: score for n in results.names if (score := results.score(n, measure))}
    if not scores:
        return ("The results hold no measured pipeline.",)
    best = max(scores.values(), key=lambda score: score.mean).mean
    leaders = [name for name, score in scores.items() if score.mean == best]
    leader = leaders[0]
    reached = _reached(measure, scores[leader])
    meaning: Line = tuple(f" {name} is {told}." for name, told in text.meanings([measure], cutoff=True))
    if len(scores) == 1:
        of: Line = (f": {measure} of ", *reached, ". There is no other pipeline to compare it with.")
        return (_name(leader), *of, *meaning)
    if len(leaders) > 1:
        first: Line = (*_listed(leaders), f" share the highest {measure} of {len(scores)} pipelines: ")
    else:
        first = (_name(leader), f" has the highest {measure} of {len(scores)} pipelines: ")
    return (*first, *reached, ".", *_against(results, leaders, scores, measure), *meaning)


def _reached(measure: str, score: Score) -> Line:
    between = text.interval(measure, score.low, score.high)
    interval = f" (95 % interval {between})" if between else ""
    return (Strong(text.value(measure, score.mean) + (" %" if text.in_percent(measure) else "")), interval)


def _against(results: Results, leaders: list[str], scores: dict[str, Score], measure: str) -> Line:
    """The first of the leaders beside the baseline and the runner-up."""
    baseline, others = results.reference, {n: s for n, s in scores.items() if n not in leaders}
    line: Line = ()
    if baseline in leaders:
        line = (" No pipeline scores higher than the baseline, ", _name(baseline), ".")
    elif baseline not in scores:
        line = (f" {measure} was not measured for the baseline, ", _name(baseline), ".")
    if not others:
        return line
    second = max(others, key=lambda name: others[name].mean)
    roles = {second: "the runner-up"}
    if baseline == second:
        roles = {second: "the baseline and runner-up"}
    elif baseline in others:
        roles = {baseline: "the baseline", **roles}
    found = {name: results.comparison(name, leaders[0], measure) for name in roles}
    subject = _name(leaders[0]) if len(leaders) > 1 else "It"
    for name, role in roles.items():
        line += _distance(found[name], subject, role, name, scores[leaders[0]], measure)
    tested = [(roles[name], each.significant) for name, each in found.items() if each and each.tested]
    pairs = sum(each.measure == measure for each in results.comparisons)
    return (*line, _verdict(tested, pairs))


def _distance(
    found: Comparison | None, subject: str | Strong, role: str, other: str, score: Score, measure: str
) -> Line:
    """How far the subject, which has this score, is from another pipeline."""
    if found is None:
        return (f" The results hold no comparison with {role}, ", _name(other), ".")
    by = text.difference(measure, abs(found.difference)).lstrip("+")
    points = " percentage points" if text.in_percent(measure) else ""
    side = "ahead of" if found.difference >= 0 else "behind"
    fewer = found.queries is not None and score.queries is not None and found.queries < score.queries
    shared = f" on the {found.queries:,} questions that both were measured on" if fewer else ""
    is_by = (f" is {by}{points} {side} {role}, ", _name(other), f"{shared}{_support(found, measure)}.")
    return (" ", subject, *is_by)


def _verdict(tested: list[tuple[str, bool]], pairs: int) -> str:
    """tested: roles, and whether the difference from them is significant."""
    holm = f" after Holm's correction over {pairs} pairs" if pairs > 1 else ""
    outcomes = [significant for _, significant in tested]
    if not outcomes:
        return " The results hold no test of significance."
    if outcomes == [True]:
        return f" The difference is significant{holm}."
    if outcomes == [False]:
        return f" The difference is not significant{holm}, which does not show the two to be equal."
    if all(outcomes):
        return f" Both differences are significant{holm}."
    if not any(outcomes):
        return f" Neither difference is significant{holm}, which does not show the pipelines to be equal."
    yes, no = sorted(tested, key=lambda each: not each[1])
    return (
        f" The difference from {yes[0]} is significant{holm}; that from {no[0]} is not, which does not "
        "show the two to be equal."
    )


def _support(found: Comparison, measure: str) -> str:
    between = text.difference_interval(measure, found.low, found.high)
    parts = [f"95 % interval {between}"] if between else []
    if found.p_randomisation_holm is not None:
        parts.append(text.p_equals(found.p_randomisation_holm))
    return f" ({', '.join(parts)})" if parts else ""


def _name(name: str) -> Strong:
    return Strong(Data(name, "name"))


def _listed(names: list[str]) -> Line:
    line: Line = (_name(names[0]),)
    for number, name in enumerate(names[1:], 2):
        line += (" and " if number == len(names) else ", ", _name(name))
    return line
