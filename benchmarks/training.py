"""Training a bi-encoder: our loop and sentence-transformers' trainer with MultipleNegativesRankingLoss.

Same model, pairs (titles and texts of passages), batches, lengths and optimiser; the steps are timed,
without opening the model, reading the pairs and writing the result.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from accelerate.state import AcceleratorState
from datasets import Dataset
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from transformers import TrainerCallback, set_seed

from benchmarks.harness import Benchmark, Figure, passages, run
from linkseek.indexer.passages import Passage
from linkseek.indexer.program.defaults import DEFAULT_ENCODER
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
from linkseek.retriever.training.loop import train_steps
from linkseek.retriever.training.pair_training import make_task

TOKENS = 128
_WARM = 2  # steps that do not count: allocations, and the first shapes


class _Clock(TrainerCallback):
    """Seconds of the steps after the first ones."""

    def __init__(self) -> None:
        self.started = self.seconds = 0.0

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == _WARM:
            self.started = time.perf_counter()
        self.seconds = time.perf_counter() - self.started


def measure(options: argparse.Namespace) -> list[Figure]:
    """Pairs a second of both, in turn."""
    chosen = passages(options.corpus, options.batch * options.steps)
    return [pairs_a_second(f"training, batches of {options.batch}", chosen, DEFAULT_ENCODER, options)]


def pairs_a_second(name: str, chosen: Sequence[Passage], base: str, options: argparse.Namespace) -> Figure:
    """Titles and texts of passages as pairs for a model; options: rounds, batch, steps, precision."""
    with tempfile.TemporaryDirectory() as scratch:
        rounds = [
            (
                _ours(chosen, base, options, Path(scratch) / f"{n}"),
                _peers(chosen, base, options, Path(scratch) / "peer"),
            )
            for n in range(options.rounds)
        ]
    counted = options.batch * (options.steps - _WARM)
    ours, peer = (counted / statistics.median(seconds) for seconds in zip(*rounds, strict=True))
    return Figure(name, "pairs/s", ours, peer, ours / peer)


def _ours(chosen: Sequence[Passage], base: str, options: argparse.Namespace, work: Path) -> float:
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

    def loss(model: Any, inputs: Any) -> Any:
        times.append(time.perf_counter())
        return task.loss(model, inputs)

    AcceleratorState._reset_state(reset_partial_state=True)  # the peer's has its precision
    with open_run(config.training, config.output) as run:
        task, *_ = make_task(config, run, "0" * 64)
        train_steps(replace(task, loss=loss), run, config.training, config.output, {})
    # to the beginning of the last step, after which the model is written
    return (times[-1] - times[_WARM]) / (len(times) - 1 - _WARM) * (len(times) - _WARM)


def _peers(chosen: Sequence[Passage], base: str, options: argparse.Namespace, work: Path) -> float:
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


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32", help="of both")


BENCHMARK = Benchmark("training", __doc__.partition("\n")[0], measure, _options)

if __name__ == "__main__":
    run(BENCHMARK)
