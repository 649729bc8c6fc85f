"""python -m retriever.mlm CONFIG.toml: a small BERT from scratch, by masked language modelling.

For comparisons that start from nothing but a corpus: its passages, a vocabulary, and Devlin et al. 2019
(section 3.1): 15 % of the tokens are predicted, of which 80 % are masked, 10 % replaced by others and
10 % left. What comes out is a BERT's folder with its head, which `retriever.train` takes as a base.
Started again after an interruption, the same command goes on from the last checkpoint.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from indexer.errors import exit_on_error

PROGRAM = "python -m retriever.mlm"


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(PROGRAM, description=__doc__.partition("\n")[0])
    parser.add_argument("config", type=Path, help="a settings file, such as configs/small-mlm.toml")
    parser.add_argument(
        "--set", action="append", default=[], metavar="TABLE.KEY=VALUE", dest="overrides",
        help="one setting instead of the file's; may be repeated",
    )  # fmt: skip
    options = parser.parse_args(argv)
    from retriever.training.masked import read_mlm_config, train_masked

    train_masked(read_mlm_config(options.config, options.overrides))


if __name__ == "__main__":
    with exit_on_error("mlm", resumes=True):
        main(sys.argv[1:])
