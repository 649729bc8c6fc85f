"""Settings of the pre-training of a cross-encoder.

A chain of stages, each on contrasts of its own and with the model of the one before (PHP, section 3.2.2:
three of them). Defaults are those of a base of BERT's size; the settings of the papers are in `prop-
pretrain.toml`, `harp-pretrain.toml` and `php-pretrain.toml` of `configs/`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from indexer.base.settings import Settings
from reranker.training.finetune_config import (
    CrossEncoderSettings,
    GroupTrainingSettings,
    LossKind,
    PairTextSettings,
)
from retriever.training.config import Count, OutputSettings, Positive

Share = Annotated[float, Field(ge=0, le=1)]
Rate = Annotated[float, Field(gt=0)]


class MaskSettings(Settings):
    """The prediction of masked tokens, in addition to the ranking."""

    weight: Annotated[float, Field(ge=0)] = 1.0
    """of its loss, the mean over a step's masked tokens, in the sum with that of the ranking; 0: without"""
    passes: Literal["two", "one"] = "two"
    """two: pairs are scored unmasked and read again masked, as in the papers; one: masked pairs are scored,
    the query masked alike in the whole group"""
    share: Share = 0.15
    """of the tokens; of these 80 % are masked, 10 % replaced by others and 10 % left"""
    anchors: Share = 0.5
    """of the tokens in an anchor of the query (PHP, section 3.2.3)"""
    warmup_steps: Count = 500
    """steps in which a new head learns alone, on the encoder as it is; a head of the base's own needs none"""
    warmup_learning_rate: Rate = 1e-3
    """the learning rate of these steps"""


class StageSettings(Settings):
    """A stage of training; stages are trained one after another, each with the model of the one before."""

    name: Annotated[str, Field(pattern=r"^[\w.-]+$")]
    """of the stage, in the log and in messages"""
    contrasts: Annotated[list[Path], Field(min_length=1)]
    """files of `reranker.mine`; one without a contrast is skipped, as is a stage that has no other"""
    weights: list[Rate] = Field(default_factory=list)
    """of these files in an epoch, which is as long as the scarcest allows; by default all"""
    loss: LossKind | None = None
    """by default that of the objective's paper: hinge for PROP and HARP, else lce"""
    negatives: Positive | None = None
    """limit on the worse pairs of a contrast, drawn anew each epoch; by default all"""
    batch: Positive | None = None
    """instead of [training] batch"""
    epochs: Positive | None = None
    """instead of [training] epochs"""
    steps: Positive | None = None
    """instead of [training] steps"""
    learning_rate: Rate | None = None
    """instead of [training] learning_rate"""


class ContrastTrainingSettings(GroupTrainingSettings):
    """Batches, steps and the optimiser (AdamW), for all stages."""

    batch: Positive = 32
    """contrasts in a step, over all processes"""
    epochs: Positive = 1
    """of each stage"""


class PretrainConfig(Settings):
    """Pre-train a cross-encoder on contrasts, stage by stage.

    CONFIG is a TOML file with the tables below; configs/{prop,harp,php}-pretrain.toml are examples. Started
    again after an interruption, the same command resumes from the last checkpoint. On several GPUs:
    accelerate launch -m reranker.pretrain CONFIG
    """

    hint = "See docs/pretraining-rerankers.md for all settings."

    model: CrossEncoderSettings
    texts: PairTextSettings
    mlm: MaskSettings
    training: ContrastTrainingSettings
    stages: Annotated[list[StageSettings], Field(min_length=1)]
    output: OutputSettings

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [stage.name for stage in self.stages]
        for stage in self.stages:
            if stage.weights and len(stage.weights) != len(stage.contrasts):
                raise ValueError(f"stage {stage.name}: weights are one for each file of contrasts")
            if names.count(stage.name) > 1 or stage.name == WARMUP:
                raise ValueError(f"stage {stage.name}: the name is taken")
        return self

    def training_of(self, stage: StageSettings) -> ContrastTrainingSettings:
        """[training] with what the stage says."""
        own = {name: getattr(stage, name) for name in ("batch", "epochs", "steps", "learning_rate")}
        return self.training.model_copy(update={k: value for k, value in own.items() if value is not None})


WARMUP = "head"
"""The name of the steps before the first stage, in which a new head learns alone."""
