"""Encoding passages on a GPU: the bi-encoder's engine compared with `SentenceTransformer.encode` in
bfloat16.

Models with random weights in the shapes of BERT-base and MiniLM, on synthetic texts: 128 tokens each, and as
long as Wikipedia's passages. Ours includes everything from texts to vectors in memory, with tokenising in
other processes; the limit is the model's operations divided by the fastest matrix product. Further rows: the
parts of the time, other batch sizes and attention implementations, and the time that DPR's 21,015,324
passages would take.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.support.ceilings import multiplying
from benchmarks.support.harness import Benchmark, Ceiling, Measurement, as_rate, compare, largest_angle, run
from benchmarks.support.random_models import (
    MINILM,
    Made,
    ModelShape,
    made_up_texts,
    wikipedia_lengths,
    write_encoder,
    written,
)
from linkseek.indexer.encoding.batches import Parallel, TokenizingAhead, TokenRows, encode_texts
from linkseek.retriever.models.backends import torch_engine
from linkseek.retriever.models.bases import load_sentence_transformer
from linkseek.retriever.models.biencoder import BiEncoder, load_tower
from linkseek.retriever.models.engine import Opened, on_gpu, torch_forward

_WIKIPEDIA = 21_015_324
SWITCHES = {
    "three products for queries, keys and values": lambda: patch.object(
        torch_engine, "join_products", lambda base: None
    ),
    "pooling with padding": lambda: patch.object(
        torch_engine.PackedTransformer, "pool_packed", lambda packed, *pooling: None
    ),
}
"""Ways that encoding went before."""
_BUDGETS = (16_384, 32_768, 65_536, 131_072, 262_144)


def measure(options: argparse.Namespace) -> Iterator[Measurement]:
    """Passages per second of both engines, and of each step."""
    device = options.device or ("cuda:0" if torch.cuda.is_available() else "cpu")
    product = multiplying(device, "bfloat16", options.product)
    yield as_rate(
        compare("fastest product", "", product.run, None, options.rounds), "TFLOP/s", product.amount / 1e12
    )
    for shape, folder in written(write_encoder, options.tiny):
        yield from _model(shape, folder, device, product, options)


def _model(
    shape: ModelShape, folder: Path, device: str, product: Ceiling, options: argparse.Namespace
) -> Iterator[Measurement]:
    count = options.passages * (4 if shape is MINILM else 1)
    encoder = open_encoder(folder, device)
    print(f"{shape.name}: {encoder.execution}", flush=True)
    peer = load_sentence_transformer(folder, shape.name).to(device=device, dtype=torch.bfloat16)
    rate = 0.0
    for name, lengths in (("128 tokens", [128] * count), ("Wikipedia's lengths", wikipedia_lengths(count))):
        texts = made_up_texts(lengths)
        needs = [(shape.operations(lengths), product)]
        with TokenizingAhead(encoder.tokenize_passages, Made(texts), encoder.parallel.tokenizers) as ahead:
            figure = compare(
                f"{shape.name}, {name}",
                "",
                lambda ahead=ahead: encode(encoder, ahead, count),
                lambda texts=texts: peer.encode(
                    texts, batch_size=options.peer_batch, show_progress_bar=False
                ),
                options.rounds,
                needs=needs,
            )
            yield as_rate(figure, "passages/s", count)
            rate = count / figure.ours
            figure = compare(
                "  tokenising", "", lambda ahead=ahead: tokens_of(ahead, count), None, options.rounds
            )
            yield as_rate(figure, "passages/s", count)
            tokens = tokens_of(ahead, count)
        figure = compare(
            "  model alone", "", lambda t=tokens: encode_texts(encoder, t), None, options.rounds, needs=needs
        )
        yield as_rate(figure, "passages/s", count)
    yield Measurement(f"  {_WIKIPEDIA:,} passages, projected", "hours", _WIKIPEDIA / rate / 3600)
    yield _difference(encoder, load_sentence_transformer(folder, shape.name), texts[:256])
    yield from _variants(encoder, tokens, folder, device, options.rounds)


def open_encoder(folder: Path, device: str) -> BiEncoder:
    """The encoder that `open_biencoder` opens on a GPU; on a CPU the same in torch."""
    chain, facts = load_tower(folder, folder.name)
    forward = torch_forward(chain, facts, device, "bfloat16")
    return BiEncoder(Opened(str(folder), "", facts, forward, engine_parallel(device)))


def engine_parallel(device: str) -> Parallel:
    """The settings of an engine on a GPU; on a CPU two batches at a time."""
    return Parallel(batches=2) if device == "cpu" else on_gpu()


def encode(encoder: BiEncoder, ahead: TokenizingAhead, count: int) -> NDArray[np.float32]:
    """As `encode_passages` does it, without writing: a shard is tokenised while the one before is encoded."""
    starts = range(0, count, encoder.shard_rows)
    ranges = [(start, min(start + encoder.shard_rows, count)) for start in starts]
    return np.concatenate([encode_texts(encoder, tokens) for _, tokens in ahead.blocks(ranges)])


def tokens_of(ahead: TokenizingAhead, count: int) -> TokenRows:
    """The tokens of all texts."""
    [(_, tokens)] = ahead.blocks([(0, count)])
    return tokens


def _difference(encoder: BiEncoder, exact: Any, texts: list[str]) -> Measurement:
    """How far vectors are from the same model's vectors in float32 on the CPU."""
    ours = encode_texts(encoder, encoder.tokenize_passages([""] * len(texts), texts))
    theirs = exact.encode(texts, show_progress_bar=False)
    return largest_angle(ours, theirs, "  1 - cosine to float32")


def _variants(
    encoder: BiEncoder, tokens: TokenRows, folder: Path, device: str, rounds: int
) -> Iterator[Measurement]:
    """The model alone with other batches, and with each attention that can be had."""

    def alone(name: str, model: BiEncoder) -> Measurement:
        figure = compare(name, "", lambda: encode_texts(model, tokens), None, rounds)
        return as_rate(figure, "passages/s", len(tokens))

    chosen = encoder.token_budget
    for budget in _BUDGETS:
        encoder.token_budget = budget
        yield alone(f"  batches of {budget:,} tokens", encoder)
    encoder.token_budget = chosen
    for name, switch in SWITCHES.items():
        with switch():
            yield alone(f"  {name}", open_encoder(folder, device))
    if device != "cpu":
        with patch.dict(os.environ, {torch_engine.COMPILE: "1"}):
            yield alone("  compiled parts of layers", open_encoder(folder, device))
    for name in [*torch_engine.PACKINGS, torch_engine.PADDED]:
        kept = {key: pack for key, pack in torch_engine.PACKINGS.items() if key == name}
        with patch.dict(torch_engine.PACKINGS, kept, clear=True):  # engines choose between it and padding
            other = open_encoder(folder, device)
        if other.execution["attention"] == name:
            yield alone(f"  attention: {name}", other)
        del other


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of every benchmark of a model on a GPU."""
    parser.add_argument(
        "--passages", type=int, default=4096, help="of BERT-base; four times as many of MiniLM"
    )
    parser.add_argument("--peer-batch", type=int, default=256, help="texts in a batch of the peer")
    parser.add_argument("--product", type=int, default=8192, help="rows of the largest matrices")
    parser.add_argument("--device", help="cuda:0 where there is one, else cpu")
    parser.add_argument("--tiny", action="store_true", help="a tiny model, to try the script out")


BENCHMARK = Benchmark("gpu_encoding", __doc__.partition("\n")[0], measure, add_options)

if __name__ == "__main__":
    run(BENCHMARK)
