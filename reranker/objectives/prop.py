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
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.machine.once import shared_property
from linkseek.reranker.contrasts import Contrast, TextPair
from linkseek.reranker.objectives.base import ContrastObjective
from linkseek.reranker.objectives.source import ContrastSource
from linkseek.reranker.objectives.unigrams import (
    Collection,
    DocumentModel,
    Sampler,
    count_words,
    document_words,
)
from linkseek.reranker.objectives.words import MEAN_WORDS, draw_count
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

    minimum_count: int = setting(50, "how often a word must occur in the corpus to be drawn", ge=1)
    threshold: float = setting(1e-5, "word2vec's t; words rarer than it are never thinned out", "1e-5", gt=0)
    mu: float | None = setting(
        None, "the weight of the collection in a document's model, in words", "the mean length", gt=0
    )
    mean_words: float = setting(3.0, MEAN_WORDS, "3", ge=0.1, le=100)
    per_document: int = setting(5, "contrasts of a document", ge=1)
    collection: Collection | None = field(default=None, repr=False, compare=False)

    def prepare(self, source: ContrastSource) -> Self:
        """With the collection model."""
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
                evidence = {
                    "document_id": source.document_id(document),
                    "log_likelihood": [scores[first], scores[1 - first]],
                }
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
