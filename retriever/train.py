"""python -m retriever.train CONFIG.toml: pre-train or fine-tune a bi-encoder on pairs.

Entry script: it reads the settings, opens data and model, and calls the trainer. Started again after an
interruption, the same command goes on from the last checkpoint. On several GPUs:
accelerate launch -m retriever.train CONFIG.toml
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from indexer.base.errors import exit_on_error
from retriever.training.config import read_config
from retriever.training.settings import read_command

PROGRAM = "python -m retriever.train"


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    about = __doc__.partition("\n")[0]
    config = read_command(PROGRAM, about, "configs/ and docs/training.md", argv, read_config)
    from retriever.training.run import train  # torch takes seconds to import; errors above do not

    train(config)


if __name__ == "__main__":
    with exit_on_error("train", resumes=True):
        main(sys.argv[1:])
