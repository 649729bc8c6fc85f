"""Opens base models: a sentence-transformers folder, a bare transformer, or adapters on either.

Adapters (Hu et al. 2021) are small weights for a base model, stored with a hash of that base. They are
merged into the base when a model is opened, so no other module needs to know about them.

Two towers are a sentence-transformers Router with the routes "query" and "document", so that
`SentenceTransformer(folder)` opens both and `encode_query` and `encode_document` take the right one. Modules
before and after it belong to both towers.
"""

from __future__ import annotations

import copy
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linkseek.indexer.files.sharing import share
from linkseek.indexer.program.errors import InputError, UsageError, raise_of_machine
from linkseek.retriever.models.folders import base_folder, base_name, model_sha256
from linkseek.retriever.models.library import (
    ONLY_LOCAL,
    Opened,
    forget_lengths,
    from_folder,
    load_library_model,
    quiet,
)
from linkseek.retriever.models.locations import ADAPTER, BI_ENCODER, PASSAGES, QUERIES, find_base

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import nn

ADAPTER_WEIGHTS = "adapter_model.safetensors"
_BASE_SHA256 = "base_sha256"


def open_base(name: str) -> SentenceTransformer:
    """A sentence-transformers model, or a bare transformer with [CLS] as its vector.

    name: a folder, or a name of the Hugging Face Hub. Raises `InputError` if it cannot be located or read.
    """
    folder = find_base(name)
    if (folder / BI_ENCODER.marker).is_file():
        return load_sentence_transformer(folder, name)
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    transformer = from_folder(
        Transformer,
        folder,
        f"base {name}",
        "Expected a sentence-transformers folder, or a transformer's with config.json, model.safetensors and "
        "tokenizer.json.",
        model_kwargs={"use_safetensors": True, "dtype": "float32", **ONLY_LOCAL},
        processor_kwargs=dict(ONLY_LOCAL),
        config_kwargs=dict(ONLY_LOCAL),
    )
    pooling = Pooling(transformer.get_embedding_dimension(), pooling_mode="cls")
    return SentenceTransformer(modules=[transformer, pooling], device="cpu", similarity_fn_name="dot")


def load_sentence_transformer(folder: Path, name: str) -> SentenceTransformer:
    """The model in torch, on the CPU, in float32; adapters are merged into the weights of their base.

    Raises `InputError` if it cannot be read, or if the adapters belong to another base.
    """
    if (folder / ADAPTER).is_file():
        return _open_merged(folder)
    model: SentenceTransformer = load_library_model(BI_ENCODER, folder, name)
    return model


def _open_merged(folder: Path) -> SentenceTransformer:
    check_base(folder)
    base: Any = open_base(base_name(folder))[0]
    with tempfile.TemporaryDirectory() as scratch:
        plain = Path(scratch) / "model"  # the tokenizer, and the modules around the transformer
        shutil.copytree(folder, plain, ignore=shutil.ignore_patterns("adapter_*"))
        with quiet():
            base.model.save_pretrained(plain)
        model: SentenceTransformer = load_library_model(BI_ENCODER, plain, str(folder))
    transformer: Any = model[0]
    transformer.model.load_state_dict(merged(base.model, folder).state_dict())
    return model


def merged(transformer: Any, folder: Path) -> Any:
    """A transformer with adapters merged into its weights. Raises `InputError` if they do not fit."""
    from peft import PeftModel, get_peft_model_state_dict
    from safetensors.torch import load_file

    def read(path: str) -> Any:
        adapted: Any = PeftModel.from_pretrained(transformer, path)
        missing = get_peft_model_state_dict(adapted).keys() - load_file(folder / ADAPTER_WEIGHTS).keys()
        if missing:
            raise KeyError(f"{min(missing)} is missing")
        return adapted

    adapted = read_adapters(read, folder)
    with quiet():
        return adapted.merge_and_unload()


def read_adapters(reader: Callable[..., Opened], folder: Path, **options: Any) -> Opened:
    """`from_folder` for a folder of adapters. Raises `InputError` if they do not fit their base."""
    fault = f"its adapters do not fit {base_name(folder)}"
    return from_folder(
        reader, folder, str(folder), "Use adapters that were made for this base.", fault=fault, **options
    )


def save_trained(model: Any, folder: Path, base_sha256: str, *, in_16_bits: bool = False) -> None:
    """Write the folder of a model, or of its adapters with the hash of their base."""
    forget_lengths([module.tokenizer for module in model.modules() if hasattr(module, "tokenizer")])
    with quiet():
        model.save_pretrained(str(folder), create_model_card=False)
    if (folder / ADAPTER).is_file():
        bind_adapters(folder, base_sha256, in_16_bits=in_16_bits)


def bind_adapters(folder: Path, base_sha256: str, *, in_16_bits: bool = False) -> None:
    """Write the hash of their base's weights into adapters that were saved just now."""
    import torch
    from safetensors.torch import load_file, save_file

    path = folder / ADAPTER_WEIGHTS
    weights = load_file(path)
    if in_16_bits:
        weights = {name: tensor.to(torch.float16) for name, tensor in weights.items()}
    save_file(weights, path, metadata={_BASE_SHA256: base_sha256})  # several would be in random order
    share(path)


def check_base(folder: Path) -> None:
    """Raises `InputError` if the base that adapters name here is not the one that they belong to."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(folder / ADAPTER_WEIGHTS, "pt") as file:
            expected = (file.metadata() or {}).get(_BASE_SHA256)
    except (OSError, SafetensorError) as error:
        raise_of_machine(error)
        raise InputError(f"{folder / ADAPTER_WEIGHTS}: cannot be read ({error})", "Train it again.") from None
    base = base_folder(folder)
    if expected and expected != model_sha256(base):
        raise InputError(
            f"{folder}: its adapters belong to another version of {base_name(folder)}",
            f"The base must have the combined SHA-256 {expected}.",
        )


def is_normalized(model: SentenceTransformer) -> bool:
    """Whether vectors have length 1."""
    from sentence_transformers.sentence_transformer.modules import Normalize

    return any(isinstance(module, Normalize) for module in model.modules())


def is_static(model: SentenceTransformer) -> bool:
    """Whether texts are means of token vectors, without layers."""
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    return isinstance(next(iter(tower(model, QUERIES).children())), StaticEmbedding)


def has_two_towers(model: SentenceTransformer) -> bool:
    """Whether queries and passages have encoders, or modules, of their own."""
    from sentence_transformers.sentence_transformer.modules import Router

    return any(isinstance(module, Router) for module in model)


def split_towers(
    model: SentenceTransformer, document: SentenceTransformer | None = None
) -> SentenceTransformer:
    """Two towers that start equal, or with another model as the tower of passages."""
    from sentence_transformers.sentence_transformer.modules import Router

    query: list[Any] = list(model.children())
    passage: list[Any] = copy.deepcopy(query) if document is None else list(document.children())
    with quiet():
        return with_modules(model, [Router.for_query_document(query, passage)])


def tower(model: SentenceTransformer, route: str) -> nn.Module:
    """The modules of one route alone; the complete model if it has one tower."""
    from sentence_transformers.sentence_transformer.modules import Router

    router = next((module for module in model if isinstance(module, Router)), None)
    return model if router is None else router.sub_modules[route]


def set_length(reader: Any, tokens: int, name: str, settings: str) -> None:
    """Have a Transformer truncate texts to `tokens` tokens; 0: as it does. settings: that name the number.

    Raises `UsageError` if it reads fewer.
    """
    positions = getattr(reader.model.config, "max_position_embeddings", None)
    if positions and tokens > positions:
        fault = f"{name} reads {positions} tokens, but texts may have {tokens}"
        raise UsageError(fault, f"Set {settings} to at most {positions}.")
    if tokens:
        reader.max_seq_length = tokens


def readers_of(model: SentenceTransformer) -> Iterator[Any]:
    """The first module of each tower, which reads the tokens: a Transformer, or static vectors."""
    for route in (QUERIES, PASSAGES) if has_two_towers(model) else (QUERIES,):
        yield next(iter(tower(model, route).children()))


def one_tower(model: SentenceTransformer, route: str, name: str) -> SentenceTransformer:
    """The encoder of queries or of passages, as a model of its own.

    name: for messages. Raises `InputError` for routes of other names.
    """
    from sentence_transformers.sentence_transformer.modules import Router

    modules: list[Any] = []
    for module in model:
        if not isinstance(module, Router):
            modules.append(module)
        elif route in module.sub_modules and not module.route_mappings:
            modules += module.sub_modules[route].children()
        else:
            raise InputError(
                f"encoder {name}: its Router has the routes {', '.join(module.sub_modules)}",
                f"Name them {QUERIES} and {PASSAGES}, without route_mappings, and save it again.",
            )
    return with_modules(model, modules)


def with_modules(model: SentenceTransformer, modules: list[Any]) -> SentenceTransformer:
    """These modules with the prompts and the similarity of a model."""
    names = "prompts", "similarity_fn_name", "truncate_dim"
    kept: dict[str, Any] = {name: getattr(model, name) for name in names if hasattr(model, name)}
    return type(model)(modules=modules, device="cpu", **kept)
