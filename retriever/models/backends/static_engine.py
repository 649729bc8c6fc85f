"""Static encoders: a vector for each token, averaged over a text; sentence-transformers' StaticEmbedding.

There are no layers, so a text costs little more than its tokens, thousands of times less than with a
transformer, and a GPU would not help. Most of the time goes into tokenising, for which all cores are used.
A model that was opened before (`conversions`) needs neither torch nor sentence-transformers:
its vectors are mapped into memory, once for all processes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer, processors

from linkseek.indexer.encoding.batches import Parallel
from linkseek.indexer.program.errors import InputError
from linkseek.retriever.models.backends.conversions import (
    converted,
    library_probe,
    read_record,
    refusal,
    write_record,
)
from linkseek.retriever.models.bases import has_two_towers, one_tower
from linkseek.retriever.models.checks.only_data import model_files
from linkseek.retriever.models.facts import Features, ModelFacts
from linkseek.retriever.models.library import (
    check_words,
    compares_by,
    load_library_model,
    max_tokens,
    text_prompts,
)
from linkseek.retriever.models.locations import BI_ENCODER

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

VERSION = "2-static"
"""The end of the names of static encoders in the cache; raised when the same files are kept differently."""
_VECTORS = "vectors.npy"


@dataclass(frozen=True)
class StaticModel:
    """A static encoder, after it was compared with the library's. vectors: the tokens' vectors, float32 [V,
    d].
    """

    facts: ModelFacts
    vectors: NDArray[np.float32]
    is_normalized: bool


class StaticForward:
    """Token ids to the mean of their vectors, float32. A text without tokens has the vector 0."""

    def __init__(self, model: StaticModel) -> None:
        self._vectors = model.vectors
        self._is_normalized = model.is_normalized
        self._width = model.facts.dimension
        self.execution: dict[str, Any] = {"backend": "token vectors", "device": "cpu", "precision": "float32"}

    def __call__(self, features: Features) -> NDArray[np.float32]:
        """Arrays int64 [B, L] -> float32 [B, d]."""
        mask = features["attention_mask"].astype(np.bool_)  # [B, L]
        lengths = mask.sum(axis=1)  # [B]
        ids = features["input_ids"][mask]  # [T]
        rows = means(self._vectors, ids, lengths)  # [B, d]
        if self._is_normalized:  # in float64, so that every processor has the same bits
            norms = np.sqrt(np.einsum("bd,bd->b", rows, rows, dtype=np.float64))  # [B]
            rows /= np.maximum(norms, 1e-12).astype(np.float32)[:, None]
        return np.ascontiguousarray(rows[:, : self._width])


def means(
    vectors: NDArray[np.float32], ids: NDArray[np.int64], lengths: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Means of the vectors of consecutive ids, float32 [B, d]; 0 for none. lengths: ids of each row, [B]."""
    rows = np.zeros((len(lengths), vectors.shape[1]), np.float32)
    for row, own in zip(rows, np.split(ids, np.cumsum(lengths)[:-1]), strict=True):
        if len(own):
            np.add.reduce(vectors[own], axis=0, out=row)
            row /= np.float32(len(own))
    return rows


def open_static(load: Callable[[], StaticModel], key: str) -> tuple[ModelFacts, StaticForward, Parallel]:
    """Facts, forward pass and parallel work of a model: from the cache, or loaded, by `load_static`.

    key: its name in the cache, which contains the hash of the model's files.
    """
    model = converted(f"{key}-{VERSION}", _read, load, _write)
    return model.facts, StaticForward(model), Parallel(tokenizers=os.cpu_count() or 1)


def _read(folder: Path) -> StaticModel:
    facts, record = read_record(folder)
    vectors = np.lib.format.open_memmap(folder / _VECTORS, mode="r")  # reads no pickle
    return StaticModel(facts, vectors, record["is_normalized"])


def _write(model: StaticModel, folder: Path) -> None:
    np.save(folder / _VECTORS, model.vectors)
    write_record(folder, model.facts, [_VECTORS], is_normalized=model.is_normalized)


def load_static(folder: Path, name: str, route: str) -> StaticModel:
    """A model by sentence-transformers; of two towers, the tower of the route.

    Raises `InputError` if it cannot be read, or has other modules than the vectors and a norm."""
    _check_floats(folder, name)
    model: SentenceTransformer = load_library_model(BI_ENCODER, folder, name)
    two_towers = has_two_towers(model)
    if two_towers:
        model = one_tower(model, route, name)
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
        family_prompts=False,  # the name may belong to the transformer that made the vectors
        **text_prompts(model),
    )
    vectors = embedding.embedding.weight.detach().float().contiguous().numpy()
    static = StaticModel(facts, vectors, is_normalized)
    if difference := library_probe(model, facts).difference(StaticForward(static), facts, "float32"):
        raise refusal(f"encoder {name}", difference)
    return static


def _check_floats(folder: Path, name: str) -> None:
    """Raises `InputError` for vectors of whole numbers, as model2vec quantises them."""
    for path in model_files(folder):
        if path.suffix == ".safetensors":
            with suppress(OSError, SafetensorError), safe_open(path, "np") as file:  # told where it is read
                keys = {*file.keys()}
                for key in {"embeddings", "embedding.weight"} & keys:  # with weights, they are scaled by them
                    if "weights" not in keys and file.get_slice(key).get_dtype() in ("I8", "U8"):
                        raise InputError(
                            f"encoder {name}: its vectors are integers",
                            "Save it with vectors of float16 or float32 (quantize_to of model2vec).",
                        )


def without_special_tokens(tokenizer: Tokenizer) -> str:
    """sentence-transformers adds none to the texts of static encoders."""
    copy = Tokenizer.from_str(tokenizer.to_str())
    copy.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B", special_tokens=[])
    return str(copy.to_str())
