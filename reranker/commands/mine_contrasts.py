"""linkseek mine-contrasts: contrasts for pre-training a cross-encoder, from an index's texts and links.

Entry script: it reads the options, makes the objectives, opens the index and calls `reranker.contrast_miner`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import orjson
from pydantic import Field, create_model

from linkseek.indexer.base.cluster import connected, worker_count
from linkseek.indexer.base.options import MoreHelp, parse_options
from linkseek.indexer.base.progress import progress
from linkseek.indexer.building.corpus import default_processes
from linkseek.indexer.index import Index
from linkseek.reranker.contrast_miner import ContrastMiner, Statistics
from linkseek.reranker.contrasts import write_contrasts
from linkseek.reranker.objectives.registry import MIXES, Mix, all_objectives, all_settings, make_mix
from linkseek.retriever.mining.command import MiningOptions

PROGRAM = "linkseek mine-contrasts"


def _objectives() -> str:
    objectives = [f"{name}, {objective.summary}" for name, objective in all_objectives().items()]
    return "; ".join(objectives + [f"{name}: {', '.join(parts)}" for name, parts in MIXES.items()])


class MineOptions(MiningOptions):
    """Mine contrasts from an index: a query with a document that should score higher than others.

    Writes JSON lines. The same seed gives the same file, whatever the number of processes.
    """

    objective: Annotated[str, MoreHelp(_objectives)]
    """how contrasts are made, or several with weights as NAME=WEIGHT,NAME=WEIGHT"""
    contrasts: Annotated[int, Field(ge=1)] | None = None
    """how many, drawn at random; all by default, of several objectives what the scarcest allows"""


@cache
def mine_options() -> type[MineOptions]:
    """The options of the command, with one for each setting of the objectives."""
    fields: dict[str, Any] = {
        name: (
            Annotated[setting.type, Field(**setting.bounds)] | None,
            Field(None, description=f"{setting.meaning}; default {setting.default}"),
        )
        for name, setting in all_settings().items()
    }
    return create_model("Command", __base__=MineOptions, __doc__=MineOptions.__doc__, **fields)


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    options = parse_options(mine_options(), argv, PROGRAM)
    options.check_output()
    settings = {name: getattr(options, name) for name in all_settings()}
    mix = make_mix(options.objective, {name: value for name, value in settings.items() if value is not None})
    with connected(options.ray):
        _mine_contrasts(options, mix)


def _mine_contrasts(options: MineOptions, mix: Mix) -> None:
    with progress("looking for candidates"):
        miner = ContrastMiner(
            Index.open(options.index),
            mix,
            seed=options.seed,
            language=options.language,
            processes=worker_count(options.processes or default_processes()),
        )
        missing = miner.missing
    for line in missing:
        print(f"mine: {line}; it is skipped", file=sys.stderr)
    report: dict[str, Any] = {"index": str(options.index), "objective": options.objective}
    if options.output:
        report |= _mine(miner, options, options.output)
    if options.stats:
        print(orjson.dumps(report | miner.counts(), option=orjson.OPT_INDENT_2).decode())


def _mine(miner: ContrastMiner, options: MineOptions, output: Path) -> dict[str, Any]:
    """Write the contrasts; returns their part of `--stats`."""
    statistics = Statistics()
    total = sum(miner.shares(options.contrasts).values())
    with progress(f"mining {options.objective}", total, "contrasts") as advance:
        count = write_contrasts(output, miner.lines(options.contrasts, statistics, advance))
    report = statistics.to_json()
    print(f"{output}: {count:,} contrasts {report['written']}", file=sys.stderr)
    return report
