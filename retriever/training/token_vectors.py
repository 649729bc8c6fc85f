"""The vectors of a static encoder in training: a step costs as much as its tokens, not as the vocabulary."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class TokenVectors(nn.EmbeddingBag):
    """The mean of a text's token vectors; gradients are sparse, with a row for each token of the batch.

    torch's own sparse gradient has a row for each occurrence, which makes a step twice as slow.
    """

    def __init__(self, vectors: Tensor) -> None:
        """vectors: float32 [V, d]."""
        count, width = vectors.shape
        super().__init__(count, width, mode="mean", sparse=True, _weight=vectors.detach().float())

    def forward(self, *texts: Any, **_: Any) -> Tensor:
        """ids, int64 [T], the tokens of all texts, and offsets, int64 [B], where each begins -> [B, d]."""
        ids, offsets = texts
        means_of: Any = _Means.apply
        means: Tensor = means_of(self.weight, ids, offsets)
        return means


class _Means(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, vectors: Tensor, ids: Tensor, offsets: Tensor) -> Tensor:
        ctx.save_for_backward(ids, offsets)
        ctx.shape = vectors.shape
        return functional.embedding_bag(ids, vectors, offsets, mode="mean")

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        """The sum of the gradients of a token's texts: the same product, transposed."""
        (gradient,), (ids, offsets) = gradients, ctx.saved_tensors
        lengths = offsets.diff(append=offsets.new_tensor([len(ids)]))  # [B]
        texts = torch.repeat_interleave(lengths)  # [T]
        order = ids.argsort(stable=True)
        rows, counts = ids[order].unique_consecutive(return_counts=True)  # [U]
        shares = gradient / lengths.clamp(min=1)[:, None]
        values = functional.embedding_bag(texts[order], shares, counts.cumsum(0) - counts, mode="sum")
        options: dict[str, Any] = {"is_coalesced": True, "check_invariants": False}
        return torch.sparse_coo_tensor(rows[None], values, ctx.shape, **options), None, None
