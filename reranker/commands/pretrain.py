"""linkseek pretrain CONFIG.toml: pre-train a cross-encoder on contrasts, stage by stage."""

from __future__ import annotations

from collections.abc import Sequence

from linkseek.indexer.program.options import parse_config
from linkseek.reranker.training.config import PretrainConfig

PROGRAM = "linkseek pretrain"


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    config = parse_config(PretrainConfig, argv, PROGRAM)
    from linkseek.reranker.training.pretraining import pretrain  # torch takes seconds to import

    pretrain(config)
