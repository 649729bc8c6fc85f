"""Static encoders: a vector for each token, averaged over a text; sentence-transformers' StaticEmbedding.

There are no layers, so a text costs little more than its tokens, thousands of times less than with a
transformer, and a GPU would not help. Most of the time goes into tokenising, for which all cores are used.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer, processors
from torch import Tensor
from torch.nn import functional

from linkseek.indexer.base.errors import InputError
from linkseek.indexer.encoding.batches import Parallel
from linkseek.retriever.models.facts import Features, ModelFacts
from linkseek.retriever.models.library import (
    check_words,
    compares_by,
    load_library_model,
    max_tokens,
    text_prompts,
)
from linkseek.retriever.models.locations import BI_ENCODER
from linkseek.retriever.models.only_data import model_files
from linkseek.retriever.models.probes import library_probe, refusal
from linkseek.retriever.models.towers import has_two_towers, one_tower

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


class StaticForward:
    """Token ids to the mean of their vectors, float32. A text without tokens has the vector 0."""

    def __init__(self, vectors: Tensor, normalized: bool, width: int | None = None) -> None:
        """vectors: of the tokens, [V, d]. normalized: whether rows get length 1.

        width: so many of their first numbers are returned, by default all.
        """
        self._vectors = vectors.detach().float().contiguous()
        self._normalized = normalized
        self._width = width
        self.execution: dict[str, Any] = {
            "backend": f"torch {torch.__version__}, token vectors",
            "device": "cpu",
            "precision": "float32",
        }

    def __call__(self, features: Features) -> NDArray[np.float32]:
        """Arrays int64 [B, L] -> float32 [B, d]."""
        mask = features["attention_mask"].astype(np.bool_)  # [B, L]
        lengths = mask.sum(axis=1)  # [B]
        ids = torch.from_numpy(features["input_ids"][mask])  # [T]
        starts = torch.from_numpy(np.cumsum(lengths) - lengths)  # [B]
        rows = functional.embedding_bag(ids, self._vectors, starts, mode="mean")  # [B, d]
        vectors: NDArray[np.float32] = (functional.normalize(rows) if self._normalized else rows).numpy()
        return vectors if self._width is None else np.ascontiguousarray(vectors[:, : self._width])


def open_static(name: str, folder: Path, route: str) -> tuple[ModelFacts, StaticForward, Parallel]:
    """Facts, forward pass and parallel work of a folder; of two towers, that of the route.

    Raises `InputError` if the model cannot be read, or has other modules than the vectors and a norm."""
    _check_floats(folder, name)
    model: SentenceTransformer = load_library_model(BI_ENCODER, folder, name)
    two_towers = has_two_towers(model)
    if two_towers:
        model = one_tower(model, route)
    modules = [type(module).__name__ for module in model]
    if modules[:1] != ["StaticEmbedding"] or set(modules[1:]) - {"Normalize"}:
        raise InputError(
            f"encoder {name}: of the modules {', '.join(modules)}",
            "A static encoder is StaticEmbedding, alone or with Normalize.",
        )
    embedding: Any = model[0]
    if not embedding.embedding.weight.numel():
        raise InputError(f"encoder {name}: its vectors have no numbers", "Train or download it again.")
    check_words(embedding.tokenizer, len(embedding.embedding.weight), f"encoder {name}")
    is_normalized = len(modules) > 1
    is_unit = is_normalized and model.truncate_dim is None
    cut: dict[str, Any] = embedding.tokenizer.truncation or {}
    width = min(int(model.truncate_dim or embedding.embedding_dim), int(embedding.embedding_dim))
    facts = ModelFacts(
        dimension=width,
        max_tokens=min(max_tokens(model), cut.get("max_length", sys.maxsize)),
        pad_token=0,
        tokenizer=without_special_tokens(embedding.tokenizer),
        two_towers=two_towers,
        words=len(embedding.embedding.weight),
        truncation_side=cut.get("direction", "right"),
        similarity=compares_by(folder, name, is_unit=is_unit),
        is_unit=is_unit,
        family_prompts=False,  # a name may be that of the transformer that the vectors are from
        **text_prompts(model),
    )
    forward = StaticForward(embedding.embedding.weight, is_normalized, width)
    if difference := library_probe(model, facts).difference(forward, facts, "float32"):
        raise refusal(f"encoder {name}", difference)
    return facts, forward, Parallel(tokenizers=os.cpu_count() or 1)


def _check_floats(folder: Path, name: str) -> None:
    """Raises `InputError` for vectors of whole numbers, as model2vec quantises them."""
    for path in model_files(folder):
        if path.suffix == ".safetensors":
            with suppress(OSError, SafetensorError), safe_open(path, "np") as file:  # told where it is read
                keys = {*file.keys()}
                for key in {"embeddings", "embedding.weight"} & keys:  # with weights, they are scaled by them
                    if "weights" not in keys and file.get_slice(key).get_dtype() in ("I8", "U8"):
                        raise InputError(
                            f"encoder {name}: its vectors are whole numbers",
                            "Save it with vectors of float16 or float32 (quantize_to of model2vec).",
                        )


def without_special_tokens(tokenizer: Tokenizer) -> str:
    """sentence-transformers adds none to the texts of static encoders."""
    copy = Tokenizer.from_str(tokenizer.to_str())
    copy.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B", special_tokens=[])
    return str(copy.to_str())
