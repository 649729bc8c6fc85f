"""Re-ranking on a GPU: the cross-encoder's engine compared with `CrossEncoder.predict` in bfloat16.

Models with random weights in the shapes of MiniLM and BERT-base; synthetic questions of twelve tokens, each
with 100 texts as long as Wikipedia's passages. Ours and the peer's include tokenising. The limit is the
model's operations divided by the fastest matrix product. The largest difference to scores in float32 is in
standard deviations of the scores.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from benchmarks.gpu.encoding import add_options, engine_parallel
from benchmarks.support.ceilings import multiplying
from benchmarks.support.harness import Benchmark, Ceiling, Measurement, as_rate, compare, run
from benchmarks.support.random_models import (
    MINILM,
    ModelShape,
    made_up_texts,
    wikipedia_lengths,
    write_reranker,
    written,
)
from linkseek.reranker.models.bases import open_cross_encoder
from linkseek.reranker.models.cross_encoder import Scorer, load_cross_encoder
from linkseek.retriever.models.engine import Opened, torch_forward

_QUESTION = 12  # tokens, two of them special
_DEPTH = 100


def measure(options: argparse.Namespace) -> Iterator[Measurement]:
    """Pairs a second of both, and the milliseconds of one question."""
    device = options.device or ("cuda:0" if torch.cuda.is_available() else "cpu")
    product = multiplying(device, "bfloat16", options.product)
    for shape, folder in written(write_reranker, options.tiny):
        yield from _model(shape, folder, device, product, options)


def _model(
    shape: ModelShape, folder: Path, device: str, product: Ceiling, options: argparse.Namespace
) -> Iterator[Measurement]:
    questions = max(options.passages * (4 if shape is MINILM else 1) // _DEPTH, 1)
    scorer = open_scorer(folder, device)
    print(f"{shape.name}: {scorer.execution}", flush=True)
    peer = open_cross_encoder(folder, shape.name).to(device=device, dtype=torch.bfloat16)
    asked = np.repeat(made_up_texts([_QUESTION] * questions), _DEPTH).tolist()
    texts = made_up_texts(wikipedia_lengths(len(asked)), seed=1)
    pairs = list(zip(asked, texts, strict=True))
    lengths = [len(tokens) for tokens in scorer.tokenize_pairs(pairs)]
    figure = compare(
        f"{shape.name}, {np.mean(lengths):.0f} tokens a pair",
        "",
        lambda: scorer.score(asked, texts),
        lambda: peer.predict(pairs, batch_size=options.peer_batch, show_progress_bar=False),
        options.rounds,
        needs=[(shape.operations(lengths), product)],
    )
    yield as_rate(figure, "pairs/s", len(pairs))
    yield compare(
        f"  one question, {_DEPTH} pairs",
        "ms",
        lambda: scorer.score(asked[:_DEPTH], texts[:_DEPTH]),
        lambda: peer.predict(pairs[:_DEPTH], batch_size=options.peer_batch, show_progress_bar=False),
        options.rounds,
        1000,
    )
    exact = open_cross_encoder(folder, shape.name).predict(pairs[:_DEPTH], show_progress_bar=False)
    difference = np.abs(scorer.score(asked[:_DEPTH], texts[:_DEPTH]) - exact).max()
    yield Measurement("  difference to float32, in deviations", "", float(difference / exact.std()))


def open_scorer(folder: Path, device: str) -> Scorer:
    """The scorer that `reranker.models.scoring.open_scorer` opens on a GPU; on a CPU the same in torch."""
    chain, facts = load_cross_encoder(folder, folder.name)
    forward = torch_forward(chain, facts, device, "bfloat16")
    return Scorer(Opened(str(folder), "", facts, forward, engine_parallel(device)))


BENCHMARK = Benchmark("gpu_scoring", __doc__.partition("\n")[0], measure, add_options)

if __name__ == "__main__":
    run(BENCHMARK)
