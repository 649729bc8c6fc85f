"""The shared parts of the neural baselines: word embeddings, the two texts of a pair, cosines of words.

They are older than BERT: each word has one vector, and a score depends on how similar the words of query and
text are. Scores are not squashed (the papers end with a tanh): the papers' losses compare pairs with a margin
of 1, while LCE is a softmax, which scores within -1..1 would bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

Features = dict[str, Tensor]


@dataclass(frozen=True)
class Words:
    """The words of B texts. ids: int64 [B, L], aligned left; mask: bool [B, L], true where a word is."""

    ids: Tensor
    mask: Tensor


class Baseline(nn.Module):
    """One of the four; subclasses score. options: the arguments of the constructor except the vectors."""

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
        return features | {"scores": self.score(*split(features))}

    def score(self, query: Words, text: Words) -> Tensor:
        """The score of each pair, [B, 1]."""
        raise NotImplementedError

    def across(self, words: Words) -> Tensor:
        """The vectors of words as a convolution reads them, [B, d, L]; 0 in empty places."""
        vectors: Tensor = self.embeddings(words.ids) * words.mask[..., None]  # [B, L, d]
        return vectors.transpose(1, 2)


def split(features: Features) -> tuple[Words, Words]:
    """Query and text of each pair, which follow one another in a row; at least one place each."""
    mask = features["attention_mask"].bool()  # [B, L]
    is_text = features["token_type_ids"].bool() & mask  # [B, L]
    return _aligned(features["input_ids"], mask & ~is_text), _aligned(features["input_ids"], is_text)


def _aligned(ids: Tensor, chosen: Tensor) -> Words:
    """The chosen places of each row, moved to the left."""
    lengths = chosen.sum(dim=1)  # [B]
    longest = max(int(lengths.max()), 1)
    mask = torch.arange(longest, device=ids.device) < lengths[:, None]  # [B, longest]
    moved = torch.zeros(mask.shape, dtype=ids.dtype, device=ids.device)
    return Words(moved.masked_scatter(mask, ids[chosen]), mask)


def cosines(query: Tensor, text: Tensor) -> Tensor:
    """[B, Q, d] and [B, D, d] -> the cosine of each two vectors, [B, Q, D]; 0 for a vector of length 0."""
    unit_query, unit_text = (nn.functional.normalize(vectors, dim=-1) for vectors in (query, text))
    return unit_query @ unit_text.transpose(1, 2)


def same_words(query: Words, text: Words) -> Tensor:
    """Whether each two words are the same, bool [B, Q, D]."""
    return query.ids[:, :, None] == text.ids[:, None, :]
