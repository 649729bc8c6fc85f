"""The model that is trained: from a base's name to one tower or two, and which weights move."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

from linkseek.indexer.program.defaults import DEFAULT_ENCODER
from linkseek.indexer.program.errors import UsageError
from linkseek.retriever.models.bases import (
    has_two_towers,
    is_normalized,
    is_static,
    one_tower,
    open_base,
    readers_of,
    split_towers,
    tower,
)
from linkseek.retriever.models.locations import PASSAGES, QUERIES
from linkseek.retriever.training.config import ModelSettings, TransformerSettings
from linkseek.retriever.training.optimizers import TokenVectors

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


def open_model(settings: ModelSettings, max_tokens: int) -> SentenceTransformer:
    """The model as training starts, on the CPU, in float32.

    max_tokens: what longer texts are cut to, later too; 0: as the base does. Raises `InputError` if the base
    cannot be had or read, `UsageError` if it does not fit the settings.
    """
    model = open_base(settings.base)
    if has_two_towers(model):
        _check_towers(model, settings.base)
    _set_pooling(model, settings)
    if settings.towers == "two" and not has_two_towers(model):
        model = split_towers(model)
    elif settings.towers == "shared" and has_two_towers(model):
        raise UsageError(
            f"{settings.base} has two towers, and model.towers is shared", 'Set model.towers = "two".'
        )
    set_dropout(model, settings)
    if not is_normalized(model):
        model.similarity_fn_name = "dot"  # which the losses compare by
    if is_static(model):
        _make_trainable(model, settings)
        return model
    for transformer in readers_of(model):
        _set_length(transformer, max_tokens, settings.base)
        pooler = getattr(transformer.model, "pooler", None)
        if pooler is not None:  # BERT's follows the last hidden state, which is read: it gets no gradient
            pooler.requires_grad_(False)
    if settings.train == "lora":
        [transformer] = readers_of(model)
        options = {"task_type": "FEATURE_EXTRACTION", "exclude_modules": r"(.*\.)?pooler\..*"}
        add_adapters(transformer.model, settings, **options)
    elif settings.train == "query":
        tower(model, PASSAGES).requires_grad_(False)
    return model


def _check_towers(model: SentenceTransformer, name: str) -> None:
    """Raises `UsageError` for two towers that read texts with the same module, or in different ways."""
    first = [one_tower(model, route, name)[0] for route in (QUERIES, PASSAGES)]
    if first[0] is first[1] or type(first[0]) is not type(first[1]):
        raise UsageError(
            f"{name}: its two towers begin with the same module, or with different kinds of modules",
            "Export one to train it: linkseek export --tower query, or document.",
        )


def _make_trainable(model: SentenceTransformer, settings: ModelSettings) -> None:
    if settings.train != "all":
        hint = 'Set model.train = "all".'
        raise UsageError(f"{settings.base} is a static encoder, and all of its vectors are trained", hint)
    for reader in readers_of(model):
        reader.embedding = TokenVectors(reader.embedding.weight)


def _set_pooling(model: SentenceTransformer, settings: ModelSettings) -> None:
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

    if settings.pooling == "own" and settings.normalize is None:
        return
    if has_two_towers(model):
        raise UsageError(
            f"{settings.base} has two towers with a pooling of their own",
            "Leave model.pooling and model.normalize out.",
        )
    if settings.pooling != "own":
        at = next((n for n, module in model.named_children() if isinstance(module, Pooling)), None)
        if at is None:
            raise UsageError(f"{settings.base}: its pooling cannot be changed", 'Set model.pooling = "own".')
        transformer: Any = model[0]
        dimension = transformer.get_embedding_dimension()
        model._modules[at] = Pooling(dimension, pooling_mode=settings.pooling)
    last = list(model.named_children())[-1]
    if settings.normalize is True and not isinstance(last[1], Normalize):
        model.append(Normalize())
        model.similarity_fn_name = "cosine"
    elif settings.normalize is False and isinstance(last[1], Normalize):
        del model._modules[last[0]]
        model.similarity_fn_name = "dot"


def _set_length(transformer: Any, tokens: int, name: str) -> None:
    if not tokens:
        return
    positions = getattr(transformer.model.config, "max_position_embeddings", None)
    if positions and tokens > positions:
        raise UsageError(
            f"{name} reads {positions} tokens, and texts may have {tokens}",
            f"Set texts.query_tokens and texts.passage_tokens to {positions} at most.",
        )
    transformer.max_seq_length = tokens


def set_dropout(model: nn.Module, settings: TransformerSettings) -> None:
    """Set the dropout that the settings name, of hidden states or attention; adapters have their own.

    Raises `UsageError` if the model has none, as static encoders.
    """
    of_attention: list[nn.Dropout] = []
    of_hidden: list[nn.Dropout] = []
    for name, module in model.named_modules():
        if isinstance(module, nn.Dropout) and "lora_dropout" not in name:
            parent = type(model.get_submodule(name.rpartition(".")[0])).__name__
            (of_attention if parent.endswith("SelfAttention") else of_hidden).append(module)
    for key, dropouts in (("hidden_dropout", of_hidden), ("attention_dropout", of_attention)):
        share = getattr(settings, key)
        if share is not None and not dropouts:
            raise UsageError(f"{settings.base}: there is no {key} to set", f"Leave model.{key} out.")
        for dropout in dropouts if share is not None else ():
            dropout.p = share


def add_adapters(transformer: Any, settings: TransformerSettings, **options: Any) -> None:
    """Freeze all weights but low-rank adapters of every linear layer; options: others of peft."""
    from peft import LoraConfig

    public = f"sentence-transformers/{DEFAULT_ENCODER}"
    transformer.name_or_path = public if settings.base == DEFAULT_ENCODER else settings.base
    config = LoraConfig(
        r=settings.lora_rank,
        lora_alpha=settings.lora_alpha,
        lora_dropout=settings.lora_dropout,
        target_modules="all-linear",
        **options,
    )
    transformer.add_adapter(config)
