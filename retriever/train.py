"""python -m retriever.train CONFIG.toml: pre-train or fine-tune a bi-encoder on pairs.

Entry script: it reads the settings, opens data and model, and calls the trainer. Started again after an
interruption, the same command goes on from the last checkpoint. On several GPUs:
accelerate launch -m retriever.train CONFIG.toml
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from indexer.errors import exit_on_error
from retriever.training.config import read_config

PROGRAM = "python -m retriever.train"


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(PROGRAM, description=__doc__.partition("\n")[0])
    parser.add_argument("config", type=Path, help="a settings file; see configs/ and docs/training.md")
    parser.add_argument(
        "--set", action="append", default=[], metavar="TABLE.KEY=VALUE", dest="overrides",
        help="one setting instead of the file's; may be repeated",
    )  # fmt: skip
    options = parser.parse_args(argv)
    config = read_config(options.config, options.overrides)
    from retriever.training.run import train  # torch takes seconds to import; errors above do not

    train(config)


if __name__ == "__main__":
    with exit_on_error("train", resumes=True):
        main(sys.argv[1:])
