"""The loss of bi-encoders: each query must find its passage among those of the whole batch.

Negative log likelihood of the right passage among all passages of a batch, those of other queries
(in-batch negatives) and the negatives that come with the pairs (DPR, Karpukhin et al. 2020, section
3.2; HLP, Zhou et al. 2022, section 3.3):

    L(q_i) = -log  exp(s q_i . p_i)  /  sum_j exp(s q_i . p_j),      s: the scale

With several processes the batch is that of all of them, and gradients flow to all of its vectors.
In a batch of 400 some passage is right for two queries, or comes from the same document as the right
one; taught as negatives they are noise, so they can be left out of the sum (`hidden`).

A worked example: queries (1, 0), (0, 1), (1, 1), passages (1, 0), (0, 1), (1, 1), scale 1. The scores of
the first query are 1, 0, 1, and its loss is log(2e + 1) - 1 = 0.8620.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from sentence_transformers.base.losses.gradcache import CachedLossMixin
from sentence_transformers.util.distributed import all_gather, all_gather_with_grad, get_rank, get_world_size
from torch import Tensor, nn

from retriever.training.config import Masking
from retriever.training.texts import DOCUMENT, ID, QUERY, TEXT


def hidden(keys: Tensor, all_keys: Tensor, gold: Tensor, masking: Masking) -> Tensor:
    """Which passages are no negatives of which query, bool [B, P]; never a query's right one.

    keys: int64 [B, 1 + n, 4] of this process's pairs, all_keys: int64 [P, 4] of all passages, as
    `retriever.training.texts.passage_keys` makes them; gold: int64 [B], the right passages among all.

    passages   the right passage again, and what is right for the same query elsewhere in the batch
    documents  also other passages of its document, but not the negatives that come with the pair
    off        blank ones alone, which stand where a pair has too few negatives
    """
    right = keys[:, 0]  # [B, 4]
    out = (all_keys[:, TEXT] == 0).expand(len(keys), -1).clone()  # [B, P]
    if masking != "off":
        for key in (QUERY, TEXT, ID):
            out |= _same(right[:, key], all_keys[:, key])
    if masking == "documents":
        given = torch.zeros_like(out)
        negatives = gold[:, None] + len(keys) * torch.arange(1, keys.shape[1], device=keys.device)  # [B, n]
        given.scatter_(1, negatives, True)
        out |= _same(right[:, DOCUMENT], all_keys[:, DOCUMENT]) & ~given
    return out.scatter_(1, gold[:, None], False)


def _same(mine: Tensor, others: Tensor) -> Tensor:
    return (mine[:, None] == others[None, :]) & (mine != 0)[:, None]  # [B, P]


def in_batch_loss(queries: Tensor, passages: Tensor, gold: Tensor, hide: Tensor, scale: float) -> Tensor:
    """The mean loss of queries [B, d] among passages [P, d]; gold int64 [B], hide bool [B, P]."""
    scores = (queries @ passages.T * scale).masked_fill(hide, -torch.inf)  # [B, P]
    return nn.functional.cross_entropy(scores, gold)


class InBatchLoss(CachedLossMixin, nn.Module):
    """The loss of one step, for sentence-transformers' trainer.

    mini_batch: texts that are in memory at a time (GradCache, Gao et al. 2021); 0: all at once.
    """

    def __init__(self, model: nn.Module, scale: float, masking: Masking, mini_batch: int = 0) -> None:
        super().__init__()
        self.model = model
        self.scale = scale
        self.masking: Masking = masking
        self.mini_batch_size = mini_batch
        self.uses_gradient_cache = mini_batch > 0

    def forward(self, features: Iterable[dict[str, Any]], labels: Tensor) -> Tensor:
        """features: of B queries and of B (1 + n) passages; labels: their keys, int64 [B, 1 + n, 4]."""
        features = list(features)
        if self.mini_batch_size:
            return self.forward_cached(features, labels)
        return self.calculate_loss([[self.model(f)["sentence_embedding"]] for f in features], labels)

    def calculate_loss(
        self, reps: list[list[Tensor]], labels: Tensor | None = None, *, with_backward: bool = False
    ) -> Tensor:
        """The loss of vectors that lie in pieces: those of queries, then those of passages."""
        assert labels is not None
        queries, passages = (torch.cat(pieces).float() for pieces in reps)  # [B, d], [B (1 + n), d]
        keys = labels.transpose(0, 1).reshape(-1, labels.shape[-1])  # [B (1 + n), 4], in their order
        first = 0
        if get_world_size() > 1:
            first = get_rank() * len(passages)
            passages, keys = all_gather_with_grad(passages), all_gather(keys)  # [P, d], [P, 4]
        gold = first + torch.arange(len(queries), device=queries.device)  # [B]
        with torch.autocast(queries.device.type, enabled=False):  # a score needs more than 8 bits
            hide = hidden(labels, keys, gold, self.masking)  # [B, P]
            loss = in_batch_loss(queries, passages, gold, hide, self.scale)
        if with_backward:
            torch.autograd.backward(loss)
            loss = loss.detach()
        return loss
