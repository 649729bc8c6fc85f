"""linkseek mine: training pairs from an index's links and texts.

Entry script: it reads the options, opens the index and calls `retriever.mining.miner`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import orjson
from pydantic import Field

from linkseek.indexer.base.cluster import connected, worker_count
from linkseek.indexer.base.errors import UsageError
from linkseek.indexer.base.options import MoreHelp, parse_options
from linkseek.indexer.base.progress import progress
from linkseek.indexer.base.settings import nearest
from linkseek.indexer.building.corpus import default_processes
from linkseek.indexer.index import Index
from linkseek.retriever.links.source import Source
from linkseek.retriever.mining.command import MiningOptions
from linkseek.retriever.mining.drawn_negatives import NegativeKind
from linkseek.retriever.mining.miner import Statistics, count_topologies, mine_pairs
from linkseek.retriever.mining.pairs import write_pairs
from linkseek.retriever.objectives.registry import all_objectives

PROGRAM = "linkseek mine"


def _objectives() -> str:
    return "; ".join(f"{name}, {objective.summary}" for name, objective in all_objectives().items())


class MineOptions(MiningOptions):
    """Mine training pairs from an index: a query, a passage that should be found, and why.

    Writes DPR's JSON lines. The same seed gives the same file, whatever the number of processes.
    """

    objective: Annotated[str, MoreHelp(_objectives)] = "hlp"
    """how pairs are made"""
    pairs: Annotated[int, Field(ge=1)] | None = None
    """how many, drawn at random; all by default"""
    negatives: NegativeKind = "none"
    """a passage for each pair that is not relevant: random, or overlap (mentions the same, is no pair)"""


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    options = parse_options(MineOptions, argv, PROGRAM)
    objectives = all_objectives()
    if options.objective not in objectives:
        raise UsageError(f"no objective {options.objective}", nearest(options.objective, set(objectives)))
    options.check_output()
    index = Index.open(options.index)
    report: dict[str, Any] = {"index": str(options.index), "objective": options.objective}
    if options.output:
        with connected(options.ray):
            report |= _mine(index, options, options.output)
    if options.stats:
        with progress("counting links"):
            report |= count_topologies(Source(index).topology)
        print(orjson.dumps(report, option=orjson.OPT_INDENT_2).decode())


def _mine(index: Index, options: MineOptions, output: Path) -> dict[str, Any]:
    """Write the pairs; returns their part of `--stats`."""
    statistics = Statistics()
    total: list[int] = []
    lines = mine_pairs(
        index,
        all_objectives()[options.objective],
        pairs=options.pairs,
        seed=options.seed,
        negatives=options.negatives,
        language=options.language,
        processes=worker_count(options.processes or default_processes()),
        statistics=statistics,
        on_start=total.append,
    )
    with progress("joining links"):
        first = next(lines)
    with progress(f"mining {options.objective}", total[0], "pairs") as advance:

        def with_progress() -> Iterator[bytes]:
            yield first
            for line in lines:
                advance(1)
                yield line

        count = write_pairs(output, with_progress())
    report = statistics.to_json()
    print(f"{output}: {count:,} pairs {report['written']}", file=sys.stderr)
    if options.negatives != "none" and statistics.without_negative:
        print(f"{statistics.without_negative:,} pairs without a negative", file=sys.stderr)
    return report
