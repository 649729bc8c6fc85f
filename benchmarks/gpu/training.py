"""Training a bi-encoder on a GPU: a step of our loop and one of sentence-transformers' trainer, in bfloat16.

As `training`, with models of random weights in the shapes of MiniLM and BERT-base, and pairs of made-up
texts: questions of 12 tokens, passages as long as Wikipedia's. Further rows: tokenising in one process,
forward and backward passes alone, and the attentions that HARP's miner reads.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from benchmarks.support.harness import Benchmark, Measurement, as_rate, compare, run
from benchmarks.support.random_models import made_up_texts, wikipedia_lengths, write_encoder, written
from benchmarks.training import TOKENS, pairs_a_second
from linkseek.indexer.passages import Passage
from linkseek.reranker.objectives import attentions
from linkseek.reranker.objectives.attentions import Attentions
from linkseek.retriever.models.bases import load_sentence_transformer
from linkseek.retriever.training import loop, pair_training

_TWO_PASSES = (pair_training, "packable", lambda model: [])
SWITCHES: dict[str, tuple[Any, ...]] = {
    "": (),
    ", two passes": (_TWO_PASSES,),
    ", padded": (_TWO_PASSES, (loop, "pack_layers", lambda model, device: None)),
}
"""Ways that training went before, next to today's."""
_QUESTION = 12  # tokens, two of them special


def measure(options: argparse.Namespace) -> Iterator[Measurement]:
    """Pairs a second of both, in turn."""
    count = options.batch * options.steps
    titles = made_up_texts([_QUESTION] * count)
    texts = made_up_texts(wikipedia_lengths(count), seed=1)
    chosen = [
        Passage(str(row), str(row), title, text, 0, len(text))
        for row, (title, text) in enumerate(zip(titles, texts, strict=True))
    ]
    for shape, folder in written(write_encoder, options.tiny):
        for name, switch in SWITCHES.items():
            with ExitStack() as stack:
                for module, attribute, value in switch:
                    stack.enter_context(patch.object(module, attribute, value))
                title = f"{shape.name}, batches of {options.batch}{name}"
                yield from pairs_a_second(title, chosen, str(folder), options)
        yield from _parts(folder, titles[: options.batch], texts[: options.batch], options)
        yield from _attentions(folder, texts[: options.batch], options.rounds)


def _parts(
    folder: Path, titles: list[str], texts: list[str], options: argparse.Namespace
) -> Iterator[Measurement]:
    """The parts of a step: one process tokenising, and a model that gets the same batch again."""
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    model = load_sentence_transformer(folder, folder.name).to(device)
    tokens = [model.preprocess(side, max_length=TOKENS) for side in (titles, texts)]
    batch = [{name: x.to(device) for name, x in side.items() if isinstance(x, Tensor)} for side in tokens]

    def tokenise() -> None:
        for side in (titles, texts):
            model.preprocess(side, max_length=TOKENS)

    def learn() -> None:
        with torch.autocast(device.partition(":")[0], torch.bfloat16, options.precision == "bfloat16"):
            queries, passages = (model(dict(side))["sentence_embedding"] for side in batch)  # [B, d] each
            loss = cross_entropy(20.0 * queries @ passages.T, torch.arange(len(titles), device=device))
        loss.backward()
        model.zero_grad()
        if device != "cpu":
            torch.cuda.synchronize(device)

    for name, work in {"  tokenising": tokenise, "  model alone": learn}.items():
        yield as_rate(compare(name, "", work, None, options.rounds), "pairs/s", len(titles))


def _attentions(folder: Path, texts: list[str], rounds: int) -> Iterator[Measurement]:
    """HARP's attentions in batches by tokens, and one text at a time, as before."""
    reader = Attentions(str(folder))
    alone = dict.fromkeys(attentions._MAX_WEIGHTS, 1)
    for name, weights in {
        "  attentions": attentions._MAX_WEIGHTS,
        "  attentions, text by text": alone,
    }.items():
        with patch.object(attentions, "_MAX_WEIGHTS", weights):
            figure = compare(name, "", lambda: reader.of([(text, None) for text in texts]), None, rounds)
        yield as_rate(figure, "texts/s", len(texts))


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="bfloat16", help="of both")
    parser.add_argument("--tiny", action="store_true", help="a tiny model, to try the script out")


BENCHMARK = Benchmark("gpu_training", __doc__.partition("\n")[0], measure, _options)

if __name__ == "__main__":
    run(BENCHMARK)
