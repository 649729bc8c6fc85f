"""A fine-tuning from settings to a finished folder: one model, or one for each fold."""

from __future__ import annotations

import atexit
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn
from transformers import TrainingArguments, set_seed

from indexer.base.errors import InputError
from indexer.base.progress import progress
from indexer.base.settings import Settings, settings_text
from indexer.store.artifacts import combined_sha256, file_sha256
from reranker.training.card import reranker_card
from reranker.training.config import FinetuneConfig
from reranker.training.data import data_sha256, draw_queries, existing, open_groups, query_numbers
from reranker.training.dev import MEASURE, DevGroups
from reranker.training.loss import LOSSES
from reranker.training.model import Trainable, open_trainable
from reranker.training.texts import GroupCollator, GroupTexts, PairTokenizer
from reranker.training.trainer import GroupTrainer
from retriever.training.data import Batches, PairRows
from retriever.training.log import Log, read_log
from retriever.training.run import SETTINGS, check_trackers, is_finished, leave_group, quiet_libraries
from retriever.training.trainer import library_arguments


def finetune(config: FinetuneConfig) -> None:
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
        data_hash = data_sha256(config.data)
        with args.main_process_first(desc="reading groups"):
            rows = open_groups(config.data, config.texts.url, work, data_hash)
            dev = _dev_rows(config, work)
        if config.folds.count:
            from reranker.training.folds import cross_validate

            cross_validate(config, rows, data_hash, work, is_first=args.should_save)
        else:
            chosen = draw_queries(query_numbers(rows), config.data.shots, config.data.seed)
            train_one(config, rows, chosen, dev, data_hash, folder, work)
        if args.should_save:
            shutil.rmtree(work)


def _dev_rows(config: FinetuneConfig, work: Path) -> list[dict[str, Any]]:
    paths = existing(config.dev.pairs)
    if not paths:
        return []
    data = config.data.model_copy(update={"pairs": paths, "run": None, "index": None})
    rows = open_groups(data, False, work, combined_sha256([file_sha256(path) for path in paths]))
    return [rows[row] for row in range(min(len(rows), config.dev.most))]


def train_one(
    config: FinetuneConfig,
    rows: PairRows,
    chosen: NDArray[np.int64],
    dev: Sequence[dict[str, Any]],
    data_hash: str,
    folder: Path,
    work: Path,
) -> None:
    """One model, trained on the chosen rows int64 [n], into a folder; work: where its files go meanwhile."""
    training, output = config.training, config.output
    args = library_arguments(
        TrainingArguments,
        work,
        training,
        output,
        has_dev=bool(dev),
        metric_for_best_model=MEASURE if dev else None,
        greater_is_better=True if dev else None,
    )
    batches = Batches(
        {"": chosen}, training.batch, training.seed, process=args.process_index, processes=args.world_size
    )
    if len(batches) == 0:
        raise InputError("fewer queries than processes", "Use fewer processes, or more queries.")
    set_seed(training.seed)
    with progress("opening the base"):
        opened = open_trainable(config)
    tokenizer = PairTokenizer(opened.facts)
    texts = GroupTexts(opened.text_format, config.data.negatives, training.seed)
    dev_texts = GroupTexts(opened.text_format, config.dev.negatives)
    trainer = GroupTrainer(
        model=opened.model,
        args=args,
        data_collator=GroupCollator(tokenizer, texts, training.mini_batch),
        eval_dataset=rows if dev else None,  # the library wants one; `GroupTrainer.evaluate` does without
    )
    trainer.group_loss = LOSSES[config.loss.kind]
    trainer.measure = DevGroups(dev, tokenizer, dev_texts, bfloat16=args.bf16) if dev else None
    log = Log(work / "log.jsonl", "queries", min(training.batch, batches.rows))
    fingerprint = _fingerprint(config, data_hash, opened.base_sha256, args.world_size)
    fingerprint["rows"] = combined_sha256([*map(str, chosen.tolist()), str(len(dev))])
    trainer.prepare(rows, batches, fingerprint, log)
    set_seed(training.seed)
    step = trainer.train_to_best()
    if args.should_save:
        facts = {
            "queries": f"{len(set(query_numbers(rows)[chosen].tolist())):,}",
            "SHA-256 of the data": f"`{data_hash}`",
            "SHA-256 of the base's weights": f"`{opened.base_sha256}`",
            "processes": args.world_size,
            "precision": "bfloat16" if args.bf16 else "float32",
            "step": f"{step:,}",
            **_measured(step, log.path),
            "licence": output.licence,
        }
        publish(config, opened, trainer.model, folder, work, reranker_card(config, facts))
        print(f"{folder}: trained for {trainer.state.global_step:,} steps", file=sys.stderr)
    if args.world_size > 1:
        atexit.register(leave_group)


def _fingerprint(config: FinetuneConfig, data_hash: str, base_hash: str, processes: int) -> dict[str, Any]:
    values: dict[str, Any] = config.model_dump(mode="json", exclude={"output"})
    for name in ("pairs", "index", "run", "queries", "qrels"):
        values["data"].pop(name)
    values["data"]["sha256"], values["model"]["base"] = data_hash, base_hash
    values["dev"]["pairs"] = [file_sha256(path) for path in config.dev.pairs]
    values["output"] = {"checkpoint_steps": config.output.checkpoint_steps}
    return values | {"processes": processes}


def _measured(step: int, log: Path) -> dict[str, Any]:
    found = {line["step"]: line[MEASURE] for line in read_log(log) if MEASURE in line}
    return {"MRR@10 of the dev queries": f"{found[step]:.4f}"} if step in found else {}


def publish(
    settings: Settings, opened: Trainable, model: nn.Module, folder: Path, work: Path, card: str
) -> None:
    """Put a model, its card, settings and the log of `work` into a folder, which is there whole or not."""
    finished = work / "model"
    shutil.rmtree(finished, ignore_errors=True)
    opened.save(model, finished)
    (finished / "README.md").write_text(card, "utf-8")
    (finished / SETTINGS).write_text(settings_text(settings), "utf-8")
    shutil.copyfile(work / "log.jsonl", finished / "log.jsonl")
    finished.rename(folder)
