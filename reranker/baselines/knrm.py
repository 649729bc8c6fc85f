"""K-NRM: how many words of the text are how like each word of the query, softly counted by kernels.

Xiong et al. 2017, equations 2 to 8. M_ij is the cosine of query word i and text word j;

    K_k(M_i) = sum_j exp(-(M_ij - mu_k)^2 / (2 sigma_k^2)),   phi_k = sum_i log K_k(M_i),   f = w . phi + b

with 11 kernels: one for equal words (mu 1, sigma 0.001), ten from 0.9 down to -0.9 (sigma 0.1). Logarithms
are cut at 1e-10 and multiplied by 0.01, so that a new model's scores are small.

A worked example: a query word of which one text word has the cosine 1 and another 0. The kernel at 1 counts
1, that at 0.9 counts exp(-0.5) = 0.6065, that at 0.1 counts exp(-0.5), and so does that at -0.1.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reranker.baselines.shared import Baseline, Words, cosines

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
        """Cosines [B, Q, D] and where words are, bool [B, Q] and [B, D] -> phi [B, K]."""
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
        """The score of each pair, [B]."""
        alike = cosines(self.embeddings(query.ids), self.embeddings(text.ids))  # [B, Q, D]
        scores: Tensor = self.rank(self.kernels(alike, query.there, text.there))  # [B, 1]
        return scores[:, 0]
