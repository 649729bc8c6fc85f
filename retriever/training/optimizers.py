"""The optimisers of all trainings: AdamW, and for token vectors Adam of the rows that a step has read.

A step of a static encoder costs as much as its tokens, not as its vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.trainer_pt_utils import get_parameter_names

from linkseek.retriever.training import checkpoints
from linkseek.retriever.training.config import TrainingSettings


def make_optimizer(model: nn.Module, training: TrainingSettings) -> Any:
    """AdamW, without weight decay on biases and norms; `RowAdam` for a model whose gradients are sparse."""
    groups = parameter_groups(model, training.weight_decay)
    options: dict[str, Any] = {"lr": training.learning_rate, "eps": training.adam_epsilon}
    if any(getattr(module, "sparse", False) for module in model.modules()):
        return RowAdam(groups, **options)
    return torch.optim.AdamW(groups, **options, fused=True)


_NO_DECAY = ["bias", "layernorm", "rmsnorm", r"(?:^|[._])norm(?:$|\.)"]


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """The trained weights with and without weight decay, chosen as in the transformers library.

    Biases and the weights of norms, by their names or their modules' class, are not decayed.
    """
    weights = checkpoints.trained_weights(model)
    decayed = {*get_parameter_names(model, [nn.LayerNorm], _NO_DECAY)}
    first = [weights[name] for name in weights if name in decayed]
    others = [weights[name] for name in weights if name not in decayed]
    return [{"params": first, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]


class RowAdam(torch.optim.Optimizer):
    """AdamW whose step moves the rows with a gradient alone; the others keep their weights and moments.

    The lazy Adam of sparse gradients (torch.optim.SparseAdam), with decoupled weight decay (Loshchilov and
    Hutter 2019) of these rows.
    """

    def __init__(self, groups: Any, lr: float, eps: float, betas: tuple[float, float] = (0.9, 0.999)) -> None:
        super().__init__(groups, {"lr": lr, "eps": eps, "betas": betas, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Apply the gradients, sparse ones [V, d] with rows as their only sparse dimension."""
        for group in self.param_groups:
            for weights in group["params"]:
                if weights.grad is not None:
                    self._step(group, weights, weights.grad.coalesce())

    def _step(self, group: dict[str, Any], weights: Tensor, gradient: Tensor) -> None:
        rows, values = gradient.indices()[0], gradient.values()  # [U], [U, d]
        state = self.state[weights]
        if not state:
            moments = {name: torch.zeros_like(weights) for name in ("exp_avg", "exp_avg_sq")}
            state.update(moments, step=torch.zeros(()))
        state["step"] += 1
        (beta1, beta2), rate, step = group["betas"], group["lr"], state["step"].item()
        mean = state["exp_avg"][rows].lerp_(values, 1 - beta1)
        square = state["exp_avg_sq"][rows].mul_(beta2).addcmul_(values, values, value=1 - beta2)
        state["exp_avg"][rows], state["exp_avg_sq"][rows] = mean, square
        size = square.sqrt_().div_(sqrt(1 - beta2**step)).add_(group["eps"])
        moved = weights[rows].mul_(1 - rate * group["weight_decay"])
        weights[rows] = moved.addcdiv_(mean, size, value=-rate / (1 - beta1**step))


def clip_gradients(parameters: Iterable[nn.Parameter], limit: float) -> Tensor:
    """Scale gradients, dense or sparse, so that their norm is at most the limit; the norm before, []."""
    gradients = []
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()  # for the norm of the sum, not of its parts
            gradients.append(parameter.grad.values())
        elif parameter.grad is not None:
            gradients.append(parameter.grad)
    norm = torch.nn.utils.get_total_norm(gradients)
    for gradient in gradients:
        gradient.mul_((limit / (norm + 1e-6)).clamp(max=1.0))
    return norm


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
