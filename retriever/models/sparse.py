"""Learned sparse retrieval: a weight for each term of a vocabulary (Formal et al. 2021, "SPLADE").

Any folder that sentence-transformers' `SparseEncoder` opens: SPLADE with a maximum or a sum, models whose
queries have fixed weights and are not encoded (Geng et al. 2024, "Towards Competitive Search Relevance For
Inference-Free Learned Sparse Retrievers"), and sparse auto-encoders over vectors (Wen et al. 2025, "Beyond
Matryoshka").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from linkseek.indexer.encoding.batches import Tokens, encode_texts
from linkseek.indexer.encoding.impacts import MAX_TERMS, WIDTH, impact_codes
from linkseek.indexer.machine.once import shared_property
from linkseek.indexer.program.errors import InputError
from linkseek.retriever.models.backends.static_engine import without_special_tokens
from linkseek.retriever.models.coded import CodedEncoder, coded_probe, open_coded
from linkseek.retriever.models.engine import Opened
from linkseek.retriever.models.facts import ModelFacts, token_ids
from linkseek.retriever.models.folders import weighs_terms
from linkseek.retriever.models.locations import BI_ENCODER, PASSAGES, QUERIES, find_model

if TYPE_CHECKING:
    from sentence_transformers import SparseEncoder

    from linkseek.retriever.models.backends.torch_engine import ModuleChain

SPARSE_MODEL = replace(BI_ENCODER, word="learned sparse model", library="SparseEncoder", marker="config.json")

_IMPACT = 255
"""The largest weight in the probe texts has at most this impact, and more than half of it."""
_NUMBERS = {True: 1 << 24, False: 1 << 30}
"""Numbers in the logits of a batch, on a CPU and on a GPU."""


class ImpactEncoder(CodedEncoder):
    """An encoder of the terms of passages and queries. Make one with `open_sparse`."""

    kind = SPARSE_MODEL
    width = WIDTH

    def __init__(self, opened: Opened, title: bool, **prompts: str | None) -> None:
        """As `CodedEncoder`."""
        super().__init__(opened, title, **prompts)
        self.scale = opened.facts.scale
        on_cpu = opened.forward.execution["device"] == "cpu"
        self.token_budget = min(self.token_budget, _NUMBERS[on_cpu] // self.dimension)
        self._query_weights = np.array(opened.facts.query_weights, np.float32)
        self.identity["scale"] = self.scale

    def encode_queries(self, texts: Sequence[str]) -> list[dict[int, float]]:
        """The weights above 0 of the terms of queries; their products with impacts are the scores."""
        written = [self.text_format.query(text) for text in texts]
        if len(self._query_weights):
            ids = [np.unique(np.array(own, np.int64)) for own in token_ids(self._word_tokenizer, written)]
            pairs = [(own, self._query_weights[own]) for own in ids]
        else:
            rows = self._encoded(texts, written)  # [Q, V]
            pairs = [(terms := np.flatnonzero(row), row[terms]) for row in rows]
        return [
            {int(term): float(weight) / self.scale for term, weight in zip(*pair, strict=True) if weight > 0}
            for pair in pairs
        ]

    def term(self, number: int) -> str:
        """The word, or the piece of one, that a term stands for."""
        has_words = self.dimension >= self.tokenizer.get_vocab_size()
        return (self.tokenizer.id_to_token(number) if has_words else None) or f"feature {number}"

    def _encoded(self, texts: Sequence[str], written: Sequence[str]) -> NDArray[np.float32]:
        if self.facts.expands_queries:
            plain, prompt = self._plain(texts), self.text_format.query_prompt
            encoded = self._library.encode_query(plain, prompt=prompt, convert_to_sparse_tensor=False)
            return np.asarray(encoded, np.float32)
        return self.comparable(encode_texts(self, token_ids(self.tokenizer, written)))

    def _codes(self, batch: Sequence[Tokens]) -> list[NDArray[np.uint8]]:
        weights = self.comparable(self.encode_tokens(batch))  # [B, V]
        self._check_finite(weights)
        if weights.min(initial=0) < 0:
            raise InputError(f"{self.name}: negative term weights", "Lucene stores weights of 0 or more.")
        return impact_codes(weights, self.scale)

    @shared_property
    def _word_tokenizer(self) -> Tokenizer:
        """The tokenizer without special tokens, for queries that are not encoded."""
        return Tokenizer.from_str(without_special_tokens(self.tokenizer))

    @shared_property
    def _library(self) -> SparseEncoder:
        """The model in the library, for queries that it encodes by another tower."""
        return sparse_library_model(find_model(self.location, SPARSE_MODEL), self.name)


def open_sparse(name: str, **options: Any) -> ImpactEncoder:
    """Load a learned sparse model. options, errors: of `open_coded`."""
    return open_coded(ImpactEncoder, _load, name, **options)


def check_sparse(name: str) -> None:
    """Locate a learned sparse model. Raises as `find_model`, and `InputError` for models of other kinds."""
    _check(find_model(name, SPARSE_MODEL), name)


def _check(folder: Path, name: str) -> None:
    if not weighs_terms(folder):
        raise InputError(
            f"learned sparse model {name}: it gives no term weights",
            "Use a model of SparseEncoder, such as SPLADE; for an encoder, use --encoder or --late.",
        )


def sparse_library_model(folder: Path, name: str) -> SparseEncoder:
    """The model in the library, on the CPU, in float32. Raises `InputError` if it cannot be read."""
    from linkseek.retriever.models.library import load_library_model

    _check(folder, name)
    model: SparseEncoder = load_library_model(SPARSE_MODEL, folder, name)
    return model


def _load(folder: Path, name: str) -> tuple[ModuleChain, ModelFacts]:
    """A model from token ids to weights [B, V]. Raises `InputError` if it cannot be read."""
    from linkseek.retriever.models.backends.poolings import TermPooling
    from linkseek.retriever.models.backends.torch_engine import ModuleChain
    from linkseek.retriever.models.bases import has_two_towers, one_tower
    from linkseek.retriever.models.library import SAVE_AGAIN, reading_facts, usable

    whole: Any = sparse_library_model(folder, name)
    query_tower: Any = one_tower(whole, QUERIES, name) if has_two_towers(whole) else None
    model: Any = one_tower(whole, PASSAGES, name) if query_tower else whole
    with usable(f"learned sparse model {name}: the library cannot encode with it", SAVE_AGAIN):

        def encode(text: str) -> NDArray[np.float32]:
            encoded = model.encode(text, prompt="", convert_to_sparse_tensor=False, show_progress_bar=False)
            return np.asarray(encoded, np.float32)  # [V]

        known = reading_facts(model, f"learned sparse model {name}")
        weights = _fixed_weights(query_tower, known["tokenizer"], known["max_tokens"])
        if type(model[0]).__name__ == "SparseStaticEmbedding":  # reads no special tokens
            known["tokenizer"] = _of_words(known["tokenizer"])
        facts = ModelFacts(
            dimension=len(encode("a")),
            similarity=model.similarity_fn_name,
            expands_queries=query_tower is not None and not weights,
            query_weights=weights,
            **known,
        )
        if facts.dimension > MAX_TERMS:
            raise InputError(f"{name}: {facts.dimension:,} terms", f"At most {MAX_TERMS:,} are possible.")
        probe = coded_probe(facts, encode)
        largest = float(np.max(probe.rows))
        scale = 2.0 ** math.floor(math.log2(_IMPACT / largest)) if largest > 0 else 1.0
        steps = [TermPooling(m) if type(m).__name__ == "SpladePooling" else m for m in model]
        return ModuleChain(steps, "sentence_embedding", probe=probe), replace(facts, scale=scale)


def _fixed_weights(query_tower: Any, tokenizer: str, most: int) -> list[float]:
    """The weights of tokens in queries that are not encoded, if both towers cut texts alike; else none."""
    if query_tower is None or [type(module).__name__ for module in query_tower] != ["SparseStaticEmbedding"]:
        return []
    own = query_tower.tokenizer
    if own.model_max_length != most or _of_words(own.backend_tokenizer.to_str()) != _of_words(tokenizer):
        return []
    weights: list[float] = query_tower[0].weight.detach().tolist()
    return weights


def _of_words(tokenizer: str) -> str:
    """A tokenizer.json without special tokens and limits."""
    copy = Tokenizer.from_str(tokenizer)
    copy.no_truncation()
    copy.no_padding()
    return without_special_tokens(copy)
