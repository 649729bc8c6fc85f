"""The model that is trained: from a base's name to one tower or two, and which weights move.

Two towers are a sentence-transformers Router with the routes "query" and "document", so that
`SentenceTransformer(folder)` opens both and `encode_query` and `encode_document` take the right one.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from indexer.errors import InputError, LinkseekError, UsageError
from retriever.models import DEFAULT_ENCODER, find_model, load_sentence_transformer, quiet
from retriever.training.config import ModelSettings

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import nn

QUERY, DOCUMENT = "query", "document"


def open_model(settings: ModelSettings, max_tokens: int) -> SentenceTransformer:
    """The model as training starts, on the CPU, in float32.

    max_tokens: what longer texts are cut to, later too. Raises `InputError` if the base cannot be had
    or read, `UsageError` if it does not fit the settings.
    """
    model = open_base(settings.base)
    _set_pooling(model, settings)
    if settings.towers == "two" and not has_two_towers(model):
        model = split_towers(model)
    elif settings.towers == "shared" and has_two_towers(model):
        raise UsageError(
            f"{settings.base} has two towers, and model.towers is shared", 'Set model.towers = "two".'
        )
    for transformer in transformers_of(model):
        _set_length(transformer, max_tokens, settings.base)
        _freeze_pooler(transformer)
    if settings.train == "lora":
        _add_adapters(model, settings)
    elif settings.train == "query":
        for parameter in tower(model, DOCUMENT).parameters():
            parameter.requires_grad = False
    return model


def open_base(name: str) -> SentenceTransformer:
    """A sentence-transformers model, or a bare transformer with [CLS] as its vector.

    name: a folder, or a name of the Hugging Face Hub. Raises `InputError` if it cannot be had or read.
    """
    if Path(name).is_dir() and not (Path(name) / "modules.json").is_file():
        return _open_bare(Path(name), name)
    try:
        return load_sentence_transformer(find_model(name), name)
    except LinkseekError:
        bare = _fetched_transformer(name)
        if bare is None:
            raise
        return _open_bare(bare, name)


def _fetched_transformer(name: str) -> Path | None:
    """Where a bare transformer lies that is in the Hub's cache, such as one that was fetched just now."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        config = try_to_load_from_cache(name, "config.json")
        modules = try_to_load_from_cache(name, "modules.json")
    except HFValidationError:
        return None
    return Path(config).parent if isinstance(config, str) and not isinstance(modules, str) else None


def _open_bare(folder: Path, name: str) -> SentenceTransformer:
    with quiet():
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

        try:
            transformer = Transformer(str(folder), model_kwargs={"use_safetensors": True, "dtype": "float32"})
            pooling = Pooling(transformer.get_embedding_dimension(), pooling_mode="cls")
            return SentenceTransformer(modules=[transformer, pooling], device="cpu", similarity_fn_name="dot")
        except Exception as error:  # whatever a broken folder makes transformers raise
            reason = str(error).splitlines()[0] if str(error) else ""
            raise InputError(
                f"base {name}: cannot be loaded ({type(error).__name__}: {reason})",
                "Expected a sentence-transformers folder, or a transformer's with config.json, "
                "model.safetensors and tokenizer.json.",
            ) from None


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


def is_normalized(model: SentenceTransformer) -> bool:
    """Whether vectors have length 1."""
    from sentence_transformers.sentence_transformer.modules import Normalize

    return any(isinstance(module, Normalize) for module in model.modules())


def has_two_towers(model: SentenceTransformer) -> bool:
    """Whether queries and passages have encoders of their own."""
    from sentence_transformers.sentence_transformer.modules import Router

    return isinstance(model[0], Router)


def split_towers(
    model: SentenceTransformer, document: SentenceTransformer | None = None
) -> SentenceTransformer:
    """Two towers that start alike, or with a passage tower from elsewhere."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Router

    query: list[Any] = list(model.children())
    passage: list[Any] = copy.deepcopy(query) if document is None else list(document.children())
    prompts: Any = model.prompts
    with quiet():
        return SentenceTransformer(
            modules=[Router.for_query_document(query, passage)],
            device="cpu",
            prompts=prompts,
            similarity_fn_name=model.similarity_fn_name,
        )


def tower(model: SentenceTransformer, route: str) -> nn.Module:
    """The modules of one route; the whole model where there is but one tower."""
    router: Any = model[0]
    return cast("nn.Module", router.sub_modules[route]) if has_two_towers(model) else model


def transformers_of(model: SentenceTransformer) -> Iterator[Any]:
    """The Transformer module of each tower."""
    for route in (QUERY, DOCUMENT) if has_two_towers(model) else (QUERY,):
        yield next(iter(tower(model, route).children()))


def _set_length(transformer: Any, tokens: int, name: str) -> None:
    positions = getattr(transformer.model.config, "max_position_embeddings", None)
    if positions and tokens > positions:
        raise UsageError(
            f"{name} reads {positions} tokens, and texts may have {tokens}",
            f"Set texts.query_tokens and texts.passage_tokens to {positions} at most.",
        )
    transformer.max_seq_length = tokens


def _freeze_pooler(transformer: Any) -> None:
    # BERT's pooler follows the last hidden state, which is what is read: it never gets a gradient.
    pooler = getattr(transformer.model, "pooler", None)
    for parameter in pooler.parameters() if pooler is not None else ():
        parameter.requires_grad = False


def _add_adapters(model: SentenceTransformer, settings: ModelSettings) -> None:
    from peft import LoraConfig

    [transformer] = transformers_of(model)
    public = f"sentence-transformers/{DEFAULT_ENCODER}"
    transformer.model.name_or_path = public if settings.base == DEFAULT_ENCODER else settings.base
    config = LoraConfig(
        task_type="FEATURE_EXTRACTION",
        r=settings.lora_rank,
        lora_alpha=settings.lora_alpha,
        lora_dropout=settings.lora_dropout,
        target_modules="all-linear",
        exclude_modules=r"(.*\.)?pooler\..*",
    )
    transformer.model.add_adapter(config)
