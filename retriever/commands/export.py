"""linkseek export MODEL --output FOLDER: adapters merged, one tower, a smaller encoder.

The result is a sentence-transformers folder that needs nothing else. A bare transformer, such as
`linkseek mlm` writes, becomes an encoder whose vectors are taken from [CLS].
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.program.options import Options, Positional, parse_options
from linkseek.retriever.commands.distill import token_shares
from linkseek.retriever.models.bases import has_two_towers, is_static, one_tower, open_base
from linkseek.retriever.models.biencoder import open_biencoder
from linkseek.retriever.models.folders import base_name, is_head
from linkseek.retriever.models.late import late_library_model
from linkseek.retriever.models.locations import ADAPTER, find_base
from linkseek.retriever.models.saving import Stored, save_model, shrunk, store_as

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

PROGRAM = "linkseek export"


class ExportOptions(Options):
    """Merge a model's adapters into a full folder, take one tower of two, or shrink a static encoder.

    A layer over token vectors is merged with its base, too.
    """

    model: Positional[str]
    """a folder that linkseek train or linkseek mlm wrote, or the name of a model"""
    output: Path
    """where the full folder goes"""
    tower: Literal["query", "document"] | None = None
    """only this tower of two"""
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """how much of the adapters' change is merged; 0.5 gives the mean of the base and the trained model"""
    dimension: Annotated[int, Field(ge=1)] | None = None
    """of a static encoder: the number of dimensions to keep, from the first on"""
    vocabulary: Annotated[int, Field(ge=1)] | None = None
    """of a static encoder: the number of tokens to keep, the most frequent ones"""
    index: Path | None = None
    """an index whose passages say which are; by default their order in the vocabulary does"""
    stored: Stored = "float32"
    """how the vectors of a static encoder are written"""


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    options = parse_options(ExportOptions, argv, PROGRAM)
    folder = find_base(options.model)
    model: Any = late_library_model(folder, options.model) if is_head(folder) else open_base(options.model)
    if options.share < 1:
        _shrink_change(model, options.model, options.share)
    if options.tower:
        if not has_two_towers(model):
            raise UsageError(f"{options.model} has one tower", "Omit --tower.")
        model = one_tower(model, options.tower, options.model)
    if (options.dimension, options.vocabulary, options.stored) != (None, None, "float32"):
        model = _shrunk(model, options)
    add = partial(store_as, options.stored, model=model)
    save_model(model, options.output, card=folder / "README.md", add=add)
    print(f"{options.output}: {type(model).__name__}(path) opens it", file=sys.stderr)


def _shrunk(model: SentenceTransformer, options: ExportOptions) -> SentenceTransformer:
    if has_two_towers(model):
        raise UsageError(f"{options.model} has two towers", "Give --tower: each is made smaller by itself.")
    if not is_static(model):
        raise UsageError(
            f"{options.model} is not a static encoder", "Omit --dimension, --vocabulary and --stored."
        )
    shares = None
    if options.vocabulary:
        index = OpenIndex.open(options.index) if options.index else None
        shares = token_shares(open_biencoder(options.model), index)
    return shrunk(model, options.dimension, shares, options.vocabulary or 0)


def _shrink_change(model: SentenceTransformer, name: str, share: float) -> None:
    """Keeps only a share of the change that adapters make to the weights of their base, in place.

    Wortsman et al. 2022 average weights so that a fine-tuned model keeps more of what its base knew. Raises
    `UsageError` if it has no adapters.
    """
    import torch

    folder = find_base(name)
    if not (folder / ADAPTER).is_file() or is_head(folder):
        raise UsageError(f"{name} has no adapters", '--share is for models of model.train = "lora".')
    before = dict(open_base(base_name(folder)).named_parameters())
    with torch.no_grad():
        for key, weights in model.named_parameters():
            weights.copy_(torch.lerp(before[key], weights, share))
