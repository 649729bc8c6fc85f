"""Shared by HARP's four tasks: sentences with anchors, pages, and words drawn by attention (HARP, 3.2).

A sentence S of a document contains anchors a to pages P; a page is the first section of the document that an
anchor leads to. The words of a text are weighted by an encoder's attentions
(`reranker.objectives.attentions`), repeated words by the sum (equation 2), and drawn by the softmax of the
weights over a temperature (equation 3; the paper's temperature is 1, at which all words are nearly equally
likely, since the weights sum to at most 1). Stop words are never drawn, and where equation 5 says zero, an
anchor's words are not either: a zero before the softmax would not exclude them. A word's weight is the sum of
its tokens'.

The number of drawn words is Poisson's about 3, at least 1 (equation 4), with replacement as in PROP.

Skipped: anchors of stop words alone, sentences of fewer than 3 words, pages of fewer than 5.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.program.defaults import DEFAULT_ENCODER
from linkseek.indexer.program.text import WORD
from linkseek.reranker.contrasts import Contrast, TextPair
from linkseek.reranker.objectives.attentions import Attended, Attentions, open_attentions
from linkseek.reranker.objectives.base import (
    MEAN_WORDS,
    ContrastObjective,
    ContrastSource,
    draw_count,
    words_of,
)
from linkseek.retriever.links.sentences import Span
from linkseek.retriever.links.source import stripped_span
from linkseek.retriever.mining.objective import Draws, setting

_MIN_SENTENCE_WORDS, _MIN_PAGE_WORDS = 3, 5


@dataclass(frozen=True, slots=True)
class Mention:
    """An anchor in its sentence: `sentence[start:end]`. target: the row of the document it leads to."""

    link: int
    sentence: str
    start: int
    end: int
    target: int

    @property
    def anchor(self) -> str:
        """Its text, on one line."""
        return " ".join(self.sentence[self.start : self.end].split())


class Plan(NamedTuple):
    """A candidate before the encoder has read its texts.

    texts: each with the span whose attentions are needed, or None for [CLS]. finish: makes the
    contrast from the attentions of the texts, None if it cannot be made.
    """

    texts: Sequence[tuple[str, Span | None]]
    finish: Callable[..., Contrast | None]


@dataclass(frozen=True)
class Harp(ContrastObjective):
    """Words and anchors drawn by attention."""

    encoder: str = setting(
        DEFAULT_ENCODER, "the encoder whose attentions weight words, a folder or a name of the Hub"
    )
    temperature: float = setting(
        1.0, "of the softmax over weights; the lower, the more often the heaviest is drawn", "1", gt=0
    )
    mean_words: float = setting(3.0, MEAN_WORDS, "3", ge=0.1, le=100)
    loss = "hinge"  # equation 6
    masks_query = False
    min_for_processes: ClassVar[int] = 1000

    def prepare(self, source: ContrastSource) -> Self:
        """Itself; opens the encoder, so that one that cannot be used is an error at once."""
        _ = self.attentions
        return self

    def candidates(self, source: ContrastSource) -> dict[str, NDArray[np.int64]]:
        """Every link that may be the first of several in its sentence, int64 [n, 1]; RDP's and ACM's."""
        links = usable_links(source)
        passage = np.asarray(source.index.links.passage)[links]
        return {self.name: links[:-1][passage[1:] == passage[:-1]][:, None]}

    @abstractmethod
    def plan(self, source: ContrastSource, row: list[int], generator: np.random.Generator) -> Plan | None:
        """The texts to be read for a candidate, and the contrast that follows; None if it gives none."""

    def read(
        self, source: ContrastSource, rows: NDArray[np.int64], draws: Draws
    ) -> Iterator[Contrast | None]:
        """The contrasts of all candidates, whose texts the encoder reads together."""
        generators = map(np.random.default_rng, draws.tolist())
        plans = [self.plan(source, *given) for given in zip(rows.tolist(), generators, strict=True)]
        attended = self.attentions.of([text for plan in plans if plan for text in plan.texts])
        start = 0
        for plan in plans:
            plan_attended = attended[start : start + len(plan.texts)] if plan else [None]
            start += len(plan.texts) if plan else 0
            yield None if plan is None or None in plan_attended else plan.finish(*plan_attended)

    @property
    def attentions(self) -> Attentions:
        """The encoder that supplies attention weights."""
        return open_attentions(self.encoder)

    def word_set(
        self,
        source: ContrastSource,
        text: str,
        attended: Attended,
        count: int,
        generator: np.random.Generator,
        without: Iterable[str] = (),
    ) -> list[str]:
        """`count` words of a text, drawn by attention; empty if no word can be drawn."""
        weights = word_weights(text, attended)
        for word in {*source.stop_words, *without}:
            weights.pop(word, None)
        if not weights:
            return []
        words = list(weights)
        shares = softmax(list(weights.values()), self.temperature)
        return [words[place] for place in generator.choice(len(words), count, p=shares).tolist()]

    def mention_set(
        self, source: ContrastSource, mention: Mention, attended: Attended, generator: np.random.Generator
    ) -> list[str]:
        """The query S1 of RQP and QDM: an anchor and words of its sentence; empty if there are no words."""
        count = draw_count(self.mean_words, generator)
        words = self.word_set(source, mention.sentence, attended, count, generator)
        return [mention.anchor, *words] if words else []

    def contrast(
        self, better: tuple[str, TextPair], worse: tuple[str, TextPair], evidence: dict[str, Any]
    ) -> Contrast:
        """A contrast of two queries with pages."""
        pairs = [TextPair(query, page.document, page.title) for query, page in (better, worse)]
        return Contrast(pairs[0], (pairs[1],), self.name, evidence)

    def why_none(self, source: ContrastSource) -> str:
        """No links, or no such anchors."""
        return source.missing_links or "finds no sentence with such anchors to documents with text"


def word_weights(text: str, attended: Attended) -> dict[str, float]:
    """Each distinct word of a text with the sum of its weights (equation 2), in the order of the text.

    A token counts for the word that it begins in or before; words behind the last token are skipped.
    """
    spans = [(match.group().lower(), match.start(), match.end()) for match in WORD.finditer(text)]
    if not spans:
        return {}
    starts, ends = (np.array(values) for values in zip(*((s, e) for _, s, e in spans), strict=True))
    place = np.minimum(np.searchsorted(ends, attended.start, side="right"), len(spans) - 1)  # [n]
    inside = (starts[place] < attended.end) & (ends[place] > attended.start)
    weight = np.bincount(place[inside], attended.weight[inside], len(spans))
    has_token = np.bincount(place[inside], minlength=len(spans)) > 0
    weights: dict[str, float] = {}
    for i in np.flatnonzero(has_token).tolist():
        word = spans[i][0]
        weights[word] = weights.get(word, 0.0) + float(weight[i])
    return weights


def softmax(weights: Sequence[float], temperature: float) -> NDArray[np.float64]:
    """Equation 3."""
    scaled = np.array(weights) / temperature
    powers = np.exp(scaled - scaled.max())
    return np.asarray(powers / powers.sum())


def anchor_key(anchor: str) -> str:
    """The same for equal anchors: in lower case, with single spaces."""
    return " ".join(anchor.lower().split())


def usable_links(source: ContrastSource) -> NDArray[np.int64]:
    """The links between documents that lead to one with text, int64 [n], ascending."""
    graph, offsets = source.index.links, np.asarray(source.index.passages.offsets)
    target = np.asarray(graph.target)
    between = source.topology.document_of[np.asarray(graph.passage)] != target
    return np.flatnonzero(between & (offsets[target + 1] > offsets[target]))


def mention_of(source: ContrastSource, link: int) -> Mention | None:
    """A link's anchor in its sentence; None for one of stop words alone, and in a short sentence."""
    return next((mention for mention in _mentions(source, link) if mention.link == link), None)


def mentions_beginning_with(source: ContrastSource, link: int) -> list[Mention]:
    """All anchors of the sentence that a link is the first anchor of; none if it is not the first."""
    mentions = _mentions(source, link)
    return mentions if mentions and mentions[0].link == link else []


def _mentions(source: ContrastSource, link: int) -> list[Mention]:
    """The usable anchors of a link's sentence, in order.

    The sentence is extended to the end of an anchor that begins in it.
    """
    graph = source.index.links
    passage = int(graph.passage[link])
    text, document = source.text(passage), source.document_of(passage)
    position = stripped_span(text, int(graph.start[link]), int(graph.end[link]))[0]
    first, last = next(((s, e) for s, e in source.sentences(text) if s <= position < e), (0, 0))
    spans = []
    for other in graph.from_passage(passage):
        start, end = stripped_span(text, int(graph.start[other]), int(graph.end[other]))
        if first <= start < last:
            spans.append((other, start, end, int(graph.target[other])))
    sentence = text[first : max([last, *(end for _, _, end, _ in spans)])]
    if len(words_of(sentence)) < _MIN_SENTENCE_WORDS:
        return []
    stopped = source.stop_words
    offsets = source.index.passages.offsets
    return [
        Mention(other, sentence, start - first, end - first, target)
        for other, start, end, target in spans
        if target != document
        and offsets[target + 1] > offsets[target]
        and not set(words_of(text[start:end])) <= stopped
    ]


def page_of(source: ContrastSource, document: int) -> TextPair | None:
    """A document's first section, cut, without a query; None if it is short."""
    text = source.first_words(source.first_section(document))
    if len(words_of(text)) < _MIN_PAGE_WORDS:
        return None
    return TextPair("", text, source.title(document))
