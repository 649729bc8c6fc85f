"""python -m experiments convert CHECKPOINT --output FOLDER: DPR's and HLP's checkpoints as folders.

A checkpoint is a pickled dictionary whose `model_dict` contains `question_model.*` and `ctx_model.*`, each
the weights of a BertModel under the names of its parts (`embeddings.word_embeddings.weight`,
`encoder.layer.0...`). It is read with `weights_only`, so that no code in it runs; objects other than tensors,
numbers and texts are refused. Equal copies become one tower, others two; the vector is taken from [CLS], and
vectors are compared by dot product (DPR, section 3.1).
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import PositiveInt

from experiments.pickled import load_pickled
from linkseek.indexer.program.defaults import DEFAULT_ENCODER
from linkseek.indexer.program.errors import InputError, UsageError, raise_of_machine
from linkseek.indexer.program.options import Options, Positional, parse_options
from linkseek.retriever.models.bases import has_two_towers, open_base, split_towers
from linkseek.retriever.models.library import TITLE_SEPARATOR, load_tokenizer, quiet
from linkseek.retriever.models.saving import save_model

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer

PROGRAM = "python -m experiments convert"
_HEAD = 64  # BERT's attention heads are 64 wide in all its sizes
_PARTS = ("question_model", "ctx_model")
_EXPECTED = 'Expected a dictionary with "model_dict", which holds question_model.* and ctx_model.*.'
_WRAPPERS = re.compile(r"^(?:encoder|bert|model)\.(?=(?:embeddings|encoder|pooler)\.)")  # of a BertModel
Weights = dict[str, "torch.Tensor"]


class ConvertOptions(Options):
    """Convert a checkpoint of DPR or HLP to a sentence-transformers folder, with one tower or two."""

    checkpoint: Positional[Path]
    """the file of DPR or HLP"""
    output: Path
    """where the folder goes"""
    tokenizer: str = DEFAULT_ENCODER
    """a model with the checkpoint's vocabulary; the default has the vocabulary of bert-base-uncased"""
    max_tokens: PositiveInt = 256
    """longer texts are truncated to this length"""


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    options = parse_options(ConvertOptions, argv, PROGRAM)
    question, passage = read_checkpoint(options.checkpoint)
    model = build_model(question, passage, options.tokenizer, options.max_tokens, options.checkpoint)
    towers = "two towers" if has_two_towers(model) else "one tower: both copies are equal"
    save_model(model, options.output, text=_card(options.checkpoint.name, options.output.name, towers))
    print(f"{options.output}: {towers}", file=sys.stderr)


def read_checkpoint(path: Path) -> tuple[Weights, Weights]:
    """The weights of the question model and the passage model, by BertModel's names.

    Raises `InputError` for a file of another kind, with objects other than tensors and plain values, or with
    weights under other names.
    """
    import torch

    loaded = load_pickled(path, _EXPECTED)
    weights = loaded.get("model_dict") if isinstance(loaded, Mapping) else None
    if not isinstance(weights, Mapping):
        raise InputError(f"{path}: it has no model_dict", _EXPECTED)
    parts: dict[str, Weights] = {part: {} for part in _PARTS}
    for name, value in weights.items():
        part, _, rest = str(name).partition(".")
        if part not in parts or not isinstance(value, torch.Tensor):
            raise InputError(f'{path}: "{name}" is not a weight of a question or passage model', _EXPECTED)
        if not rest.endswith("embeddings.position_ids"):  # 0, 1, 2, ...: old versions saved them
            parts[part][_WRAPPERS.sub("", rest)] = value.float()
    for part in _PARTS:
        if not parts[part]:
            raise InputError(f"{path}: it has no weights of {part}", _EXPECTED)
    return parts["question_model"], parts["ctx_model"]


def build_model(
    question: Weights, passage: Weights, tokenizer: str, max_tokens: int, path: Path
) -> SentenceTransformer:
    """One tower or two as a sentence-transformers model, [CLS], dot product."""
    equal = question.keys() == passage.keys() and all(
        question[name].equal(passage[name]) for name in question
    )
    model = _tower(question, tokenizer, max_tokens, path)
    model.prompts = {**(model.prompts or {}), TITLE_SEPARATOR: " [SEP] "}  # as in the training of both
    return model if equal else split_towers(model, _tower(passage, tokenizer, max_tokens, path))


def _tower(weights: Weights, tokenizer: str, max_tokens: int, path: Path) -> SentenceTransformer:
    from transformers import BertModel

    config = bert_config(weights, path)
    _check_size(config, weights, path)
    if max_tokens > config.max_position_embeddings:
        raise UsageError(
            f"--max-tokens {max_tokens}: the model reads {config.max_position_embeddings}", "Choose fewer."
        )
    try:
        bert: Any = BertModel(config, add_pooling_layer="pooler.dense.weight" in weights)
        missing, unknown = bert.load_state_dict(weights, strict=False)
    except (RuntimeError, ValueError) as error:  # shapes that do not fit each other
        raise_of_machine(error)
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path}: {reason}", "Expected the weights of a BertModel.") from None
    if missing or unknown:
        name, fault = (missing[0], "missing") if missing else (unknown[0], "unknown")
        raise InputError(f'{path}: "{name}" is {fault}', "Expected the weights of a BertModel.")
    with tempfile.TemporaryDirectory() as scratch, quiet():
        vocabulary = load_tokenizer(tokenizer)
        if len(vocabulary) != config.vocab_size:
            raise UsageError(
                f"{path} knows {config.vocab_size:,} tokens, {tokenizer} has {len(vocabulary):,}",
                "Name the model that it was trained from: --tokenizer FOLDER.",
            )
        vocabulary.model_max_length = max_tokens
        vocabulary.save_pretrained(scratch)
        bert.save_pretrained(scratch)
        model = open_base(scratch)
    transformer: Any = model[0]
    transformer.max_seq_length = max_tokens
    transformer.model.name_or_path = ""
    return model


def bert_config(weights: Mapping[str, Any], path: Path) -> Any:
    """The sizes of a BertModel from the shapes of its weights."""
    from transformers import BertConfig

    def rows(name: str) -> int:
        shape = weights[name].shape
        if len(shape) != 2 or not all(shape):
            expected = "Expected the weights of a BertModel: a table of numbers."
            raise InputError(f'{path}: "{name}" has the shape {list(shape)}', expected)
        return int(shape[0])

    try:
        vocabulary = rows("embeddings.word_embeddings.weight")
        hidden = int(weights["embeddings.word_embeddings.weight"].shape[1])
        layers = {int(m.group(1)) for m in map(re.compile(r"encoder\.layer\.(\d+)\.").match, weights) if m}
        return BertConfig(
            vocab_size=vocabulary,
            hidden_size=hidden,
            num_hidden_layers=len(layers),
            num_attention_heads=max(hidden // _HEAD, 1),
            intermediate_size=rows("encoder.layer.0.intermediate.dense.weight"),
            max_position_embeddings=rows("embeddings.position_embeddings.weight"),
            type_vocab_size=rows("embeddings.token_type_embeddings.weight"),
        )
    except KeyError as error:
        raise InputError(f"{path}: {error} is missing", "Expected the weights of a BertModel.") from None


def _check_size(config: Any, weights: Mapping[str, Any], path: Path) -> None:
    """Raises `InputError` where the model would be larger than its weights: some are missing."""
    hidden, layers = config.hidden_size, config.num_hidden_layers
    expected = layers * 2 * hidden * (2 * hidden + config.intermediate_size)  # matrices alone
    if expected > sum(value.numel() for value in weights.values()):
        raise InputError(f"{path}: weights of {layers:,} layers are missing", "Get the checkpoint again.")


def _card(source: str, name: str, towers: str) -> str:
    return f"""---
library_name: sentence-transformers
tags:
- sentence-transformers
- dense-retrieval
---

# {name}

`{source}`, a checkpoint of DPR's format, as a sentence-transformers folder ({towers}). The vector is taken
from [CLS], and vectors are compared by dot product. The checkpoint's licence applies.
"""
