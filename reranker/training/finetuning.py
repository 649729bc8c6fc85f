"""Fine-tuning of a re-ranker from settings to a published folder: one model, or one for each fold.

In cross-validation the queries are split, each part ranked by a model that has not seen it (PROP, section
4.4.3):

    FOLDER/fold-N       the model by which the queries of part N are ranked
    FOLDER/folds.tsv    N <tab> query, for each query
    FOLDER/run.trec     the run, each query re-ranked by its model; with data.run only

A query's part is given by `folds.file`, or depends on `data.seed` and the other queries alone. Of the other
parts the next one chooses the checkpoint, the rest is trained on; `data.shots` draws from that rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from accelerate.utils import set_seed
from numpy.typing import NDArray
from torch import Tensor, nn

from linkseek.indexer.base.progress import progress
from linkseek.indexer.base.settings import settings_text
from linkseek.indexer.files.hashes import combined_sha256, file_sha256
from linkseek.indexer.index import Index
from linkseek.indexer.store.artifacts import atomic_file, write_atomically
from linkseek.reranker.candidates import read_candidates
from linkseek.reranker.kinds import DEFAULT_KIND
from linkseek.reranker.models.bases import find_start
from linkseek.reranker.models.scoring import open_scorer
from linkseek.reranker.reranking import Reranker
from linkseek.reranker.training.config import FinetuneConfig
from linkseek.reranker.training.group_inputs import Goals, GroupCollator, GroupTexts, PairTokenizer
from linkseek.reranker.training.group_loss import (
    LOSSES,
    TAUGHT,
    GroupLoss,
    TaughtLoss,
    batch_loss,
    with_teacher,
)
from linkseek.reranker.training.groups import GroupTable, data_sha256, open_groups
from linkseek.reranker.training.query_choice import (
    draw_queries,
    first_queries,
    fold_of_each,
    fold_split,
    query_numbers,
    read_folds,
)
from linkseek.reranker.training.reciprocal_rank import DevGroups
from linkseek.reranker.training.reranker_cards import finetuned_card
from linkseek.reranker.training.trainable_cross_encoder import open_trainable
from linkseek.retriever.mining.pairs import Pair
from linkseek.retriever.queries import read_queries
from linkseek.retriever.ranking import Ranking
from linkseek.retriever.search.runs import run_lines
from linkseek.retriever.training.lifecycle import SETTINGS, Run, existing, fingerprint, is_finished, open_run
from linkseek.retriever.training.log import NEGATIVES
from linkseek.retriever.training.loop import DevMeasure, Task, train_steps
from linkseek.retriever.training.teacher import TeacherTexts, open_teacher, taught_by


def finetune(config: FinetuneConfig, is_plan: bool = False) -> None:
    """Train, or resume training, and publish the model in `output.folder` atomically.

    Does nothing if it is finished. Raises `UsageError` if the folder holds something else.
    is_plan: a few steps are measured, and a plan is printed, in the place of training.
    """
    if not is_plan and is_finished(config, config.output.folder):
        return
    with open_run(config.training, config.output, is_plan) as run:
        if config.model.kind == DEFAULT_KIND:
            find_start(config.model.base)  # a wrong name ends here, before the data is read
        sha256 = data_sha256(config.data)
        with run.accelerator.main_process_first():
            table = open_groups(config.data, config.texts.url, run.work, sha256)
            dev_pairs = _dev_pairs(config, run.work)
        if config.folds.is_set:
            _cross_validate(config, run, table, sha256)
        else:
            chosen = draw_queries(query_numbers(table.queries()), config.data.shots, config.data.seed)
            _train_on_groups(config, run, table, chosen, dev_pairs, sha256)


def _dev_pairs(config: FinetuneConfig, work: Path) -> list[Pair]:
    paths = existing(config.dev.pairs)
    if not paths:
        return []
    data = config.data.model_copy(update={"pairs": paths, "run": None, "index": None})
    table = open_groups(data, False, work, combined_sha256([file_sha256(path) for path in paths]))
    rows = first_queries(query_numbers(table.queries()), config.dev.most)
    return [table[row].record for row in rows.tolist()]


def _train_on_groups(
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
    own_loss = LOSSES[config.loss.kind]
    group_loss: GroupLoss | TaughtLoss = own_loss
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
        group_loss = with_teacher(own_loss, TAUGHT[config.teacher.loss], config.teacher.weight)

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
        card = finetuned_card(config, run.facts(own, opened.base_sha256, result))
        run.publish(config, opened.save, state.step, card)


def _cross_validate(config: FinetuneConfig, run: Run, table: GroupTable, sha256: str) -> None:
    """Train one model per fold, or resume, rank each query by its model, and publish all results."""
    fold_of = _folds(config, table)
    count = max(fold_of.values()) + 1
    folds = np.array([fold_of[query] for query in table.queries()], np.int64)  # [N]
    numbers = query_numbers(table.queries())
    finished = run.work / "model"
    for held_out in range(count):
        train, dev = fold_split(folds, held_out, count)
        chosen = train[draw_queries(numbers[train], config.data.shots, config.data.seed)]
        dev_rows = dev[first_queries(numbers[dev], config.dev.most)]
        dev_pairs = [table[row].record for row in dev_rows.tolist()]
        fold = replace(run, folder=finished / f"fold-{held_out}", work=run.work / f"fold-{held_out}")
        if not fold.folder.is_dir():
            finished.mkdir(exist_ok=True)
            fold.work.mkdir(exist_ok=True)
            _train_on_groups(config, fold, table, chosen, dev_pairs, sha256)
    if run.plan is not None or not run.accelerator.is_main_process:
        return
    if config.data.run:
        _rank(config, finished, fold_of, count)
    lines = "".join(f"{fold}\t{' '.join(query.split())}\n" for query, fold in fold_of.items())
    write_atomically(finished / "folds.tsv", lines.encode())
    (finished / SETTINGS).write_text(settings_text(config), "utf-8", newline="\n")
    finished.rename(run.folder)


def _folds(config: FinetuneConfig, table: GroupTable) -> dict[str, int]:
    """The fold of each query, by its text."""
    data, folds = config.data, config.folds
    if folds.file is None:
        return fold_of_each(table.queries(), folds.count or 0, data.seed)
    text_of = {query.id: query.text for query in read_queries(data.queries)} if data.queries else {}
    return read_folds(folds.file, table.queries(), text_of)


def _rank(config: FinetuneConfig, finished: Path, fold_of: Mapping[str, int], count: int) -> None:
    """Write the re-ranked run; a query without a judgement, which is in no fold, goes by the first model."""
    data = config.data
    assert data.run and data.index and data.queries
    queries, ranking, candidates, _ = read_candidates(data.run, Index.open(data.index), data.queries)
    rows = np.full(ranking.rows.shape, -1, np.int64)
    scores = np.full(ranking.scores.shape, -np.inf, np.float32)
    for fold in range(count):
        places = [n for n, query in enumerate(queries) if fold_of.get(query.text, 0) == fold]
        part = Ranking(tuple(queries[n].id for n in places), ranking.rows[places], ranking.scores[places])
        scorer = open_scorer(str(finished / f"fold-{fold}"), device=config.training.device)
        # What is read of a text is what the fold was trained on.
        reranker = Reranker([scorer], candidates, depth=data.depth, long="first")
        with progress(f"ranking with fold {fold}", reranker.pairs(part), "pairs") as advance:
            reranked = reranker.rerank([queries[n] for n in places], part, advance)
        rows[places], scores[places] = reranked.rows, reranked.scores
    joined = Ranking(ranking.query_ids, rows, scores)
    with atomic_file(finished / "run.trec") as file:
        file.writelines(run_lines(joined, lambda rows: [candidates.id(int(row)) for row in rows]))
