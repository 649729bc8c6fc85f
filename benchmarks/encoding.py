"""Encoding passages: the bi-encoder's own engine beside `SentenceTransformer.encode` in float32.

Same texts (title and 100 words), same model, same cores. 1 - cosine is the largest over all passages.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from benchmarks.harness import Benchmark, Figure, compare, passages, run
from indexer.encoding import encode_texts
from retriever.biencoder import open_biencoder
from retriever.models import DEFAULT_ENCODER, find_model, load_sentence_transformer


def measure(options: argparse.Namespace) -> list[Figure]:
    """Passages a second of both, and how far the vectors are apart."""
    chosen = passages(options.corpus, options.passages)
    titles, texts = [p.title for p in chosen], [p.text for p in chosen]
    encoder = open_biencoder(DEFAULT_ENCODER)
    peer = load_sentence_transformer(find_model(DEFAULT_ENCODER), DEFAULT_ENCODER)
    whole = [encoder.text_format.passage(*pair) for pair in zip(titles, texts, strict=True)]
    vectors: dict[str, Any] = {}

    def ours() -> None:
        vectors["ours"] = encode_texts(encoder, encoder.tokenize_passages(titles, texts))

    def theirs() -> None:
        vectors["peer"] = peer.encode(whole, batch_size=32, show_progress_bar=False)

    seconds = compare("encode", "seconds", ours, theirs, options.rounds)
    assert seconds.peer is not None
    rate = Figure(
        "encode",
        "passages/s",
        len(whole) / seconds.ours,
        len(whole) / seconds.peer,
        seconds.peer / seconds.ours,
    )
    started = time.perf_counter()
    tokens = encoder.tokenize_passages(titles, texts)
    share = (time.perf_counter() - started) / seconds.ours
    lengths = float(np.mean([len(t) for t in tokens]))
    a, b = vectors["ours"], vectors["peer"]
    cosine = (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    return [
        rate,
        Figure("1 - cosine, largest", "", float((1 - cosine).max())),
        Figure("tokens a passage", "", lengths),
        Figure("share of tokenising", "", share),
    ]


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--passages", type=int, default=1024)


BENCHMARK = Benchmark("encoding", __doc__.partition("\n")[0], measure, _options)

if __name__ == "__main__":
    run(BENCHMARK)
