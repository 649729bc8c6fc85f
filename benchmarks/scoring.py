"""Re-ranking with a cross-encoder: our engine compared with `CrossEncoder.predict` in float32.

Each question comes with the passages of a corpus that share the most words with it, weighted by rarity. The
model is the one shipped with the project; `--model` names another. "Difference" is the largest over all
scores, and orders are compared over the first ten of each question. The limit is the number of operations in
the model's layers divided by the fastest matrix product in the engine's precision.
"""

from __future__ import annotations

import argparse
import math
import re
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.support.ceilings import multiplying
from benchmarks.support.harness import QUESTIONS, Benchmark, Measurement, as_rate, compare, passages, run
from benchmarks.support.random_models import MINILM
from linkseek.indexer.program.defaults import DEFAULT_ENCODER
from linkseek.reranker.models.bases import CROSS_ENCODER, open_cross_encoder
from linkseek.reranker.models.scoring import open_scorer
from linkseek.retriever.models.library import from_folder, load_library_model, load_tokenizer, quiet
from linkseek.retriever.models.locations import find_model, shipped_models
from linkseek.retriever.queries import read_queries

_LATENCIES = (20, 50, 100)
_FIRST = 10

Pairs = list[tuple[str, str]]


def measure(options: argparse.Namespace) -> list[Measurement]:
    """Pairs a second of both, how far scores and orders are apart, and the latency of one question."""
    questions = [query.text for query in read_queries(options.queries, options.questions)]
    # A small corpus comes repeated, and equal texts have no order.
    texts = dict.fromkeys(p.text for p in passages(options.corpus, options.passages))
    lists = candidates(questions, list(texts), options.depth)
    pairs = [pair for listed in lists for pair in listed]
    with tempfile.TemporaryDirectory() as scratch:
        name = options.model or next(iter(shipped_models(CROSS_ENCODER)), None)
        name = name or str(_write_reranker(Path(scratch)))
        scorer = open_scorer(name, device="cpu", precision=options.precision)
        peer = open_cross_encoder(find_model(name, CROSS_ENCODER), name)
    scores: dict[str, Any] = {}

    def ours(pairs: Pairs = pairs) -> None:
        scores["ours"] = scorer.score((query for query, _ in pairs), (text for _, text in pairs))

    def theirs(pairs: Pairs = pairs) -> None:
        scores["peer"] = peer.predict(pairs, batch_size=32, show_progress_bar=False)

    lengths = [len(tokens) for tokens in scorer.tokenize_pairs(pairs)]
    work = MINILM.operations(lengths)
    needs = [] if options.model else [(work, multiplying(precision=scorer.execution["precision"]))]
    seconds = compare(f"score, {scorer.execution['precision']}", "", ours, theirs, options.rounds, 1, needs)
    return [
        as_rate(seconds, "pairs/s", len(pairs)),
        Measurement("largest difference", "", float(np.abs(scores["ours"] - scores["peer"]).max())),
        Measurement("standard deviation of the scores", "", float(scores["peer"].std())),
        Measurement(
            f"questions with the same first {_FIRST}, in the same order", "%",
            100 * same_order(scores["ours"], scores["peer"], options.depth),
        ),
        Measurement("tokens a pair", "", float(np.mean(lengths))),
        *(_latency([listed[:n] for listed in lists], ours, theirs) for n in _LATENCIES if n <= options.depth),
    ]  # fmt: skip


def candidates(questions: Sequence[str], texts: Sequence[str], depth: int) -> list[Pairs]:
    """Each question with the `depth` texts that share most words with it, rare ones counting more."""
    words = [set(re.findall(r"\w+", text.lower())) for text in texts]
    in_texts = Counter(word for of_text in words for word in of_text)
    lists = []
    for question in questions:
        wanted = {word for word in re.findall(r"\w+", question.lower()) if in_texts[word]}
        weights = {word: math.log(1 + len(texts) / in_texts[word]) for word in sorted(wanted)}
        shared = [sum(weight for word, weight in weights.items() if word in of_text) for of_text in words]
        best = np.argsort(-np.array(shared), kind="stable")[:depth]
        lists.append([(question, texts[place]) for place in best])
    return lists


def same_order(ours: np.ndarray, peer: np.ndarray, depth: int) -> float:
    """The share of questions, with `depth` scores each, whose best ten are the same in the same order."""
    best = [
        np.argsort(-scores.reshape(-1, depth), axis=1, kind="stable")[:, :_FIRST] for scores in (ours, peer)
    ]
    return float((best[0] == best[1]).all(axis=1).mean())


def _latency(
    lists: Sequence[Pairs], ours: Callable[[Pairs], None], theirs: Callable[[Pairs], None]
) -> Measurement:
    """The median over questions that are asked one by one, after two that do not count."""
    taken: list[list[float]] = []
    for listed in lists:
        taken.append([])
        for score in (ours, theirs):
            began = time.perf_counter()
            score(listed)
            taken[-1].append(1000 * (time.perf_counter() - began))
    mine, peers = (statistics.median(column) for column in zip(*(taken[2:] or taken), strict=True))
    return Measurement(f"one question, {len(lists[0])} passages, p50", "ms", mine, peers, mine / peers)


def _write_reranker(folder: Path) -> Path:
    """The default encoder as a cross-encoder."""
    import torch
    from transformers import AutoModelForSequenceClassification

    reader = AutoModelForSequenceClassification.from_pretrained
    torch.manual_seed(0)
    model = from_folder(reader, find_model(DEFAULT_ENCODER), DEFAULT_ENCODER, "", num_labels=1)
    with torch.no_grad():
        model.classifier.weight.normal_()
    with quiet():
        model.save_pretrained(folder / "bert")
        load_tokenizer(DEFAULT_ENCODER).save_pretrained(folder / "bert")
        reranker = load_library_model(CROSS_ENCODER, folder / "bert", "bert")
        reranker.save_pretrained(str(folder / "reranker"))
    return folder / "reranker"


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--queries", type=Path, default=QUESTIONS)
    parser.add_argument("--questions", type=int, default=50)
    parser.add_argument("--passages", type=int, default=2_000, help="that candidates are chosen from")
    parser.add_argument("--depth", type=int, default=100, help="candidates of a question")
    parser.add_argument("--model", help="a cross-encoder by folder or name")
    parser.add_argument("--precision", choices=["auto", "bfloat16", "float32"], default="auto")


BENCHMARK = Benchmark("scoring", __doc__.partition("\n")[0], measure, _options)

if __name__ == "__main__":
    run(BENCHMARK)
