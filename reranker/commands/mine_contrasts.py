"""linkseek mine-contrasts: contrasts for pre-training a cross-encoder, from an index's texts and links.

Entry script: it reads the options and calls `retriever.mining.command`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Annotated

from pydantic import Field

from linkseek.indexer.program.options import MoreHelp, parse_options
from linkseek.reranker.objectives.registry import CONTRASTS
from linkseek.retriever.mining.command import MiningOptions, mine, with_settings

PROGRAM = "linkseek mine-contrasts"


class MineContrastsOptions(MiningOptions):
    """Mine contrasts from an index: a query with a document that should score higher than others.

    Writes JSON lines. The same seed gives the same file with any number of processes.
    """

    objective: Annotated[str, MoreHelp(CONTRASTS.help)]
    """how contrasts are made, or several with weights as NAME=WEIGHT,NAME=WEIGHT"""
    contrasts: Annotated[int, Field(ge=1)] | None = None
    """the number to draw at random; default: all, or, for several objectives, as many as the scarcest allows
    """


@cache
def mine_options() -> type[MineContrastsOptions]:
    """The options of the command."""
    return with_settings(MineContrastsOptions, CONTRASTS)


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    options = parse_options(mine_options(), argv, PROGRAM)
    mine(options, options.objective, options.contrasts, CONTRASTS)
