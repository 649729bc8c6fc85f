"""What masked language modelling can be told."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from indexer.base.settings import Settings
from retriever.models.locations import DEFAULT_ENCODER
from retriever.training.config import Count, OutputSettings, Positive, TrainingSettings


class BertSettings(Settings):
    """The size of the model."""

    layers: Positive = 4
    """how many transformer layers"""
    width: Positive = 256
    """the size of a token's vector; a multiple of 64, or less"""
    tokenizer: str = DEFAULT_ENCODER
    """a model whose vocabulary is taken"""
    max_tokens: Positive = 256
    """the longest text that it will read"""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """of its hidden states and attention, also when it is trained further"""


class PassageSettings(Settings):
    """The texts to train on."""

    index: Path
    """the index whose passages are read"""
    title: bool = True
    """whether with their titles"""
    most: Count = 0
    """so many passages, drawn at random; 0: all"""


class MlmTrainingSettings(TrainingSettings):
    """Batches, steps and the optimiser (AdamW), with BERT's own defaults."""

    batch: Positive = 64
    """passages in a batch, over all processes"""
    epochs: Positive = 1
    """passes over the passages"""
    learning_rate: float = Field(5e-4, gt=0)
    """the highest learning rate"""
    weight_decay: float = Field(0.01, ge=0)
    """of all weights but biases and layer norms"""
    clip: float = Field(1.0, ge=0)
    """the largest norm of a gradient; 0: any"""


class MlmConfig(Settings):
    """Train a small BERT from scratch, by masked language modelling.

    CONFIG is a TOML file with the tables below; configs/small-mlm.toml is an example. Started again after an
    interruption, the same command resumes from the last checkpoint.
    """

    hint = "See docs/training.md for all settings."

    model: BertSettings
    data: PassageSettings
    training: MlmTrainingSettings
    output: OutputSettings
