"""A pre-training from settings to a finished folder, stage by stage.

Each stage is a run of its own, with checkpoints in FOLDER.training/STAGE, and begins with the weights of the
last checkpoint of the stage before, be that made just now or before an interruption. A new head of masked
tokens has a stage before all others, in which it learns alone.
"""

from __future__ import annotations

import atexit
import shutil
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import TrainingArguments, set_seed

from indexer.base.errors import InputError
from indexer.base.progress import progress
from indexer.store.artifacts import combined_sha256
from reranker.training.pretraining.card import pretrained_card
from reranker.training.pretraining.config import (
    WARMUP,
    ContrastTrainingSettings,
    PretrainConfig,
    StageSettings,
)
from reranker.training.pretraining.data import ContrastRows, by_loss, draw_mix, open_contrasts
from reranker.training.pretraining.model import open_pretrainable
from reranker.training.pretraining.texts import ContrastCollator, ContrastTexts
from reranker.training.pretraining.trainer import ContrastTrainer
from reranker.training.run import publish
from reranker.training.texts import PairTokenizer
from retriever.training import checkpoints
from retriever.training.data import Batches
from retriever.training.log import Log
from retriever.training.run import check_trackers, is_finished, leave_group, quiet_libraries
from retriever.training.trainer import library_arguments

_LOG = "log.jsonl"


@dataclass(frozen=True)
class Stage:
    """What is trained at a time, and on what.

    sources: rows, int64 [n], by their loss. head_alone: whether it is for the head of masked tokens.
    """

    settings: StageSettings
    training: ContrastTrainingSettings
    rows: ContrastRows
    sources: Mapping[str, NDArray[np.int64]]
    sha256: str
    head_alone: bool = False

    def fingerprint(self) -> dict[str, Any]:
        """What decides its outcome, beside where it starts."""
        settings = self.settings.model_dump(mode="json", exclude={"contrasts"})
        training = self.training.model_dump(mode="json")
        return settings | {"training": training, "sha256": self.sha256, "head_alone": self.head_alone}

    def told(self) -> str:
        """Its contrasts, for the card."""
        rows = np.concatenate(list(self.sources.values()))
        counts = Counter(self.rows.objectives()[rows].tolist())
        return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()))


def pretrain(config: PretrainConfig) -> None:
    """Train, or go on training, and put the model into `output.folder`; that folder is there whole or not.

    Does nothing if it is there, from the same settings. Raises `UsageError` if it is there from others.
    """
    folder = config.output.folder
    if is_finished(folder, config):
        return
    check_trackers(config.output.report_to)
    work = folder.with_name(folder.name + ".training")
    work.mkdir(parents=True, exist_ok=True)
    with quiet_libraries():
        args = library_arguments(TrainingArguments, work, config.training, config.output)
        with args.main_process_first(desc="reading contrasts"):
            stages = [stage for s in config.stages if (stage := _open_stage(config, s, work))]
        if not stages:
            raise InputError("no stage has a contrast", "Mine some: python -m reranker.mine.")
        with progress("opening the base"):
            opened = open_pretrainable(config)
        if opened.head is not None and opened.head.is_new and config.mlm.warmup_steps:
            stages.insert(0, _for_head(config, stages[0]))
        fingerprint: dict[str, Any] = {
            "base": opened.base_sha256,
            **config.model_dump(mode="json", include={"model", "texts", "mlm"}),
            "checkpoint_steps": config.output.checkpoint_steps,
            "processes": args.world_size,
            "stages": {},
        }
        fingerprint["model"].pop("base")
        steps, last = {}, None
        for stage in stages:
            name = stage.settings.name
            fingerprint["stages"] = fingerprint["stages"] | {name: stage.fingerprint()}
            last = _train(config, stage, last, fingerprint, work / name)
            steps[name] = checkpoints.step_of(last)
        if args.should_save:
            assert last is not None
            checkpoints.load_weights(opened.model, last)
            facts = {
                **{f"contrasts of {s.settings.name}": s.told() for s in stages if not s.head_alone},
                "SHA-256 of the contrasts": f"`{combined_sha256([s.sha256 for s in stages])}`",
                "SHA-256 of the base's weights": f"`{opened.base_sha256}`",
                "processes": args.world_size,
                "precision": "bfloat16" if args.bf16 else "float32",
                "steps": ", ".join(f"{count:,} {name}" for name, count in steps.items()),
                "licence": config.output.licence,
            }
            log = b"".join((work / stage.settings.name / _LOG).read_bytes() for stage in stages)
            (work / _LOG).write_bytes(log)
            publish(config, opened, opened.model, folder, work, pretrained_card(config, facts))
            shutil.rmtree(work)
            print(f"{folder}: trained for {sum(steps.values()):,} steps", file=sys.stderr)
        if args.world_size > 1:
            atexit.register(leave_group)


def _open_stage(config: PretrainConfig, settings: StageSettings, work: Path) -> Stage | None:
    """A stage with its contrasts; None, and a line on stderr, if there are none."""
    rows, sha256 = open_contrasts(settings.contrasts, work)
    if not len(rows):
        print(f"stage {settings.name} has no contrasts and is passed over", file=sys.stderr)
        return None
    chosen = draw_mix(rows.files(), settings.weights, config.training.seed)
    sources = by_loss(rows.objectives(), chosen, settings.loss)
    return Stage(settings, config.training_of(settings), rows, sources, sha256)


def _for_head(config: PretrainConfig, first: Stage) -> Stage:
    """The stage in which a new head learns alone: each contrast of the first one with one worse pair."""
    settings = first.settings.model_copy(update={"name": WARMUP, "negatives": 1})
    own = {"steps": config.mlm.warmup_steps, "learning_rate": config.mlm.warmup_learning_rate}
    training = first.training.model_copy(update=own)
    return Stage(settings, training, first.rows, first.sources, first.sha256, head_alone=True)


def _train(
    config: PretrainConfig, stage: Stage, start: Path | None, fingerprint: dict[str, Any], work: Path
) -> Path:
    """Train a stage to its end from a checkpoint of the stage before; returns its last checkpoint."""
    training, output, settings = stage.training, config.output, stage.settings
    work.mkdir(exist_ok=True)
    args = library_arguments(TrainingArguments, work, training, output)
    batches = Batches(
        stage.sources, training.batch, training.seed, process=args.process_index, processes=args.world_size
    )
    if len(batches) == 0:
        raise InputError(f"stage {settings.name}: fewer contrasts than processes", "Use fewer processes.")
    steps = training.steps or ceil(training.epochs * len(batches))
    done = checkpoints.newest_whole(work / "checkpoints", fingerprint)
    if done is not None and checkpoints.step_of(done) == steps:
        return done
    set_seed(training.seed)
    opened = open_pretrainable(config, head_alone=stage.head_alone)
    if start is not None:
        checkpoints.load_weights(opened.model, start, partly=True)
    tokenizer = PairTokenizer(opened.facts)
    texts = ContrastTexts(opened.text_format, settings.negatives, training.seed)
    trainer = ContrastTrainer(
        model=opened.model,
        args=args,
        data_collator=ContrastCollator(tokenizer, texts, opened.masks, settings.loss, training.mini_batch),
    )
    trainer.mlm_weight, trainer.head_alone = config.mlm.weight, stage.head_alone
    log = Log(work / _LOG, "contrasts", min(training.batch, batches.rows), settings.name)
    trainer.prepare(stage.rows, batches, fingerprint, log)
    set_seed(training.seed)
    trainer.train_to_best()
    return checkpoints.checkpoint_path(trainer.checkpoint_folder, trainer.state.global_step)
