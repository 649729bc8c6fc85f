"""The interface of an objective of cross-encoders, the index as it reads it, and words of texts.

PROP and HARP take INQUERY's stop list, which is longer (418) than Lucene's (174) and only English.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

import linkseek.retriever.links.source
from linkseek.indexer.language.codes import ENGLISH
from linkseek.indexer.machine.once import shared_property
from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.program.text import WORD
from linkseek.indexer.search.analyzers import LISTS
from linkseek.indexer.search.analyzers import stop_words as language_stop_words
from linkseek.reranker.contrasts import Contrast, TextPair, contrast_line
from linkseek.reranker.objectives.link_groups import LinkGroups
from linkseek.retriever.mining.objective import Numbers, Objective

DOCUMENT_WORDS = 512
"""The words of a document that are kept (PROP's code): more than an encoder of 512 tokens reads."""

_FIRST_WORDS = re.compile(rf"\S++(?:\s++\S++){{0,{DOCUMENT_WORDS - 1}}}")


class ContrastSource(linkseek.retriever.links.source.LinkSource):
    """An index to mine from."""

    @property
    def stop_words(self) -> frozenset[str]:
        """Those of its language; of English, if the index's has no list and no other language was named.

        Raises `UsageError` for a language that was named and has no list.
        """
        return stop_words(self.language if self.is_named or self.language in LISTS else ENGLISH)

    @shared_property
    def link_groups(self) -> LinkGroups:
        """How closely documents are linked to passages (PHP)."""
        return LinkGroups(self.topology)

    @staticmethod
    def first_words(text: str) -> str:
        """A text's first 512 words, unchanged."""
        match = _FIRST_WORDS.search(text)
        return match.group() if match else ""

    def document_of(self, passage: int) -> int:
        """The document that a passage is from."""
        return int(np.searchsorted(self.index.passages.offsets, passage, side="right")) - 1

    def pair(self, query: str, document: int, anchors: Iterable[tuple[int, int]] = ()) -> TextPair:
        """A query with a document, which is cut."""
        text = self.first_words(str(self.index.documents.table.value("text", document)))
        return TextPair(query, text, self.title(document), tuple(anchors))


@dataclass(frozen=True)
class ContrastObjective(Objective[Contrast]):
    """One way to make contrasts: a pair that should score higher than others."""

    unit, source = "contrast", ContrastSource
    better_is: ClassVar[str]
    """The better pair, for the table in the documentation."""
    worse_is: ClassVar[str]
    """The worse pairs, for the same table."""
    loss: ClassVar[Literal["hinge", "lce"]] = "lce"
    """The loss for its contrasts, unless a training has another."""
    masks_query: ClassVar[bool] = True
    """Whether masked language modelling also masks tokens of its queries."""

    def line(self, contrast: Contrast) -> bytes:
        """A line of its file."""
        return contrast_line(contrast)

    def numbers(self, contrast: Contrast) -> Numbers:
        """Lengths and anchors of the better pair."""
        better = contrast.better
        lengths = len(better.query.split()), len(better.document.split())
        return Numbers(contrast.objective, *lengths, len(contrast.worse), anchors=len(better.anchors))


def words_of(text: str) -> list[str]:
    """The words of a text in order, in lower case."""
    return list(WORD.findall(text.lower()))


def stop_words(language: str) -> frozenset[str]:
    """The stop words of a language, split by `words_of`. Raises `UsageError` for one without a list."""
    try:
        return language_stop_words(language)
    except KeyError:
        raise UsageError(
            f"no stop list for the language {language!r}", f"There are lists for {', '.join(LISTS)}."
        ) from None


MEAN_WORDS = "mean number of words drawn for a query (Poisson's distribution)"
"""The meaning of the setting `mean_words`, of PROP and HARP."""


def draw_count(mean: float, generator: np.random.Generator) -> int:
    """The number of words of a query, by Poisson's distribution; 0 is drawn again.

    PROP's equation in section 3.1 and HARP's equation 4 lack the factorial; zero-truncated is what their
    "x = 1, 2, 3, ..." means.
    """
    while True:
        count = int(generator.poisson(mean))
        if count:
            return count
