"""The time and space of a training, from a few of its steps: `--plan` of mlm, train, pretrain and finetune.

The training itself runs for these steps, on its data, from its base; the trained weights are thrown away.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import torch
from torch import Tensor, nn

from linkseek.indexer.program.text import byte_size, duration

MEASURED = 3
"""Steps of each stage whose time is taken, after one that is not."""

_CHECKPOINTS = 2
"""That a training keeps: see `retriever.training.checkpoints`."""

_MOMENTS = 2
"""Numbers of AdamW for each weight."""


@dataclass(frozen=True)
class StagePlan:
    """A stage, or all of a training. Means of a step: its tokens and seconds. Bytes: weights, checkpoint."""

    name: str
    steps: int
    unit: str
    batch: int
    tokens: float
    seconds: float
    weights: int
    checkpoint: int

    def __str__(self) -> str:
        read = f", {self.tokens:,.0f} tokens" if self.tokens else ""
        return (
            f"{self.name or 'training'}: {self.steps:,} steps of {self.batch:,} {self.unit}{read}, "
            f"{self.seconds:,.2f} s a step here: about {duration(self.steps * self.seconds)}"
        )


@dataclass
class TrainingPlan:
    """All stages. work: the folder with the data of the training as tables."""

    stages: list[StagePlan] = field(default_factory=list)
    work: Path | None = None
    memory: int = 0

    def add(self, stage: StagePlan) -> None:
        """Add a stage that was just measured."""
        self.stages.append(stage)
        if torch.cuda.is_available() and torch.cuda.max_memory_allocated():
            self.memory = torch.cuda.max_memory_allocated()
        else:
            self.memory = max(self.memory, psutil.Process().memory_info().rss)

    def __str__(self) -> str:
        steps = sum(stage.steps for stage in self.stages)
        tokens = sum(stage.steps * stage.tokens for stage in self.stages)
        seconds = sum(stage.steps * stage.seconds for stage in self.stages)
        data = sum(file.stat().st_size for file in self.work.rglob("*") if file.is_file()) if self.work else 0
        kept = _CHECKPOINTS * sum(stage.checkpoint for stage in self.stages)
        read = f", {tokens:,.0f} tokens" if tokens else ""
        every = (
            f"all: {steps:,} steps{read}, about {duration(seconds)} on this machine, "
            f"{byte_size(self.memory)} of memory; on disk {byte_size(data)} of data, up to {byte_size(kept)} "
            f"of checkpoints until the end, and a model of {byte_size(self.stages[-1].weights)}"
        )
        return "\n".join([*map(str, self.stages), every])


class Timer:
    """The seconds and tokens of steps."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._tokens: list[int] = []

    def step(self, inputs: Any) -> None:
        """Note that the step with these inputs has ended."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self._times.append(time.monotonic())
        self._tokens.append(sum(tokens_of(inputs)))

    def means(self) -> tuple[float, float]:
        """Tokens and seconds of a step: without the first, if there are several."""
        spans = [later - earlier for earlier, later in zip(self._times, self._times[1:], strict=False)]
        return sum(self._tokens) / len(self._tokens), sum(spans) / max(len(spans), 1)


def sizes(model: nn.Module) -> tuple[int, int]:
    """Bytes of a model's weights, and of a checkpoint: those that are trained, and their moments."""
    every = sum(weights.numel() * weights.element_size() for weights in model.parameters())
    trained = (w.numel() * w.element_size() for w in model.parameters() if w.requires_grad)
    return every, (1 + _MOMENTS) * sum(trained)


def tokens_of(inputs: Any, name: str = "") -> Iterator[int]:
    """The tokens in each attention mask of a step's inputs, at any depth."""
    if isinstance(inputs, Tensor):
        if name == "attention_mask":
            yield int(inputs.sum())
    elif isinstance(inputs, dict):
        for key, value in inputs.items():
            yield from tokens_of(value, str(key))
    elif isinstance(inputs, list | tuple):
        for value in inputs:
            yield from tokens_of(value, name)
