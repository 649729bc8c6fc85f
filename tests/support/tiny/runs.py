"""Whole runs of every training on tiny data, which their contract and the tests of each share."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from transformers import BertForMaskedLM

from tests.support.command import train_here
from tests.support.tiny.corpus import linked_rows
from tests.support.tiny.index import built
from tests.support.tiny.training import (
    bert_config,
    pair_rows,
    save_bert,
    save_normalized,
    save_static,
    save_tokenizer,
    write_pairs,
    write_tiny_contrasts,
)

LORA = ["model.train=lora", "model.lora_rank=4", "training.learning_rate=0.01"]
PAIRS = [("bam bem", "t bam dim"), ("dim", "t bem bem bos"), ("", "bis"), ("bam " * 40, "dim " * 40)]


def write_data(folder: Path) -> Path:
    """Bases, one with dropout and one with a head of masked tokens; pairs, contrasts and an index."""
    save_bert(folder / "bert", hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)
    save_normalized(folder / "normalized")
    save_static(folder / "static")
    save_tokenizer(folder / "masked")
    torch.manual_seed(4)
    BertForMaskedLM(bert_config()).save_pretrained(folder / "masked")
    write_pairs(folder / "mined.jsonl", pair_rows(40, objectives=("dual-link", "co-mention")))
    write_pairs(folder / "dual.jsonl", pair_rows(40, objectives=("dual-link",)))
    write_pairs(folder / "labelled.jsonl", pair_rows(24, seed=1))
    write_pairs(folder / "dev.jsonl", pair_rows(12, seed=2))
    write_pairs(folder / "groups.jsonl", pair_rows(32, hard=5))
    write_pairs(folder / "dev-groups.jsonl", pair_rows(10, seed=2, hard=5))
    for name, count in {"php-hp": 24, "php-shp": 12, "prop": 40}.items():
        write_tiny_contrasts(folder / f"{name}.jsonl", name, count)
    built(folder / "index", linked_rows())
    return folder


@dataclass(frozen=True)
class TinyTraining:
    """A training by its command.

    module: which calls the loop. tables: its settings. base: the usual one. kills: stages and steps. unit: a
    place in a message. every: steps between lines of the log, and between checkpoints. settings: further ones
    of `undisturbed`. variants, lines: settings of trainings by two processes, and the lines of their logs.
    """

    word: str
    command: str
    module: str
    tables: str
    base: str
    kills: tuple[tuple[str, int], ...]
    unit: str
    every: tuple[int, int]
    settings: tuple[str, ...] = ()
    lines: int = 0
    variants: Mapping[str, list[str]] = field(default_factory=dict)

    def write(self, data: Path, folder: Path, base: str = "") -> Path:
        """The file of settings in a folder, whose folder `out` gets the model."""
        folder.mkdir(exist_ok=True)
        tables = self.tables + 'seed = 7\ndevice = "cpu"\n[output]\nfolder = "{folder}/out"\n'
        tables += "log_steps = {every[0]}\ncheckpoint_steps = {every[1]}\n"
        text = tables.format(base=data / (base or self.base), data=data, folder=folder, every=self.every)
        (folder / "c.toml").write_text(text)
        return folder / "c.toml"

    def run(self, config: Path, *settings: str) -> Path:
        """Run the command here; returns the model's folder."""
        return train_here(self.main, config, *settings)

    @property
    def main(self) -> Callable[[Sequence[str]], None]:
        """The command."""
        command: Callable[[Sequence[str]], None] = importlib.import_module(f"linkseek.{self.command}").main
        return command

    @property
    def loop_module(self) -> ModuleType:
        return importlib.import_module(f"linkseek.{self.module}")


# with an epsilon that large Adam's steps are proportional to the gradients, so the weights show them
_PROPORTIONAL = ["training.adam_epsilon=1.0", "training.learning_rate=0.1"]
_TWO_TOWERS = ['model.towers="two"', *_PROPORTIONAL, "training.epochs=2"]

TRAININGS = {
    "mlm": TinyTraining(
        "mlm", "retriever.commands.mlm", "retriever.training.masked_training",
        '[model]\nlayers = 2\nwidth = 32\ntokenizer = "{base}"\nmax_tokens = 24\n'
        '[data]\nindex = "{data}/index"\n'
        "[training]\nbatch = 16\nepochs = 2\n",
        "masked", (("", 5),), r"d\d+#0", (2, 3),
    ),
    "train": TinyTraining(
        "train", "retriever.commands.train", "retriever.training.pair_training",
        '[stage]\nkind = "pretrain"\n[model]\nbase = "{base}"\ntowers = "shared"\n'
        '[data]\npairs = ["{data}/mined.jsonl"]\nnegatives = 1\nhard_negatives = 0\n'
        "[texts]\nquery_tokens = 12\npassage_tokens = 16\n"
        '[dev]\npairs = ["{data}/dev.jsonl"]\n'
        "[training]\nbatch = 8\nepochs = 3\nlearning_rate = 1e-3\n",
        "bert", (("", 9),), r"mined\.jsonl, pair \d+", (2, 4), (), 9, {
            "shared": [*_PROPORTIONAL, "training.epochs=2"],
            "pieces": [*_TWO_TOWERS, "training.mini_batch=2"],
            "whole": _TWO_TOWERS,
            "static": ["model.base={data}/static", *_PROPORTIONAL, "training.epochs=2",
                       "training.mini_batch=3"],
        },
    ),
    "static": TinyTraining(
        "train", "retriever.commands.train", "retriever.training.pair_training",
        '[stage]\nkind = "pretrain"\n[model]\nbase = "{base}"\n'
        '[data]\npairs = ["{data}/dual.jsonl"]\n[texts]\nquery_tokens = 0\npassage_tokens = 0\n'
        '[dev]\npairs = ["{data}/dual.jsonl"]\n'
        "[training]\nbatch = 16\nepochs = 8\nlearning_rate = 0.05\n",
        "static", (("", 11),), r"dual\.jsonl, pair \d+", (1, 3),
    ),
    "finetune": TinyTraining(
        "finetune", "reranker.commands.finetune", "reranker.training.finetuning",
        '[model]\nbase = "{base}"\n[data]\npairs = ["{data}/groups.jsonl"]\nnegatives = 3\n'
        '[texts]\ntokens = 28\n[dev]\npairs = ["{data}/dev-groups.jsonl"]\nnegatives = 4\n'
        "[training]\nbatch = 8\nepochs = 3\nlearning_rate = 1e-3\n",
        "bert", (("", 5),), r"groups\.jsonl, pair \d+",
        (2, 2), ("training.mini_batch=3",),
        4, {
            "pieces": ["training.mini_batch=3", *_PROPORTIONAL, "training.epochs=1"],
            "groups": ["training.mini_batch=5", *LORA, *_PROPORTIONAL, "training.epochs=1"],
        },
    ),
    "pretrain": TinyTraining(
        "pretrain", "reranker.commands.pretrain", "reranker.training.pretraining",
        '[model]\nbase = "{base}"\nlora_rank = 4\n[texts]\ntokens = 32\n[mlm]\nwarmup_steps = 3\n'
        '[[stages]]\nname = "hp"\ncontrasts = ["{data}/php-hp.jsonl"]\nnegatives = 3\n'
        '[[stages]]\nname = "rop"\ncontrasts = ["{data}/prop.jsonl", "{data}/php-shp.jsonl"]\n'
        "weights = [2, 1]\nepochs = 2\n"
        "[training]\nbatch = 8\nlearning_rate = 3e-3\n",
        "bert", (("head", 2), ("hp", 3), ("rop", 5)), r"\.jsonl, line \d+",  # hp ends with its third step
        (1, 2), ("training.mini_batch=3",),
        16, {
            "pieces": ["training.mini_batch=3", *_PROPORTIONAL, "mlm.warmup_learning_rate=0.1"],
            "groups": ["mlm.passes=one", "model.train=lora", *_PROPORTIONAL, "mlm.warmup_learning_rate=0.1"],
        },
    ),
}  # fmt: skip


@cache
def undisturbed(name: str, data: Path) -> Path:
    """The folder of a complete run; its checkpoints are copied to `kept` before they go."""
    folder, removed = data / f"undisturbed-{name}", shutil.rmtree

    def keep(path: Any, *arguments: Any, **keywords: Any) -> None:
        if Path(path).name == "out.linkseek-training":
            shutil.copytree(path, folder / "kept")
        removed(path, *arguments, **keywords)

    training = TRAININGS[name]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("linkseek.retriever.training.lifecycle.shutil.rmtree", keep)
        training.run(training.write(data, folder), *training.settings)
    return folder
