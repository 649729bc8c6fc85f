"""Objectives turn links and texts into training pairs. Each is one file of this folder.

An objective works in two steps, so that millions of pairs can be chosen from before a text is read:

    candidates(source)         arrays of passage rows and links, from the graph alone
    query(source, pairs, i, draw)   the text that is asked, and the passage text that should be found

To add an objective, add a file with a subclass of `Objective`: `--objective NAME` is there, and so are
sampling, negatives, evidence, statistics and the contract tests.

    HLP (Zhou et al. 2022)     dual-link, co-mention, and hlp: both
    its rivals                 ict, wlp, bfs (Lee et al. 2019; Chang et al. 2020), as HLP's figure 1 has them
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from indexer.base.errors import InputError
from indexer.index import Index
from retriever.mining.sentences import Span, sentence_spans
from retriever.mining.topology import Pairs, Topology


@dataclass(frozen=True)
class Source:
    """An index to mine from; what is worked out of it is worked out once."""

    index: Index
    language: str = "en"

    @cached_property
    def topology(self) -> Topology:
        """Its links, ready to be joined."""
        return Topology(self.index.links, np.asarray(self.index.passages.offsets))

    def text(self, passage: int) -> str:
        """A passage's text."""
        return str(self.index.passages.table.value("text", passage))

    def sentences(self, text: str) -> tuple[Span, ...]:
        """The sentences of a text."""
        return sentence_spans(text, self.language)

    def first_section(self, document: int) -> str:
        """What stands before a document's first heading; its first passage if that is nothing."""
        offsets = self.index.passages.offsets
        if offsets[document] == offsets[document + 1]:
            return ""
        passage = self.index.passages[int(offsets[document])]
        sections = self.index.documents.table.value("sections", document) or []
        end = min((section["start"] for section in sections), default=0)
        if end == 0:
            return passage.text
        lead = str(self.index.documents.table.value("text", document))[:end]
        return lead if lead.strip() else passage.text


@dataclass(frozen=True, slots=True)
class Asked:
    """A pair's texts: what is asked, and the passage that should be found as the objective leaves it."""

    query: str
    positive: str


class Objective(ABC):
    """One way to make pairs. Has no state."""

    name: ClassVar[str]
    """What `--objective` calls it."""
    summary: ClassVar[str]
    """One line for --help."""
    needs_links: ClassVar[bool] = True
    """Whether a corpus without links gives no pairs."""

    @abstractmethod
    def candidates(self, source: Source) -> dict[str, Pairs]:
        """All pairs that there may be, by the name of their topology (a training batch holds one)."""

    @abstractmethod
    def query(self, source: Source, pairs: Pairs, i: int, draw: int) -> Asked | None:
        """The texts of pair i; None if there are none (a passage of one sentence).

        draw: an integer in [0, 2**62) by which whatever is random is chosen.
        """


def anchor_sentence(source: Source, link: int) -> str:
    """The sentence that holds a link's anchor; to the anchor's end, if that lies in another one."""
    links = source.index.links
    text = source.text(int(links.passage[link]))
    start, end = int(links.start[link]), int(links.end[link])
    anchor = text[start:end].lstrip()
    start, end = end - len(anchor), end - len(anchor) + len(anchor.rstrip())
    for first, last in source.sentences(text):
        if first <= start < last:
            return text[first : max(last, end)]
    raise InputError(
        f"{source.index.path}: the anchor of link {link} is blank",
        "Build the index again from a corpus whose anchors hold text.",
    )


def link_evidence(source: Source, link: int) -> dict[str, Any]:
    """A link for people: where it stands, in characters of its passage, its anchor and its target."""
    graph, documents = source.index.links, source.index.documents
    passage, start, end = int(graph.passage[link]), int(graph.start[link]), int(graph.end[link])
    return {
        "passage_id": source.index.passages.ids([passage])[0],
        "start": start,
        "end": end,
        "anchor": source.text(passage)[start:end],
        "target": str(documents.table.value("id", int(graph.target[link]))),
    }


@cache
def all_objectives() -> dict[str, Objective]:
    """Every objective by name, in alphabetical order of their files."""
    found: dict[str, Objective] = {}
    for module in sorted(info.name for info in pkgutil.iter_modules(__path__)):
        for value in vars(importlib.import_module(f"{__name__}.{module}")).values():
            if isinstance(value, type) and issubclass(value, Objective) and "name" in vars(value):
                found[value.name] = value()
    return found


def pairs_without_query_link(
    query: NDArray[Any],
    positive: NDArray[Any],
    positive_link: NDArray[Any] | None = None,
) -> Pairs:
    """Candidates whose query is chosen when its text is read.

    query: int [n], the passage asked from, or the first one of the document asked from.
    """
    nothing = np.full(len(query), -1, np.int32)
    link = nothing if positive_link is None else positive_link.astype(np.int32)
    return Pairs(query.astype(np.int32), positive.astype(np.int32), nothing, link, nothing)
