"""linkseek mlm CONFIG.toml: a small BERT from scratch, by masked language modelling.

For comparisons that start from nothing but a corpus: its passages, a vocabulary, and Devlin et al. 2019
(section 3.1): 15 % of the tokens are predicted: 80 % of them are masked, 10 % replaced and 10 % kept. The
result is a BERT's folder with its head, which `linkseek train` takes as a base.
"""

from __future__ import annotations

from collections.abc import Sequence

from linkseek.indexer.program.options import parse_config
from linkseek.retriever.training.config import MlmConfig

PROGRAM = "linkseek mlm"


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    config = parse_config(MlmConfig, argv, PROGRAM)
    from linkseek.retriever.training.masked_training import train_masked  # torch takes seconds to import

    train_masked(config)
