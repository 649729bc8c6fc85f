"""The trainer of re-rankers: `retriever.training.trainer.Resumable`, with groups and their losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers import Trainer

from reranker.training.dev import MEASURE
from reranker.training.loss import GroupLoss, batch_loss
from retriever.training.trainer import Resumable


class _Groups(Trainer):  # type: ignore[misc]
    group_loss: GroupLoss

    def compute_loss(self, model: nn.Module, inputs: dict[str, Any], *_: Any, **__: Any) -> torch.Tensor:
        """The loss of one batch of `reranker.training.texts.GroupCollator`."""
        return batch_loss(model, inputs["pieces"], inputs["there"], self.group_loss)


class GroupTrainer(Resumable, _Groups):
    """Trains whatever gives {"scores": [P]} for the features of P pairs.

    group_loss: of `reranker.training.loss`. measure: (model, device) -> the dev measure, higher is better.
    """

    control: Any
    measure: Callable[[nn.Module, torch.device], float] | None = None

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """The dev measure, found by the first process and known to all."""
        found = [0.0]
        if self.measure is not None and self.args.process_index == 0:
            found = [self.measure(self.model, self.args.device)]
        if self.args.world_size > 1:
            torch.distributed.broadcast_object_list(found)
        metrics = {f"eval_{MEASURE}": found[0]}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics
