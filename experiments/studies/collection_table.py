"""python -m experiments collections: pipelines over many collections, in one table, from reports of them.

Each report of `linkseek evaluate` is a collection, with its main measure. A pipeline wins or loses where it
differs from the baseline (p < .05, paired randomisation test, Holm's correction over all pipelines and
collections), is level where a difference of one point or more is excluded, and open elsewhere. The average
is over the collections, each counting the same, of the pipelines that have all of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from linkseek.app.evaluation.measures import Values
from linkseek.app.evaluation.results import SIGNIFICANT, Comparison, Results, Score
from linkseek.app.evaluation.significance import compare, holm
from linkseek.app.report import text
from linkseek.app.report.finished import read_report
from linkseek.indexer.program.errors import InputError, UsageError

PROGRAM = "python -m experiments collections"


@dataclass(frozen=True)
class MeasuredCollection:
    """The pipelines of a report by one measure. against: each against the baseline, uncorrected."""

    name: str
    measure: str
    scores: Mapping[str, Score]
    against: Mapping[str, Comparison]


def collection_of(name: str, results: Results, baseline: str) -> MeasuredCollection:
    """The collection of a report. Raises `InputError` if it lacks the baseline."""
    measure = results.main_measure
    scores = {
        name: pipeline.measures[measure]
        for name, pipeline in results.pipelines.items()
        if measure in pipeline.measures
    }
    if baseline not in scores:
        raise InputError(f"{name}: no {baseline}", f"It has {', '.join(scores)}: name one with --baseline.")
    measured = {
        pipeline: {measure: Values(tuple(score.per_query), np.array([*score.per_query.values()], np.float64))}
        for pipeline, score in scores.items()
    }
    pairs = compare(measured, [measure], baseline=baseline)
    against = {pair.b: pair for pair in pairs if pair.a == baseline}
    against |= {pair.a: pair.reversed() for pair in pairs if pair.b == baseline}
    return MeasuredCollection(name, measure, scores, against)


def verdicts(collections: Sequence[MeasuredCollection]) -> dict[tuple[str, str], str]:
    """(pipeline, collection) -> won, lost, level or open, corrected over all of them."""
    pairs = [(pipeline, c.name, pair) for c in collections for pipeline, pair in c.against.items()]
    corrected = holm([pair.p_randomisation for *_, pair in pairs])
    found = {}
    for (pipeline, name, pair), p in zip(pairs, corrected, strict=True):
        if p < SIGNIFICANT:
            found[pipeline, name] = "won" if pair.difference > 0 else "lost"
        else:
            found[pipeline, name] = "level" if pair.level else "open"
    return found


def table(collections: Sequence[MeasuredCollection], baseline: str) -> str:
    """The table in Markdown; \\* marks a difference from the baseline."""
    found = verdicts(collections)
    names = list(dict.fromkeys(pipeline for c in collections for pipeline in c.scores))
    heads = [f"{c.name}, {text.label(c.measure)}" for c in collections]
    lines = [["pipeline", *heads, "average", "won", "level", "lost", "open"]]
    for name in names:
        scores = [(c, c.scores.get(name)) for c in collections]
        cells = [_cell(c, score, found.get((name, c.name), "")) for c, score in scores]
        means = [score.mean for _, score in scores if score]
        whole = len(means) == len(collections)
        own = [found[name, c.name] for c in collections if (name, c.name) in found]
        counts = ["" if name == baseline else str(own.count(v)) for v in ("won", "level", "lost", "open")]
        lines.append([f"`{name}`", *cells, text.decimals(float(np.mean(means))) if whole else "", *counts])
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(collection: MeasuredCollection, score: Score | None, verdict: str) -> str:
    if score is None:
        return ""
    mark = "\\*" if verdict in ("won", "lost") else ""
    value = text.value(collection.measure, score.mean)
    return f"{value}{mark} ({text.interval(collection.measure, score.low, score.high)})"


def main(argv: Sequence[str]) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        PROGRAM, description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("reports", type=Path, nargs="+", help="folders of linkseek evaluate")
    parser.add_argument("--baseline", default="bm25", help="what the others are compared with (bm25)")
    options = parser.parse_args(argv)
    names = [path.resolve().name for path in options.reports]
    if len({*names}) < len(names):
        raise UsageError("two reports have the same name", "Give each folder a name of its own.")
    collections = [
        collection_of(name, read_report(path.resolve().parent, name).results, options.baseline)
        for name, path in zip(names, options.reports, strict=True)
    ]
    print(table(collections, options.baseline))
