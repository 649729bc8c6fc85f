"""python -m retriever.mlm CONFIG.toml: a small BERT from scratch, by masked language modelling.

For comparisons that start from nothing but a corpus: its passages, a vocabulary, and Devlin et al. 2019
(section 3.1): 15 % of the tokens are predicted, of which 80 % are masked, 10 % replaced by others and
10 % left. What comes out is a BERT's folder with its head, which `retriever.train` takes as a base.
"""

from __future__ import annotations

if __name__ == "__main__":
    from indexer.base.errors import run_command

    run_command("retriever.mlm", resumes=True)

from collections.abc import Sequence

from indexer.base.options import parse_config
from retriever.training.config import MlmConfig

PROGRAM = "python -m retriever.mlm"


def main(argv: Sequence[str], program: str = PROGRAM) -> None:
    """Run the command."""
    config = parse_config(MlmConfig, argv, program)
    from retriever.training.masked_training import train_masked  # torch takes seconds to import

    train_masked(config)
