"""Training a bi-encoder on a GPU: a step of our loop and one of sentence-transformers' trainer, in bfloat16.

As `training`, with models of random weights in the shapes of MiniLM and BERT-base, and pairs of made-up
texts: questions of 12 tokens, passages as long as Wikipedia's.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import Benchmark, Figure, run
from benchmarks.random_models import (
    BERT_BASE,
    MINILM,
    TINY,
    made_up_texts,
    wikipedia_lengths,
    write_encoder,
)
from benchmarks.training import pairs_a_second
from linkseek.indexer.passages import Passage

_QUESTION = 12  # tokens, two of them special


def measure(options: argparse.Namespace) -> Iterator[Figure]:
    """Pairs a second of both, in turn."""
    count = options.batch * options.steps
    titles = made_up_texts([_QUESTION] * count)
    texts = made_up_texts(wikipedia_lengths(count), seed=1)
    chosen = [
        Passage(str(row), str(row), title, text, 0, len(text))
        for row, (title, text) in enumerate(zip(titles, texts, strict=True))
    ]
    for shape in [TINY] if options.tiny else [MINILM, BERT_BASE]:
        with tempfile.TemporaryDirectory() as scratch:
            folder = write_encoder(Path(scratch) / "model", shape)
            yield pairs_a_second(f"{shape.name}, batches of {options.batch}", chosen, str(folder), options)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="bfloat16", help="of both")
    parser.add_argument("--tiny", action="store_true", help="a tiny model, to try the script out")


BENCHMARK = Benchmark("gpu_training", __doc__.partition("\n")[0], measure, _options)

if __name__ == "__main__":
    run(BENCHMARK)
