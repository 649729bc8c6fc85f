"""Representative words prediction: the likelier of two word sets for a document (PROP, section 3.1).

    document  a title and the first words of a text
    better    of two sets of equally many words, drawn from the document's language model, the likelier one
    worse     the other one

The number of words is Poisson's about 3, at least 1; words are drawn with replacement and stay repeated, as
the likelihood counts them. Five contrasts a document. Sets of equal likelihood are drawn again, where
algorithm 1 would take the second one.

`prop-random` is the sampling of table 5: all words of the vocabulary are equally probable, and the likelihood
under the document's model decides as before. Further pre-training (table 4) is mining the target's corpus.

Where the paper and its code differ: minimum count 50 and t = 1e-5 are the paper's (code: 10 or 100, 1e-4);
mu, which the paper leaves open, is the mean length of a document, as in the code; P(w|C) is by word counts as
in the paper (code: document frequencies); short documents are not skipped.

Example: a document of the words moth moth bug in a collection of 10 words, moth 2 bug 4 times, with
mu = 10 has P(moth) = (2 + 10 2/10) / 13 = 4/13 and P(bug) = 5/13, so "bug bug" is better than "moth bug".

Unigram language models of a collection and of its documents (PROP, section 2).

    P(w|C) = c(w, C) / |C|
    P(w|D) = (c(w, D) + mu P(w|C)) / (|D| + mu)                 equation 3, Dirichlet smoothing
    log P(Q|D) = sum of log P(w|D) over the words of Q          equation 2

|C| and |D| count all words; Q and the tables contain only words of the vocabulary, without stop words and
words rarer than a minimum. The title and the first 512 words of a document are read.

Symbols: V words in the vocabulary.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.machine.once import shared_property
from linkseek.reranker.contrasts import Contrast, TextPair
from linkseek.reranker.objectives.base import (
    MEAN_WORDS,
    ContrastObjective,
    ContrastSource,
    draw_count,
    words_of,
)
from linkseek.retriever.mining.objective import Draws, setting

_TRIES = 16


@dataclass(frozen=True)
class Prop(ContrastObjective):
    """Word sets from the document's language model."""

    name = "prop"
    summary = "two word sets drawn from a document's language model (PROP)"
    better_is = "two sets of words drawn from a document's language model, the likelier one with the document"
    worse_is = "the other set with the document"
    needs_links = False
    loss = "hinge"  # equation 5
    masks_query = False  # a set of words (section 4.4.2)

    minimum_count: int = setting(50, "minimum occurrences of a drawn word in the corpus", ge=1)
    threshold: float = setting(1e-5, "word2vec's t; words rarer than it are never thinned out", "1e-5", gt=0)
    mu: float | None = setting(
        None, "the weight of the collection in a document's model, in words", "the mean length", gt=0
    )
    mean_words: float = setting(3.0, MEAN_WORDS, "3", ge=0.1, le=100)
    per_document: int = setting(5, "contrasts of a document", ge=1)
    collection: Collection | None = field(default=None, repr=False, compare=False)

    def prepare(self, source: ContrastSource) -> Self:
        """Return a copy with the collection model."""
        return replace(self, collection=count_words(source, self.minimum_count))

    def candidates(self, source: ContrastSource) -> dict[str, NDArray[np.int64]]:
        """Every document with text, five times: [n, 2], the document and a number from 0."""
        documents = np.flatnonzero(np.diff(source.index.passages.offsets))
        if not self._collection.words:
            documents = documents[:0]
        numbers = np.tile(np.arange(self.per_document), len(documents))
        return {self.name: np.stack([np.repeat(documents, self.per_document), numbers], axis=1)}

    def read(
        self, source: ContrastSource, rows: NDArray[np.int64], draws: Draws
    ) -> Iterator[Contrast | None]:
        """The two sets of each; None where the document has no text."""
        last, model, pair = -1, None, TextPair("", "")
        for document, draw in zip(rows[:, 0].tolist(), draws.tolist(), strict=True):
            if document != last:
                last, pair = document, source.pair("", document)
                words = document_words(pair.title, pair.document)
                model = DocumentModel(self._collection, words, self._mu) if pair.document else None
            generator = np.random.default_rng(draw)
            yield None if model is None else self._contrast(source, document, model, pair, generator)

    def _contrast(
        self,
        source: ContrastSource,
        document: int,
        model: DocumentModel,
        pair: TextPair,
        generator: np.random.Generator,
    ) -> Contrast | None:
        for _ in range(_TRIES):
            count = draw_count(self.mean_words, generator)
            sets = [self._draw(model, count, generator) for _ in range(2)]
            scores = [model.log_likelihood(numbers) for numbers in sets]
            if scores[0] != scores[1]:
                first = int(scores[1] > scores[0])
                queries = [" ".join(self._collection.words[n] for n in numbers) for numbers in sets]
                better, worse = (replace(pair, query=queries[place]) for place in (first, 1 - first))
                likelihoods = [scores[first], scores[1 - first]]
                evidence = {"document_id": source.document_id(document), "log_likelihood": likelihoods}
                return Contrast(better, (worse,), self.name, evidence)
        return None

    def _draw(self, model: DocumentModel, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
        return self._sampler.draw(model, count, generator)

    @property
    def _collection(self) -> Collection:
        assert self.collection is not None, "prepare() comes first"
        return self.collection

    @property
    def _mu(self) -> float:
        return self._collection.mean_length if self.mu is None else self.mu

    @shared_property
    def _sampler(self) -> Sampler:
        return Sampler(self._collection, self._collection.keep_probabilities(self.threshold), self._mu)

    def counts(self, source: ContrastSource) -> dict[str, Any]:
        """The collection in numbers."""
        words = self._collection
        return {"words": words.total, "vocabulary": len(words.words), "mean_length": words.mean_length}

    def why_none(self, source: ContrastSource) -> str:
        """No word is frequent enough."""
        return (
            f"finds no word that occurs {self.minimum_count:,} times and is no stop word "
            f"({self._collection.total:,} words in all; lower --minimum-count)"
        )


@dataclass(frozen=True)
class PropRandom(Prop):
    """Word sets from the vocabulary, all words equally probable."""

    name = "prop-random"
    summary = "two sets of any words; the document's language model decides (PROP, table 5)"
    better_is = "two sets of any words of the vocabulary, the likelier one with the document"

    def _draw(self, model: DocumentModel, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
        return generator.integers(0, len(self._collection.words), count)


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
    occurrences = np.array([counts[word] for word in words], np.int64)
    return Collection(tuple(words), occurrences, counts.total(), total_length / max(documents, 1))


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
        document_mass = float(own[-1]) if len(own) else 0.0
        places = generator.random(count) * (document_mass + self._mu * float(self._background[-1]))
        numbers = np.empty(count, np.int64)
        inside = places < document_mass
        numbers[inside] = model.numbers[_place(own, places[inside])] if inside.any() else 0
        numbers[~inside] = _place(self._background, (places[~inside] - document_mass) / max(self._mu, 1e-300))
        return numbers


def _place(cumulative: NDArray[np.float64], value: NDArray[np.float64]) -> NDArray[np.int64]:
    """The bin of each value; rounding may put one behind the end."""
    return np.minimum(np.searchsorted(cumulative, value, side="right"), len(cumulative) - 1)
