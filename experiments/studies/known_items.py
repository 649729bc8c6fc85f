"""python -m experiments known-items: do an index's own questions order pipelines as people's questions do?

For each collection, pipelines answer people's questions and those that the index asks of itself: headings,
links with their sentences, titles. Kendall's tau-b (1945, "The treatment of ties in ranking problems")
compares the two orders, with a 95 % interval of the bootstrap over the questions of both. Of the pairs of
pipelines that people's questions tell apart (p < .05, randomisation test, Holm's correction), it is counted
which the index's own questions order alike, and which the other way around and significantly.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

from linkseek.app.evaluate import EvaluateOptions, run_evaluation
from linkseek.app.evaluation.results import Results
from linkseek.app.testsets.known_items import KINDS
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.store.artifacts import write_json

PROGRAM = "python -m experiments known-items"
RESAMPLES = 1000
MIN_QUESTIONS = 50
"""With fewer, a kind is not compared."""
Table = dict[str, Any]


def main(argv: Sequence[str]) -> None:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(
        PROGRAM, description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--collection",
        nargs="+",
        action="append",
        required=True,
        metavar=("INDEX", "QUESTIONS"),
        help="an index, and test sets of it, by name or as QUERIES,QRELS; for each collection",
    )
    parser.add_argument("--pipeline", nargs="+", required=True, help="the pipelines that are ordered")
    parser.add_argument("--pipelines-file", type=Path, help="a TOML file with some of them")
    parser.add_argument("--limit", type=int, default=300, help="questions of each set (default: 300)")
    parser.add_argument("--seed", type=int, default=1, help="of draws and the bootstrap")
    parser.add_argument("--record", type=Path, help="where the figures go, as JSON")
    options = parser.parse_args(argv)
    rows: list[Table] = []
    for folder, *people in options.collection:
        asked = [(name, evaluated(Path(folder), name, options)) for name in people]
        own: dict[str, Results] = {}
        for kind in KINDS:
            try:
                results = evaluated(Path(folder), kind, options)
                if len(results.questions) >= MIN_QUESTIONS:
                    own[kind] = results
            except InputError as error:
                print(error.message, file=sys.stderr)
        for name, results in asked:
            queries, _, qrels = name.partition(",")
            row = {"index": Path(folder).name, "questions": Path(queries).parent.name if qrels else name}
            of_kinds = {kind: compared(results, own[kind], options.seed) for kind in own}
            rows.append(row | facts(results) | of_kinds)
            print(line(rows[-1]), flush=True)
    print(*summary(rows), sep="\n")
    if options.record:
        collections = [[Path(part).name for part in each] for each in options.collection]
        chosen = {"pipelines": options.pipeline, "limit": options.limit, "seed": options.seed}
        write_json(options.record, {"collections": collections, **chosen, "rows": rows})


def evaluated(folder: Path, name: str, options: argparse.Namespace) -> Results:
    """The pipelines on the first questions of a set."""
    queries, _, qrels = name.partition(",")
    files = {"queries": queries, "qrels": qrels} if qrels else {"test_set": name}
    chosen = EvaluateOptions.model_validate(
        {k: Path(v) if k != "test_set" else v for k, v in files.items()}
        | {"pipeline": options.pipeline, "pipelines_file": options.pipelines_file, "latency": 0, "depth": 100}
        | {"limit": options.limit, "seed": options.seed, "report": False}
    )
    return run_evaluation(chosen, (), OpenIndex.open(folder), program=PROGRAM)


def facts(results: Results) -> Table:
    """The figures of people's questions."""
    scores = results.scores(results.main_measure)
    return {
        "n": len(results.questions),
        "measure": results.main_measure,
        "means": {name: round(score.mean, 4) for name, score in scores.items()},
    }


def compared(people: Results, own: Results, seed: int) -> Table:
    """Tau of the two orders with its interval, and the pairs that people's questions tell apart."""
    a, b = matrix(people), matrix(own)  # [P, Q] each
    draws = np.random.default_rng(seed)
    size_a, size_b = a.shape[1], b.shape[1]
    taus = [
        tau(a[:, draws.integers(size_a, size=size_a)], b[:, draws.integers(size_b, size=size_b)])
        for _ in range(RESAMPLES)
    ]
    low, high = np.nanpercentile(taus, [2.5, 97.5]).tolist()
    pairs = [*told_apart(people)]
    signs = [(sign, difference(own, x, y)) for x, y, sign in pairs]
    return {
        "n": len(own.questions),
        "measure": own.main_measure,
        "tau": round(tau(a, b), 3),
        "low": round(low, 3),
        "high": round(high, 3),
        "told_apart": len(pairs),
        "alike": sum(sign * value > 0 for sign, (value, _) in signs),
        "contradicted": sum(sign * value < 0 and certain for sign, (value, certain) in signs),
        "means": {name: round(score.mean, 4) for name, score in own.scores(own.main_measure).items()},
    }


def matrix(results: Results) -> NDArray[np.float64]:
    """The main measure of every pipeline for every question, float64 [P, Q]."""
    scores: Mapping[str, Any] = results.scores(results.main_measure)
    return np.array([[score.per_query[id_] for id_ in sorted(score.per_query)] for score in scores.values()])


def tau(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Kendall's tau-b of the means of pipelines; NaN where all means of one are equal."""
    return float(kendalltau(a.mean(axis=1).round(12), b.mean(axis=1).round(12)).statistic)


def told_apart(results: Results) -> Iterator[tuple[str, str, int]]:
    """Pairs of pipelines that differ significantly, with the sign of the second less the first."""
    for x, y in combinations(results.names, 2):
        pair = results.comparison(x, y, results.main_measure)
        if pair and pair.significant:
            yield x, y, 1 if pair.difference > 0 else -1


def difference(results: Results, x: str, y: str) -> tuple[float, bool]:
    """The second less the first, and whether that is significant."""
    pair = results.comparison(x, y, results.main_measure)
    return (pair.difference, pair.significant) if pair else (0.0, False)


def line(row: Table) -> str:
    """A row of the table in Markdown."""
    cells = [f"{row['index']}, {row['questions']}", f"{row['n']:,}"]
    for kind in KINDS:
        each, cell = row.get(kind), "-"
        if each:
            cell = f"{each['tau']:.2f} ({each['low']:.2f} to {each['high']:.2f}); "
            cell += f"{each['alike']} of {each['told_apart']}, {each['contradicted']}"
        cells.append(cell)
    return f"| {' | '.join(cells)} |"


def summary(rows: Sequence[Table]) -> Iterator[str]:
    """For each kind: the mean of tau over collections, and the sums over pairs."""
    for kind in KINDS:
        some = [row[kind] for row in rows if kind in row]
        if some:
            alike, told, against = (
                sum(each[name] for each in some) for name in ("alike", "told_apart", "contradicted")
            )
            mean = np.mean([each["tau"] for each in some])
            yield f"{kind}: tau {mean:.2f} over {len(some)}; {alike} of {told} pairs alike, {against} not"
