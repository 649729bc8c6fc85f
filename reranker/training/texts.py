"""Rows to what a re-ranker reads and the loss wants: groups of tokenised pairs, in pieces.

Pairs are tokenised and padded exactly as `reranker.models.scoring` does it, so what is trained is what is
scored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from tokenizers import Encoding
from torch import Tensor

from indexer.encoding.batches import TokenRows
from reranker.models.cross_encoder import pair_tokens
from retriever.models.biencoder import TextFormat
from retriever.models.facts import ModelFacts, open_tokenizer, padded

Context = Mapping[str, str]
Pairs = list[tuple[str, str]]
Features = dict[str, Tensor]
Reader = Callable[[slice], Features]


class PairTokenizer:
    """(query, text) pairs to token ids, and those to tensors."""

    def __init__(self, facts: ModelFacts) -> None:
        self._facts = facts
        self._tokenizer = open_tokenizer(facts)

    def tokens(self, pairs: Sequence[tuple[str, str]]) -> TokenRows:
        """Token ids; those of the second text as ~id."""
        return pair_tokens(self._tokenizer, list(pairs))

    def encodings(self, pairs: Sequence[tuple[str, str]]) -> list[Encoding]:
        """The same tokens, each with its text and where it stands there."""
        found: list[Encoding] = self._tokenizer.encode_batch(list(pairs))
        return found

    def features(self, tokens: Sequence[Any]) -> Features:
        """Tokens of P pairs as the model's inputs, int64 [P, L] each."""
        return {name: torch.from_numpy(array) for name, array in padded(tokens, self._facts).items()}


@dataclass(frozen=True)
class GroupTexts:
    """How a group is read. negatives: how many wrong texts stand beside the right one."""

    format: TextFormat
    negatives: int
    seed: int = 0

    def pairs(self, row: Mapping[str, Any], epoch: int) -> Pairs:
        """(query, text), the right text first, then at most so many wrong ones.

        Where there are more they are drawn, for each epoch anew, by seed, epoch and row.
        """
        key = (self.seed, epoch, row["row"])
        return self._read(row, drawn(row["hard_negatives"], self.negatives, key))

    def first_pairs(self, row: Mapping[str, Any]) -> Pairs:
        """The same with the best-ranked wrong ones, as the dev measure wants them."""
        return self._read(row, row["hard_negatives"][: self.negatives])

    def _read(self, row: Mapping[str, Any], wrong: Sequence[Context]) -> Pairs:
        query = self.format.query(row["query"])
        contexts: list[Context] = [row["positive"], *wrong]
        return [(query, self.format.passage(context["title"], context["text"])) for context in contexts]


def drawn(wrong: Sequence[Any], most: int, key: Sequence[int]) -> Sequence[Any]:
    """So many of them at most, in an order that depends on the key alone if there are more."""
    if len(wrong) <= most:
        return wrong
    return [wrong[place] for place in np.random.default_rng(key).permutation(len(wrong))[:most]]


class Texts(Protocol):
    """How the rows of a step become groups."""

    def pairs(self, row: Mapping[str, Any], epoch: int) -> Pairs:
        """(query, text), the right one first."""


class GroupCollator:
    """Rows to the input of one step; a callable for a data loader.

    Gives `pieces`, the features of all pairs, group by group, in lists of at most `mini_batch`; `there`,
    bool [B, 1 + n], which places of the groups they fill; and `places`, where the pairs are from.
    """

    def __init__(self, tokenizer: PairTokenizer, texts: Texts, mini_batch: int = 0) -> None:
        self._tokenizer, self._texts, self._mini_batch = tokenizer, texts, mini_batch
        self.epoch = 0

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """One batch."""
        groups = [self._texts.pairs(row, self.epoch) for row in rows]
        sizes = np.array([len(group) for group in groups])  # [B]
        there = np.arange(sizes.max()) < sizes[:, None]  # [B, 1 + n]
        features = self._reader(rows, groups)
        return {
            "pieces": [features(piece) for piece in self._pieces(sizes.tolist())],
            "there": torch.from_numpy(there),
            "places": [row["place"] for row in rows],
        }

    def _reader(self, rows: Sequence[Mapping[str, Any]], groups: Sequence[Pairs]) -> Reader:
        """What makes the features of a piece of the groups' pairs; groups: of each row."""
        tokens = self._tokenizer.tokens([pair for group in groups for pair in group])
        return lambda piece: self._tokenizer.features(tokens[piece])

    def _pieces(self, sizes: Sequence[int]) -> list[slice]:
        """Whole groups together as long as they fit; if one does not fit alone, so many pairs each."""
        total, most = int(sum(sizes)), self._mini_batch
        if not most or total <= most:
            return [slice(0, total)]
        if max(sizes) > most:
            return [slice(start, min(start + most, total)) for start in range(0, total, most)]
        cuts = [0]
        for end in np.cumsum(sizes).tolist():
            last = cuts[-1]
            if end - last <= most:
                end_so_far = end
                continue
            cuts.append(end_so_far)
            end_so_far = end
        return [slice(*pair) for pair in zip(cuts, [*cuts[1:], total], strict=True)]
