"""The loss of bi-encoders: each query must find its passage among the passages of the whole batch.

Negative log likelihood of the relevant passage among all passages of a batch: the passages of other
queries (in-batch negatives) and the negatives that come with the pairs (DPR, Karpukhin et al. 2020, section
3.2; HLP, Zhou et al. 2022, section 3.3):

    L(q_i) = -log  exp(s q_i . p_i)  /  sum_j exp(s q_i . p_j),      s: the scale

With several processes the batch spans all of them, and gradients flow to all of its vectors.
In a batch of 400 some passage is relevant for two queries, or comes from the same document as the relevant
one; taught as negatives they are noise, so they can be omitted from the sum (`not_negatives`).

A worked example: queries (1, 0), (0, 1), (1, 1), passages (1, 0), (0, 1), (1, 1), scale 1. The scores of
the first query are 1, 0, 1, and its loss is log(2e + 1) - 1 = 0.8620.

Gradients of a batch that does not fit in memory are exact, too (GradCache, Gao et al. 2021). The loss
compares everything in a batch, so the pieces of a batch cannot each have a loss of their own. Instead a first
pass without gradients gives the outputs of all pieces; the loss of these gives the gradient of each output; a
second pass, piece by piece and with the same dropout, carries it into the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from sentence_transformers.base.losses.gradcache import RandContext
from sentence_transformers.util.distributed import all_gather, all_gather_with_grad, get_rank, get_world_size
from torch import Tensor, nn

from linkseek.retriever.training.config import Masking, Scores
from linkseek.retriever.training.log import MASKED, NEGATIVES
from linkseek.retriever.training.losses.teacher import Teacher, divergence
from linkseek.retriever.training.samples.pair_inputs import DOCUMENT, ID, QUERY, TEXT

if TYPE_CHECKING:
    from linkseek.retriever.training.pair_models import PairModel

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


def not_negatives(keys: Tensor, all_keys: Tensor, gold: Tensor, masking: Masking) -> Tensor:
    """Which passages are not negatives of which query, bool [B, P]; never a query's relevant one.

    keys: int64 [B, 1 + n, 4] of this process's pairs, all_keys: int64 [P, 4] of all passages, as
    `pair_inputs.passage_keys` makes them; gold: int64 [B], the relevant ones among all.

    passages   the relevant passage again, and those relevant for the same query elsewhere in the batch
    documents  also other passages of its document, but not the negatives that come with the pair
    off        blank ones alone, which fill up pairs with too few negatives
    """
    relevant = keys[:, 0]  # [B, 4]
    out = (all_keys[:, TEXT] == 0).expand(len(keys), -1).clone()  # [B, P]
    if masking != "off":
        for key in (QUERY, TEXT, ID):
            out |= _same(relevant[:, key], all_keys[:, key])
    if masking == "documents":
        given = torch.zeros_like(out)
        negatives = gold[:, None] + len(keys) * torch.arange(1, keys.shape[1], device=keys.device)  # [B, n]
        given.scatter_(1, negatives, True)
        out |= _same(relevant[:, DOCUMENT], all_keys[:, DOCUMENT]) & ~given
    return out.scatter_(1, gold[:, None], False)


def _same(mine: Tensor, others: Tensor) -> Tensor:
    return (mine[:, None] == others[None, :]) & (mine != 0)[:, None]  # [B, P]


def mask_counts(mask: Tensor, all_keys: Tensor) -> dict[str, Tensor]:
    """How many passages are a query's negatives, and how many were masked: means over the queries, [] each.

    Blank passages are neither.

    mask: bool [B, P] as `not_negatives` returns it; all_keys: int64 [P, 4].
    """
    masked = (mask & (all_keys[:, TEXT] != 0)).sum(dim=1)  # [B]
    return {NEGATIVES: (~mask).sum(dim=1).float().mean() - 1, MASKED: masked.float().mean()}


def taught_loss(own: Tensor, taught: Tensor, how: Scores) -> Tensor:
    """The mean loss of scores [B, 1 + n] that follow a teacher's, NaN for none; the relevant passages first.

    kl: the divergence of both distributions over a query's passages (Hinton et al. 2015). margin: the square
    of the difference between both margins of the relevant passage (Hofstätter et al. 2020, section 3.2).
    """
    lacks = taught.isnan()
    if how == "margin":
        margins = (own[:, :1] - own[:, 1:]) - (taught[:, :1] - taught[:, 1:])
        return margins[~(lacks[:, :1] | lacks[:, 1:])].square().mean().nan_to_num()
    several = (~lacks).sum(dim=1) > 1
    return divergence(own[several], taught[several], lacks[several]).sum(dim=1).mean().nan_to_num()


def in_batch_loss(scores: Tensor, gold: Tensor, mask: Tensor) -> Tensor:
    """The mean loss of scores [B, P], scaled already; gold int64 [B]; mask bool [B, P] of omitted ones."""
    return nn.functional.cross_entropy(scores.masked_fill(mask, -torch.inf), gold)


@dataclass(frozen=True)
class PairLoss:
    """The loss of a batch of `retriever.training.samples.pair_inputs.PairCollator`.

    kind: how texts are read and compared. cached: with GradCache, so that one piece at a time is in memory.
    fixed_passages: without gradients of passages. teacher, teacher_weight: a teacher and its loss's weight,
    which also weighs the scores in the pairs; these are divided by score_temperature.
    """

    kind: PairModel
    scale: float = 1.0
    masking: Masking = "off"
    cached: bool = False
    fixed_passages: bool = False
    teacher: Teacher | None = None
    teacher_weight: float = 1.0
    scores: Scores = ""
    score_temperature: float = 1.0

    def __call__(self, model: nn.Module, inputs: Mapping[str, Any]) -> dict[str, Tensor]:
        """ "loss" and `mask_counts`, [] each."""

        def read(piece: Piece) -> tuple[Tensor, Tensor]:
            vectors = self.kind.read(model, piece)  # [b, ...]
            return vectors, vectors.new_zeros(())

        fixed: list[Tensor] = []
        trained = [*inputs["queries"], *inputs["passages"]]
        if self.fixed_passages:
            trained = inputs["queries"]
            with torch.no_grad():
                fixed = [read(piece)[0] for piece in inputs["passages"]]
        counts: dict[str, Tensor] = {}

        def loss(vectors: list[Tensor]) -> Tensor:
            if count := len(inputs["queries"]):
                queries = self.kind.joined(vectors[:count])  # [B, ...]
                passages = self.kind.joined([*vectors[count:], *fixed])  # [B (1 + n), ...] of this process
            else:
                first = len(inputs["keys"])
                queries, passages = vectors[0][:first], vectors[0][first:]
            taught = inputs["taught"] / self.score_temperature if self.scores else None
            value, mask, all_keys = self._loss(queries, passages, inputs["keys"], taught)
            counts.update(mask_counts(mask, all_keys))
            return self.kind.regularised(value, queries, passages)

        if self.cached:
            return {"loss": cached_loss(model, trained, read, loss)[0], **counts}
        return {"loss": loss([read(piece)[0] for piece in trained]), **counts}

    def _loss(
        self, queries: Tensor, passages: Tensor, keys: Tensor, taught: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The loss [], the mask [B, P] and the keys [P, 4]. keys: [B, 1 + n, 4]. taught: [B, 1 + n]."""
        all_keys = keys.transpose(0, 1).reshape(-1, keys.shape[-1])  # [B (1 + n), 4], in their order
        first = 0
        if get_world_size() > 1:
            first = get_rank() * len(passages)
            passages, all_keys = all_gather_with_grad(passages), all_gather(all_keys)  # [P, ...], [P, 4]
        gold = first + torch.arange(len(queries), device=queries.device)  # [B]
        with torch.autocast(queries.device.type, enabled=False):  # a score needs more than 8 bits
            mask = not_negatives(keys, all_keys, gold, self.masking)  # [B, P]
            losses = []
            for q, p in self.kind.views(queries, passages):
                scores = self.kind.scores(q, p) * self.scale  # [B, P]
                own = in_batch_loss(scores, gold, mask)
                if self.teacher is not None:
                    follows = self.teacher.loss(scores, (keys[:, 0, QUERY], all_keys[:, TEXT]), mask)
                elif taught is not None and self.scores:
                    pair_columns = gold[:, None] + len(keys) * torch.arange(keys.shape[1], device=keys.device)
                    follows = taught_loss(scores.gather(1, pair_columns), taught, self.scores)
                if self.teacher is not None or taught is not None:
                    own = (1 - self.teacher_weight) * own + self.teacher_weight * follows
                losses.append(own)
            return torch.stack(losses).mean(), mask, all_keys
