"""Why a passage may answer a question: what the hyperlinks say of the two, without mining an index.

    entities      articles that the question names, by title, id or anchor, and that the passage is a part
                  of, links to, or is linked from
    dual links    articles that the passage links to and that link back to its article
    co-mentions   pairs of an article and a rare third one that a passage of it and this passage link to

Both topologies are those of `retriever.links.topology` (HLP, section 3.2), looked up around one passage: the
work is in proportion to the links of the passage, of the articles that it links to, and of those that link
to its article.

Symbols: P passages, D documents, E links.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from app.around.query_words import term
from indexer.index import Index
from indexer.store.ids import hash_ids
from retriever.links.topology import IN_DEGREE_SHARE

_WORD = re.compile(r"\w+")
_LONGEST_NAME = 6  # words of the question that may be one article's id
_MOST_WORDS = 200  # of a question that names are looked for in
_MOST_LINKING = 20_000  # links to an article that are looked at: a country is linked from everywhere
_BLOCK = 1 << 16  # documents looked at at a time


@dataclass(frozen=True, slots=True)
class Article:
    """A document as a link shows it."""

    row: int
    id: str
    title: str


@dataclass(frozen=True, slots=True)
class Anchor:
    """A link of the passage: `text[start:end]` leads to the article."""

    start: int
    end: int
    article: Article
    named: bool
    """Whether the question names the article or says the anchor."""


@dataclass(frozen=True, slots=True)
class Entity:
    """An article that the question names. relation: "own", "linked" or "linking", seen from the passage."""

    article: Article
    relation: str
    anchor: str = ""


@dataclass(frozen=True, slots=True)
class DualLink:
    """An article that this passage links to, and that links back; `here` and `there` are the anchors."""

    article: Article
    here: str
    there: str


@dataclass(frozen=True, slots=True)
class CoMention:
    """This passage and one of `article` both link to `shared`, and one of them to the other's article.

    asks: whether this one would be asked from and the other found, which then links to this passage's
    article; otherwise the other is asked from, and this one links to `article`.
    """

    article: Article
    shared: Article
    asks: bool


@dataclass(frozen=True, slots=True)
class LinkEvidence:
    """What the hyperlinks say of one passage, and of it and the question."""

    article: Article
    entities: tuple[Entity, ...]
    anchors: tuple[Anchor, ...]
    dual_links: tuple[DualLink, ...]
    co_mentions: tuple[CoMention, ...]


class Evidence:
    """The hyperlinks of one index, for any thread."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._links = index.links
        self._offsets = index.passages.offsets  # int64 [D+1]

    def of(self, question: str, row: int) -> LinkEvidence:
        """What speaks for the passage at a row.

        Co-mentions, with c of C, d of D, and anchors of both to an E whose in-degree is below K: HLP asks
        c and finds d, which has an anchor to C. The passage may be the one (D is shown) or the other.
        """
        own = int(self._index.passages.document_rows(np.array([row]))[0])
        text = str(self._index.passages.table.value("text", row))
        links = [
            link for link in self._links.from_passage(row) if self._links.target[link] != own
        ]  # in reading order
        linked = {int(self._links.target[link]): link for link in reversed(links)}  # to the first of each
        incoming = self._links.to_document(own)[:_MOST_LINKING]  # [n]
        linking = self._documents(self._links.passage[incoming])  # [n]
        incoming, linking = incoming[linking != own], linking[linking != own]
        back = {
            int(document): int(link) for document, link in zip(linking[::-1], incoming[::-1], strict=True)
        }
        named = self._named(question, own, links, back)
        return LinkEvidence(
            self.article(own),
            tuple(self._entities(named, own, linked, back)),
            tuple(
                Anchor(
                    int(self._links.start[link]),
                    min(int(self._links.end[link]), len(text)),
                    self.article(int(self._links.target[link])),
                    int(self._links.target[link]) in named,
                )
                for link in links
            ),
            tuple(
                DualLink(self.article(target), self._anchor(link), self._anchor(back[target]))
                for target, link in sorted(linked.items(), key=lambda item: item[1])
                if target in back
            ),
            tuple(self._co_mentions(linked, incoming, linking)),
        )

    def article(self, row: int) -> Article:
        """A document's id and title; the id stands for a blank title."""
        id_ = str(self._index.documents.table.value("id", row))
        title = str(self._index.documents.table.value("title", row))
        return Article(row, id_, title if title.strip() else id_)

    # --- topology -------------------------------------------------------------------------------

    @cached_property
    def in_degree_limit(self) -> int:
        """K: the value at position floor(0.9 D) of all in-degrees, ascending; 0 without documents."""
        documents = len(self._offsets) - 1
        if documents == 0:
            return 0
        in_degree = np.concatenate(
            [self._in_degrees(low, min(low + _BLOCK, documents)) for low in range(0, documents, _BLOCK)]
        )  # [D]
        place = int(np.floor(IN_DEGREE_SHARE * documents))
        return int(np.partition(in_degree, place)[place])

    def _in_degrees(self, low: int, high: int) -> NDArray[np.int64]:
        """How many other documents link to each of documents [low, high), int64 [high - low]."""
        bounds = np.asarray(self._links.incoming_offsets[low : high + 1])
        source = self._documents(self._links.passage[self._links.incoming[bounds[0] : bounds[-1]]])  # [n]
        target = np.repeat(np.arange(low, high), np.diff(bounds))  # [n]
        # Links to a document stand in reading order, so those of one source stand together.
        new = np.ones(len(source), np.bool_)
        new[1:] = (source[1:] != source[:-1]) | (target[1:] != target[:-1])
        return np.bincount(target[new & (source != target)] - low, minlength=high - low)

    def _is_rare(self, document: int) -> bool:
        bounds = self._links.incoming_offsets
        if bounds[document + 1] - bounds[document] < self.in_degree_limit:
            return True
        return int(self._in_degrees(document, document + 1)[0]) < self.in_degree_limit

    def _co_mentions(
        self, linked: dict[int, int], incoming: NDArray[np.int32], linking: NDArray[np.int64]
    ) -> Iterator[CoMention]:
        """Those of the passage, the articles that it links to first; each pair of articles once."""
        rare = {target: link for target, link in linked.items() if self._is_rare(target)}
        by_place = sorted(linked, key=linked.__getitem__)
        for asking in by_place:
            theirs = set(self._targets_of_document(asking).tolist())
            for shared in by_place:
                if shared in rare and shared != asking and shared in theirs:
                    yield CoMention(self.article(asking), self.article(shared), asks=False)
        passages, first = np.unique(self._links.passage[incoming], return_index=True)  # [m]
        starts = np.asarray(self._links.offsets)[passages]  # [m]
        counts = np.asarray(self._links.offsets)[passages + 1] - starts  # [m]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)  # [n]
        targets = self._links.target[np.repeat(starts, counts) + within]  # [n]
        documents = np.repeat(linking[first], counts)  # [n]
        both = np.isin(targets, np.fromiter(rare, np.int64, len(rare))) & (targets != documents)
        pairs = dict.fromkeys(zip(documents[both].tolist(), targets[both].tolist(), strict=True))
        for answering, shared in pairs:
            yield CoMention(self.article(answering), self.article(shared), asks=True)

    def _targets_of_document(self, document: int) -> NDArray[np.int32]:
        """The documents that a document's passages link to, with repetition."""
        first, last = self._offsets[document], self._offsets[document + 1]
        return self._links.target[self._links.offsets[first] : self._links.offsets[last]]

    def _documents(self, passages: NDArray[np.int32]) -> NDArray[np.int64]:
        return self._index.passages.document_rows(np.asarray(passages, np.int64))

    def _anchor(self, link: int) -> str:
        text = str(self._index.passages.table.value("text", int(self._links.passage[link])))
        return text[int(self._links.start[link]) : int(self._links.end[link])].strip()

    # --- the question ---------------------------------------------------------------------------

    def _named(self, question: str, own: int, links: Sequence[int], back: dict[int, int]) -> dict[int, str]:
        """The articles that the question names -> the text by which it does, in the order of the question.

        Looked for are the passage's own article, those that it links to, by title and anchor, and whatever
        has words of the question for its id.
        """
        words = _WORD.findall(question)[:_MOST_WORDS]
        said = _stems(words)
        found: dict[int, tuple[int, str]] = {}

        def note(document: int, name: str) -> None:
            place = _place(_stems(_WORD.findall(_without_brackets(name))), said)
            if place >= 0 and document not in found:
                found[document] = (place, name)

        note(own, self.article(own).title)
        for link in links:
            target = int(self._links.target[link])
            note(target, self.article(target).title)
            note(target, self._anchor(link))
        names = list(_possible_ids(words))
        rows = self._index.document_ids.rows(hash_ids(id_ for _, id_ in names)).tolist()
        for (place, id_), row in zip(names, rows, strict=True):
            if row in back and row not in found:
                found[row] = (place, id_)
        return {row: name for row, (_, name) in sorted(found.items(), key=lambda item: item[1][0])}

    def _entities(
        self, named: dict[int, str], own: int, linked: dict[int, int], back: dict[int, int]
    ) -> Iterator[Entity]:
        for row in named:
            if row == own:
                yield Entity(self.article(row), "own")
            elif row in linked:
                yield Entity(self.article(row), "linked", self._anchor(linked[row]))
            else:
                yield Entity(self.article(row), "linking", self._anchor(back[row]))


def _stems(words: Sequence[str]) -> list[str]:
    return [stem for word in words if (stem := term(word))]


def _place(name: list[str], said: list[str]) -> int:
    """Where the words of a name stand side by side in what was said; -1 if they do not."""
    for start in range(len(said) - len(name) + 1) if name else ():
        if said[start : start + len(name)] == name:
            return start
    return -1


def _without_brackets(title: str) -> str:
    """A title without what tells it from others of the same name: Mercury (planet)."""
    return re.sub(r"\([^)]*\)", " ", title)


def _possible_ids(words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """What an article that a question names may be called: neighbouring words in the usual spellings."""
    for start in range(len(words)):
        for end in range(start + 1, min(start + _LONGEST_NAME, len(words)) + 1):
            run = words[start:end]
            if end == start + 1 and not term(run[0]):
                continue
            for spelling in (run, [run[0].capitalize(), *run[1:]], [word.capitalize() for word in run]):
                for joint in "_ ":
                    yield start, joint.join(spelling)
