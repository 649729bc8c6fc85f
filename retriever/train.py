"""python -m retriever.train CONFIG.toml: pre-train or fine-tune a bi-encoder on pairs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from indexer.base.errors import exit_on_error
from indexer.base.options import parse_config
from retriever.training.config import TrainConfig

PROGRAM = "python -m retriever.train"


def main(argv: Sequence[str], program: str = PROGRAM) -> None:
    """Run the command."""
    config = parse_config(TrainConfig, argv, program)
    from retriever.training.pair_training import train  # torch takes seconds to import; errors above do not

    train(config)


if __name__ == "__main__":
    with exit_on_error("train", resumes=True):
        main(sys.argv[1:])
