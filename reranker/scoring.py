"""A cross-encoder's scores of (query, text) pairs, on the engine of the bi-encoder.

A score is that of `CrossEncoder.predict`: the model's own activation included, whether that is a sigmoid or
nothing. Pairs that are too long are cut as there, from the end of the longer text, so that a query of less
than half the model's length is never cut. Pairs come in as a stream and are scored a block at a time, sorted
by length within it; memory does not grow with their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from indexer.batches import TokenRows, encode_texts
from indexer.errors import InputError
from retriever.engine import Engine, Opened, Precision, open_engine
from retriever.models import Kind, ModelFacts, fast_tokenizer, load_library_model

if TYPE_CHECKING:
    from retriever.torch_engine import Whole

_BLOCK_PAIRS = 8_192


class Scorer(Engine):
    """Scores pairs of texts. Make one with `open_scorer`."""

    def __init__(self, opened: Opened) -> None:
        super().__init__(opened)
        self.identity = {"name": self.name, "sha256": opened.sha256, "max_tokens": self.max_tokens}

    def score(
        self,
        queries: Iterable[str],
        texts: Iterable[str],
        on_rows: Callable[[float], None] = lambda rows: None,
    ) -> NDArray[np.float32]:
        """The score of each query with the text beside it, float32 [n]; higher is better.

        on_rows: gets the number of pairs done since the last call. Raises ValueError if there are more of
        one than of the other.
        """
        pairs = zip(queries, texts, strict=True)
        blocks = iter(lambda: list(islice(pairs, _BLOCK_PAIRS)), [])
        scores = [encode_texts(self, tokens, on_rows)[:, 0] for tokens in self._tokenized(blocks)]  # [b]
        return np.concatenate([np.empty(0, np.float32), *scores])

    def _tokenized(self, blocks: Iterator[list[tuple[str, str]]]) -> Iterator[TokenRows]:
        """The tokens of each block, the next one being made meanwhile."""
        with ThreadPoolExecutor(1, "tokenize") as ahead:
            waiting = [ahead.submit(self.tokenize_pairs, block) for block in islice(blocks, 1)]
            while waiting:
                tokens = waiting.pop().result()
                waiting += [ahead.submit(self.tokenize_pairs, block) for block in islice(blocks, 1)]
                yield tokens

    def tokenize_pairs(self, pairs: list[tuple[str, str]]) -> TokenRows:
        """Token ids of pairs, those of the second text as ~id (see `retriever.engine.padded`)."""
        rows = []
        for encoding in self.tokenizer.encode_batch_fast(pairs):
            ids = np.array(encoding.ids, np.int32)  # [L]
            rows.append(np.where(np.array(encoding.type_ids) == 1, ~ids, ids))
        return TokenRows.of(rows)


def open_scorer(
    name: str, *, device: str = "auto", precision: Precision = "auto", threads: int | None = None
) -> Scorer:
    """Load a cross-encoder by path or name.

    device: see `indexer.devices`. threads: of the CPU, default all cores. Raises `InputError` if the model
    cannot be had or read or gives no single score, `UsageError` for a device that is not there.
    """
    return Scorer(open_engine(CROSS_ENCODER, name, device, precision, threads))


def load_cross_encoder(folder: Path, name: str) -> tuple[Whole, ModelFacts]:
    """A cross-encoder from token ids to one score. Raises `InputError` if it is none."""
    from retriever.torch_engine import Whole

    model = load_library_model(CROSS_ENCODER, folder, name)
    if model.num_labels != 1 or len(model) != 1:
        raise InputError(
            f"{CROSS_ENCODER.word} {name}: {model.num_labels} numbers in {len(model)} steps, not one score",
            "A re-ranker is a sequence classification model with num_labels = 1.",
        )
    if model.default_prompt_name is not None:
        raise InputError(
            f"{CROSS_ENCODER.word} {name}: it needs the prompt {model.default_prompt_name!r}",
            "Prompts of cross-encoders are not supported: use another model.",
        )
    facts = ModelFacts(
        dimension=1,
        max_tokens=int(model.max_seq_length or 512),
        pad_token=int(model.tokenizer.pad_token_id or 0),
        passage_prompt="",
        query_prompt="",
        tokenizer=fast_tokenizer(model, f"{CROSS_ENCODER.word} {name}"),
        inputs=[
            name
            for name in ("input_ids", "attention_mask", "token_type_ids")
            if name in model.tokenizer.model_input_names
        ],
    )
    return Whole(list(model), "scores", model.activation_fn), facts


CROSS_ENCODER = Kind("cross-encoder", "CrossEncoder", "cross-encoder", "config.json", load_cross_encoder)
