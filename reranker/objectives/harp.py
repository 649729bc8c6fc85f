"""What HARP's four tasks share: sentences with anchors, pages, and words drawn by attention (HARP, 3.2).

A sentence S of a document holds anchors a to pages P; a page is the first section of the document that an
anchor leads to. The words of a text are weighted by what an encoder looks at
(`reranker.objectives.attentions`), those
that occur several times by their sum (equation 2), and drawn by the softmax of that over a temperature
(equation 3; the paper's temperature is 1, at which all words are nearly as likely, since weights are at most
1 together). Stop words are never drawn. Where equation 5 says zero, an anchor's words are not drawn either:
a zero before the softmax would not keep them out. A word's weight is the sum of its tokens'.

How many words are drawn is Poisson's about 3, at least 1 (equation 4), with replacement as in PROP.

Left out: anchors of stop words alone, sentences of fewer than 3 words, pages of fewer than 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from indexer.base.text import WORD
from reranker.contrasts import Contrast, TextPair
from reranker.objectives.attentions import Attended, Attentions, Span, open_attentions
from reranker.objectives.base import Objective
from reranker.objectives.source import Source
from reranker.objectives.words import draw_count, stop_words, words_of
from retriever.models.locations import DEFAULT_ENCODER

_LEAST_SENTENCE, _LEAST_PAGE = 3, 5


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


@dataclass(frozen=True)
class Harp(Objective):
    """What is drawn by attention. encoder: a folder or a name of the Hub. temperature: of the softmax."""

    encoder: str = DEFAULT_ENCODER
    temperature: float = 1.0
    mean_words: float = 3.0
    needs_whole: ClassVar[bool] = True
    loss = "hinge"  # equation 6
    masks_query = False
    min_for_processes: ClassVar[int] = 1000

    def prepare(self, source: Source) -> Self:
        """Itself; opens the encoder, so that one that cannot be used is told at once."""
        _ = self.attentions
        return self

    def documents(self, source: Source, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those that hold the sentences' links."""
        passages = np.asarray(source.index.links.passage)[rows[:, 0]]
        return source.index.passages.document_rows(passages.astype(np.int64))

    @property
    def attentions(self) -> Attentions:
        """The encoder's."""
        return open_attentions(self.encoder)

    def word_set(
        self,
        source: Source,
        text: str,
        attended: Attended,
        count: int,
        generator: np.random.Generator,
        without: Iterable[str] = (),
    ) -> list[str]:
        """`count` words of a text, drawn by what is looked at; none if there is none to draw."""
        weights = word_weights(text, attended)
        for word in {*stop_words(source.language), *without}:
            weights.pop(word, None)
        if not weights:
            return []
        words = list(weights)
        shares = softmax(list(weights.values()), self.temperature)
        return [words[place] for place in generator.choice(len(words), count, p=shares).tolist()]

    def mention_set(
        self, source: Source, mention: Mention, attended: Attended | None, generator: np.random.Generator
    ) -> tuple[str, int] | None:
        """The query S1 of RQP and QDM: an anchor and words of its sentence; and how many terms that is."""
        if attended is None:
            return None
        count = draw_count(self.mean_words, generator)
        words = self.word_set(source, mention.sentence, attended, count, generator)
        return (" ".join([mention.anchor, *words]), count + 1) if words else None

    def why_none(self, source: Source) -> str:
        """Of a corpus with links, that no anchor is like that."""
        return source.missing_links or "finds no sentence with such anchors to documents with text"


def each(
    rows: NDArray[np.int64], draws: NDArray[np.int64]
) -> Iterator[tuple[list[int], np.random.Generator]]:
    """Every candidate with a generator of its own."""
    for row, draw in zip(rows.tolist(), draws.tolist(), strict=True):
        yield row, np.random.default_rng(draw)


def word_weights(text: str, attended: Attended) -> dict[str, float]:
    """Each distinct word of a text with the sum of its weights (equation 2), in the order of the text.

    A token counts for the word that it begins in or before; words behind the last token are left out.
    """
    spans = [(match.group().lower(), match.start(), match.end()) for match in WORD.finditer(text)]
    if not spans:
        return {}
    starts, ends = (np.array(values) for values in zip(*((s, e) for _, s, e in spans), strict=True))
    place = np.minimum(np.searchsorted(ends, attended.start, side="right"), len(spans) - 1)  # [n]
    inside = (starts[place] < attended.end) & (ends[place] > attended.start)
    weight = np.bincount(place[inside], attended.weight[inside], len(spans))
    read = np.bincount(place[inside], minlength=len(spans)) > 0
    found: dict[str, float] = {}
    for i in np.flatnonzero(read).tolist():
        word = spans[i][0]
        found[word] = found.get(word, 0.0) + float(weight[i])
    return found


def softmax(weights: Sequence[float], temperature: float) -> NDArray[np.float64]:
    """Equation 3."""
    scaled = np.array(weights) / temperature
    powers = np.exp(scaled - scaled.max())
    shares: NDArray[np.float64] = powers / powers.sum()
    return shares


def anchor_key(anchor: str) -> str:
    """What anchors have in common that are the same: letters without case, words without their spacing."""
    return " ".join(anchor.lower().split())


def usable_links(source: Source) -> NDArray[np.int64]:
    """The links between documents that lead to one with text, int64 [n], ascending."""
    graph, offsets = source.index.links, np.asarray(source.index.passages.offsets)
    target = np.asarray(graph.target)
    between = source.topology.document_of[np.asarray(graph.passage)] != target
    return np.flatnonzero(between & (offsets[target + 1] > offsets[target]))


def first_of_several(source: Source) -> NDArray[np.int64]:
    """Links behind which the same passage holds another one, int64 [n, 1]: they may begin such a sentence."""
    links = usable_links(source)
    passage = np.asarray(source.index.links.passage)[links]
    several: NDArray[np.int64] = links[:-1][passage[1:] == passage[:-1]]
    return several[:, None]


def mention_of(source: Source, link: int) -> Mention | None:
    """A link's anchor in its sentence; None for one of stop words alone, and in a short sentence."""
    return next((mention for mention in _mentions(source, link) if mention.link == link), None)


def mentions_beginning_with(source: Source, link: int) -> list[Mention]:
    """All anchors of the sentence that a link is the first anchor of; none if it is not the first."""
    found = _mentions(source, link)
    return found if found and found[0].link == link else []


def _mentions(source: Source, link: int) -> list[Mention]:
    """The anchors of a link's sentence that may be used, in order.

    The sentence goes on to the end of an anchor that it begins but does not end.
    """
    graph = source.index.links
    passage = int(graph.passage[link])
    text, document = source.text(passage), source.document_of(passage)
    position = _stripped(text, int(graph.start[link]), int(graph.end[link]))[0]
    first, last = next(((s, e) for s, e in source.sentences(text) if s <= position < e), (0, 0))
    spans = []
    for other in graph.from_passage(passage):
        start, end = _stripped(text, int(graph.start[other]), int(graph.end[other]))
        if first <= start < last:
            spans.append((other, start, end, int(graph.target[other])))
    sentence = text[first : max([last, *(end for _, _, end, _ in spans)])]
    if len(words_of(sentence)) < _LEAST_SENTENCE:
        return []
    stopped = stop_words(source.language)
    offsets = source.index.passages.offsets
    return [
        Mention(other, sentence, start - first, end - first, target)
        for other, start, end, target in spans
        if target != document
        and offsets[target + 1] > offsets[target]
        and not set(words_of(text[start:end])) <= stopped
    ]


def _stripped(text: str, start: int, end: int) -> Span:
    anchor = text[start:end]
    return start + len(anchor) - len(anchor.lstrip()), start + len(anchor.rstrip())


def page_of(source: Source, document: int) -> TextPair | None:
    """A document's first section, cut to fit, without a query; None if it is short."""
    text = source.first_words(source.first_section(document))
    if len(words_of(text)) < _LEAST_PAGE:
        return None
    return TextPair("", text, source.title(document))


def contrast(
    objective: Objective,
    better: tuple[str, TextPair],
    worse: tuple[str, TextPair],
    evidence: dict[str, Any],
) -> Contrast:
    """A contrast of two queries with pages."""
    pairs = [TextPair(query, page.document, page.title) for query, page in (better, worse)]
    return Contrast(pairs[0], (pairs[1],), objective.name, evidence)
