"""The trainer of contrasts: that of re-rankers, with a loss for each batch and masked tokens beside it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from reranker.training.loss import LOSSES
from reranker.training.pretraining.model import WORTH, TwoHeads
from reranker.training.pretraining.texts import LABELS
from reranker.training.trainer import GroupTrainer


def no_ranking(scores: Tensor, there: Tensor) -> Tensor:
    """Scores [B, 1 + n] -> nothing [B]: the loss of steps in which masked tokens alone are learnt."""
    return scores.sum(dim=1) * 0


class ContrastTrainer(GroupTrainer):
    """Trains `TwoHeads` on the batches of `reranker.training.pretraining.texts.ContrastCollator`.

    mlm_weight: of masked tokens. A step's loss is the ranking's plus the weight times the mean over all
    masked tokens of the batch, in all processes. head_alone: whether the ranking is left out.
    """

    mlm_weight = 0.0
    head_alone = False
    _steps = 0

    def compute_loss(self, model: nn.Module, inputs: dict[str, Any], *rest: Any, **keywords: Any) -> Any:
        """The loss of one batch. Raises `InputError` naming its contrasts if that is no number."""
        loss = LOSSES[inputs.pop("loss")]
        self.group_loss = no_ranking if self.head_alone else loss
        pieces = inputs["pieces"]
        if self.mlm_weight:
            predicted = sum((piece[LABELS] >= 0).sum() for piece in pieces)
            processes = self.args.world_size
            if processes > 1:
                torch.distributed.all_reduce(predicted)
            # Processes take the mean of their gradients, so each counts for as many as there are.
            worth = self.mlm_weight * processes / predicted.clamp(min=1)
            inputs["pieces"] = [piece | {WORTH: worth} for piece in pieces]
        self._steps += 1
        return super().compute_loss(model, inputs, *rest, **keywords)

    def log(self, logs: dict[str, float], *rest: Any, **keywords: Any) -> None:
        """As the library does it, with the mean loss of masked tokens."""
        if "loss" in logs and self.mlm_weight and self._steps:
            model: TwoHeads = self.model
            told = model.mlm_loss.to(self.args.device) / self._steps / self.mlm_weight
            if self.args.world_size > 1:
                torch.distributed.all_reduce(told)
                told /= self.args.world_size
            logs["mlm_loss"] = told.item()
            model.mlm_loss, self._steps = torch.zeros(()), 0
        super().log(logs, *rest, **keywords)
