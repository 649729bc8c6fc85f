"""Fine-tuning of a re-ranker from settings to a published folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from accelerate.utils import set_seed
from numpy.typing import NDArray
from torch import Tensor, nn

from linkseek.indexer.files.hashes import combined_sha256, file_sha256
from linkseek.indexer.program.progress import progress
from linkseek.reranker.kinds import DEFAULT_KIND
from linkseek.reranker.models.bases import find_start
from linkseek.reranker.training.config import FinetuneConfig
from linkseek.reranker.training.group_data import (
    Goals,
    GroupCollator,
    GroupTable,
    GroupTexts,
    PairTokenizer,
    data_sha256,
    dev_pairs,
    draw_queries,
    open_groups,
    query_numbers,
)
from linkseek.reranker.training.group_loss import DevGroups, batch_loss, loss_of
from linkseek.reranker.training.trainable_cross_encoder import open_trainable, reranker_card
from linkseek.retriever.mining.pairs import Pair
from linkseek.retriever.training.lifecycle import Run, existing, fingerprint, is_finished, open_run
from linkseek.retriever.training.log import NEGATIVES
from linkseek.retriever.training.loop import DevMeasure, Task, train_steps
from linkseek.retriever.training.losses.teacher import TeacherTexts, open_teacher, taught_by


def finetune(config: FinetuneConfig) -> None:
    """Train, or resume training, and publish the model in `output.folder` atomically.

    Does nothing if it is finished. Raises `UsageError` if the folder contains something else.
    """
    if is_finished(config, config.output.folder):
        return
    with open_run(config.training, config.output) as run:
        if config.model.kind == DEFAULT_KIND:
            find_start(config.model.base)  # a wrong name ends here, before the data is read
        sha256 = data_sha256(config.data)
        with run.accelerator.main_process_first():
            table = open_groups(config.data, config.texts.url, run.work, sha256)
        chosen = draw_queries(query_numbers(table.queries()), config.data.shots, config.data.seed)
        measured = dev_pairs(existing(config.dev.pairs), config.dev.most)
        train_on_groups(config, run, table, chosen, measured, sha256)


def train_on_groups(
    config: FinetuneConfig,
    run: Run,
    table: GroupTable,
    chosen: NDArray[np.int64],
    dev_pairs: Sequence[Pair],
    sha256: str,
) -> None:
    """Train on the chosen rows, int64 [n], and publish the model in the run's folder."""
    training, is_first = config.training, run.accelerator.is_main_process
    batches = run.batches({"": chosen}, training.batch, training.seed)
    set_seed(training.seed)
    with progress("opening the base"):
        opened = open_trainable(config)
    tokenizer = PairTokenizer(opened.facts)
    dev = None
    if dev_pairs:
        dev_texts = GroupTexts(opened.text_format, config.dev.negatives)
        groups = DevGroups(opened.model, run.accelerator.device, dev_pairs, tokenizer, dev_texts)
        dev = DevMeasure("mrr", lambda: groups() if is_first else 0.0, higher_is_better=True)
    group_loss = loss_of(config.loss.kind, config.teacher)
    texts = GroupTexts(opened.text_format, config.data.negatives, training.seed)
    goals: Goals | None = None
    teaching = {}
    if config.teacher.teachers:
        with run.accelerator.main_process_first():
            pairs = (table[row].record for row in chosen.tolist())
            known = TeacherTexts.of(pairs, opened.text_format)
            teacher = open_teacher(config.teacher, known, title=config.texts.title, work=run.work)
        goals = partial(texts.goals, teacher)
        teaching = {"taught_by": taught_by(config.teacher)}

    def loss(model: nn.Module, inputs: Mapping[str, Any]) -> dict[str, Tensor]:
        total, _ = batch_loss(model, inputs["pieces"], inputs["mask"], group_loss, inputs.get("goals"))
        return {"loss": total, NEGATIVES: inputs[NEGATIVES]}

    collator = GroupCollator(tokenizer, texts.pairs, training.mini_batch, goals)
    task = Task(opened.model, table, batches, "queries", collator, loss, dev)
    contents = {
        "data_sha256": sha256,
        "base_sha256": opened.base_sha256,
        "dev_sha256": [file_sha256(path) for path in config.dev.pairs],
        "rows": combined_sha256([*map(str, chosen.tolist()), str(len(dev_pairs))]),
        **teaching,
    }
    marks = fingerprint(config, run, **contents)
    state = train_steps(task, run, training, config.output, marks)
    if is_first:
        own = {
            "queries": f"{len(set(query_numbers(table.queries())[chosen].tolist())):,}",
            "SHA-256 of the data": f"`{sha256}`",
        }
        result = {"step": f"{state.best_step or state.step:,}"}
        if state.best is not None:
            result["MRR@10 of the dev queries"] = f"{state.best:.4f}"
        card = reranker_card(config, run.facts(own, opened.base_sha256, result), "finetune")
        run.publish(config, opened.save, state.step, card)
