"""Evidence that a passage answers a question: the hyperlinks around both, without mining an index.

    entities      articles that the question names, by title, id or anchor, and that hold the passage, are
                  linked from it, or link to it
    dual links    articles that the passage links to and that link back to its article
    co-mentions   an article and a rare third one: a passage of the article and this passage both link to it

Dual links and co-mentions are those of `retriever.links.topology` (HLP, section 3.2), among the links around
the passage: the cost is that of the links of the passage, of the articles that it links to, and of those that
link to its article.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from app.around.query_words import term
from indexer.index import Index
from indexer.store.ids import hash_ids
from retriever.links.neighbourhood import around_passage
from retriever.links.topology import Topology

_WORD = re.compile(r"\w+")
_MAX_NAME_WORDS = 6  # of the question that may be one article's id
_MAX_WORDS = 200  # of the question that may hold names
_MAX_LINKING = 20_000  # links to an article that count: a country is linked from everywhere


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

    asks: whether the query is from this one, so that the other links to this passage's article; otherwise
    the query is from the other, and this one links to `article`.
    """

    article: Article
    shared: Article
    asks: bool


@dataclass(frozen=True, slots=True)
class LinkEvidence:
    """The hyperlinks of one passage, and those between it and the question."""

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
        self._topology = Topology(index.links, np.asarray(index.passages.offsets))

    def of(self, question: str, row: int) -> LinkEvidence:
        """The evidence for the passage at a row.

        Co-mentions are pairs of c of C and d of D with anchors to an E whose in-degree is below K: HLP's
        query is from c and its passage is d, which has an anchor to C. The passage may be either of them.
        """
        near, links = around_passage(self._topology, row, _MAX_LINKING), self._links
        own = int(self._index.passages.document_rows(np.array([row]))[0])
        text = str(self._index.passages.table.value("text", row))
        anchors = [link for link in links.from_passage(row) if links.target[link] != own]  # reading order
        linked = {int(links.target[link]): link for link in reversed(anchors)}  # the first link to each
        to_own = near.target == own
        linking = zip(near.source[to_own][::-1].tolist(), near.link[to_own][::-1].tolist(), strict=True)
        back = dict(linking)  # the first link of each
        named = self._named(question, own, anchors, back)
        return LinkEvidence(
            self.article(own),
            tuple(self._entities(named, own, linked, back)),
            tuple(
                Anchor(
                    int(links.start[link]),
                    min(int(links.end[link]), len(text)),
                    self.article(int(links.target[link])),
                    int(links.target[link]) in named,
                )
                for link in anchors
            ),
            tuple(
                DualLink(self.article(target), self._anchor(link), self._anchor(back[target]))
                for target, link in sorted(linked.items(), key=lambda item: item[1])
                if target in back
            ),
            tuple(self._co_mentions(near, row)),
        )

    def _co_mentions(self, near: Topology, row: int) -> Iterator[CoMention]:
        """Those with a query from elsewhere first; each pair of articles once, in reading order."""
        pairs = near.co_mentions(every_shared=True)
        found, asking = pairs[pairs.positive == row], pairs[pairs.query == row]
        found = found[np.lexsort((found.shared_link, found.positive_link))]
        asking = asking[np.argsort(asking.shared_link, kind="stable")]
        for others, mentions, asks in ((found.query, found, False), (asking.positive, asking, True)):
            articles = self._index.passages.document_rows(others.astype(np.int64)).tolist()
            thirds = self._links.target[mentions.shared_link].tolist()
            for article, shared in dict.fromkeys(zip(articles, thirds, strict=True)):
                yield CoMention(self.article(article), self.article(shared), asks)

    def article(self, row: int) -> Article:
        """A document's id and title; the id stands for a blank title."""
        id_ = str(self._index.documents.table.value("id", row))
        title = str(self._index.documents.table.value("title", row))
        return Article(row, id_, title if title.strip() else id_)

    def _anchor(self, link: int) -> str:
        text = str(self._index.passages.table.value("text", int(self._links.passage[link])))
        return text[int(self._links.start[link]) : int(self._links.end[link])].strip()

    # --- the question ---------------------------------------------------------------------------

    def _named(self, question: str, own: int, links: Sequence[int], back: dict[int, int]) -> dict[int, str]:
        """The articles that the question names -> their names in it, in the order of the question.

        These may be the passage's own article, those that it links to, by title and anchor, and articles that
        link here and have words of the question as their id.
        """
        words = _WORD.findall(question)[:_MAX_WORDS]
        stems = _stems(words)
        named: dict[int, tuple[int, str]] = {}

        def look_for(document: int, name: str) -> None:
            without_brackets = re.sub(r"\([^)]*\)", " ", name)  # Mercury (planet)
            place = _place(_stems(_WORD.findall(without_brackets)), stems)
            if place >= 0:
                named.setdefault(document, (place, name))

        look_for(own, self.article(own).title)
        for link in links:
            target = int(self._links.target[link])
            look_for(target, self.article(target).title)
            look_for(target, self._anchor(link))
        names = list(_possible_ids(words))
        rows = self._index.document_ids.rows(hash_ids(id_ for _, id_ in names)).tolist()
        for (place, id_), row in zip(names, rows, strict=True):
            if row in back:
                named.setdefault(row, (place, id_))
        return {row: name for row, (_, name) in sorted(named.items(), key=lambda item: item[1][0])}

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


def _place(name: list[str], question: list[str]) -> int:
    """The place of the words of a name, one after another, in a question; -1 for none."""
    for start in range(len(question) - len(name) + 1) if name else ():
        if question[start : start + len(name)] == name:
            return start
    return -1


def _possible_ids(words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Possible ids of articles that a question names: neighbouring words in the usual spellings."""
    for start in range(len(words)):
        for end in range(start + 1, min(start + _MAX_NAME_WORDS, len(words)) + 1):
            run = words[start:end]
            if end == start + 1 and not term(run[0]):
                continue
            for spelling in (run, [run[0].capitalize(), *run[1:]], [word.capitalize() for word in run]):
                for joint in "_ ":
                    yield start, joint.join(spelling)
