"""python -m reranker.pretrain CONFIG.toml: pre-train a cross-encoder on contrasts, stage by stage."""

from __future__ import annotations

if __name__ == "__main__":
    from indexer.base.errors import run_command

    run_command("reranker.pretrain", resumes=True)

from collections.abc import Sequence

from indexer.base.options import parse_config
from reranker.training.config import PretrainConfig

PROGRAM = "python -m reranker.pretrain"


def main(argv: Sequence[str], program: str = PROGRAM) -> None:
    """Run the command."""
    config = parse_config(PretrainConfig, argv, program)
    from reranker.training.pretraining import pretrain  # torch takes seconds to import; errors above do not

    pretrain(config)
