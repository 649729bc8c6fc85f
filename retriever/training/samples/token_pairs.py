"""Pairs for a static encoder: token ids, which are made once and kept for all epochs.

A transformer takes so much longer than its tokenizer that the texts of each batch are tokenised anew; for a
static encoder that would be most of the work.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from linkseek.indexer.encoding.batches import TokenRows, Tokens
from linkseek.indexer.program.progress import progress
from linkseek.retriever.mining.pairs import Pair, PairContext
from linkseek.retriever.models.backends.static_engine import without_special_tokens
from linkseek.retriever.models.biencoder import TextFormat
from linkseek.retriever.models.checks.tokenizer_costs import tokenized
from linkseek.retriever.models.locations import PASSAGES, QUERIES
from linkseek.retriever.models.words import Words
from linkseek.retriever.training.samples.pair_inputs import QUERY, TEXT, Collator, context_keys, key_of
from linkseek.retriever.training.samples.sample_table import Sample

_BLOCK = 4_096  # texts that are tokenised together


class TokenTexts:
    """Texts that become token ids, without special tokens, as sentence-transformers reads them."""

    def __init__(self, tokenizer: Tokenizer, max_tokens: int) -> None:
        """max_tokens: longer texts are cut; 0: none."""
        copy = Tokenizer.from_str(without_special_tokens(tokenizer))
        copy.no_padding()
        copy.no_truncation()
        if max_tokens:
            copy.enable_truncation(max_tokens)
        self._tokenize_texts = Words(copy) if Words.fits(copy) else partial(_ids, copy)
        self._waiting: list[str] = []
        self._pieces: list[TokenRows] = []

    def add(self, text: str) -> None:
        """One more text."""
        self._waiting.append(text)
        if len(self._waiting) == _BLOCK:
            self._tokenize()

    def _tokenize(self) -> None:
        self._pieces.append(TokenRows.of(self._tokenize_texts(self._waiting)))
        self._waiting.clear()

    def rows(self) -> TokenRows:
        """The token ids of all texts, in order."""
        self._tokenize()
        return TokenRows.joined(self._pieces)


def _ids(tokenizer: Tokenizer, texts: list[str]) -> Sequence[Tokens]:
    return [encoding.ids for encoding in tokenized(tokenizer, texts)]


def token_features(rows: TokenRows, numbers: Sequence[int]) -> dict[str, torch.Tensor]:
    """The inputs of `StaticEmbedding`: input_ids int64 [T], tokens back to back, and offsets int64 [B]."""
    chosen = TokenRows.of(rows[number] for number in numbers)
    return {
        "input_ids": torch.from_numpy(chosen.ids.astype(np.int64)),
        "offsets": torch.from_numpy(chosen.ends - chosen.lengths),
    }


@dataclass(frozen=True, slots=True)
class TokenPair:
    """A pair as row numbers of `TokenPairs.queries` and `TokenPairs.passages`."""

    query: int
    positive: int
    negatives: Sequence[int]
    hard_negatives: Sequence[int]


class TokenPairs:
    """Samples by the rows of their table. Equal texts are stored once; passage 0 is the blank one.

    query_keys: int64 [Q]; passage_keys: int64 [C, 3], of text, id and document.
    """

    def __init__(
        self,
        pairs: Iterable[Sample[Pair]],
        tokenizer: Tokenizer,
        text_format: TextFormat,
        query_tokens: int,
        passage_tokens: int,
    ) -> None:
        queries, passages = TokenTexts(tokenizer, query_tokens), TokenTexts(tokenizer, passage_tokens)
        passages.add("")
        query_numbers: dict[int, int] = {}
        numbers = {(0, 0, 0): 0}

        def number_of_query(query: str) -> int:
            key = key_of(query)
            if key not in query_numbers:
                query_numbers[key] = len(query_numbers)
                queries.add(query)
            return query_numbers[key]

        def number_of(context: PairContext) -> int:
            key = context_keys(context)
            if key not in numbers:
                numbers[key] = len(numbers)
                passages.add(text_format.passage(context.title, context.text))
            return numbers[key]

        self._samples: dict[int, Sample[TokenPair]] = {}
        with progress("tokenising pairs", unit="pairs") as advance:
            for sample in pairs:
                pair = sample.record
                self._samples[sample.row] = Sample(
                    sample.row,
                    sample.place,
                    TokenPair(
                        number_of_query(text_format.query(pair.query)),
                        number_of(pair.positive),
                        [number_of(context) for context in pair.negatives],
                        [number_of(context) for context in pair.hard_negatives],
                    ),
                )
                advance(1)
        self.queries, self.passages = queries.rows(), passages.rows()
        self.query_keys = np.array(list(query_numbers), np.int64)
        self.passage_keys = np.array(list(numbers), np.int64)

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, row: int) -> Sample[TokenPair]:
        return self._samples[row]


@dataclass(frozen=True)
class TokenCollator(Collator[int, int]):
    """The inputs of a static encoder."""

    blank = 0

    pairs: TokenPairs

    def queries(self, queries: Sequence[int]) -> dict[str, Any]:
        """Flat token ids."""
        return {**token_features(self.pairs.queries, queries), "task": QUERIES}

    def passages(self, passages: Sequence[int]) -> dict[str, Any]:
        """Flat token ids."""
        return {**token_features(self.pairs.passages, passages), "task": PASSAGES}

    def keys(self, query: int, passages: Sequence[int]) -> NDArray[np.int64]:
        """The keys of the texts."""
        keys = np.zeros((len(passages), 4), np.int64)
        keys[:, TEXT:] = self.pairs.passage_keys[passages]
        keys[0, QUERY] = self.pairs.query_keys[query]
        return keys
