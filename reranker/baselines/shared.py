"""What the neural baselines share: word embeddings, the two texts of a pair, cosines of their words.

They are older than BERT: each word has one vector, and a score is made of how alike the words of query and
text are. Scores are not squeezed (the papers have a tanh at the end): the papers' losses compare pairs with a
margin of 1, LCE is a softmax, and scores within -1..1 would bound it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

Features = dict[str, Tensor]


@dataclass(frozen=True)
class Words:
    """The words of B texts. ids: int64 [B, L], from the left; there: bool [B, L], where a word is."""

    ids: Tensor
    there: Tensor


class Baseline(nn.Module):
    """One of the four. Subclasses score; `options` are what they were made with, beside the embeddings."""

    kind: ClassVar[str]
    trains_embeddings: ClassVar[bool] = True

    def __init__(self, vectors: Tensor, **options: Any) -> None:
        """vectors: of the words, float32 [V, d]."""
        super().__init__()
        self.options = options
        frozen = not self.trains_embeddings
        self.embeddings = nn.Embedding(len(vectors), vectors.shape[1], _weight=vectors, _freeze=frozen)

    def forward(self, features: Features) -> Features:
        """input_ids, attention_mask, token_type_ids, int64 [B, L] -> "scores" [B, 1]."""
        return features | {"scores": self.score(*split(features))[:, None]}

    def score(self, query: Words, text: Words) -> Tensor:
        """The score of each pair, [B]."""
        raise NotImplementedError


def split(features: Features) -> tuple[Words, Words]:
    """The query and the text of each pair, which stand one behind the other; at least one place each."""
    there = features["attention_mask"].bool()  # [B, L]
    second = features["token_type_ids"].bool() & there
    return _aligned(features["input_ids"], there & ~second), _aligned(features["input_ids"], second)


def _aligned(ids: Tensor, chosen: Tensor) -> Words:
    """The chosen places of each row, moved to the left."""
    lengths = chosen.sum(dim=1)  # [B]
    longest = max(int(lengths.max()), 1)
    there = torch.arange(longest, device=ids.device) < lengths[:, None]  # [B, longest]
    moved = torch.zeros(there.shape, dtype=ids.dtype, device=ids.device)
    return Words(moved.masked_scatter(there, ids[chosen]), there)


def cosines(query: Tensor, text: Tensor) -> Tensor:
    """[B, Q, d] and [B, D, d] -> how alike each two vectors are, [B, Q, D]; 0 where one has no length."""
    unit_query, unit_text = (nn.functional.normalize(vectors, dim=-1) for vectors in (query, text))
    return unit_query @ unit_text.transpose(1, 2)
