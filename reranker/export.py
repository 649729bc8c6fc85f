"""python -m reranker.export MODEL --output FOLDER: a cross-encoder's adapters merged into a full folder.

What comes out is a folder that `CrossEncoder(path)` opens, with the head of masked tokens if there is one.
For bi-encoders: python -m retriever.export.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from indexer.base.errors import exit_on_error
from retriever.export import save_model

PROGRAM = "python -m reranker.export"


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(PROGRAM, description=__doc__.partition("\n")[0])
    parser.add_argument(
        "model",
        help="a folder that reranker.finetune or reranker.pretrain wrote, or a name that ships with Linkseek",
    )
    parser.add_argument("--output", type=Path, required=True, help="where the full folder goes")
    options = parser.parse_args(argv)
    from reranker.models.bases import CROSS_ENCODER, open_cross_encoder
    from reranker.models.mlm_heads import copy_mlm_head
    from retriever.models.locations import find_model

    folder = find_model(options.model, CROSS_ENCODER)
    model = open_cross_encoder(folder, options.model)
    save_model(
        model,
        options.output,
        card=folder / "README.md",
        add=lambda target: copy_mlm_head(model[0].model, folder, target),
    )
    print(f"{options.output}: CrossEncoder(path) opens it", file=sys.stderr)


if __name__ == "__main__":
    with exit_on_error("export"):
        main(sys.argv[1:])
