"""python -m reranker.finetune CONFIG.toml: fine-tune a re-ranker on labelled pairs or a judged run."""

from __future__ import annotations

if __name__ == "__main__":
    from indexer.base.errors import run_command

    run_command("reranker.finetune", resumes=True)

from collections.abc import Sequence

from indexer.base.options import parse_config
from reranker.training.config import FinetuneConfig

PROGRAM = "python -m reranker.finetune"


def main(argv: Sequence[str], program: str = PROGRAM) -> None:
    """Run the command."""
    config = parse_config(FinetuneConfig, argv, program)
    from reranker.training.finetuning import finetune  # torch takes seconds to import; errors above do not

    finetune(config)
