"""python -m retriever.train CONFIG.toml: pre-train or fine-tune a bi-encoder on pairs."""

from __future__ import annotations

if __name__ == "__main__":
    from indexer.base.errors import run_command

    run_command("retriever.train", resumes=True)

from collections.abc import Sequence

from indexer.base.options import parse_config
from retriever.training.config import TrainConfig

PROGRAM = "python -m retriever.train"


def main(argv: Sequence[str], program: str = PROGRAM) -> None:
    """Run the command."""
    config = parse_config(TrainConfig, argv, program)
    from retriever.training.pair_training import train  # torch takes seconds to import; errors above do not

    train(config)
