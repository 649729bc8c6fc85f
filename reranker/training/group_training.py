"""Training of one re-ranker on groups: its loss, its dev measure and its card."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from accelerate.utils import set_seed
from numpy.typing import NDArray
from torch import Tensor, nn

from indexer.base.progress import progress
from indexer.store.artifacts import combined_sha256, file_sha256
from reranker.training.finetune_config import FinetuneConfig
from reranker.training.group_inputs import GroupCollator, GroupTexts, PairTokenizer
from reranker.training.group_loss import LOSSES, batch_loss
from reranker.training.query_splits import query_numbers
from reranker.training.reciprocal_rank import MEASURE, DevGroups
from reranker.training.reranker_cards import finetuned_card
from reranker.training.trainable_cross_encoder import open_trainable
from retriever.mining.pairs import Pair
from retriever.training.lifecycle import Run, fingerprint
from retriever.training.loop import DevMeasure, Task, train_steps
from retriever.training.pair_table import PairTable


def train_on_groups(
    config: FinetuneConfig,
    run: Run,
    table: PairTable,
    chosen: NDArray[np.int64],
    dev_pairs: Sequence[Pair],
    data_sha256: str,
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
        dev = DevMeasure(MEASURE, lambda: groups() if is_first else 0.0, higher_is_better=True)
    group_loss = LOSSES[config.loss.kind]

    def loss(model: nn.Module, inputs: Mapping[str, Any]) -> dict[str, Tensor]:
        return {"loss": batch_loss(model, inputs["pieces"], inputs["mask"], group_loss)[0]}

    texts = GroupTexts(opened.text_format, config.data.negatives, training.seed)
    collator = GroupCollator(tokenizer, texts, training.mini_batch)
    task = Task(opened.model, table, batches, "queries", collator, loss, dev)
    contents = {
        "data_sha256": data_sha256,
        "base_sha256": opened.base_sha256,
        "dev_sha256": [file_sha256(path) for path in config.dev.pairs],
        "rows": combined_sha256([*map(str, chosen.tolist()), str(len(dev_pairs))]),
    }
    marks = fingerprint(config, run.accelerator.num_processes, **contents)
    state = train_steps(task, run, training, config.output, marks)
    if is_first:
        own = {
            "queries": f"{len(set(query_numbers(table)[chosen].tolist())):,}",
            "SHA-256 of the data": f"`{data_sha256}`",
        }
        result = {"step": f"{state.best_step or state.step:,}"}
        if state.best is not None:
            result["MRR@10 of the dev queries"] = f"{state.best:.4f}"
        card = finetuned_card(config, run.facts(own, opened.base_sha256, result))
        run.publish(config, partial(opened.save, opened.model), card)
        print(f"{run.folder}: trained for {state.step:,} steps", file=sys.stderr)
