"""DRMM: of each query word, a histogram of how like it the words of the text are.

Guo et al. 2016, section 4. The cosines of a query word with all text words are counted in 30 bins, 29 from -1
to 1 and one for the same word; log(1 + count) of each goes through layers of 5 and 1 (tanh); the sum over
query words is weighted by a softmax of v . (the word's vector), the paper's "term vector" gate, which needs
no statistics of a collection. A histogram has no gradient, so the embeddings stay as they are.

A worked example: against a text of itself, a word of cosine 0 and one of cosine -1, a word's histogram is 1
in the last bin, in bin 14 (the middle of 29) and in the first.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reranker.baselines.shared import Baseline, Words, cosines


class Drmm(Baseline):
    """The model. bins: of the histogram, the one of equal words included; hidden: the layer's numbers."""

    kind = "drmm"
    trains_embeddings = False

    def __init__(self, vectors: Tensor, bins: int = 30, hidden: int = 5) -> None:
        super().__init__(vectors, bins=bins, hidden=hidden)
        self.bins = bins
        self.match = nn.Sequential(nn.Linear(bins, hidden), nn.Tanh(), nn.Linear(hidden, 1), nn.Tanh())
        self.gate = nn.Linear(vectors.shape[1], 1, bias=False)
        self.rank = nn.Linear(1, 1)

    def score(self, query: Words, text: Words) -> Tensor:
        """The score of each pair, [B]."""
        vectors = self.embeddings(query.ids)  # [B, Q, d]
        alike = cosines(vectors, self.embeddings(text.ids))  # [B, Q, D]
        same = query.ids[:, :, None] == text.ids[:, None, :]  # [B, Q, D]
        matches = self.match(histograms(alike, same, text.there, self.bins).log1p())[..., 0]  # [B, Q]
        weights = self.gate(vectors)[..., 0].masked_fill(~query.there, -1e9).softmax(dim=1)  # [B, Q]
        scores: Tensor = self.rank((weights * matches * query.there).sum(dim=1, keepdim=True))  # [B, 1]
        return scores[:, 0]


def histograms(alike: Tensor, same: Tensor, there: Tensor, bins: int) -> Tensor:
    """How many text words fall into each bin, float32 [B, Q, bins].

    alike: cosines [B, Q, D]; same: bool [B, Q, D], whether two words are equal; there: bool [B, D].
    """
    places = ((alike + 1) / 2 * (bins - 1)).long().clamp(0, bins - 2)  # [B, Q, D]
    places = torch.where(same, bins - 1, places)
    counted = there[:, None, :].expand(same.shape).float()  # [B, Q, D]
    found = torch.zeros((*same.shape[:2], bins), device=alike.device)
    return found.scatter_add(2, places, counted)
