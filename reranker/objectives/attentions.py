"""Attention weights of the tokens of a text: an encoder's last layer, the mean of its heads.

HARP takes them for the importance of words (equations 1, 5, 10 and 13): the weights in the row of an anchor's
tokens, or of [CLS], the first token. Any encoder of the transformers library that returns them will do.
An anchor of several tokens is one phrase in the paper: its row is the mean of its tokens' rows.

Symbols: B texts in a batch, L tokens.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.encoding.batches import token_batches
from linkseek.indexer.machine.devices import cuda_devices
from linkseek.indexer.program.errors import InputError
from linkseek.retriever.links.sentences import Span
from linkseek.retriever.models.bases import open_base
from linkseek.retriever.models.library import LIBRARIES, quiet

_MAX_WEIGHTS = {"cpu": 1 << 20, "cuda": 1 << 24}
"""B * L * L of a batch: for a layer of twelve heads 48 MB, and on a GPU 800."""

_READING = {"truncation": True, "return_offsets_mapping": True, "return_special_tokens_mask": True}

_HINT = "Choose an encoder with self-attention whose weights transformers can return, such as a BERT."


@dataclass(frozen=True, slots=True)
class Attended:
    """A text's tokens without the special ones, and their attention weights.

    start, end: int64 [n], in characters, ascending. weight: float64 [n], in steps of a millionth.
    """

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    weight: NDArray[np.float64]

    def within(self, first: int, last: int) -> float:
        """The weight of [first, last): the sum over all tokens that overlap it."""
        return float(self.weight[(self.start < last) & (self.end > first)].sum())


class Attentions:
    """An encoder as a source of attention weights. Open one with `open_attentions`."""

    def __init__(self, name: str) -> None:
        """Raises `InputError` if it cannot be opened or returns no attentions."""
        self._name = name
        with LIBRARIES:
            self._open()

    def _open(self) -> None:
        import torch  # takes seconds, which listing the objectives should not

        model: Any = open_base(self._name)
        gpus = cuda_devices("auto")
        # Processes that mine share the GPUs: one that starts after another has the next number.
        self._device = torch.device(gpus[os.getpid() % len(gpus)] if gpus else "cpu")
        try:
            self._model = model[0].model.eval().to(self._device)
            self._tokenizer = model.tokenizer
            self._max_tokens = int(model.max_seq_length or 512)
            with quiet():
                self._model.set_attn_implementation("eager")  # others return no weights
            self.of([("a", None)])
        except (AttributeError, NotImplementedError, TypeError, ValueError) as error:
            raise InputError(
                f"encoder {self._name}: it gives no attentions ({type(error).__name__}: {error})", _HINT
            ) from None

    def of(self, texts: Sequence[tuple[str, Span | None]]) -> list[Attended | None]:
        """The attentions of an anchor in each text, or of [CLS] where the span is None.

        A text is cut to the encoder's maximum length; None if nothing of the anchor is left.
        """
        attended: list[Attended | None] = [None] * len(texts)
        tokens = [self._tokenize(text) for text, _ in texts]
        anchors = [_tokens_of(row, span) for row, (_, span) in zip(tokens, texts, strict=True)]
        lengths = [len(row["input_ids"]) for row in tokens]
        read = [i for i in range(len(texts)) if anchors[i].any()]
        squares = np.array([lengths[i] ** 2 for i in read], np.int64)
        with _one_thread():
            for places in token_batches(squares, _MAX_WEIGHTS[self._device.type]):
                batch = [read[place] for place in places]
                weights = self._weights([tokens[i] for i in batch], [anchors[i] for i in batch])  # [B, L]
                for i, row in zip(batch, weights, strict=True):
                    attended[i] = _attended(tokens[i], row[: lengths[i]])
        return attended

    def _tokenize(self, text: str) -> Any:
        return self._tokenizer(text, max_length=self._max_tokens, **_READING)

    def _weights(self, rows: list[Any], anchors: list[NDArray[np.bool_]]) -> NDArray[np.float32]:
        """The mean row of each text's anchor, [B, L]; nothing else leaves the device."""
        import torch

        names = ("input_ids", "attention_mask", "token_type_ids")
        given = [{name: row[name] for name in names if name in row} for row in rows]
        batch = self._tokenizer.pad(given, return_tensors="pt").to(self._device)
        with torch.inference_mode():
            attentions = getattr(self._model(**batch, output_attentions=True), "attentions", None)
        if not attentions or attentions[-1] is None or attentions[-1].dim() != 4:
            raise InputError(f"encoder {self._name}: it gives no attentions", _HINT)
        last = attentions[-1].float()  # [B, heads, L, L]
        shares = [torch.from_numpy(anchor / anchor.sum()).float() for anchor in anchors]
        share = torch.nn.utils.rnn.pad_sequence(shares, batch_first=True).to(self._device)  # [B, L]
        mean: NDArray[np.float32] = torch.einsum("bhlm,bl->bm", last, share / last.shape[1]).cpu().numpy()
        if not np.isfinite(mean).all():
            first = int(np.argmin(np.isfinite(mean).all(axis=1)))
            text = self._tokenizer.decode(rows[first]["input_ids"], skip_special_tokens=True)
            raise InputError(
                f"encoder {self._name}: its attentions are not finite, such as for {text[:80]!r}",
                "Its weights are damaged, or its outputs overflow: choose another encoder.",
            )
        return mean


@lru_cache(maxsize=1)
def open_attentions(name: str) -> Attentions:
    """The encoder of a folder or a name of the Hub; opened once a process."""
    return Attentions(name)


def _real(tokens: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Where tokens begin and end, [L, 2], and which are neither special nor empty, [L]."""
    offsets = np.array(tokens["offset_mapping"], np.int64).reshape(-1, 2)
    return offsets, (np.array(tokens["special_tokens_mask"]) == 0) & (offsets[:, 0] < offsets[:, 1])


def _tokens_of(tokens: Any, span: Span | None) -> NDArray[np.bool_]:
    """The tokens of an anchor, [L]; the first one where the span is None."""
    offsets, real = _real(tokens)
    if span is None:
        return np.asarray(np.arange(len(offsets)) == 0)
    return np.asarray(real & (offsets[:, 0] < span[1]) & (offsets[:, 1] > span[0]))


def _attended(tokens: Any, row: NDArray[np.float32]) -> Attended:
    offsets, real = _real(tokens)
    start, end = offsets[real].T
    # The last bits depend on the machine, and the drawn words should not.
    return Attended(start, end, row[real].astype(np.float64).round(6))


@contextmanager
def _one_thread() -> Iterator[None]:
    """The same bits for any number of processes that share the cores."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
