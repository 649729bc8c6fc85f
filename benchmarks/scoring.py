"""Scoring pairs with a cross-encoder: our engine beside `CrossEncoder.predict` in float32.

The default encoder with a last layer of random weights, and pairs of a title and a passage of another
document. The difference is the largest of all scores. The limit is the operations of the model's layers over
the fastest matrix product in the engine's precision.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.ceilings import multiplying
from benchmarks.harness import Benchmark, Figure, as_rate, compare, passages, run
from benchmarks.random_models import MINILM
from reranker.scoring import CROSS_ENCODER, open_scorer
from retriever.models import DEFAULT_ENCODER, find_model, load_library_model, quiet


def measure(options: argparse.Namespace) -> list[Figure]:
    """Pairs a second of both, and how far the scores are apart."""
    chosen = passages(options.corpus, options.pairs)
    titles = [passage.title for passage in chosen]
    pairs = [(titles[n - len(titles) // 2], passage.text) for n, passage in enumerate(chosen)]
    queries, texts = [query for query, _ in pairs], [text for _, text in pairs]
    with tempfile.TemporaryDirectory() as scratch:
        folder = _write_reranker(Path(scratch))
        scorer = open_scorer(str(folder), device="cpu")
        peer = load_library_model(CROSS_ENCODER, folder, "random")
    scores: dict[str, Any] = {}

    def ours() -> None:
        scores["ours"] = scorer.score(queries, texts)

    def theirs() -> None:
        scores["peer"] = peer.predict(pairs, batch_size=32, show_progress_bar=False)

    lengths = [len(tokens) for tokens in scorer.tokenize_pairs(pairs)]
    needs = [(MINILM.operations(lengths), multiplying(precision=scorer.execution["precision"]))]
    seconds = compare("score", "", ours, theirs, options.rounds, 1, needs)
    return [
        as_rate(seconds, "pairs/s", len(pairs)),
        Figure("largest difference", "", float(np.abs(scores["ours"] - scores["peer"]).max())),
        Figure("standard deviation of the scores", "", float(scores["peer"].std())),
        Figure("tokens a pair", "", float(np.mean(lengths))),
    ]


def _write_reranker(folder: Path) -> Path:
    """The default encoder as a cross-encoder."""
    import torch
    from sentence_transformers import CrossEncoder
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    encoder = find_model(DEFAULT_ENCODER)
    torch.manual_seed(0)
    with quiet():
        model = AutoModelForSequenceClassification.from_pretrained(encoder, num_labels=1)
        with torch.no_grad():
            model.classifier.weight.normal_()
        model.save_pretrained(folder / "bert")
        AutoTokenizer.from_pretrained(encoder).save_pretrained(folder / "bert")
        CrossEncoder(str(folder / "bert"), device="cpu").save_pretrained(str(folder / "reranker"))
    return folder / "reranker"


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pairs", type=int, default=1024)


BENCHMARK = Benchmark("scoring", __doc__.partition("\n")[0], measure, _options)

if __name__ == "__main__":
    run(BENCHMARK)
