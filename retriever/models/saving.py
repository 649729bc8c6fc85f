"""Writing the folders of models, and of smaller static encoders: fewer numbers, fewer tokens, fewer bits.

The mean of cut vectors is the cut mean, so the first numbers of all vectors are an encoder of its own; PCA
(`linkseek distill`) and losses at several widths (Matryoshka, Kusupati et al. 2022) put most into them.
"""

from __future__ import annotations

import filecmp
import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tokenizers import Tokenizer

from linkseek.indexer.files.sharing import share
from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.store.artifacts import temporary_path
from linkseek.indexer.store.outputs import locked
from linkseek.retriever.models.library import quiet

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder, SentenceTransformer
    from transformers import PreTrainedModel

Stored = Literal["float32", "float16", "int8"]

WEIGHTS = "model.safetensors"
_KINDS = ("WordPiece", "Unigram")
_SPELLING = re.compile(r"(?:##)?.|<0x[0-9A-F]{2}>", re.DOTALL)


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


def needed_tokens(tokenizer: Tokenizer) -> set[int]:
    """The ids of special tokens, and of single characters and bytes, by which any word can be spelled.

    Of a Unigram model also the least likely piece, from whose score the cost of an unknown character follows.
    """
    model = json.loads(tokenizer.to_str())["model"]
    needed = set(tokenizer.get_added_tokens_decoder())
    needed.update(number for word, number in tokenizer.get_vocab().items() if _SPELLING.fullmatch(word))
    if model["type"] == "Unigram":
        scores = [score for _, score in model["vocab"]]
        needed.add(scores.index(min(scores)))
        needed.update(() if model["unk_id"] is None else [model["unk_id"]])
    return needed


def can_lose_tokens(tokenizer: Tokenizer) -> bool:
    """Whether `with_tokens` takes this kind of tokenizer."""
    return json.loads(tokenizer.to_str())["model"]["type"] in _KINDS


def with_tokens(tokenizer: Tokenizer, kept: Sequence[int]) -> Tokenizer:
    """A WordPiece or Unigram tokenizer with a part of its vocabulary, renumbered in order.

    A text whose pieces are all kept is read as before, if the `needed_tokens` are among them: WordPiece takes
    the longest piece that it knows; Unigram takes the most likely sequence of pieces (Kudo 2018), which stays
    the most likely among fewer. Raises `UsageError` for other kinds.
    """
    settings = json.loads(tokenizer.to_str())
    model = settings["model"]
    new = {old: number for number, old in enumerate(kept)}
    if model["type"] == "WordPiece":
        words = model["vocab"].items()
        model["vocab"] = {word: new[number] for word, number in words if number in new}
    elif model["type"] == "Unigram":
        pieces = model["vocab"]
        model["vocab"] = [pieces[number] for number in kept if number < len(pieces)]
        model["unk_id"] = new.get(model["unk_id"])
    else:
        raise UsageError(
            f"its tokenizer is {model['type']}, which needs all of its pieces", "Omit --vocabulary."
        )
    settings["added_tokens"] = [t | {"id": new[t["id"]]} for t in settings["added_tokens"]]
    settings["post_processor"] = None  # static encoders add no special tokens
    return Tokenizer.from_str(json.dumps(settings))


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


def save_model(
    model: SentenceTransformer | CrossEncoder | PreTrainedModel,
    output: Path,
    *,
    card: Path | None = None,
    text: str = "",
    add: Callable[[Path], None] = lambda folder: None,
) -> None:
    """Write a folder of sentence-transformers or transformers atomically.

    card: a README.md to copy; text: one to write. add: writes further files into the folder. A folder that
    holds the same already, such as of a command that was killed at its very end, stays. Raises `UsageError`
    for any other that exists, `BusyError` if another process writes it.
    """
    temporary = temporary_path(output)
    with locked(output):
        if os.path.lexists(output) and (output.is_symlink() or not output.is_dir()):
            raise _exists(output)
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            with quiet():
                model.save_pretrained(str(temporary), create_model_card=False)
            add(temporary)
            if card is not None and card.is_file():
                shutil.copyfile(card, temporary / "README.md")
            elif text:
                (temporary / "README.md").write_text(text, "utf-8", newline="\n")
            share(temporary)
            if not os.path.lexists(output):
                temporary.rename(output)
            elif not _is_same(temporary, output):
                raise _exists(output)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _exists(output: Path) -> UsageError:
    return UsageError(f"{output} exists already", "Remove it, or choose another --output.")


def _is_same(folder: Path, other: Path) -> bool:
    """Whether two folders hold the same files, byte for byte."""
    names = [sorted(path.relative_to(top) for path in top.rglob("*")) for top in (folder, other)]
    return names[0] == names[1] and all(
        (folder / name).is_dir() == (other / name).is_dir()
        and ((folder / name).is_dir() or filecmp.cmp(folder / name, other / name, shallow=False))
        for name in names[0]
    )
