"""What a text's tokens look at: the attention weights of an encoder's last layer, the mean of its heads.

HARP takes them for the importance of words (equations 1, 5, 10 and 13): those in the row of an anchor's
tokens, or of [CLS], the first token. Any encoder of the transformers library will do that can give them.
An anchor of several tokens is one phrase in the paper: its row is the mean of its tokens' rows.

Symbols: B texts in a batch, L tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexer.base.errors import InputError
from retriever.models.bases import open_base
from retriever.models.library import quiet

_MOST_WEIGHTS = 1 << 20  # B * L * L of a batch; a layer of twelve heads has 48 MB of them

Span = tuple[int, int]
"""[start, end) in characters."""


@dataclass(frozen=True, slots=True)
class Attended:
    """A text's tokens, special ones left out, and how much each is looked at.

    start, end: int64 [n], in characters, ascending. weight: float64 [n], in steps of a millionth.
    """

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    weight: NDArray[np.float64]

    def within(self, first: int, last: int) -> float:
        """The weight of [first, last): that of all tokens that overlap it."""
        return float(self.weight[(self.start < last) & (self.end > first)].sum())


class Attentions:
    """An encoder as a source of attention weights. Open one with `open_attentions`."""

    def __init__(self, name: str) -> None:
        """Raises `InputError` if it cannot be had or gives no attentions."""
        import torch  # seconds, which those who only list objectives need not wait

        model: Any = open_base(name)
        self._name = name
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        try:
            self._model = model[0].model.eval().to(self._device)
            self._tokenizer = model.tokenizer
            self._most = int(model.max_seq_length or 512)
            with quiet():
                self._model.set_attn_implementation("eager")  # others give no weights
            self.of([("a", None)])
        except (AttributeError, NotImplementedError, TypeError, ValueError) as error:
            raise InputError(
                f"encoder {name}: it gives no attentions ({type(error).__name__}: {error})", _OTHER
            ) from None

    def of(self, asked: Sequence[tuple[str, Span | None]]) -> list[Attended | None]:
        """What is looked at in each text from an anchor in it, or from [CLS] where the span is None.

        A text is cut to what the encoder reads; None if nothing of the anchor is left.
        """
        found: list[Attended | None] = [None] * len(asked)
        tokens = [self._tokenize(text) for text, _ in asked]
        order = sorted(range(len(asked)), key=lambda i: (len(tokens[i]["input_ids"]), i))
        with _one_thread():
            for batch in _batches(order, [len(row["input_ids"]) for row in tokens]):
                weights = self._weights([tokens[i] for i in batch])  # [B, L, L]
                for i, square in zip(batch, weights, strict=True):
                    found[i] = _row(tokens[i], asked[i][1], square)
        return found

    def _tokenize(self, text: str) -> Any:
        return self._tokenizer(
            text,
            truncation=True,
            max_length=self._most,
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
        )

    def _weights(self, rows: list[Any]) -> NDArray[np.float32]:
        import torch

        names = ("input_ids", "attention_mask", "token_type_ids")
        given = [{name: row[name] for name in names if name in row} for row in rows]
        batch = self._tokenizer.pad(given, return_tensors="pt").to(self._device)
        with torch.inference_mode():
            attentions = getattr(self._model(**batch, output_attentions=True), "attentions", None)
        if not attentions or attentions[-1] is None or attentions[-1].dim() != 4:
            raise InputError(f"encoder {self._name}: it gives no attentions", _OTHER)
        mean: NDArray[np.float32] = (
            attentions[-1].float().mean(1).cpu().numpy()
        )  # [B, heads, L, L] -> [B, L, L]
        return mean


_OTHER = "Choose an encoder with self-attention whose weights transformers can give, such as a BERT."


@lru_cache(maxsize=1)
def open_attentions(name: str) -> Attentions:
    """The encoder of a folder or a name of the Hub; opened once a process."""
    return Attentions(name)


def _batches(order: list[int], lengths: list[int]) -> Iterator[list[int]]:
    """Neighbours in an ascending order of lengths, as many as a batch may have weights."""
    batch: list[int] = []
    for i in order:
        if batch and (len(batch) + 1) * lengths[i] ** 2 > _MOST_WEIGHTS:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def _row(tokens: Any, span: Span | None, square: NDArray[np.float32]) -> Attended | None:
    offsets = np.array(tokens["offset_mapping"], np.int64).reshape(-1, 2)  # [L, 2]
    real = (np.array(tokens["special_tokens_mask"]) == 0) & (offsets[:, 0] < offsets[:, 1])
    start, end = offsets[real].T
    row = square[0, : len(offsets)]
    if span is not None:
        inside = real & (offsets[:, 0] < span[1]) & (offsets[:, 1] > span[0])
        if not inside.any():
            return None
        row = square[: len(offsets), : len(offsets)][inside].mean(0)
    # Last bits depend on the machine; what is drawn should not.
    return Attended(start, end, np.round(row[real].astype(np.float64), 6))


@contextmanager
def _one_thread() -> Iterator[None]:
    """The same bits whatever the number of processes, which share the cores."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
