"""What the objectives mine from one article, without mining the index.

An objective makes its candidates from arrays of links (`retriever.links.topology`). It is given the links
alone
that can matter for queries from this article: those of its own passages, and those of passages that link to
it, as far as they lead to it or to what it links to. So it finds the article's pairs, all of them, in the
time that these links take. How many documents link to a document, by which co-mentions are told from hubs,
is counted over the whole index, once.

What re-rankers learn from is shown beside it in the same records (`app.around.contrasted`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Protocol

import numpy as np

import reranker.objectives.source
from app.around.query_words import Span
from indexer.index import Index
from retriever.links.neighbourhood import around_document
from retriever.links.source import Source
from retriever.links.topology import PassagePairs, Topology
from retriever.objectives.base import Objective, PairTexts
from retriever.objectives.registry import all_objectives

_STARTS = 12
_TRIES = 4  # candidates looked at for each example: some have no query
MOST_DRAW = 1 << 62


@dataclass(frozen=True, slots=True)
class Text:
    """A text of an example, and where it is from; words that were drawn are from nowhere.

    passage_id: empty for a document's beginning. marks: the anchors that made the example. strong: of marks
    that compare, those that speak for the better one. note: what evidence there is, in a few words.
    """

    text: str
    passage_id: str = ""
    document_id: str = ""
    title: str = ""
    marks: tuple[Span, ...] = ()
    strong: tuple[Span, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Example:
    """What a model is shown once. better: what it should prefer; worse: to what, if the objective says.

    kind: of an objective that makes several. through: the document that both mention, by id and title.
    more_worse: how many others it is preferred to.
    """

    kind: str
    asked: Text
    better: Text
    worse: tuple[Text, ...] = ()
    through: tuple[str, str] | None = None
    more_worse: int = 0


@dataclass(frozen=True, slots=True)
class Mined:
    """Some of the examples that an objective makes of an article. count: of all, by their kind.

    unit: what one is called. why: a sentence, where there are none or fewer than there might be.
    """

    objective: str
    summary: str
    count: dict[str, int]
    examples: tuple[Example, ...]
    unit: str = "pair"
    why: str = ""


class Miner(Protocol):
    """Shows what one objective mines from an article."""

    @property
    def summary(self) -> str:
        """What the objective is, in a line."""

    def mine(self, near: Near, most: int) -> Mined:
        """At most so many examples, the same ones each time."""


@cache
def pair_miners() -> dict[str, Miner]:
    """Every objective of retrievers, by name."""
    return {name: PairMiner(objective) for name, objective in all_objectives().items()}


class Mining:
    """One index, and what is counted over all of it, once."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.topology = Topology(index.links, np.asarray(index.passages.offsets))
        self.kept: dict[str, Any] = {}
        """What else is worked out once, by the name of what does."""

    @cached_property
    def most_linked(self) -> tuple[int, ...]:
        """The documents that most others link to: where somebody may begin to read."""
        return tuple(np.argsort(-self.topology.in_degree, kind="stable")[:_STARTS].tolist())

    def near(self, document: int, language: str = "en") -> Near:
        """What is near one document."""
        return Near(self, document, language)


class Near:
    """The links around one document, as a source that objectives mine from."""

    def __init__(self, mining: Mining, document: int, language: str) -> None:
        self.mining, self.document = mining, document
        first, last = map(int, mining.index.passages.offsets[document : document + 2])
        self.passages = range(first, last)
        self.source = reranker.objectives.source.Source(
            mining.index, language, around_document(mining.topology, document)
        )


class PairMiner:
    """Pairs of a retriever's objective whose query is asked from the article."""

    def __init__(self, objective: Objective) -> None:
        self._objective = objective

    @property
    def summary(self) -> str:
        """The objective's."""
        return self._objective.summary

    def mine(self, near: Near, most: int) -> Mined:
        """Pairs from all over the article, of each kind as many."""
        counts: dict[str, int] = {}
        examples: list[Example] = []
        candidates = self._objective.candidates(near.source)
        for kind, found in candidates.items():
            inside = (found.query >= near.passages.start) & (found.query < near.passages.stop)
            pairs = found[np.flatnonzero(inside)]
            counts[kind] = len(pairs)
            examples += self._examples(near, kind, pairs, max(most // len(candidates), 1))
        return Mined(self._objective.name, self._objective.summary, counts, tuple(examples))

    def _examples(self, near: Near, kind: str, pairs: PassagePairs, most: int) -> list[Example]:
        generator = np.random.default_rng(near.document)
        made: list[Example] = []
        for i in spread(len(pairs), most):
            if len(made) == most:
                break
            asked = self._objective.texts(near.source, pairs, i, int(generator.integers(MOST_DRAW)))
            if asked is not None:
                made.append(_example(near.source, kind, pairs, i, asked))
        return made


def spread(count: int, most: int) -> list[int]:
    """Which candidates to look at for so many examples: from all over the article, not its first passage."""
    if count <= most:
        return [*range(count)]
    order = np.linspace(0, count - 1, min(most * _TRIES, count)).astype(np.int64)
    return [number for start in range(_TRIES) for number in order[start::_TRIES].tolist()]


def _example(source: Source, kind: str, pairs: PassagePairs, i: int, asked: PairTexts) -> Example:
    graph = source.index.links
    through = None
    links = [int(link[i]) for link in (pairs.positive_link, pairs.shared_link) if link[i] >= 0]
    if pairs.shared_link[i] >= 0:
        document = int(graph.target[pairs.shared_link[i]])
        table = source.index.documents.table
        through = (str(table.value("id", document)), str(table.value("title", document)))
    query, positive = int(pairs.query[i]), int(pairs.positive[i])
    whole = asked.positive == source.text(positive)
    spans = [(int(graph.start[link]), int(graph.end[link])) for link in links] if whole else []
    return Example(
        kind,
        passage_text(source, query, asked.query, anchor_in(source, int(pairs.query_link[i]), asked.query)),
        passage_text(source, positive, asked.positive, sorted(set(spans))),
        through=through,
    )


def anchor_in(source: Source, link: int, sentence: str) -> Sequence[Span]:
    """Where a link's anchor stands in the sentence that was taken from its passage; nowhere for no link."""
    if link < 0:
        return []
    graph = source.index.links
    text = source.text(int(graph.passage[link]))
    return span_in(sentence, text, int(graph.start[link]), int(graph.end[link]))


def span_in(sentence: str, text: str, start: int, end: int) -> Sequence[Span]:
    """Where `text[start:end]` stands in a sentence of the text; nowhere if it does not."""
    shift = text.rfind(sentence, 0, start + len(sentence))
    return [(start - shift, end - shift)] if 0 <= shift <= start and end - shift <= len(sentence) else []


def passage_text(source: Source, row: int, text: str, marks: Sequence[Span] = ()) -> Text:
    """A text that was taken from a passage."""
    table = source.index.passages.table
    id_, document, title = (str(table.value(name, row)) for name in ("id", "document_id", "title"))
    return Text(text, id_, document, title, tuple(marks))
