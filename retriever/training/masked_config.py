"""What masked language modelling can be told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from retriever.models.locations import DEFAULT_ENCODER
from retriever.training.config import Count, OutputSettings, Positive, TrainingSettings
from retriever.training.settings import Table, read_tables


class BertSettings(Table):
    """[model]."""

    layers: Positive = 4
    width: Positive = 256
    """the size of a token's vector; a multiple of 64, or less"""
    tokenizer: str = DEFAULT_ENCODER
    """a model whose vocabulary is taken"""
    max_tokens: Positive = 256
    """the longest text that it will read"""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """of its hidden states and attention, also when it is trained further"""


class PassageSettings(Table):
    """[data]."""

    index: Path
    """the index whose passages are read"""
    title: bool = True
    """whether with their titles"""
    most: Count = 0
    """so many passages, drawn at random; 0: all"""


class MlmTrainingSettings(TrainingSettings):
    """[training], with BERT's own defaults."""

    batch: Positive = 64
    epochs: Positive = 1
    learning_rate: float = Field(5e-4, gt=0)
    weight_decay: float = Field(0.01, ge=0)
    clip: float = Field(1.0, ge=0)


class MlmConfig(Table):
    """All of it."""

    model: BertSettings
    data: PassageSettings
    training: MlmTrainingSettings
    output: OutputSettings


def read_mlm_config(path: Path, overrides: Sequence[str] = ()) -> MlmConfig:
    """A settings file. Raises `UsageError` naming file and key for what is unknown or does not fit."""
    return read_tables(MlmConfig, path, overrides)
