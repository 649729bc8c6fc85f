"""Training of a bi-encoder on pairs: its data, its loss and its card.

The dev measure is the average rank of the relevant passage. It is DPR's "average rank" validation (Karpukhin
et al. 2020), by which HLP chooses its checkpoints (section 4.3): for each query, all passages of all dev
pairs are ranked, the relevant ones and some negatives of each pair; equal passages count once. The best rank
is 1. Passages with the score of the relevant one rank above it, so a model that gives all texts the same
vector is the worst, not the best.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np
from accelerate.utils import set_seed
from numpy.typing import NDArray
from sentence_transformers.util.distributed import distributed_evaluation
from torch import Tensor, nn

from linkseek.indexer.files.hashes import combined_sha256, file_sha256
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.program.progress import progress
from linkseek.retriever.mining.pairs import Pair, read_pairs
from linkseek.retriever.models.backends.layers import packable
from linkseek.retriever.models.bases import has_two_towers, tower
from linkseek.retriever.models.biencoder import TextFormat
from linkseek.retriever.models.folders import model_sha256
from linkseek.retriever.models.late import head_base
from linkseek.retriever.models.library import TITLE_SEPARATOR, text_prompts
from linkseek.retriever.models.locations import PASSAGES, QUERIES, find_base
from linkseek.retriever.training.card import bi_encoder_card
from linkseek.retriever.training.config import TrainConfig
from linkseek.retriever.training.lifecycle import Run, existing, fingerprint, is_finished, open_run
from linkseek.retriever.training.loop import DevMeasure, Task, train_steps
from linkseek.retriever.training.losses.in_batch_loss import PairLoss
from linkseek.retriever.training.losses.teacher import TeacherTexts, open_teacher, taught_by
from linkseek.retriever.training.pair_models import PairModel, open_model, pair_model
from linkseek.retriever.training.samples.pair_inputs import PairCollator
from linkseek.retriever.training.samples.sample_table import PairTable, open_pairs


def train(config: TrainConfig) -> None:
    """Train, or resume training, and publish the model in `output.folder` atomically.

    Does nothing if it is finished. Raises `UsageError` if the folder contains something else.
    """
    if is_finished(config, config.output.folder):
        return
    with open_run(config.training, config.output) as run:
        pairs_sha256 = combined_sha256([file_sha256(path) for path in existing(config.data.pairs)])
        dev_sha256 = [file_sha256(path) for path in existing(config.dev.pairs)]
        base_sha256 = model_sha256(find_base(config.model.base))
        contents: dict[str, Any] = {"pairs": pairs_sha256, "base": base_sha256, "dev_pairs": dev_sha256}
        if config.teacher.teachers:
            contents["taught_by"] = taught_by(config.teacher)
        task, kind, facts = make_task(config, run, pairs_sha256)
        marks = fingerprint(config, run, **contents)
        state = train_steps(task, run, config.training, config.output, marks)
        if run.accelerator.is_main_process:
            result = {"step": f"{state.best_step or state.step:,}"}
            if state.best is not None:
                result["average rank of the dev pairs"] = f"{state.best:.2f}"
            card = bi_encoder_card(config, run.facts(facts, base_sha256, result))
            run.publish(config, partial(kind.save, base_sha256=base_sha256), state.step, card)


def make_task(config: TrainConfig, run: Run, pairs_sha256: str) -> tuple[Task, PairModel, dict[str, Any]]:
    """The training as the loop runs it, its model, and facts for the card."""
    training, data, texts = config.training, config.data, config.texts
    stored = run.work / f"pairs-{pairs_sha256[:16]}.arrow"
    with run.accelerator.main_process_first():
        pairs = open_pairs(data.pairs, config.stage.kind, stored)
    _check_pairs(config, pairs)
    sources = pairs.sources(data.shots, data.seed)
    batches = run.batches(sources, training.batch, training.seed)
    set_seed(training.seed)
    limits = texts.query_tokens, texts.passage_tokens
    with progress("opening the base"):
        model = open_model(config.model, max(limits) if all(limits) else 0)
    if texts.separator is not None:
        model.prompts = {**(model.prompts or {}), TITLE_SEPARATOR: texts.separator}
    head_of = head_base(config.model.base, is_new=bool(config.model.dimension))
    kind = pair_model(model, config.loss, head_of if config.model.train == "head" else "")
    text_format = TextFormat(texts.title, **text_prompts(model))
    teacher = None
    if config.teacher.teachers:
        unused: Any = {name: () for name in ("negatives", "hard_negatives") if not getattr(data, name)}
        rows = (row for source in sources.values() for row in source.tolist())
        with run.accelerator.main_process_first():
            taught = TeacherTexts.of((replace(pairs[row].record, **unused) for row in rows), text_format)
            teacher = open_teacher(config.teacher, taught, title=texts.title, work=run.work)
    pair_loss = PairLoss(
        kind,
        config.loss.scale or (20.0 if kind.is_normalized else 1.0),
        config.loss.mask_duplicates,
        # DDP follows one forward pass at a time, and two towers have one each.
        cached=training.mini_batch > 0 or (run.accelerator.num_processes > 1 and has_two_towers(model)),
        fixed_passages=config.model.train == "query",
        teacher=teacher,
        teacher_weight=config.teacher.weight,
        scores=config.teacher.scores,
        score_temperature=config.teacher.score_temperature,
    )

    def loss(prepared: nn.Module, inputs: Mapping[str, Any]) -> dict[str, Tensor]:
        if pair_loss.fixed_passages:
            tower(model, PASSAGES).eval()  # without dropout
        return pair_loss(prepared, inputs)

    counts = data.negatives, data.hard_negatives
    # One pass reads queries and passages if it computes no padding.
    is_one = type(kind) is PairModel and packable(model) and not (pair_loss.cached or has_two_towers(model))
    collate = PairCollator(
        kind.features, text_format, *limits, *counts, training.seed, training.mini_batch,
        kind.together if is_one else None,
    )  # fmt: skip
    dev = _dev_measure(config, kind)
    task = Task(model, pairs, batches, "pairs", collate, loss, dev, needs_contrast=teacher is None)
    kinds = ", ".join(f"{len(rows):,} {name or 'labelled'}" for name, rows in sources.items())
    facts = {"pairs": kinds, "SHA-256 of the pairs": f"`{pairs_sha256}`", "scale of scores": pair_loss.scale}
    return task, kind, facts


def _dev_measure(config: TrainConfig, kind: PairModel) -> DevMeasure | None:
    dev = config.dev
    if not dev.pairs:
        return None
    pairs = list(islice(chain.from_iterable(map(read_pairs, dev.pairs)), dev.most))
    text_format = TextFormat(dev.title, **text_prompts(kind.model))
    measure = AverageRank(pairs, text_format, dev.negatives, dev.hard_negatives)
    return DevMeasure("average_rank", partial(measure, kind), higher_is_better=False)


def _check_pairs(config: TrainConfig, pairs: PairTable) -> None:
    """Raises `InputError` if no pair has the required negatives or scores; some pairs without are a line on
    stderr.
    """
    data = config.data
    for name, wanted, source in (
        ("negatives", data.negatives, "linkseek mine --negatives random"),
        ("hard_negatives", data.hard_negatives, "linkseek negatives"),
    ):
        counts = pairs.count(name)
        if wanted and set(counts) <= {0}:
            raise InputError(
                f"data.{name} is {wanted}, and no pair has any",
                f"Set data.{name} = 0, or give the pairs some: {source}",
            )
        lacking = sum(count for size, count in counts.items() if size < wanted)
        if lacking:
            print(f"{lacking:,} of {len(pairs):,} pairs have fewer than {wanted} {name}", file=sys.stderr)
    if config.teacher.scores:
        unscored = sum(pairs[row].record.positive.score is None for row in range(len(pairs)))
        if unscored == len(pairs):
            raise InputError("teacher.scores is set, and no pair has any", "Write them: linkseek score")
        if unscored:
            print(f"{unscored:,} of {len(pairs):,} pairs have no scores of a teacher", file=sys.stderr)


_BLOCK = 1024


class AverageRank:
    """The measure of a model on pairs, each with its first `negatives` and `hard_negatives`."""

    def __init__(
        self, pairs: Sequence[Pair], text_format: TextFormat, negatives: int, hard_negatives: int
    ) -> None:
        self._queries = [text_format.query(pair.query) for pair in pairs]
        rows: dict[str, int] = {}
        gold = []
        for pair in pairs:
            contexts = (pair.positive, *pair.negatives[:negatives], *pair.hard_negatives[:hard_negatives])
            texts = [text_format.passage(context.title, context.text) for context in contexts]
            gold.append([rows.setdefault(text, len(rows)) for text in texts])
        self._passages = list(rows)
        self._gold = np.array([places[0] for places in gold], np.int64)  # [Q]

    def __call__(self, kind: PairModel) -> float:
        """The mean rank, from 1 to the number of passages; in processes other than the first 0.

        All processes must call it: they share the encoding.
        """
        with distributed_evaluation(kind.model) as is_first:
            if not is_first:
                return 0.0
            queries = kind.encode(self._queries, QUERIES)  # [Q, ...]
            passages = kind.encode(self._passages, PASSAGES)  # [P, ...]
            return float(gold_ranks(queries, passages, self._gold, kind.scores).mean())


def gold_ranks(
    queries: Tensor, passages: Tensor, gold: NDArray[np.int64], scores: Callable[[Tensor, Tensor], Tensor]
) -> NDArray[np.int64]:
    """The rank of each query's passage, int64 [Q], from 1; queries [Q, ...], passages [P, ...], gold [Q].

    A score that is not a number counts as the best, so it is never to a model's advantage.
    """
    ranks = np.empty(len(queries), np.int64)
    for start in range(0, len(queries), _BLOCK):
        block = slice(start, start + _BLOCK)
        block_scores = scores(queries[block], passages).nan_to_num(nan=np.inf).numpy()  # [b, P]
        own = block_scores[np.arange(len(block_scores)), gold[block]]  # [b]
        ranks[block] = (block_scores >= own[:, None]).sum(axis=1)
    return ranks
