"""The losses of a group of scored pairs, and their exact gradients where a batch does not fit in memory.

A group is a query, its right text and n wrong ones; s_0 is the score of the right one. A group that has fewer
wrong ones has blank places, which count for nothing.

    lce         L = -log  exp(s_0) / sum_j exp(s_j)                    localised contrastive estimation,
                (Gao, Dai and Callan 2021, equation 2; PHP, section 3.2)
    pointwise   L = -1/(1 + n) (log p_0 + sum_{j>0} log(1 - p_j)),  p = 1 / (1 + exp(-s))
                (HARP, equation 18, whose printed sign is the other one)
    hinge       L = 1/n sum_{j>0} max(0, 1 - s_0 + s_j)
                (PROP, equation 5; HARP, equation 6; both with n = 1)

A batch's loss is the mean of those of its groups. A worked example: the scores 1, 0, 0.5 cost
log(e + 1 + sqrt(e)) - 1 = 0.6803 by the first, (log(1 + 1/e) + log 2 + log(1 + sqrt(e))) / 3 = 0.6601 by the
second and (0 + 0.5) / 2 = 0.25 by the third.

A model may give "added" beside its scores: what the pairs cost besides, such as masked tokens that it does
not predict. That is summed over the pieces of a batch.

A new objective is one more function of scores and `there` in `LOSSES`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from sentence_transformers.base.losses.gradcache import RandContext
from torch import Tensor, nn

from reranker.training.config import LossKind

GroupLoss = Callable[[Tensor, Tensor], Tensor]
"""(scores [B, 1 + n], whether there is a text, bool [B, 1 + n]) -> the loss of each group [B]."""

Features = dict[str, Tensor]


def lce(scores: Tensor, there: Tensor) -> Tensor:
    """Scores [B, 1 + n], the right one first -> [B]."""
    masked = scores.masked_fill(~there, -torch.inf)
    return masked.logsumexp(dim=1) - scores[:, 0]


def pointwise(scores: Tensor, there: Tensor) -> Tensor:
    """Scores [B, 1 + n], the right one first -> [B]."""
    right = torch.zeros_like(scores)
    right[:, 0] = 1
    each = nn.functional.binary_cross_entropy_with_logits(scores, right, reduction="none")  # [B, 1 + n]
    return (each * there).sum(dim=1) / there.sum(dim=1)


def hinge(scores: Tensor, there: Tensor) -> Tensor:
    """Scores [B, 1 + n], the right one first -> [B]."""
    each = (1 - scores[:, :1] + scores[:, 1:]).clamp(min=0) * there[:, 1:]  # [B, n]
    return each.sum(dim=1) / there[:, 1:].sum(dim=1).clamp(min=1)


LOSSES: dict[LossKind, GroupLoss] = {"lce": lce, "pointwise": pointwise, "hinge": hinge}


def score(model: nn.Module, features: Features) -> Tensor:
    """The score of each pair [P]; features int64 [P, L] each."""
    return _read(model, features)[0]


def _read(model: nn.Module, features: Features) -> tuple[Tensor, Tensor | float]:
    """The score of each pair [P], and what they cost besides."""
    found = model(dict(features))
    return found["scores"].view(-1).float(), found.get("added", 0.0)  # of [P, 1], of baselines [P]


def batch_loss(model: nn.Module, pieces: Sequence[Features], there: Tensor, loss: GroupLoss) -> Tensor:
    """The mean loss of a batch whose pairs, group by group, lie in pieces.

    there: bool [B, 1 + n]; its true places are the pairs, in their order. The pieces before the last have
    added their gradients when this returns; `backward` on what it returns adds those of the last. Together
    they are those of the whole batch in one piece. If each piece holds whole groups one pass does it;
    otherwise a first one without gradients finds out what each score is worth (GradCache, Gao et al. 2021).
    """
    if len(pieces) == 1:
        scores, added = _read(model, pieces[0])
        return _loss_of(scores, there, loss).mean() + added
    sizes = [len(next(iter(piece.values()))) for piece in pieces]
    if _hold_whole_groups(sizes, there):
        return _accumulate(model, pieces, sizes, there, loss)
    return _cached(model, pieces, sizes, there, loss)


def _loss_of(scores: Tensor, there: Tensor, loss: GroupLoss) -> Tensor:
    """Scores of the pairs that there are [P] -> [B]."""
    placed = torch.zeros(there.shape, dtype=scores.dtype, device=scores.device)
    return loss(placed.masked_scatter(there, scores), there)


def _hold_whole_groups(sizes: Sequence[int], there: Tensor) -> bool:
    ends = set(there.sum(dim=1).cumsum(0).tolist())
    return all(sum(sizes[: n + 1]) in ends for n in range(len(sizes)))


def _accumulate(
    model: nn.Module, pieces: Sequence[Features], sizes: Sequence[int], there: Tensor, loss: GroupLoss
) -> Tensor:
    ends = there.sum(dim=1).cumsum(0).tolist()
    groups = [0, *(ends.index(sum(sizes[: n + 1])) + 1 for n in range(len(sizes)))]
    total = torch.zeros((), device=there.device)
    for number, piece in enumerate(pieces):
        is_last = number == len(pieces) - 1
        part = there[groups[number] : groups[number + 1]]  # [b, 1 + n]
        with _not_synchronised(model, unless=is_last):
            scores, added = _read(model, piece)
            own = _loss_of(scores, part, loss).sum() / len(there) + added
            if is_last:
                return own + total
            own.backward()  # type: ignore[no-untyped-call]
        total += own.detach()
    raise AssertionError


def _cached(
    model: nn.Module, pieces: Sequence[Features], sizes: Sequence[int], there: Tensor, loss: GroupLoss
) -> Tensor:
    found, states = [], []
    with torch.no_grad():
        for piece in pieces:
            states.append(RandContext(*piece.values()))
            found.append(score(model, piece))
    torch.clear_autocast_cache()  # what was cast without gradients must not be used with them
    scores = torch.cat(found).requires_grad_()  # [P]
    value = _loss_of(scores, there, loss).mean()
    [worth] = torch.autograd.grad(value, scores)  # [P]
    total = value.detach()
    starts = [sum(sizes[:n]) for n in range(len(sizes))]
    for number, (piece, start, size) in enumerate(zip(pieces, starts, sizes, strict=True)):
        is_last = number == len(pieces) - 1
        with _not_synchronised(model, unless=is_last):
            with states[number]:  # the same dropout again
                again, added = _read(model, piece)
            own = (again * worth[start : start + size]).sum()
            if is_last:
                return own + added + (total - own).detach()
            (own + added).backward()  # type: ignore[no-untyped-call]
        total += added.detach() if isinstance(added, Tensor) else added
    raise AssertionError


def _not_synchronised(model: nn.Module, *, unless: bool) -> Any:
    """Processes add up their gradients once, after the last piece."""
    no_sync = getattr(model, "no_sync", None)
    return nullcontext() if unless or no_sync is None else no_sync()
