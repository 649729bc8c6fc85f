"""The interface of an objective, which turns links and texts into training pairs.

An objective works in two steps, so that it can choose among millions of pairs before any text is read:

    candidates(source)              arrays of passage rows and links, from the graph alone
    texts(source, pairs, i, draw)   the query and the passage text of one candidate

To add an objective, add a file with a subclass of `Objective` to this folder: `--objective NAME`, sampling,
negatives, evidence, statistics, the table in docs/mining.md and the contract tests follow from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from linkseek.retriever.links.sentences import Span
from linkseek.retriever.links.source import Source
from linkseek.retriever.links.topology import PassagePairs
from linkseek.retriever.objectives.examples import Example, passage_text, span_in


@dataclass(frozen=True, slots=True)
class PairTexts:
    """The texts of a pair: the query, and the positive passage as the objective leaves it."""

    query: str
    positive: str


class Objective(ABC):
    """One way to make pairs. Has no state."""

    name: ClassVar[str]
    """The value of `--objective`."""
    summary: ClassVar[str]
    """One line for --help."""
    query_is: ClassVar[str]
    """The query, for the table in the documentation."""
    positive_is: ClassVar[str] = ""
    """The passage to find, for the same table."""
    needs_links: ClassVar[bool] = True
    """Whether a corpus without links gives no pairs."""

    @abstractmethod
    def candidates(self, source: Source) -> dict[str, PassagePairs]:
        """All possible pairs by the name of their topology (a training batch holds one)."""

    @abstractmethod
    def texts(self, source: Source, pairs: PassagePairs, i: int, draw: int) -> PairTexts | None:
        """The texts of pair i; None if it has none (a passage of one sentence).

        draw: an integer in [0, 2**62) that decides every random choice.
        """

    def example(self, source: Source, kind: str, pairs: PassagePairs, i: int, texts: PairTexts) -> Example:
        """Pair i for people, with the anchors that made it. kind: the name of its topology."""
        graph = source.index.links
        query, positive = int(pairs.query[i]), int(pairs.positive[i])
        query_link, shared = int(pairs.query_link[i]), int(pairs.shared_link[i])
        marks: tuple[Span, ...] = ()
        if query_link >= 0:
            start, end = int(graph.start[query_link]), int(graph.end[query_link])
            marks = span_in(texts.query, source.text(int(graph.passage[query_link])), start, end)
        is_complete = texts.positive == source.text(positive)
        links = {int(pairs.positive_link[i]), shared} - {-1} if is_complete else set()
        through = None
        if shared >= 0:
            document = int(graph.target[shared])
            through = source.document_id(document), source.title(document)
        asked = passage_text(source, query, texts.query, marks)
        anchors = sorted({(int(graph.start[link]), int(graph.end[link])) for link in links})
        better = passage_text(source, positive, texts.positive, anchors)
        return Example(kind, asked, better, through=through)


def pairs_without_query_link(
    query: NDArray[Any],
    positive: NDArray[Any],
    positive_link: NDArray[Any] | None = None,
) -> PassagePairs:
    """Candidates whose query is chosen when its text is read.

    query: int [n], the passage that the query is from, or the first one of the document that it is from.
    """
    none = np.full(len(query), -1, np.int32)
    link = none if positive_link is None else positive_link.astype(np.int32)
    return PassagePairs(query.astype(np.int32), positive.astype(np.int32), none, link, none)
