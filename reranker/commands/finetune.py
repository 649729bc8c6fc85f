"""linkseek finetune CONFIG.toml: fine-tune a re-ranker on labelled pairs or a judged run."""

from __future__ import annotations

from collections.abc import Sequence

from linkseek.indexer.program.options import parse_config
from linkseek.reranker.training.config import FinetuneConfig

PROGRAM = "linkseek finetune"


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    config = parse_config(FinetuneConfig, argv, PROGRAM)
    from linkseek.reranker.training.finetuning import finetune  # torch takes seconds to import

    finetune(config)
