"""Exact gradients of a batch that does not fit in memory (GradCache, Gao et al. 2021).

The loss compares everything in a batch, so the pieces of a batch cannot each have a loss of their own.
Instead a first pass without gradients gives the outputs of all pieces; the loss of these gives the gradient
of each output; a second pass, piece by piece and with the same dropout, carries it into the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from sentence_transformers.base.losses.gradcache import RandContext
from torch import Tensor, nn

Piece = Mapping[str, Any]
"""The features of some texts, as a model reads them together."""

Read = Callable[[Piece], tuple[Tensor, Tensor]]
"""A piece -> the output that the loss compares, and a loss [] of the piece, such as of masked tokens."""


def cached_loss(
    model: nn.Module, pieces: Sequence[Piece], read: Read, loss: Callable[[list[Tensor]], Tensor]
) -> tuple[Tensor, Tensor]:
    """The loss of a batch, and the part that pieces add by themselves.

    loss: the outputs of all pieces -> []. When this returns, all pieces but the last have added their
    gradients; `backward` on the loss adds the gradients of the last.
    """
    outputs, states = [], []
    with torch.no_grad():
        for piece in pieces:
            states.append(RandContext(*piece.values()))
            outputs.append(read(piece)[0])
    leaves = [output.requires_grad_() for output in outputs]
    value = loss(leaves)
    gradients = torch.autograd.grad(value, leaves)
    total, added = value.detach(), torch.zeros((), device=value.device)
    for number, (piece, state, gradient) in enumerate(zip(pieces, states, gradients, strict=True)):
        is_last = number == len(pieces) - 1
        with synchronised(model, is_last):
            with state:  # the same dropout again
                output, extra = read(piece)
            own = (output * gradient).sum() + extra
            added = added + extra.detach()
            if is_last:
                return total + added + (own - own.detach()), added
            own.backward()  # type: ignore[no-untyped-call]
    raise AssertionError


def synchronised(model: nn.Module, is_last: bool) -> AbstractContextManager[Any]:
    """Processes add up their gradients once, after the last piece."""
    no_sync = getattr(model, "no_sync", None)
    return nullcontext() if is_last or no_sync is None else no_sync()
