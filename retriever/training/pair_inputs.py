"""Pairs to what the model and the loss read: token ids, and keys by which passages are compared.

Texts get exactly the form in which the encoder gets them later (`retriever.models.biencoder.TextFormat`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from indexer.store.ids import hash_ids
from retriever.mining.pairs import Context, Pair
from retriever.models.biencoder import TextFormat
from retriever.training.batches import Sample

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

QUERY, TEXT, ID, DOCUMENT = range(4)
"""The columns of a passage's keys: the query it is relevant for, its text, its id, its document."""

_BLANK = Context("", "")

T = TypeVar("T")


def draw(items: Sequence[T], limit: int, key: Sequence[int]) -> Sequence[T]:
    """All items, or that many of more in an order that depends on the key alone."""
    if len(items) <= limit:
        return items
    return [items[place] for place in np.random.default_rng(key).permutation(len(items))[:limit]]


def passage_keys(query: str, contexts: Sequence[Context]) -> NDArray[np.int64]:
    """The keys of a pair's passages, int64 [1 + n, 4], the relevant one first; 0 stands for none.

    Only the relevant passage has a query; a blank passage has no key at all.
    """
    keys = np.zeros((len(contexts), 4), np.int64)
    for place, context in enumerate(contexts):
        if context is not _BLANK:
            names = [f"{context.title}\n{context.text}", context.id, document_of(context)]
            keys[place, TEXT:] = [_key(name) for name in names]
    keys[0, QUERY] = _key(query)
    return keys


def _key(name: str) -> int:
    return int(hash_ids([name]).view(np.int64)[0]) if name else 0


def document_of(context: Context) -> str:
    """A name of the passage's document: its id is DOCUMENT#n, or it has a title, or it is a document."""
    document, mark, number = context.id.rpartition("#")
    if mark and number.isdecimal():
        return document
    return context.title or context.id


@dataclass(frozen=True)
class PairCollator:
    """Pairs to the inputs of one step.

    query_tokens, passage_tokens: the limits of length. negatives, hard_negatives: how many of each join the
    batch. seed: by which they are drawn. mini_batch: texts in a piece; 0: all.
    """

    model: SentenceTransformer
    format: TextFormat
    query_tokens: int
    passage_tokens: int
    negatives: int = 0
    hard_negatives: int = 0
    seed: int = 0
    mini_batch: int = 0

    def __call__(self, samples: Sequence[Sample[Pair]], epoch: int) -> dict[str, Any]:
        """`queries`, `passages`: features of B and B (1 + n) texts in pieces; `keys`: int64 [B, 1 + n, 4].

        Passages are in the order of the loss: the relevant ones of all pairs, then the first negative of all
        pairs, and so on.
        """
        queries = [self.format.query(sample.record.query) for sample in samples]
        pairs = [self.contexts(sample, epoch) for sample in samples]  # [B][1 + n]
        columns = zip(*pairs, strict=True)
        passages = [self.format.passage(c.title, c.text) for column in columns for c in column]
        keys = [passage_keys(query, pair) for query, pair in zip(queries, pairs, strict=True)]
        return {
            "queries": self._pieces(queries, "query", self.query_tokens),
            "passages": self._pieces(passages, "document", self.passage_tokens),
            "keys": torch.from_numpy(np.stack(keys)),
        }

    def contexts(self, sample: Sample[Pair], epoch: int) -> list[Context]:
        """The passages of a pair: the relevant one, then its negatives; blank ones where it has too few.

        Where there are more than wanted they are drawn anew for each epoch, by seed, epoch and row.
        """
        pair = sample.record
        contexts = [pair.positive]
        for number, (own, limit) in enumerate(
            ((pair.negatives, self.negatives), (pair.hard_negatives, self.hard_negatives))
        ):
            drawn = draw(own, limit, (self.seed, epoch, sample.row, number))
            contexts += [*drawn, *[_BLANK] * (limit - len(drawn))]
        return contexts

    def _pieces(self, texts: Sequence[str], task: str, limit: int) -> list[dict[str, Any]]:
        size = self.mini_batch or len(texts)
        return [
            dict(self.model.preprocess(texts[n : n + size], prompt=None, task=task, max_length=limit))
            for n in range(0, len(texts), size)
        ]
