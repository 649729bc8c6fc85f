"""Encoders and re-rankers by name, for requests: from the indexes and pipelines, and the included ones.

A request's name is looked up in this list, and never made into a path or looked for on the Hub.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from linkseek.app.pipeline_kinds import RerankEntry
from linkseek.app.pipelines import Models
from linkseek.app.serving.indexes import NoSuchNameError, ServedIndexes
from linkseek.indexer.base.errors import UsageError
from linkseek.indexer.base.settings import nearest
from linkseek.indexer.encoding.batches import encode_texts
from linkseek.reranker.models.bases import CROSS_ENCODER
from linkseek.reranker.models.lexical import LEXICAL
from linkseek.reranker.models.scoring import scorer_is_here
from linkseek.retriever.models.locations import BI_ENCODER, is_here, shipped_models


class ModelsAtHand:
    """The models that requests may name; each is opened when it is first used."""

    def __init__(self, indexes: ServedIndexes) -> None:
        self._indexes = indexes
        self._models: Models = indexes.models
        self._open: dict[str, object] = {}

    @cached_property
    def encoders(self) -> Mapping[str, str]:
        """Name -> location; the default first: the encoder of the first index that has vectors."""
        named: dict[str, str] = {}
        for served in self._indexes.all.values():
            index = served.service.index
            names = index.encoders
            default = index.manifest.default_encoder
            for name in sorted(names, key=lambda name: name != default):
                location = index.parts.dense[name].encoder["location"]
                if is_here(location, BI_ENCODER):
                    named.setdefault(name, location)
        for name in shipped_models():
            named.setdefault(name, name)
        return named

    @cached_property
    def rerankers(self) -> Mapping[str, str]:
        """Name -> location; the default first: the model of the first pipeline that re-ranks with one."""
        named: dict[str, str] = {}
        for served in self._indexes.all.values():
            for name in (served.pipeline_name(None), *served.pipelines):
                entry = served.service.pipelines.entries[name]
                for model in entry.rerank if isinstance(entry, RerankEntry) else ():
                    if model not in LEXICAL and scorer_is_here(model):
                        named.setdefault(Path(model).name, model)
        for name in shipped_models(CROSS_ENCODER):
            if scorer_is_here(name):
                named.setdefault(name, name)
        return named

    def embed(self, name: str, texts: Sequence[str], *, queries: bool) -> NDArray[np.float32]:
        """Vectors of texts, float32 [n, d]: of queries, or of passages without a title."""
        encoder = self._models.encoder(self.encoders[name])
        self._open[f"encoder {name}"] = encoder  # else closed when no pipeline uses it
        if queries:
            return encoder.search_vectors(list(texts))
        tokens = encoder.tokenize_passages([""] * len(texts), list(texts))
        return encoder.comparable(encode_texts(encoder, tokens))

    def check_encoder(self, name: str | None) -> str:
        """The name of an encoder. Raises `NoSuchNameError`."""
        return _chosen(name, self.encoders, "encoder")

    def check_reranker(self, name: str | None) -> str:
        """The name of a re-ranker. Raises `NoSuchNameError`."""
        return _chosen(name, self.rerankers, "re-ranker")

    def score(self, name: str, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The scores of (query, text) pairs by a re-ranker."""
        scorer = self._models.scorer(self.rerankers[name], "auto", "auto")
        self._open[f"re-ranker {name}"] = scorer
        form = scorer.text_format
        queries = [form.query(query) for query, _ in pairs]
        scores: list[float] = scorer.score(queries, [form.passage("", text) for _, text in pairs]).tolist()
        return scores


def _chosen(name: str | None, named: Mapping[str, str], kind: str) -> str:
    if not named:
        raise UsageError(f"this service has no {kind}", "Serve an index that was built with one.")
    chosen = name or next(iter(named))
    if chosen not in named:
        raise NoSuchNameError(f'there is no {kind} "{chosen[:100]}"', nearest(chosen, named))
    return chosen
