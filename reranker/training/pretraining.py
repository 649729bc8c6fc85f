"""Pre-training of a cross-encoder from settings to a published folder, stage by stage.

Each stage has checkpoints of its own in FOLDER.linkseek-training/STAGE, and begins with the weights of the
last checkpoint of the stage before. A new head of masked tokens has a stage before all others, in which it
learns alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from accelerate.utils import set_seed
from numpy.typing import NDArray
from torch import Tensor, nn

from linkseek.indexer.files.hashes import combined_sha256
from linkseek.indexer.program.errors import InputError, log_line
from linkseek.indexer.program.progress import progress
from linkseek.reranker.models.bases import find_start
from linkseek.reranker.training.config import (
    WARMUP,
    ContrastTrainingSettings,
    PretrainConfig,
    RerankerStageSettings,
)
from linkseek.reranker.training.contrast_data import (
    LABELS,
    ContrastCollator,
    ContrastTable,
    ContrastTexts,
    by_loss,
    draw_mix,
    open_contrasts,
)
from linkseek.reranker.training.group_data import PairTokenizer
from linkseek.reranker.training.group_loss import LOSSES, batch_loss
from linkseek.reranker.training.trainable_cross_encoder import reranker_card
from linkseek.reranker.training.two_heads import TOKEN_WEIGHT, Pretrainable, open_pretrainable
from linkseek.retriever.training import checkpoints
from linkseek.retriever.training.lifecycle import LOG, Run, fingerprint, is_finished, open_run, without_paths
from linkseek.retriever.training.log import NEGATIVES
from linkseek.retriever.training.loop import Task, train_steps


@dataclass(frozen=True)
class Stage:
    """One stage and its data.

    sources: rows, int64 [n], by their loss. head_alone: whether only the head of masked tokens learns.
    """

    settings: RerankerStageSettings
    training: ContrastTrainingSettings
    table: ContrastTable
    sources: Mapping[str, NDArray[np.int64]]
    sha256: str
    head_alone: bool = False

    def fingerprint(self) -> dict[str, Any]:
        """Everything that decides its outcome, apart from its start."""
        training = self.training.model_dump(mode="json")
        own = {"training": training, "sha256": self.sha256, "head_alone": self.head_alone}
        return without_paths(self.settings) | own

    def counts(self) -> str:
        """The number of its contrasts by objective, for the card."""
        rows = np.concatenate(list(self.sources.values()))
        counts = Counter(self.table.objectives()[rows].tolist())
        return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()))


def pretrain(config: PretrainConfig) -> None:
    """Train, or resume training, and publish the model in `output.folder` atomically.

    Does nothing if it is finished. Raises `UsageError` if the folder contains something else.
    """
    if is_finished(config, config.output.folder):
        return
    with open_run(config.training, config.output) as run:
        find_start(config.model.base)  # a wrong name ends here, before the data is read
        with run.accelerator.main_process_first():
            opened_stages = [_open_stage(config, settings, run.work) for settings in config.stages]
        stages = [stage for stage in opened_stages if stage is not None]
        if not stages:
            raise InputError("no stage has contrasts", "Mine some: linkseek mine-contrasts.")
        with progress("opening the base"):
            opened = open_pretrainable(config)
        if opened.head is not None and opened.head.is_new and config.mlm.warmup_steps:
            stages.insert(0, _for_head(config, stages[0]))
        marks = fingerprint(config, run, base_sha256=opened.base_sha256, stages={})
        del marks["training"]  # each stage has its own
        steps: dict[str, int] = {}
        start: Path | None = None
        for stage in stages:
            name = stage.settings.name
            marks["stages"] = marks["stages"] | {name: stage.fingerprint()}
            stage_run = replace(run, work=run.work / name)
            opened, steps[name] = _train_stage(config, stage, stage_run, start, marks)
            start = checkpoints.checkpoint_path(stage_run.checkpoints, steps[name])
        if run.accelerator.is_main_process:
            own = {f"contrasts of {s.settings.name}": s.counts() for s in stages if not s.head_alone}
            own["SHA-256 of the contrasts"] = f"`{combined_sha256([s.sha256 for s in stages])}`"
            result = {"steps": ", ".join(f"{count:,} {name}" for name, count in steps.items())}
            log = b"".join((run.work / name / LOG).read_bytes() for name in steps)
            (run.work / LOG).write_bytes(log)
            card = reranker_card(config, run.facts(own, opened.base_sha256, result), "pretrain")
            run.publish(config, opened.save, sum(steps.values()), card)


def _open_stage(config: PretrainConfig, settings: RerankerStageSettings, work: Path) -> Stage | None:
    """A stage with its contrasts; None, and a line on stderr, if it has no contrasts."""
    table, sha256 = open_contrasts(settings.contrasts, work)
    if not len(table):
        log_line(f"stage {settings.name} has no contrasts and is skipped")
        return None
    chosen = draw_mix(table.files(), settings.weights, config.training.seed)
    sources = by_loss(table.objectives(), chosen, settings.loss)
    return Stage(settings, config.training_of(settings), table, sources, sha256)


def _for_head(config: PretrainConfig, first: Stage) -> Stage:
    """The stage in which a new head learns alone: each contrast of the first one with one worse pair."""
    settings = first.settings.model_copy(update={"name": WARMUP, "negatives": 1})
    own = {"steps": config.mlm.warmup_steps, "learning_rate": config.mlm.warmup_learning_rate}
    return replace(first, settings=settings, training=first.training.model_copy(update=own), head_alone=True)


def _train_stage(
    config: PretrainConfig, stage: Stage, run: Run, start: Path | None, marks: dict[str, Any]
) -> tuple[Pretrainable, int]:
    """Train a stage from a checkpoint of the stage before; returns the model and its steps."""
    training, settings = stage.training, stage.settings
    set_seed(training.seed)
    opened = open_pretrainable(config, head_alone=stage.head_alone)
    if start is not None:
        checkpoints.load_weights(opened.model, start, partly=True)
    tokenizer = PairTokenizer(opened.facts)
    texts = ContrastTexts(opened.text_format, settings.negatives, training.seed)
    collate = ContrastCollator(tokenizer, texts, opened.masks, settings.loss, training.mini_batch)
    batches = run.batches(stage.sources, training.batch, training.seed)
    loss = partial(contrast_loss, run, mlm_weight=config.mlm.weight, head_alone=stage.head_alone)
    task = Task(opened.model, stage.table, batches, "contrasts", collate, loss, stage=settings.name)
    return opened, train_steps(task, run, training, config.output, marks).step


def contrast_loss(
    run: Run, model: nn.Module, inputs: Mapping[str, Any], *, mlm_weight: float, head_alone: bool = False
) -> dict[str, Tensor]:
    """The loss of one batch of `ContrastCollator`: the ranking loss, and the loss of masked tokens.

    The latter is the mean over all masked tokens of the batch, in all processes, times the weight.
    head_alone: train the MLM head alone (weight 0 for the ranking).
    """
    ranking = (lambda scores, mask: scores.sum(dim=1) * 0) if head_alone else LOSSES[inputs["loss"]]
    pieces = inputs["pieces"]
    if mlm_weight:
        predicted = run.accelerator.reduce(sum((piece[LABELS] >= 0).sum() for piece in pieces), "sum")
        # Processes take the mean of their gradients, so each counts for as many as there are.
        weight = mlm_weight * run.accelerator.num_processes / predicted.clamp(min=1)
        pieces = [piece | {TOKEN_WEIGHT: weight} for piece in pieces]
    loss, added = batch_loss(model, pieces, inputs["mask"], ranking)
    losses = {"loss": loss} | ({"mlm_loss": added / mlm_weight} if mlm_weight else {})
    return losses if head_alone else losses | {NEGATIVES: inputs[NEGATIVES]}
