"""Unigram language models of a collection and of its documents (PROP, section 2).

    P(w|C) = c(w, C) / |C|
    P(w|D) = (c(w, D) + mu P(w|C)) / (|D| + mu)                 equation 3, Dirichlet smoothing
    log P(Q|D) = sum of log P(w|D) over the words of Q          equation 2

|C| and |D| count all words; Q and the tables hold only words of the vocabulary, without stop words and words
rarer than a minimum. Of a document, the title and the first 512 words are read.

Symbols: V words in the vocabulary.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.machine.once import shared_property
from linkseek.reranker.objectives.source import ContrastSource
from linkseek.reranker.objectives.words import words_of


@dataclass(frozen=True)
class Collection:
    """The vocabulary of a collection, and how often its words occur.

    words: V of them, in alphabetical order. counts: int64 [V]. total: |C|. mean_length: the mean |D|.
    """

    words: tuple[str, ...]
    counts: NDArray[np.int64]
    total: int
    mean_length: float

    @shared_property
    def numbers(self) -> dict[str, int]:
        """The places of the words."""
        return {word: number for number, word in enumerate(self.words)}

    @shared_property
    def probabilities(self) -> NDArray[np.float64]:
        """P(w|C), [V]."""
        return self.counts / max(self.total, 1)

    def keep_probabilities(self, threshold: float) -> NDArray[np.float64]:
        """The probability to keep a drawn word, [V]: sqrt(t / f) + t / f, at most 1, where f is P(w|C).

        As word2vec's program thins out frequent words; its paper prints sqrt(t / f).
        """
        ratio = threshold / self.probabilities
        return np.minimum(np.sqrt(ratio) + ratio, 1.0)


def count_words(source: ContrastSource, minimum_count: int) -> Collection:
    """The collection model of an index's documents, titles and texts in one streamed pass.

    Memory: the distinct words of the collection.
    """
    counts: Counter[str] = Counter()
    total_length = documents = 0
    for titles, texts in source.index.documents.table.batches(["title", "text"]):
        for title, text in zip(titles.to_pylist(), texts.to_pylist(), strict=True):
            counts.update(document_words(title, text))
            if text.strip():
                total_length += len(document_words(title, source.first_words(text)))
                documents += 1
    stopped = source.stop_words
    words = sorted(w for w, count in counts.items() if count >= minimum_count and w not in stopped)
    return Collection(
        tuple(words),
        np.array([counts[word] for word in words], np.int64),
        counts.total(),
        total_length / max(documents, 1),
    )


def document_words(title: str, text: str) -> list[str]:
    """The words that a document's model counts."""
    return words_of(f"{title}\n{text}")


class DocumentModel:
    """P(w|D) of one document."""

    def __init__(self, collection: Collection, words: Sequence[str], mu: float) -> None:
        self._collection, self._mu = collection, mu
        self._length = len(words)
        counts = Counter(words)
        known = sorted(collection.numbers[word] for word in counts if word in collection.numbers)
        self.numbers = np.array(known, np.int64)  # [n], of its words in the vocabulary, ascending
        self.counts = np.array([counts[collection.words[number]] for number in known], np.int64)  # [n]

    def probabilities(self, numbers: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float64]:
        """P(w|D) of some words of the vocabulary, by number."""
        words = np.asarray(numbers, np.int64)  # [m]
        counts = np.zeros(len(words), np.int64)
        if len(self.numbers):
            place = np.minimum(np.searchsorted(self.numbers, words), len(self.numbers) - 1)
            counts = np.where(self.numbers[place] == words, self.counts[place], 0)
        smoothed: NDArray[np.float64] = counts + self._mu * self._collection.probabilities[words]
        return smoothed / (self._length + self._mu)

    def log_likelihood(self, numbers: Sequence[int] | NDArray[np.int64]) -> float:
        """log P(Q|D), identical to the bit for the same words in any order."""
        return math.fsum(np.log(self.probabilities(numbers)).tolist())


class Sampler:
    """Draws words of the vocabulary by P(w|D), with frequent words thinned out.

    Drawing by P(w|D) until a word is kept is drawing by P(w|D) keep(w) / sum. That is a mix of the
    document's counts and the collection's, so a draw costs the logarithm of V, not V.
    """

    def __init__(self, collection: Collection, keep: NDArray[np.float64], mu: float) -> None:
        self._keep, self._mu = keep, mu
        self._background = np.cumsum(collection.probabilities * keep)  # [V]

    def draw(self, model: DocumentModel, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """The numbers of `count` words, with replacement, int64 [count]."""
        own = np.cumsum(model.counts * self._keep[model.numbers])  # [n]
        of_document = float(own[-1]) if len(own) else 0.0
        places = generator.random(count) * (of_document + self._mu * float(self._background[-1]))
        numbers = np.empty(count, np.int64)
        inside = places < of_document
        numbers[inside] = model.numbers[_place(own, places[inside])] if inside.any() else 0
        numbers[~inside] = _place(self._background, (places[~inside] - of_document) / max(self._mu, 1e-300))
        return numbers


def _place(cumulative: NDArray[np.float64], value: NDArray[np.float64]) -> NDArray[np.int64]:
    """The bin of each value; rounding may put one behind the end."""
    return np.minimum(np.searchsorted(cumulative, value, side="right"), len(cumulative) - 1)
