"""Rows to what the model and the loss read: token ids, and keys by which passages are told apart.

Texts get exactly the form in which the encoder gets them later (`retriever.models.biencoder.TextFormat`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from indexer.store.ids import hash_ids
from retriever.models.biencoder import TextFormat

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

QUERY, TEXT, ID, DOCUMENT = range(4)
"""The columns of a passage's keys: whose right passage it is, its text, its id, its document."""

Context = Mapping[str, str]


@dataclass(frozen=True)
class PairTexts:
    """How pairs are read. negatives, hard_negatives: how many of each join a batch."""

    format: TextFormat
    query_tokens: int
    passage_tokens: int
    negatives: int = 0
    hard_negatives: int = 0
    seed: int = 0

    def query(self, text: str) -> str:
        """A query as the model reads it."""
        return self.format.query(text)

    def passage(self, context: Context) -> str:
        """A passage as the model reads it."""
        return self.format.passage(context["title"], context["text"])

    def contexts(self, row: Mapping[str, Any], epoch: int) -> list[Context]:
        """The passages of a pair: the right one, then so many that are not; a blank one for each that lacks.

        Where there are more than wanted they are drawn, for each epoch anew, by seed, epoch and row.
        """
        found: list[Context] = [row["positive"]]
        for number, (name, most) in enumerate(
            (("negatives", self.negatives), ("hard_negatives", self.hard_negatives))
        ):
            there: Sequence[Context] = row[name]
            if len(there) > most:
                generator = np.random.default_rng((self.seed, epoch, row["row"], number))
                there = [there[i] for i in generator.permutation(len(there))[:most]]
            found += [*there, *[_BLANK] * (most - len(there))]
        return found


_BLANK: Context = {"title": "", "text": "", "id": ""}


def passage_keys(query: str, contexts: Sequence[Context]) -> NDArray[np.int64]:
    """The keys of a pair's passages, int64 [1 + n, 4], the right one first; 0 stands for none.

    Only the right passage has a query; a blank passage has no key at all.
    """
    keys = np.zeros((len(contexts), 4), np.int64)
    for place, context in enumerate(contexts):
        if context is _BLANK:
            continue
        named = [f"{context['title']}\n{context['text']}", context["id"], document_of(context)]
        keys[place, TEXT:] = [_key(name) for name in named]
    keys[0, QUERY] = _key(query)
    return keys


def _key(name: str) -> int:
    return int(hash_ids([name]).view(np.int64)[0]) if name else 0


def document_of(context: Context) -> str:
    """What names a passage's document: its id is DOCUMENT#n, or it has a title, or it is a document."""
    document, mark, number = context["id"].rpartition("#")
    if mark and number.isdecimal():
        return document
    return context["title"] or context["id"]


class Collator:
    """Rows to the input of one step; a callable for a data loader.

    Gives query_* and passage_* (input_ids [B, L] and [B (1 + n), L], ...), `label`: keys, int64
    [B, 1 + n, 4], and `places`: where the pairs stand, for messages. Passages are in the order of the
    loss: the right ones of all pairs, then the first negative of all pairs, and so on.
    """

    def __init__(self, model: SentenceTransformer, texts: PairTexts) -> None:
        self._model, self._texts = model, texts
        self.epoch = 0

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """One batch."""
        import torch

        texts = self._texts
        queries = [texts.query(row["query"]) for row in rows]
        pairs = [texts.contexts(row, self.epoch) for row in rows]  # [B][1 + n]
        passages = [texts.passage(pair[column]) for column in range(len(pairs[0])) for pair in pairs]
        keys = [passage_keys(query, pair) for query, pair in zip(queries, pairs, strict=True)]
        batch: dict[str, Any] = {"places": [row["place"] for row in rows]}
        for name, task, inputs, most in (
            ("query", "query", queries, texts.query_tokens),
            ("passage", "document", passages, texts.passage_tokens),
        ):
            features = self._model.preprocess(inputs, prompt=None, task=task, max_length=most)
            batch |= {f"{name}_{key}": value for key, value in features.items()}
        batch["label"] = torch.from_numpy(np.stack(keys))
        return batch
