"""The losses of a group of scored pairs, and their exact gradients where a batch does not fit in memory.

A group is a query, its relevant text and n others; s_0 is the score of the relevant one. A group with fewer
others has blank places, which count for nothing.

    lce         L = -log  exp(s_0) / sum_j exp(s_j)                    localised contrastive estimation,
                (Gao, Dai and Callan 2021, equation 2; PHP, section 3.2)
    pointwise   L = -1/(1 + n) (log p_0 + sum_{j>0} log(1 - p_j)),  p = 1 / (1 + exp(-s))
                (HARP, equation 18, whose printed sign is the opposite)
    hinge       L = 1/n sum_{j>0} max(0, 1 - s_0 + s_j)
                (PROP, equation 5; HARP, equation 6; both with n = 1)

A batch's loss is the mean over its groups. A worked example: the scores 1, 0, 0.5 cost
log(e + 1 + sqrt(e)) - 1 = 0.6803 by the first, (log(1 + 1/e) + log 2 + log(1 + sqrt(e))) / 3 = 0.6601 by the
second and (0 + 0.5) / 2 = 0.25 by the third.

A teacher's scores t_j of the same texts may have a share w of the loss (Hinton et al. 2015):

    kl          L = sum_j q_j log(q_j / p_j),  q and p being the softmax of t and of s over the group
    margin      L = 1/n sum_{j>0} ((s_0 - s_j) - (t_0 - t_j))^2
                (margin MSE, Hofstaetter et al. 2020)

With the teacher's 2, 0, 1 the scores above cost 0.0602 by the first and (1 + 0.25) / 2 = 0.625 by the second.

A model may give "added" next to its scores: a further loss of the pairs, such as the loss of masked tokens.
It is summed over the pieces of a batch.

A new loss is one more function of scores and mask in `LOSSES`, or of scores, mask and goals in `TAUGHT`.

`mean_reciprocal_rank` is the measure by which a training chooses its model: MRR@10 of each query's relevant
texts and hard negatives. Texts with the score of a relevant one rank above it, so a model that gives all of
them the same score is the worst, not the best.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from linkseek.indexer.encoding.batches import Parallel, Tokens, encode_texts
from linkseek.reranker.training.config import GroupTeacherSettings, LossKind, TaughtLossKind
from linkseek.reranker.training.group_data import GroupTexts, PairTokenizer
from linkseek.retriever.mining.pairs import Pair
from linkseek.retriever.training.losses.in_batch_loss import Piece, cached_loss, synchronised
from linkseek.retriever.training.losses.teacher import divergence

GroupLoss = Callable[[Tensor, Tensor], Tensor]
"""(scores [B, 1 + n], the mask of texts, bool [B, 1 + n]) -> the loss of each group [B]."""

TaughtLoss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""The same with a teacher's scores, float32 [B, 1 + n]."""


def lce(scores: Tensor, mask: Tensor) -> Tensor:
    """Scores [B, 1 + n], the relevant text's first -> [B]."""
    return scores.masked_fill(~mask, -torch.inf).logsumexp(dim=1) - scores[:, 0]


def pointwise(scores: Tensor, mask: Tensor) -> Tensor:
    """Scores [B, 1 + n], the relevant text's first -> [B]."""
    labels = torch.zeros_like(scores)
    labels[:, 0] = 1
    each = nn.functional.binary_cross_entropy_with_logits(scores, labels, reduction="none")  # [B, 1 + n]
    return (each * mask).sum(dim=1) / mask.sum(dim=1)


def hinge(scores: Tensor, mask: Tensor) -> Tensor:
    """Scores [B, 1 + n], the relevant text's first -> [B]."""
    each = (1 - scores[:, :1] + scores[:, 1:]).clamp(min=0) * mask[:, 1:]  # [B, n]
    return each.sum(dim=1) / mask[:, 1:].sum(dim=1).clamp(min=1)


def kl(scores: Tensor, mask: Tensor, goals: Tensor) -> Tensor:
    """Scores and the teacher's [B, 1 + n], the relevant text's first -> [B]."""
    return divergence(scores, goals, ~mask).sum(dim=1)


def margin(scores: Tensor, mask: Tensor, goals: Tensor) -> Tensor:
    """Scores and the teacher's [B, 1 + n], the relevant text's first -> [B]."""
    ahead = scores - goals
    each = (ahead[:, :1] - ahead[:, 1:]).square() * mask[:, 1:]  # [B, n]
    return each.sum(dim=1) / mask[:, 1:].sum(dim=1).clamp(min=1)


LOSSES: dict[LossKind, GroupLoss] = {"lce": lce, "pointwise": pointwise, "hinge": hinge}
TAUGHT: dict[TaughtLossKind, TaughtLoss] = {"kl": kl, "margin": margin}


def loss_of(kind: LossKind, teacher: GroupTeacherSettings) -> GroupLoss | TaughtLoss:
    """The loss of a kind, with a teacher's share if there is one."""
    own = LOSSES[kind]
    return with_teacher(own, TAUGHT[teacher.loss], teacher.weight) if teacher.teachers else own


def with_teacher(own: GroupLoss, taught: TaughtLoss, weight: float) -> TaughtLoss:
    """(1 - weight) times the loss of a group plus weight times the teacher's."""

    def loss(scores: Tensor, mask: Tensor, goals: Tensor) -> Tensor:
        return (1 - weight) * own(scores, mask) + weight * taught(scores, mask, goals)

    return loss


def read_scores(model: nn.Module, features: Piece) -> tuple[Tensor, Tensor]:
    """The score of each pair [P], and the loss [] that the model adds; features int64 [P, L] each."""
    output = model(dict(features))
    scores: Tensor = output["scores"].view(-1).float()  # from [P, 1] or [P]
    return scores, output.get("added", scores.new_zeros(()))


def batch_loss(
    model: nn.Module,
    pieces: Sequence[Piece],
    mask: Tensor,
    loss: GroupLoss | TaughtLoss,
    goals: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The mean loss of a batch whose pairs, group by group, lie in pieces; and the part that the model added.

    mask: bool [B, 1 + n]; its true places are the pairs, in their order. goals: a teacher's scores, float32
    [B, 1 + n], for a loss with a teacher. The pieces before the last have added their gradients when this
    returns; `backward` on the loss adds the gradients of the last piece. Together they equal the gradients of
    the whole batch in one piece. If each piece contains whole groups one pass does it, otherwise it takes two
    (`retriever.training.losses.in_batch_loss`).
    """
    given = (mask,) if goals is None else (mask, goals)
    cuts = list(accumulate(len(next(iter(piece.values()))) for piece in pieces))
    ends = mask.sum(dim=1).cumsum(0).tolist()  # of the groups, in pairs
    if not set(cuts) <= set(ends):

        def mean_loss(scores: list[Tensor]) -> Tensor:
            return _group_losses(torch.cat(scores), loss, *given).mean()

        return cached_loss(model, pieces, partial(read_scores, model), mean_loss)
    total = all_added = torch.zeros((), device=mask.device)
    first = 0
    for cut, piece in zip(cuts, pieces, strict=True):
        is_last, end = cut == cuts[-1], ends.index(cut) + 1
        with synchronised(model, is_last):
            scores, added = read_scores(model, piece)
            losses = _group_losses(scores, loss, *(values[first:end] for values in given))
            own = losses.sum() / len(mask) + added
            all_added = all_added + added.detach()
            if is_last:
                return own + total, all_added
            own.backward()  # type: ignore[no-untyped-call]
        total = total + own.detach()
        first = end
    raise AssertionError


def _group_losses(scores: Tensor, loss: GroupLoss | TaughtLoss, mask: Tensor, *goals: Tensor) -> Tensor:
    """Scores of the pairs of the mask [P] -> [B]."""
    placed = torch.zeros(mask.shape, dtype=scores.dtype, device=scores.device)
    return loss(placed.masked_scatter(mask, scores), mask, *goals)


class DevGroups:
    """The measure of a model in training on labelled pairs."""

    name = "the re-ranker in training"
    dimension = 1
    token_budget = 8_192  # padded tokens in a batch
    parallel = Parallel()

    def __init__(
        self, model: nn.Module, device: torch.device, pairs: Sequence[Pair], tokenizer: PairTokenizer,
        texts: GroupTexts,
    ) -> None:  # fmt: skip
        by_query: dict[str, list[Pair]] = {}
        for pair in pairs:
            by_query.setdefault(pair.query, []).append(pair)
        groups = [texts.dev_pairs(pairs) for pairs in by_query.values()]
        self._sizes = [len(group) for group in groups]
        self._relevant = [len(pairs) for pairs in by_query.values()]
        self._tokens = tokenizer.tokens([pair for group in groups for pair in group])
        self._model, self._device, self._tokenizer = model, device, tokenizer

    def __call__(self) -> float:
        """MRR@10, between 0 and 1."""
        was_training = self._model.training
        self._model.eval()
        scores = encode_texts(self, self._tokens)[:, 0]  # [n]
        self._model.train(was_training)
        return mean_reciprocal_rank(scores, self._sizes, self._relevant)

    def encode_tokens(self, batch: Sequence[Tokens]) -> NDArray[np.float32]:
        """The scores of one batch, float32 [B, 1], as `indexer.encoding.batches` calls it."""
        features = {name: value.to(self._device) for name, value in self._tokenizer.features(batch).items()}
        with torch.no_grad():  # here, since it holds for the thread that it is entered in
            scores: NDArray[np.float32] = read_scores(self._model, features)[0][:, None].cpu().numpy()
        return scores

    def text_of(self, tokens: Tokens) -> str:
        """The words of a pair."""
        return self._tokenizer.text_of(tokens)


def mean_reciprocal_rank(
    scores: NDArray[np.float32], sizes: Sequence[int], relevant: Sequence[int], cut: int = 10
) -> float:
    """MRR of groups in a row, each with its relevant texts first.

    A relevant text whose score is not a number ranks last, below other texts with such a score.
    """
    starts = np.cumsum([0, *sizes])
    total = 0.0
    for (start, end), count in zip(pairwise(starts.tolist()), relevant, strict=True):
        best = np.nan_to_num(scores[start : start + count], nan=-np.inf).max()
        others = np.nan_to_num(scores[start + count : end], nan=np.inf)
        rank = 1 + int((others >= best).sum())
        total += 1 / rank if rank <= cut else 0.0
    return total / len(sizes)
