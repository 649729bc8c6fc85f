"""DRMM: for each query word, a histogram of how similar the words of the text are to it.

Guo et al. 2016, section 4. The cosines of a query word with all text words are counted in 30 bins, 29 from -1
to 1 and one for the same word; log(1 + count) of each goes through layers of 5 and 1 (tanh); the sum over
query words is weighted by a softmax of v . (the word's vector), the paper's "term vector" gate, which needs
no statistics of a collection. A histogram has no gradient, so the embeddings are not trained.

A worked example: against a text of itself, a word of cosine 0 and one of cosine -1, a word's histogram is 1
in the last bin, in bin 14 (the middle of 29) and in the first.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from experiments.baselines.shared import Baseline, Words, cosines, same_words


class Drmm(Baseline):
    """The model. bins: of the histogram, with the one of equal words; hidden: numbers of the inner layer."""

    kind = "drmm"
    trains_embeddings = False

    def __init__(self, vectors: Tensor, bins: int = 30, hidden: int = 5) -> None:
        super().__init__(vectors, bins=bins, hidden=hidden)
        self.bins = bins
        self.match = nn.Sequential(nn.Linear(bins, hidden), nn.Tanh(), nn.Linear(hidden, 1), nn.Tanh())
        self.gate = nn.Linear(vectors.shape[1], 1, bias=False)
        self.rank = nn.Linear(1, 1)

    def score(self, query: Words, text: Words) -> Tensor:
        """The score of each pair, [B, 1]."""
        vectors = self.embeddings(query.ids)  # [B, Q, d]
        alike = cosines(vectors, self.embeddings(text.ids))  # [B, Q, D]
        counts = histograms(alike, same_words(query, text), text.mask, self.bins)  # [B, Q, bins]
        matches = self.match(counts.log1p())[..., 0]  # [B, Q]
        weights = self.gate(vectors)[..., 0].masked_fill(~query.mask, -1e9).softmax(dim=1)  # [B, Q]
        scores: Tensor = self.rank((weights * matches * query.mask).sum(dim=1, keepdim=True))
        return scores


def histograms(alike: Tensor, same: Tensor, mask: Tensor, bins: int) -> Tensor:
    """How many text words are in each bin, float32 [B, Q, bins].

    alike: cosines [B, Q, D]; same: bool [B, Q, D], whether two words are equal; mask: of text words, bool [B,
    D].
    """
    places = ((alike + 1) / 2 * (bins - 1)).long().clamp(0, bins - 2)  # [B, Q, D]
    places = torch.where(same, bins - 1, places)
    counted = mask[:, None, :].expand(same.shape).float()  # [B, Q, D]
    empty = torch.zeros((*same.shape[:2], bins), device=alike.device)
    return empty.scatter_add(2, places, counted)
