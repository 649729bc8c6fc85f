"""Commands that build, mine, label, search, evaluate, export and train, as their programs read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from experiments.cross_validation import CrossValidationConfig
from experiments.sweep import SweepOptions
from linkseek.app.commands.train_fusion import TrainFusionOptions
from linkseek.app.commands.train_hops import TrainHopsOptions
from linkseek.app.evaluate import EvaluateOptions
from linkseek.app.search import SearchOptions
from linkseek.indexer.build import BuildOptions
from linkseek.indexer.program.options import parse_config, parse_options
from linkseek.reranker.commands import mine_contrasts
from linkseek.reranker.commands.export import ExportOptions
from linkseek.reranker.training.config import FinetuneConfig, PretrainConfig
from linkseek.retriever.commands import mine
from linkseek.retriever.commands.distill import DistillOptions
from linkseek.retriever.commands.negatives import NegativesOptions
from linkseek.retriever.training.config import MlmConfig, TrainConfig

OPTIONS: dict[str, Any] = {
    "build": BuildOptions,
    "distill": DistillOptions,
    "evaluate": EvaluateOptions,
    "export": ExportOptions,
    "mine": mine.mine_options(),
    "mine-contrasts": mine_contrasts.mine_options(),
    "negatives": NegativesOptions,
    "search": SearchOptions,
    "sweep": SweepOptions,
    "train-fusion": TrainFusionOptions,
    "train-hops": TrainHopsOptions,
}
CONFIGS: dict[str, Any] = {
    "cross-validate": CrossValidationConfig,
    "mlm": MlmConfig,
    "train": TrainConfig,
    "pretrain": PretrainConfig,
    "finetune": FinetuneConfig,
}
"""Of those that read a file of settings."""


def read_command(word: str, words: Sequence[str]) -> Any:
    """What a command's words say: its options, or the settings of a training. Raises `UsageError`."""
    if word in CONFIGS:
        return parse_config(CONFIGS[word], words, word)
    return parse_options(OPTIONS[word], words, word)
