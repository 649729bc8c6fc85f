"""python -m reranker.pretrain CONFIG.toml: pre-train a cross-encoder on contrasts, stage by stage.

Entry script: it reads the settings and calls `reranker.pretraining`. Started again after an interruption, the
same command goes on from the last checkpoint. On several GPUs:
accelerate launch -m reranker.pretrain CONFIG.toml
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from indexer.errors import exit_on_error
from reranker.pretraining.config import read_pretrain_config

PROGRAM = "python -m reranker.pretrain"


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(PROGRAM, description=__doc__.partition("\n")[0])
    parser.add_argument(
        "config", type=Path, help="a settings file; see configs/ and docs/pretraining-rerankers.md"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="TABLE.KEY=VALUE", dest="overrides",
        help="one setting instead of the file's, of a stage stages.NUMBER.KEY=VALUE; may be repeated",
    )  # fmt: skip
    options = parser.parse_args(argv)
    config = read_pretrain_config(options.config, options.overrides)
    from reranker.pretraining.run import pretrain  # torch takes seconds to import; errors above do not

    pretrain(config)


if __name__ == "__main__":
    with exit_on_error("pretrain", resumes=True):
        main(sys.argv[1:])
