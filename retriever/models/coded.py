"""Encoders that give a passage several codes: token vectors (`late`), or term weights (`sparse`)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.encoding.batches import Tokens, encoded_batches
from linkseek.indexer.encoding.token_codes import TokenCodes
from linkseek.indexer.machine.devices import Precision
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.store.artifacts import kind_and_name
from linkseek.retriever.models.backends.conversions import Probe, probe_texts
from linkseek.retriever.models.biencoder import PassageEncoder, PassageTokenizer
from linkseek.retriever.models.engine import Opened, open_engine
from linkseek.retriever.models.facts import ModelFacts, open_tokenizer, token_ids

if TYPE_CHECKING:
    from linkseek.indexer.encoding.encode import OnRows
    from linkseek.retriever.models.backends.torch_engine import ModuleChain

C = TypeVar("C", bound="CodedEncoder")


class CodedEncoder(PassageEncoder):
    """An encoder of passages and queries. Subclasses make the codes."""

    width: int
    """bytes of a code"""

    def __init__(self, opened: Opened, title: bool, **prompts: str | None) -> None:
        """As `PassageEncoder`."""
        super().__init__(opened, title, **prompts)
        self.tokenize_passages = PassageTokenizer(self.tokenizer, self.text_format)
        self.identity["similarity"] = opened.facts.similarity

    def encode_rows(self, tokens: Sequence[Tokens], on_rows: OnRows, first_passage: int) -> TokenCodes:
        """As of `indexer.encoding.encode.Encoder`."""
        rows: list[NDArray[np.uint8]] = [np.empty((0, self.width), np.uint8)] * len(tokens)
        for batch, codes in encoded_batches(self, tokens, on_rows, self._codes):
            for row, own in zip(batch, codes, strict=True):
                rows[row] = own
        return TokenCodes.of(rows, self.width)

    def _plain(self, texts: Sequence[str]) -> list[str]:
        """The texts of queries without their prompt, which the library adds itself."""
        form = replace(self.text_format, query_prompt="")
        return [form.query(text) for text in texts]

    @abstractmethod
    def _codes(self, batch: Sequence[Tokens]) -> list[NDArray[np.uint8]]:
        """The codes of each passage of one batch, uint8 [n, width]."""

    def _check_finite(self, numbers: NDArray[np.float32]) -> None:
        if not np.isfinite(numbers).all():
            raise InputError(f"{self.name}: its numbers are not finite", "Use another model.")


def open_coded(
    make: type[C],
    load: Callable[[Path, str], tuple[ModuleChain, ModelFacts]],
    name: str,
    *,
    title: bool = True,
    device: str = "auto",
    precision: Precision = "auto",
    streams: int | None = None,
    **prompts: str | None,
) -> C:
    """Load a model by path or name, with or without the prefix of its kind. Options and errors as in
    `open_biencoder`.
    """
    name = kind_and_name(name)[1]
    opened = open_engine(make.kind, load, name, device, precision, None, streams)
    return make(opened, title, **prompts)


def coded_probe(facts: ModelFacts, encode: Callable[[str], NDArray[np.float32]]) -> Probe:
    """The library's own numbers of the probe texts, each after the prompt of passages."""
    texts = [facts.passage_prompt + text for text in probe_texts(facts)]
    return Probe(token_ids(open_tokenizer(facts), texts), [encode(text) for text in texts])
