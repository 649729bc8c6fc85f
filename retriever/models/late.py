"""Late interaction: a vector for each token of a text, and MaxSim (Khattab and Zaharia 2020).

Any folder that sentence-transformers' `MultiVectorEncoder` opens, those of PyLate and ColBERT included. The
encoder of one vector is read for its tokens, too: its last hidden states, scaled to length 1, without the
punctuation of passages; a question's score is then the mean over its tokens.

Passages go through `retriever.models.engine` like all texts. Questions do so, too, unless the model expands
them or gives them a length of their own; then the library encodes them.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from linkseek.indexer.encoding.batches import Tokens, encoded_batches
from linkseek.indexer.encoding.token_codes import Quantizer
from linkseek.indexer.machine.once import shared_property
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.store.artifacts import write_json
from linkseek.retriever.models.checks.only_data import read_settings
from linkseek.retriever.models.coded import CodedEncoder, coded_probe, open_coded
from linkseek.retriever.models.engine import Opened
from linkseek.retriever.models.facts import ModelFacts, token_ids
from linkseek.retriever.models.folders import (
    HEAD,
    base_folder,
    base_name,
    is_head,
    is_static,
    makes_vectors,
    model_sha256,
)
from linkseek.retriever.models.locations import ADAPTER, BI_ENCODER, find_base, find_model, shipped_models

if TYPE_CHECKING:
    from sentence_transformers import MultiVectorEncoder

    from linkseek.retriever.models.backends.torch_engine import ModuleChain

LATE = replace(BI_ENCODER, word="late-interaction model", library="MultiVectorEncoder", marker="config.json")

_MEAN = "meanmaxsim"
_FINE = 128
"""Numbers of a vector up to which each has 4 bits; longer vectors have 2."""


class LateEncoder(CodedEncoder):
    """An encoder of the tokens of passages and queries. Make one with `open_late`."""

    kind = LATE

    def __init__(self, opened: Opened, title: bool, **prompts: str | None) -> None:
        """As `CodedEncoder`."""
        super().__init__(opened, title, **prompts)
        facts = opened.facts
        bits = 4 if self.dimension <= _FINE else 2
        self.quantizer = Quantizer(self.dimension, bits, unit=facts.is_unit)
        self.width = self.quantizer.width
        self.mean = facts.similarity == _MEAN
        self._unscored = np.array(facts.unscored, np.int64)
        self._scored = np.array(facts.scored, np.int64)
        self.identity |= self.quantizer.settings

    def encode_queries(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """The token vectors of queries, float32 [L, d] each."""
        if self.facts.expands_queries:
            prompt = self.text_format.query_prompt
            encoded = self._library.encode_query(self._plain(texts), prompt=prompt, convert_to_numpy=True)
            return [np.asarray(vectors, np.float32) for vectors in encoded]
        tokens = token_ids(self.tokenizer, [self.text_format.query(text) for text in texts])
        vectors: list[NDArray[np.float32]] = [np.empty((0, self.dimension), np.float32)] * len(texts)
        for batch, values in encoded_batches(self, tokens):
            for row, own in zip(batch, values, strict=True):
                vectors[row] = own[: len(tokens[row])]
        return vectors

    def token_vectors(self, batch: Sequence[Tokens]) -> list[NDArray[np.float32]]:
        """The vectors [tokens, d] of each passage of one batch, of the tokens that are scored."""
        values = self.encode_tokens(batch)  # [B, L, d]
        scored = (np.flatnonzero(self._is_scored(np.asarray(tokens, np.int64))) for tokens in batch)
        return [own[rows] for own, rows in zip(values, scored, strict=True)]

    def passage_words(self, title: str, text: str) -> list[str]:
        """The words of a passage, one for each stored vector."""
        words = _words(self.tokenizer, self.text_format.passage(title, text))
        ids = np.asarray(self.tokenize_passages([title], [text])[0], np.int64)
        return [words[place] for place in np.flatnonzero(self._is_scored(ids))]

    def query_words(self, text: str, vectors: int) -> list[str]:
        """The words of a query, one for each vector; vectors after its text are named `expansion`."""
        form = self.text_format
        words = _words(self.tokenizer, form.query(text))[:vectors]
        return words + ["expansion"] * (vectors - len(words))

    def _codes(self, batch: Sequence[Tokens]) -> list[NDArray[np.uint8]]:
        vectors = self.token_vectors(batch)
        joined = np.concatenate(vectors)  # [T, d]
        self._check_finite(joined)
        return np.split(self.quantizer.encode(joined), np.cumsum([len(own) for own in vectors])[:-1])

    def _is_scored(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        scored = ~np.isin(ids, self._unscored)
        return scored & np.isin(ids, self._scored) if len(self._scored) else scored

    @shared_property
    def _library(self) -> MultiVectorEncoder:
        """The model in the library, for queries that it expands."""
        return late_library_model(find_model(self.location, LATE), self.name)


def _words(tokenizer: Tokenizer, text: str) -> list[str]:
    """The word that each token of a text is of; of special tokens, the token."""
    encoding = tokenizer.encode(text)
    spans = [encoding.word_to_chars(word) if word is not None else None for word in encoding.word_ids]
    named = zip(spans, encoding.tokens, strict=True)
    return [text[span[0] : span[1]] if span else token for span, token in named]


def open_late(name: str, **options: Any) -> LateEncoder:
    """Load a model of token vectors. options, errors: of `open_coded`."""
    return open_coded(LateEncoder, _load, name, **options)


def check_late(name: str) -> None:
    """Locate a model of token vectors. Raises as `find_model`."""
    if is_static(find_model(name, BI_ENCODER if name in shipped_models() else LATE)):
        raise _no_tokens(name)


def _no_tokens(name: str) -> InputError:
    fault = "a model of two towers, or without layers, reads no words in context"
    hint = "Use an encoder with layers and one tower, or a model of MultiVectorEncoder."
    return InputError(f"late-interaction model {name}: {fault}", hint)


def _load(folder: Path, name: str) -> tuple[ModuleChain, ModelFacts]:
    """A model from token ids to the token vectors [B, L, d]. Raises `InputError` if it cannot be read."""
    from linkseek.retriever.models.backends.torch_engine import ModuleChain
    from linkseek.retriever.models.library import SAVE_AGAIN, last_is_norm, reading_facts, usable

    model: Any = late_library_model(folder, name)
    reader = model[0]
    modules = {type(module).__name__: module for module in model}
    mask = modules.pop("MultiVectorMask", None)
    if unknown := modules.keys() - {"Transformer", "Dense", "Normalize"}:
        raise InputError(
            f"late-interaction model {name}: its module {unknown.pop()} is not supported",
            "Save it without: tokens are stored as a transformer, Dense and Normalize make them.",
        )
    with usable(f"late-interaction model {name}: the library cannot encode with it", SAVE_AGAIN):
        known = reading_facts(model, f"late-interaction model {name}")
        most = known.pop("max_tokens")
        facts = ModelFacts(
            dimension=int(model.get_embedding_dimension()),
            max_tokens=min(getattr(reader, "document_length", None) or most, most),
            similarity=model.similarity_fn_name,
            is_unit=last_is_norm(model[:-1] if mask is model[-1] else model),
            expands_queries=bool(
                getattr(reader, "query_length", None)
                or getattr(reader, "query_expansion", None)
                or "query" in getattr(mask, "skiplist_tasks", ())
            ),
            unscored=_numbers(getattr(mask, "_skiplist_ids", None)),
            scored=_numbers(getattr(mask, "keep_only_token_ids", None)),
            **known,
        )
        steps = [module for module in model if module is not mask]

        def encode(text: str) -> NDArray[np.float32]:
            own = model.encode(text, prompt="", task="document", output_value=None, show_progress_bar=False)
            return np.asarray(own["token_embeddings"], np.float32)  # [L, d]

        return ModuleChain(steps, "token_embeddings", probe=coded_probe(facts, encode)), facts


def _numbers(ids: Any) -> list[int]:
    return [] if ids is None else np.asarray(ids).tolist()


def late_library_model(folder: Path, name: str) -> MultiVectorEncoder:
    """The model in the library, on the CPU, in float32; of an encoder of one vector, its hidden states.

    Raises `InputError` if it cannot be read, or if it is a head of another base.
    """
    from linkseek.retriever.models.library import load_library_model

    if is_head(folder):
        return _with_base(folder)
    if not makes_vectors(folder):
        model: MultiVectorEncoder = load_library_model(LATE, folder, name)
        return model
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules import Normalize
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    from linkseek.retriever.models.bases import has_two_towers, load_sentence_transformer

    pooled = load_sentence_transformer(folder, name)
    if has_two_towers(pooled) or type(pooled[0]).__name__ != "Transformer":
        raise _no_tokens(name)
    steps = [pooled[0], MultiVectorMask([*string.punctuation]), Normalize("token_embeddings")]
    prompts = {name: text for name, text in (pooled.prompts or {}).items() if text}
    return MultiVectorEncoder(modules=steps, device="cpu", prompts=prompts, similarity_fn_name=_MEAN).eval()


def with_layer(model: MultiVectorEncoder, dimension: int) -> MultiVectorEncoder:
    """The model with a new linear layer after its transformer and layers; orthogonal, without bias."""
    from sentence_transformers.base.modules import Dense, Transformer
    from torch import nn

    from linkseek.retriever.models.bases import with_modules

    opened: Any = model
    steps: list[Any] = [*opened.children()]
    options: Any = {"activation_function": nn.Identity(), "module_input_name": "token_embeddings"}
    layer = Dense(opened.get_embedding_dimension(), dimension, bias=False, **options)
    nn.init.orthogonal_(layer.linear.weight)
    at = next(n for n, step in enumerate(steps) if not isinstance(step, Transformer | Dense))
    made: Any = with_modules(opened, [*steps[:at], layer, *steps[at:]])
    return cast("MultiVectorEncoder", made)


def save_head(model: Any, base: str, folder: Path) -> None:
    """Write the last layer of a model, which belongs to the base of this name."""
    from safetensors.torch import save_file

    from linkseek.retriever.models.bases import ADAPTER_WEIGHTS, bind_adapters

    folder.mkdir(parents=True, exist_ok=True)
    save_file({_WEIGHT: _last_layer(model).weight.detach().contiguous()}, folder / ADAPTER_WEIGHTS)
    bind_adapters(folder, model_sha256(find_base(base)), in_16_bits=True)
    write_json(folder / ADAPTER, {"base_model_name_or_path": base, "task_type": HEAD})
    write_json(folder / _TEXTS, {"max_seq_length": model.max_seq_length, "prompts": model.prompts})


def head_base(base: str, *, is_new: bool) -> str:
    """The base of the layer that a training from a base makes, or goes on with; empty if it has others."""
    folder = find_base(base)
    return base if is_new else base_name(folder) if is_head(folder) else ""


_WEIGHT, _TEXTS = "linear.weight", "config_sentence_transformers.json"


def _last_layer(model: Any) -> Any:
    return [step for step in model if type(step).__name__ == "Dense"][-1].linear


def _with_base(folder: Path) -> MultiVectorEncoder:
    """The base of a head, with its layer. Raises `InputError` if they do not fit each other."""
    from safetensors.torch import load_file

    from linkseek.retriever.models.bases import ADAPTER_WEIGHTS, check_base, read_adapters

    check_base(folder)
    base = late_library_model(base_folder(folder), base_name(folder))

    def read(path: str) -> MultiVectorEncoder:
        weight, texts = load_file(Path(path) / ADAPTER_WEIGHTS)[_WEIGHT], read_settings(folder / _TEXTS)
        model = with_layer(base, len(weight))
        _last_layer(model).load_state_dict({"weight": weight})
        model.max_seq_length, model.prompts = texts["max_seq_length"], texts["prompts"]
        model.eval()
        return model

    return read_adapters(read, folder)
