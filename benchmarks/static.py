"""Encoding by a static encoder: what a build does compared with `SentenceTransformer.encode`, on all cores.

Same texts (title and 100 words), same weights. A build tokenises in as many processes as there are cores, and
writes float16 shards; the library gets batches of 1,024 texts. "1 - cosine" is the largest over all passages.
Then where the time goes: tokenising by one process, against the library's tokenizer on all cores, and adding
up vectors. The last row is the default encoder, all-MiniLM-L6-v2 by OpenVINO, on 512 of the passages.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.encoding import add_index_option, passage_texts
from benchmarks.support.harness import Benchmark, Measurement, as_rate, compare, largest_angle, run
from benchmarks.support.random_models import Made
from linkseek.indexer.encoding.batches import encode_texts
from linkseek.indexer.encoding.encode import encode_shards
from linkseek.indexer.encoding.shards import shard_count
from linkseek.indexer.program.defaults import DEFAULT_ENCODER
from linkseek.retriever.models.bases import load_sentence_transformer
from linkseek.retriever.models.biencoder import open_biencoder
from linkseek.retriever.models.locations import find_model

_BATCH = 1024
_FEW = 512  # passages that MiniLM encodes


def measure(options: argparse.Namespace) -> Iterator[Measurement]:
    """Passages a second of both, how far the vectors are apart, and of the parts alone."""
    titles, texts = passage_texts(options)
    encoder = open_biencoder(options.encoder)
    peer = load_sentence_transformer(find_model(options.encoder), options.encoder)
    inputs = [encoder.text_format.passage(*pair) for pair in zip(titles, texts, strict=True)]
    vectors: dict[str, Any] = {}

    def ours() -> None:
        numbers = iter(range(shard_count(len(texts), encoder.shard_rows)))
        with tempfile.TemporaryDirectory() as folder:
            shards = encode_shards(encoder, Made(texts, titles), Path(folder), numbers)
            vectors["ours"] = np.concatenate([shard.open() for shard in shards]).astype(np.float32)

    def theirs() -> None:
        vectors["peer"] = peer.encode(inputs, batch_size=_BATCH, show_progress_bar=False)

    def rate(name: str, run: Callable[[], Any], other: Callable[[], Any] | None = None) -> Measurement:
        return as_rate(compare(name, "", run, other, options.rounds), "passages/s", len(inputs))

    yield rate("encode", ours, theirs)
    yield largest_angle(vectors["ours"], vectors["peer"])
    tokens = encoder.tokenize_passages(titles, texts)
    yield Measurement("tokens a passage", "", float(np.mean([len(sequence) for sequence in tokens])))
    yield rate(
        "tokenising",
        lambda: encoder.tokenize_passages(titles, texts),
        lambda: peer.tokenizer.encode_batch_fast(inputs, add_special_tokens=False),
    )
    yield rate("adding up vectors", lambda: encode_texts(encoder, tokens))
    default = open_biencoder(DEFAULT_ENCODER)
    few = [column[:: max(1, len(titles) // _FEW)][:_FEW] for column in (titles, texts)]
    seconds = compare(
        DEFAULT_ENCODER, "", lambda: encode_texts(default, default.tokenize_passages(*few)), None, 1
    )
    yield as_rate(seconds, "passages/s", len(few[0]))


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--encoder", default="linkseek-static", help="a static one, by name or path")
    parser.add_argument("--passages", type=int, default=50_000)
    add_index_option(parser)


BENCHMARK = Benchmark("static", __doc__.partition("\n")[0], measure, _options)

if __name__ == "__main__":
    run(BENCHMARK)
