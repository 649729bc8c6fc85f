"""Models with one encoder for queries and passages, or with one for each.

Two towers are a sentence-transformers Router with the routes "query" and "document", so that
`SentenceTransformer(folder)` opens both and `encode_query` and `encode_document` take the right one. Modules
before and after it belong to both towers.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from linkseek.indexer.program.errors import InputError
from linkseek.retriever.models.library import quiet
from linkseek.retriever.models.locations import PASSAGES, QUERIES

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import nn


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
        return _of_modules(model, [Router.for_query_document(query, passage)])


def tower(model: SentenceTransformer, route: str) -> nn.Module:
    """The modules of one route alone; the complete model if it has one tower."""
    from sentence_transformers.sentence_transformer.modules import Router

    routers = (module for module in model if isinstance(module, Router))
    router = next(routers, None)
    return model if router is None else router.sub_modules[route]


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
    return _of_modules(model, modules)


def _of_modules(model: SentenceTransformer, modules: list[Any]) -> SentenceTransformer:
    """These modules with the prompts and the similarity of a model."""
    from sentence_transformers import SentenceTransformer

    prompts: Any = model.prompts
    return SentenceTransformer(
        modules=modules,
        device="cpu",
        prompts=prompts,
        similarity_fn_name=model.similarity_fn_name,
        truncate_dim=model.truncate_dim,
    )
