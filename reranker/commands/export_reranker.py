"""linkseek export-reranker MODEL --output FOLDER: a cross-encoder's adapters merged into a full folder.

The result is a folder that `CrossEncoder(path)` opens, with the head of masked tokens if there is one. For
bi-encoders: linkseek export.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from linkseek.indexer.program.options import Options, Positional, parse_options
from linkseek.reranker.models.bases import CROSS_ENCODER, open_cross_encoder
from linkseek.reranker.models.mlm_heads import copy_mlm_head
from linkseek.retriever.models.locations import find_model
from linkseek.retriever.models.saving import save_model

PROGRAM = "linkseek export-reranker"


class ExportRerankerOptions(Options):
    """Merge a cross-encoder's adapters into a full folder that `CrossEncoder(path)` opens."""

    model: Positional[str]
    """a folder that linkseek finetune or linkseek pretrain wrote, or a name that ships with Linkseek"""
    output: Path
    """the folder to write"""


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    options = parse_options(ExportRerankerOptions, argv, PROGRAM)
    folder = find_model(options.model, CROSS_ENCODER)
    model = open_cross_encoder(folder, options.model)
    add = partial(copy_mlm_head, model[0].model, folder)
    save_model(model, options.output, card=folder / "README.md", add=add)
    print(f"{options.output}: CrossEncoder(path) opens it", file=sys.stderr)
