"""Training a bi-encoder and a cross-encoder: our loop and sentence-transformers' trainers.

Same model, texts, batches, lengths and optimiser; the steps are timed, without opening the model, reading the
pairs and writing the result. The bi-encoder learns titles and texts of passages as pairs, with
MultipleNegativesRankingLoss there; the cross-encoder a title with its text against three other texts, by a
softmax here and BinaryCrossEntropyLoss there. Memory is the most that a process held while its loop ran.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from accelerate.state import AcceleratorState
from datasets import Dataset
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.cross_encoder import CrossEncoderTrainer, CrossEncoderTrainingArguments
from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from transformers import TrainerCallback, set_seed

from benchmarks.support.harness import Benchmark, Measurement, passages, run
from linkseek.indexer.passages import Passage
from linkseek.indexer.program.defaults import DEFAULT_ENCODER
from linkseek.reranker.models.bases import open_start
from linkseek.reranker.training import finetuning
from linkseek.reranker.training.config import FinetuneConfig
from linkseek.retriever.mining.pairs import Pair, PairContext, pair_line, write_lines
from linkseek.retriever.models.bases import load_sentence_transformer
from linkseek.retriever.models.locations import find_model
from linkseek.retriever.training.config import (
    DataSettings,
    DevSettings,
    LossSettings,
    ModelSettings,
    OutputSettings,
    StageSettings,
    TextSettings,
    TrainConfig,
    TrainingSettings,
)
from linkseek.retriever.training.lifecycle import open_run
from linkseek.retriever.training.loop import Task, train_steps
from linkseek.retriever.training.pair_training import make_task

TOKENS = 128
CROSS_TOKENS = 256
_QUERIES, _NEGATIVES = 8, 3  # of a batch of a cross-encoder
_WARM = 2  # steps that do not count: allocations, and the first shapes


Trainer = Callable[[Sequence[Passage], argparse.Namespace, Path], float]  # of steps, in seconds


class _Clock(TrainerCallback):
    """Seconds of the steps after the first ones."""

    def __init__(self) -> None:
        self.started = self.seconds = 0.0

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == _WARM:
            self.started = time.perf_counter()
        self.seconds = time.perf_counter() - self.started


def measure(options: argparse.Namespace) -> Iterator[Measurement]:
    """Pairs a second of both, in turn, and their memory."""
    chosen = passages(options.corpus, max(options.batch, _QUERIES + _NEGATIVES) * options.steps)
    yield from pairs_a_second(f"training, batches of {options.batch}", chosen, DEFAULT_ENCODER, options)
    name = f"cross-encoder, batches of {_QUERIES} queries with {1 + _NEGATIVES} texts"
    yield from _compared(name, _QUERIES * (1 + _NEGATIVES), _cross_ours, _cross_peers, chosen, options)


def pairs_a_second(
    name: str, chosen: Sequence[Passage], base: str, options: argparse.Namespace
) -> Iterator[Measurement]:
    """Titles and texts of passages as pairs for a model; options: rounds, batch, steps, precision."""
    ours, peers = partial(_ours, base), partial(_peers, base)
    yield from _compared(name, options.batch, ours, peers, chosen, options)


def _compared(
    name: str,
    batch: int,
    ours: Trainer,
    peers: Trainer,
    chosen: Sequence[Passage],
    options: argparse.Namespace,
) -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as scratch:
        rounds = [
            [
                _watched(train, chosen, options, Path(scratch) / f"{which}-{turn}")
                for which, train in enumerate((ours, peers))
            ]
            for turn in range(options.rounds)
        ]
    (our_seconds, our_memory), (peer_seconds, peer_memory) = (
        [statistics.median(values) for values in zip(*runs, strict=True)]
        for runs in zip(*rounds, strict=True)
    )
    counted = batch * (options.steps - _WARM)
    yield Measurement(
        name, "pairs/s", counted / our_seconds, counted / peer_seconds, peer_seconds / our_seconds
    )
    if our_memory:
        yield Measurement(f"{name}: memory", "MB", our_memory, peer_memory, our_memory / peer_memory)


def _watched(
    train: Trainer, chosen: Sequence[Passage], options: argparse.Namespace, work: Path
) -> tuple[float, float]:
    """Seconds, and megabytes at the peak: 0 where the system does not start that count anew."""
    gc.collect()
    peak = Path("/proc/self/clear_refs")
    if peak.exists():
        ctypes.CDLL(None).malloc_trim(0)  # what the run before has freed
        peak.write_text("5")
    seconds = train(chosen, options, work)
    status = Path("/proc/self/status")
    found = re.search(r"^VmHWM:\s+(\d+)", status.read_text(), re.M) if peak.exists() else None
    return seconds, int(found[1]) / 1024 if found else 0.0


def _ours(base: str, chosen: Sequence[Passage], options: argparse.Namespace, work: Path) -> float:
    work.mkdir()
    pairs = (Pair(p.title, PairContext("", p.text, p.id), objective="title") for p in chosen)
    write_lines(work / "pairs.jsonl", map(pair_line, pairs))
    config = TrainConfig(
        stage=StageSettings(kind="pretrain"),
        model=ModelSettings(base=base),
        data=DataSettings(pairs=[work / "pairs.jsonl"]),
        texts=TextSettings(title=False, query_tokens=TOKENS, passage_tokens=TOKENS),
        loss=LossSettings(scale=20.0),
        training=TrainingSettings(
            batch=options.batch, steps=options.steps, seed=1, precision=options.precision
        ),
        dev=DevSettings(),
        output=OutputSettings(folder=work / "out", log_steps=1_000_000),
    )
    times: list[float] = []
    AcceleratorState._reset_state(reset_partial_state=True)  # the peer's has its precision
    with open_run(config.training, config.output) as run:
        task, *_ = make_task(config, run, "0" * 64)
        train_steps(_timed(task, times), run, config.training, config.output, {})
    return _seconds(times)


def _timed(task: Task, times: list[float]) -> Task:
    """The task, which notes when each step begins."""

    def loss(model: Any, inputs: Any) -> Any:
        times.append(time.perf_counter())
        return task.loss(model, inputs)

    return replace(task, loss=loss)


def _seconds(times: Sequence[float]) -> float:
    # to the beginning of the last step, after which the model is written
    return (times[-1] - times[_WARM]) / (len(times) - 1 - _WARM) * (len(times) - _WARM)


def _peers(base: str, chosen: Sequence[Passage], options: argparse.Namespace, work: Path) -> float:
    set_seed(1)
    model = load_sentence_transformer(find_model(base), base)
    model.max_seq_length = TOKENS
    trainer = SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(
            output_dir=str(work), per_device_train_batch_size=options.batch, max_steps=options.steps,
            learning_rate=2e-5, warmup_steps=0.1, max_grad_norm=2.0, seed=1, save_strategy="no",
            logging_steps=1_000_000, report_to="none", disable_tqdm=True,
            bf16=options.precision == "bfloat16", use_cpu=not torch.cuda.is_available(),
        ),
        train_dataset=Dataset.from_dict(
            {"query": [p.title for p in chosen], "positive": [p.text for p in chosen]}
        ),
        loss=MultipleNegativesRankingLoss(model, scale=20.0),
    )  # fmt: skip
    clock = _Clock()
    trainer.add_callback(clock)
    trainer.train()
    return clock.seconds


def _contrasts(chosen: Sequence[Passage], steps: int) -> Iterator[tuple[str, Passage, Sequence[Passage]]]:
    for at in range(_QUERIES * steps):
        yield chosen[at].title, chosen[at], chosen[at + 1 : at + 1 + _NEGATIVES]


def _cross_ours(chosen: Sequence[Passage], options: argparse.Namespace, work: Path) -> float:
    work.mkdir()
    pairs = (
        Pair(
            title,
            PairContext("", right.text, right.id),
            hard_negatives=tuple(PairContext("", other.text, other.id) for other in others),
            objective="title",
        )
        for title, right, others in _contrasts(chosen, options.steps)
    )
    write_lines(work / "pairs.jsonl", map(pair_line, pairs))
    config = FinetuneConfig.model_validate({
        "model": {"base": DEFAULT_ENCODER},
        "data": {"pairs": [str(work / "pairs.jsonl")], "negatives": _NEGATIVES},
        "texts": {"tokens": CROSS_TOKENS, "title": False},
        "training": {"batch": _QUERIES, "steps": options.steps, "seed": 1, "precision": options.precision},
        "dev": {},
        "output": {"folder": str(work / "out"), "log_steps": 1_000_000},
    })  # fmt: skip
    times: list[float] = []
    AcceleratorState._reset_state(reset_partial_state=True)
    with patch.object(finetuning, "train_steps", lambda task, *rest: train_steps(_timed(task, times), *rest)):
        finetuning.finetune(config)
    return _seconds(times)


def _cross_peers(chosen: Sequence[Passage], options: argparse.Namespace, work: Path) -> float:
    texts = [
        {"query": title, "text": text.text, "label": float(text is right)}
        for title, right, others in _contrasts(chosen, options.steps)
        for text in (right, *others)
    ]
    model = open_start(DEFAULT_ENCODER, CROSS_TOKENS)
    trainer = CrossEncoderTrainer(
        model=model,
        args=CrossEncoderTrainingArguments(
            output_dir=str(work), per_device_train_batch_size=_QUERIES * (1 + _NEGATIVES),
            max_steps=options.steps, learning_rate=2e-5, warmup_steps=0.1, seed=1, save_strategy="no",
            logging_steps=1_000_000, report_to="none", disable_tqdm=True,
            bf16=options.precision == "bfloat16", use_cpu=not torch.cuda.is_available(),
        ),
        train_dataset=Dataset.from_list(texts),
        loss=BinaryCrossEntropyLoss(model),
    )  # fmt: skip
    clock = _Clock()
    trainer.add_callback(clock)
    trainer.train()
    return clock.seconds


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32", help="of both")


BENCHMARK = Benchmark("training", __doc__.partition("\n")[0], measure, _options)

if __name__ == "__main__":
    run(BENCHMARK)
