"""python -m experiments shrink MODEL --output FOLDER: smaller static encoders, a share of adapters.

The mean of cut vectors is the cut mean, so the first numbers of all vectors are an encoder of its own; PCA
(`linkseek distill`) and losses at several widths (Matryoshka, Kusupati et al. 2022) put most into them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from safetensors.numpy import save_file
from tokenizers import Tokenizer

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.program.options import Options, Positional, parse_options
from linkseek.retriever.commands.distill import token_shares
from linkseek.retriever.models.bases import has_two_towers, is_static, open_base
from linkseek.retriever.models.biencoder import open_biencoder
from linkseek.retriever.models.folders import base_name, is_head
from linkseek.retriever.models.locations import ADAPTER, find_base
from linkseek.retriever.models.saving import needed_tokens, save_model, with_tokens

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

PROGRAM = "python -m experiments shrink"
WEIGHTS = "model.safetensors"

Stored = Literal["float32", "float16", "int8"]


class ShrinkOptions(Options):
    """Shrink a static encoder, or keep a share of what adapters change."""

    model: Positional[str]
    """a folder that linkseek train wrote, or the name of a model"""
    output: Path
    """where the folder goes"""
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
    options = parse_options(ShrinkOptions, argv, PROGRAM)
    model = open_base(options.model)
    if options.share < 1:
        _shrink_change(model, options.model, options.share)
    if (options.dimension, options.vocabulary, options.stored) != (None, None, "float32"):
        model = _shrunk(model, options)
    add = partial(store_as, options.stored, model=model)
    save_model(model, options.output, card=find_base(options.model) / "README.md", add=add)
    print(f"{options.output}: SentenceTransformer(path) opens it", file=sys.stderr)


def _shrunk(model: SentenceTransformer, options: ShrinkOptions) -> SentenceTransformer:
    if has_two_towers(model):
        raise UsageError(f"{options.model} has two towers", "Take one of them by linkseek export --tower.")
    if not is_static(model):
        raise UsageError(
            f"{options.model} is not a static encoder", "Omit --dimension, --vocabulary and --stored."
        )
    shares = None
    if options.vocabulary:
        index = OpenIndex.open(options.index) if options.index else None
        shares = token_shares(open_biencoder(options.model), index)
    return shrunk(model, options.dimension, shares, options.vocabulary or 0)


def shrunk(
    model: SentenceTransformer, dimension: int | None, shares: NDArray[np.float64] | None, vocabulary: int
) -> SentenceTransformer:
    """A static encoder with vectors of this dimension, and the `vocabulary` most frequent tokens by shares.

    Raises `UsageError` for a larger dimension or vocabulary, and for a tokenizer that cannot do with less.
    """
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    embedding: Any = model[0]
    tokenizer: Tokenizer = embedding.tokenizer
    vectors = embedding.embedding.weight.detach().float()  # [V, d]
    if dimension:
        _check_limit("--dimension", dimension, vectors.shape[1], "numbers")
        vectors = vectors[:, :dimension]
    if shares is not None:
        _check_limit("--vocabulary", vocabulary, len(vectors), "tokens")
        kept = kept_tokens(tokenizer, shares, vocabulary)
        tokenizer, vectors = with_tokens(tokenizer, kept), vectors[torch.tensor(kept)]
    modules: list[Any] = [StaticEmbedding(tokenizer, vectors.contiguous()), *list(model.children())[1:]]
    prompts: Any = model.prompts
    return SentenceTransformer(
        modules=modules, device="cpu", prompts=prompts, similarity_fn_name=model.similarity_fn_name
    )


def _check_limit(option: str, value: int, limit: int, unit: str) -> None:
    if value > limit:
        raise UsageError(f"{option} {value:,}: there are {limit:,} {unit}", f"Give {limit:,} or less.")


def kept_tokens(tokenizer: Tokenizer, shares: NDArray[np.float64], count: int) -> list[int]:
    """The ids of the `needed_tokens` and of the most frequent others, up to a count in all; ascending."""
    needed = needed_tokens(tokenizer)
    by_share = [number for number in np.argsort(-shares, kind="stable").tolist() if number not in needed]
    return sorted([*needed, *by_share[: max(count - len(needed), 0)]])


def store_as(stored: Stored, folder: Path, *, model: SentenceTransformer) -> None:
    """Write the vectors of a saved folder again with fewer bits: float16, or int8 and a scale for each token.

    sentence-transformers reads both, as it reads the folders of model2vec, and computes in float32.
    """
    if stored == "float32":
        return
    embedding: Any = model[0]
    vectors = embedding.embedding.weight.detach().numpy()  # [V, d]
    scales = np.ones(len(vectors), np.float32)
    if stored == "int8":
        scales = np.maximum(np.abs(vectors).max(axis=1), 1e-30).astype(np.float32) / 127
    values = np.round(vectors / scales[:, None]) if stored == "int8" else vectors
    save_file({"embeddings": values.astype(stored), "weights": scales}, folder / WEIGHTS)


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
