"""linkseek train CONFIG.toml: pre-train or fine-tune a bi-encoder on pairs."""

from __future__ import annotations

from collections.abc import Sequence

from linkseek.indexer.program.options import parse_config
from linkseek.retriever.training.config import TrainConfig

PROGRAM = "linkseek train"


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    config = parse_config(TrainConfig, argv, PROGRAM)
    from linkseek.retriever.training.pair_training import train  # torch takes seconds to import

    train(config)
