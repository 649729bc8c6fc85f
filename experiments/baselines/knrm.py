"""K-NRM: how many words of the text are similar to each word of the query, counted by kernels.

Xiong et al. 2017, equations 2 to 8. M_ij is the cosine of query word i and text word j;

    K_k(M_i) = sum_j exp(-(M_ij - mu_k)^2 / (2 sigma_k^2)),   phi_k = sum_i log K_k(M_i),   f = w . phi + b

with 11 kernels: one for equal words (mu 1, sigma 0.001), ten from 0.9 down to -0.9 (sigma 0.1). Logarithms
are bounded below at 1e-10 and multiplied by 0.01, so that the scores of a new model are small.

A worked example: a query word of which one text word has the cosine 1 and another 0. The kernel at 1 counts
1, the one at 0.9 counts exp(-0.5) = 0.6065, the one at 0.1 counts exp(-0.5), and so does the one at -0.1.

Conv-KNRM (Dai et al. 2018, equations 1 to 6) counts similar word n-grams of query and text in the same way,
for all pairs of lengths. A convolution makes a vector of each h words, h from 1 to 3; K-NRM's kernels compare
the query's n-grams of each length with the text's n-grams of each length: nine times eleven numbers, of which
f = w . phi + b.

A worked example: with filters that add up their words and no bias, the text "new york" has the unigrams "new"
and "york", the bigrams "new york" and "york" (nothing follows), so a query "york" matches in both.
"""

from __future__ import annotations

from itertools import product

import torch
from torch import Tensor, nn

from experiments.baselines.shared import Baseline, Words, cosines

_SMALLEST = 1e-10
_SCALE = 0.01


class Kernels(nn.Module):
    """Soft counts. mu, sigma: float32 [K]."""

    mu: Tensor
    sigma: Tensor

    def __init__(self) -> None:
        super().__init__()
        mu = torch.tensor([1.0, *(0.9 - 0.2 * step for step in range(10))])
        self.register_buffer("mu", mu, persistent=False)
        self.register_buffer("sigma", torch.tensor([0.001] + [0.1] * 10), persistent=False)

    def forward(self, alike: Tensor, query: Tensor, text: Tensor) -> Tensor:
        """Cosines [B, Q, D] and masks of words, bool [B, Q] and [B, D] -> phi [B, K]."""
        distances = alike.float()[..., None] - self.mu  # [B, Q, D, K]
        near = torch.exp(-(distances**2) / (2 * self.sigma**2))  # [B, Q, D, K]
        counts = (near * text[:, None, :, None]).sum(dim=2)  # [B, Q, K]
        logs = counts.clamp(min=_SMALLEST).log() * _SCALE
        return (logs * query[..., None]).sum(dim=1)


class Knrm(Baseline):
    """The model; embeddings are trained."""

    kind = "knrm"

    def __init__(self, vectors: Tensor) -> None:
        super().__init__(vectors)
        self.kernels = Kernels()
        self.rank = nn.Linear(len(self.kernels.mu), 1)

    def score(self, query: Words, text: Words) -> Tensor:
        """The score of each pair, [B, 1]."""
        alike = cosines(self.embeddings(query.ids), self.embeddings(text.ids))  # [B, Q, D]
        scores: Tensor = self.rank(self.kernels(alike, query.mask, text.mask))
        return scores


class ConvKnrm(Baseline):
    """K-NRM on n-grams. filters: numbers of an n-gram's vector; longest: words of the longest n-gram."""

    kind = "conv-knrm"

    def __init__(self, vectors: Tensor, filters: int = 128, longest: int = 3) -> None:
        super().__init__(vectors, filters=filters, longest=longest)
        width = vectors.shape[1]
        self.grams = nn.ModuleList(nn.Conv1d(width, filters, size) for size in range(1, longest + 1))
        self.kernels = Kernels()
        self.rank = nn.Linear(longest * longest * len(self.kernels.mu), 1)

    def score(self, query: Words, text: Words) -> Tensor:
        """The score of each pair, [B, 1]."""
        counts = [
            self.kernels(cosines(query_grams, text_grams), query.mask, text.mask)
            for query_grams, text_grams in product(self._ngrams(query), self._ngrams(text))
        ]
        scores: Tensor = self.rank(torch.cat(counts, dim=1))
        return scores

    def _ngrams(self, words: Words) -> list[Tensor]:
        """The vectors of the n-grams that begin at each word, of each length, [B, L, F]."""
        across = self.across(words)  # [B, d, L]
        return [
            torch.relu(gram(nn.functional.pad(across, (0, size)))).transpose(1, 2)
            for size, gram in enumerate(self.grams)
        ]
