"""linkseek export MODEL --output FOLDER: adapters merged, or one tower.

The result is a sentence-transformers folder that needs nothing else; a re-ranker's has the head of
masked tokens, too, if there is one. A bare transformer, such as `linkseek mlm` writes, becomes an
encoder whose vectors are taken from [CLS].
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from linkseek.indexer.program.errors import UsageError, log_line
from linkseek.indexer.program.options import Options, Positional, parse_options
from linkseek.reranker.models.bases import find_start, open_cross_encoder
from linkseek.reranker.models.mlm_heads import copy_mlm_head
from linkseek.retriever.models.bases import has_two_towers, one_tower, open_base
from linkseek.retriever.models.folders import is_cross_encoder, is_head
from linkseek.retriever.models.late import late_library_model
from linkseek.retriever.models.saving import save_model

PROGRAM = "linkseek export"


class ExportOptions(Options):
    """Merge a model's adapters into a full folder, or take one tower of two.

    A layer over token vectors is merged with its base, too.
    """

    model: Positional[str]
    """a folder that linkseek train, mlm, finetune or pretrain wrote, or the name of a model"""
    output: Path
    """the folder to write"""
    tower: Literal["query", "document"] | None = None
    """export only this tower"""


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    options = parse_options(ExportOptions, argv, PROGRAM)
    folder, more = find_start(options.model), dict[str, Any]()
    model: Any
    if is_cross_encoder(folder):
        model = open_cross_encoder(folder, options.model)
        more = {"add": partial(copy_mlm_head, model[0].model, folder)}
    else:
        model = late_library_model(folder, options.model) if is_head(folder) else open_base(options.model)
    if options.tower:
        if not has_two_towers(model):
            raise UsageError(f"{options.model} has one tower", "Omit --tower.")
        model = one_tower(model, options.tower, options.model)
    save_model(model, options.output, card=folder / "README.md", **more)
    log_line(f"{options.output}: {type(model).__name__}(path) opens it")
