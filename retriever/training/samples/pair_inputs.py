"""Pairs to the inputs of the model and the loss: token ids, and keys by which passages are compared.

Texts get exactly the form in which the encoder gets them later (`retriever.models.biencoder.TextFormat`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from linkseek.indexer.store.ids import hash_id
from linkseek.retriever.mining.pairs import Pair, PairContext
from linkseek.retriever.models.biencoder import TextFormat
from linkseek.retriever.models.locations import PASSAGES, QUERIES
from linkseek.retriever.training.samples.sample_table import Sample

QUERY, TEXT, ID, DOCUMENT = range(4)
"""The columns of a passage's keys: the query it is relevant for, its text, its id, its document."""

_BLANK = PairContext("", "")

T = TypeVar("T")


def draw(items: Sequence[T], limit: int, key: Sequence[int]) -> Sequence[T]:
    """All items, or that many of more in an order that depends on the key alone."""
    if len(items) <= limit:
        return items
    return [items[place] for place in np.random.default_rng(key).permutation(len(items))[:limit]]


def passage_keys(query: str, contexts: Sequence[PairContext]) -> NDArray[np.int64]:
    """The keys of a pair's passages, int64 [1 + n, 4], the relevant one first; 0 means none.

    Only the relevant passage has a query; a blank passage has no key at all.
    """
    keys = np.zeros((len(contexts), 4), np.int64)
    keys[:, TEXT:] = [context_keys(context) for context in contexts]
    keys[0, QUERY] = key_of(query)
    return keys


def context_keys(context: PairContext) -> tuple[int, int, int]:
    """The keys of a passage's text, id and document."""
    if context is _BLANK:
        return 0, 0, 0
    text = f"{context.title}\n{context.text}"
    return key_of(text), key_of(context.id), key_of(document_of(context))


def key_of(name: str) -> int:
    """A name's hash, 64 bits with a sign; 0 if it is empty."""
    key = hash_id(name) if name else 0
    return key - (1 << 64) if key >> 63 else key


def document_of(context: PairContext) -> str:
    """A name of the passage's document: its id is DOCUMENT#n, or it has a title, or it is a document."""
    document, mark, number = context.id.rpartition("#")
    if mark and number.isdecimal():
        return document
    return context.title or context.id


Features = Callable[[list[str], str, int], dict[str, Any]]
"""(texts, `QUERIES` or `PASSAGES`, a limit of tokens; 0: the model's) -> the inputs of a model."""


@dataclass(frozen=True)
class PairCollator:
    """Pairs to the inputs of one step.

    query_tokens, passage_tokens: limits of length; 0: the model's. negatives, hard_negatives: how many of
    each join the batch. seed: by which they are drawn. mini_batch: texts in a piece; 0: all. join: the
    features of queries and passages -> of both, if the model reads them in one pass.
    """

    features: Features
    format: TextFormat
    query_tokens: int
    passage_tokens: int
    negatives: int = 0
    hard_negatives: int = 0
    seed: int = 0
    mini_batch: int = 0
    join: Callable[[list[dict[str, Any]]], dict[str, Any]] | None = None

    def __call__(self, samples: Sequence[Sample[Pair]], epoch: int) -> dict[str, Any]:
        """`queries`, `passages`: features of B and B (1 + n) texts in pieces; `keys`: int64 [B, 1 + n, 4];
        `taught`: scores of a teacher, float32 [B, 1 + n], NaN for missing scores.

        Passages are in the order of the loss: the relevant ones of all pairs, then the first negative of all
        pairs, and so on. With `join`, `passages` begin with the queries.
        """
        queries = [self.format.query(sample.record.query) for sample in samples]
        pairs = [self.contexts(sample, epoch) for sample in samples]  # [B][1 + n]
        columns = zip(*pairs, strict=True)
        passages = [self.format.passage(c.title, c.text) for column in columns for c in column]
        keys = [passage_keys(query, pair) for query, pair in zip(queries, pairs, strict=True)]
        taught = [[np.nan if c.score is None else c.score for c in pair] for pair in pairs]
        asked = self._pieces(queries, QUERIES, self.query_tokens)
        given = self._pieces(passages, PASSAGES, self.passage_tokens)
        if self.join:
            asked, given = [], [self.join([*asked, *given])]
        return {
            "queries": asked,
            "passages": given,
            "keys": torch.from_numpy(np.stack(keys)),
            "taught": torch.tensor(taught),
        }

    def contexts(self, sample: Sample[Pair], epoch: int) -> list[PairContext]:
        """The passages of a pair: the relevant one, then its negatives; blank ones where it has too few.

        If there are more than needed, they are drawn anew for each epoch, by seed, epoch and row.
        """
        pair = sample.record
        contexts = [pair.positive]
        both = (pair.negatives, self.negatives), (pair.hard_negatives, self.hard_negatives)
        for number, (own, limit) in enumerate(both):
            drawn = draw(own, limit, (self.seed, epoch, sample.row, number))
            contexts += [*drawn, *[_BLANK] * (limit - len(drawn))]
        return contexts

    def _pieces(self, texts: list[str], task: str, limit: int) -> list[dict[str, Any]]:
        size = self.mini_batch or len(texts)
        return [self.features(texts[n : n + size], task, limit) for n in range(0, len(texts), size)]
