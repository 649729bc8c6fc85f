"""linkseek mine: training pairs from an index's links and texts.

Entry script: it reads the options and calls `retriever.mining.command`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Annotated

from pydantic import Field

from linkseek.indexer.program.options import MoreHelp, parse_options
from linkseek.retriever.mining.command import MiningOptions, mine, with_settings
from linkseek.retriever.mining.miner import count_topologies
from linkseek.retriever.objectives.registry import PAIRS

PROGRAM = "linkseek mine"


class MineOptions(MiningOptions):
    """Mine training pairs from an index: a query, a passage that it should find, and the reason.

    Writes DPR's JSON lines. The same seed gives the same file with any number of processes.
    """

    objective: Annotated[str, MoreHelp(PAIRS.help)] = "hlp"
    """how pairs are made, or several with weights as NAME=WEIGHT,NAME=WEIGHT"""
    pairs: Annotated[int, Field(ge=1)] | None = None
    """the number to draw at random; default: all, or, for several objectives, as many as the scarcest allows
    """


@cache
def mine_options() -> type[MineOptions]:
    """The options of the command."""
    return with_settings(MineOptions, PAIRS)


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    options = parse_options(mine_options(), argv, PROGRAM)
    mine(options, options.objective, options.pairs, PAIRS, lambda source: count_topologies(source.topology))
