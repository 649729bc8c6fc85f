"""Encoding passages: the bi-encoder's own engine compared with `SentenceTransformer.encode` in float32.

Same texts (title and 100 words), same model, same cores. "1 - cosine" is the largest over all passages. The
limit is the number of operations in the model's layers divided by the fastest matrix product in the engine's
precision. The last rows show where the time goes: tokenising, and the model alone, also on one core and in
float32.
"""

from __future__ import annotations

import argparse
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.support.ceilings import encoder_operations, multiplying
from benchmarks.support.harness import Benchmark, Measurement, as_rate, compare, largest_angle, passages, run
from linkseek.indexer.encoding.batches import encode_texts
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.defaults import DEFAULT_ENCODER
from linkseek.retriever.models.bases import load_sentence_transformer
from linkseek.retriever.models.biencoder import open_biencoder
from linkseek.retriever.models.locations import find_model


def measure(options: argparse.Namespace) -> list[Measurement]:
    """Passages a second of both, and how far the vectors are apart."""
    titles, texts = passage_texts(options)
    name = options.encoder or DEFAULT_ENCODER
    encoder = open_biencoder(name)
    peer = load_sentence_transformer(find_model(name), name)
    inputs = [encoder.text_format.passage(*pair) for pair in zip(titles, texts, strict=True)]
    vectors: dict[str, Any] = {}

    def ours() -> None:
        vectors["ours"] = encode_texts(encoder, encoder.tokenize_passages(titles, texts))

    def theirs() -> None:
        vectors["peer"] = peer.encode(inputs, batch_size=32, show_progress_bar=False)

    tokens = encoder.tokenize_passages(titles, texts)
    lengths = [len(sequence) for sequence in tokens]
    product = multiplying(precision=encoder.execution["precision"])
    transformer: Any = peer.transformers_model
    shape = transformer.config
    operations = encoder_operations(
        shape.num_hidden_layers, shape.hidden_size, shape.intermediate_size, lengths
    )
    needs = [(operations, product)]
    figures = [
        as_rate(compare("encode", "", ours, theirs, options.rounds, 1, needs), "passages/s", len(inputs))
    ]
    figures += [
        largest_angle(vectors["ours"], vectors["peer"]),
        Measurement("tokens a passage", "", float(np.mean(lengths))),
    ]
    seconds = compare(
        "tokenising", "", lambda: encoder.tokenize_passages(titles, texts), None, options.rounds
    )
    figures.append(as_rate(seconds, "passages/s", len(inputs)))
    for label, other in (
        ("model alone", encoder),
        ("model alone, on one core", open_biencoder(name, threads=1)),
        ("model alone, in float32", open_biencoder(name, precision="float32")),
    ):
        seconds = compare(label, "", lambda other=other: encode_texts(other, tokens), None, options.rounds)
        figures.append(as_rate(seconds, "passages/s", len(inputs)))
    return figures


def passage_texts(options: argparse.Namespace) -> tuple[list[str], list[str]]:
    """(titles, texts), spread over all passages of the index if one is given."""
    if options.index is None:
        chosen = passages(options.corpus, options.passages)
        return [p.title for p in chosen], [p.text for p in chosen]
    table = OpenIndex.open(options.index).passages.table
    step = max(1, len(table) // options.passages)
    titles, texts = (islice(table.column(name), 0, None, step) for name in ("title", "text"))
    return list(islice(titles, options.passages)), list(islice(texts, options.passages))


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--passages", type=int, default=1024)
    parser.add_argument("--encoder", default="", help=f"name or folder; default: {DEFAULT_ENCODER}")
    add_index_option(parser)


def add_index_option(parser: argparse.ArgumentParser) -> None:
    """The option of `passage_texts`."""
    parser.add_argument("--index", type=Path, help="take the passages of an index instead of the corpus")


BENCHMARK = Benchmark("encoding", __doc__.partition("\n")[0], measure, _options)

if __name__ == "__main__":
    run(BENCHMARK)
