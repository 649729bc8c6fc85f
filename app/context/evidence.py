"""Evidence that a passage answers a question: the hyperlinks around both, without mining an index.

    entities      articles that the question names, by title, id or anchor, and that contain the passage, are
        linked from it, or link to it
    dual links    articles that the passage links to and that link back to its article
    co-mentions   an article and a rare third one: a passage of the article and this passage both link to it

Dual links and co-mentions are defined as in `retriever.links.topology` (HLP, section 3.2), among the links
around the passage: the cost grows with the links of the passage, of the articles that it links to, and of the
articles that link to its article.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from linkseek.app.context.article import Anchor
from linkseek.app.context.titles import ArticleName, article_name
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.store.ids import hash_ids
from linkseek.retriever.links.neighbourhood import around_passage
from linkseek.retriever.links.topology import Topology
from linkseek.retriever.search.query_words import term, word_spans

_WORD = re.compile(r"\w+")
_MAX_NAME_WORDS = 6  # of the question that may be one article's id
_MAX_WORDS = 200  # of the question that may contain names
_MAX_LINKING = 20_000  # links to an article that count: a country is linked from everywhere


@dataclass(frozen=True, slots=True)
class Entity:
    """An article that the question names. relation: "own", "linked" or "linking", seen from the passage."""

    article: ArticleName
    relation: str
    anchor: str = ""


@dataclass(frozen=True, slots=True)
class DualLinkEvidence:
    """An article that this passage links to, and that links back; `here` and `there` are the anchors."""

    article: ArticleName
    here: str
    there: str


@dataclass(frozen=True, slots=True)
class CoMentionEvidence:
    """This passage and one of `article` both link to `shared`, and one of them to the other's article.

    asks: whether the query is from this one, so that the other links to this passage's article; otherwise
    the query is from the other, and this one links to `article`.
    """

    article: ArticleName
    shared: ArticleName
    asks: bool


@dataclass(frozen=True, slots=True)
class LinkEvidence:
    """The hyperlinks of one passage, and those between it and the question."""

    article: ArticleName
    entities: tuple[Entity, ...]
    anchors: tuple[Anchor, ...]
    dual_links: tuple[DualLinkEvidence, ...]
    co_mentions: tuple[CoMentionEvidence, ...]


class Evidence:
    """The hyperlinks of one index, for any thread."""

    def __init__(self, index: OpenIndex, topology: Topology) -> None:
        """topology: the topology of the whole index."""
        self._index, self._links, self._topology = index, index.links, topology

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
            self._article(own),
            tuple(self._entities(named, own, linked, back)),
            tuple(
                Anchor(
                    int(links.start[link]),
                    min(int(links.end[link]), len(text)),
                    self._article(int(links.target[link])),
                )
                for link in anchors
            ),
            tuple(
                DualLinkEvidence(self._article(target), self._anchor(link), self._anchor(back[target]))
                for target, link in sorted(linked.items(), key=lambda item: item[1])
                if target in back
            ),
            tuple(self._co_mentions(near, row)),
        )

    def _co_mentions(self, near: Topology, row: int) -> Iterator[CoMentionEvidence]:
        """Those with a query from elsewhere first; each pair of articles once, in reading order."""
        pairs = near.co_mentions(every_shared=True)
        asked, asking = pairs[pairs.positive == row], pairs[pairs.query == row]
        asked = asked[np.lexsort((asked.shared_link, asked.positive_link))]
        asking = asking[np.argsort(asking.shared_link, kind="stable")]
        for others, mentions, asks in ((asked.query, asked, False), (asking.positive, asking, True)):
            articles = self._index.passages.document_rows(others.astype(np.int64)).tolist()
            thirds = self._links.target[mentions.shared_link].tolist()
            for article, shared in dict.fromkeys(zip(articles, thirds, strict=True)):
                yield CoMentionEvidence(self._article(article), self._article(shared), asks)

    def _article(self, row: int) -> ArticleName:
        return article_name(self._index, row)

    def _anchor(self, link: int) -> str:
        text = str(self._index.passages.table.value("text", int(self._links.passage[link])))
        return text[int(self._links.start[link]) : int(self._links.end[link])].strip()

    def _named(self, question: str, own: int, links: Sequence[int], back: dict[int, int]) -> list[int]:
        """The articles that the question names, in its order.

        These may be the passage's own article, articles that it links to, by title and anchor, and articles
        that link here and whose id consists of words of the question.
        """
        words = _WORD.findall(question)[:_MAX_WORDS]
        language = self._index.language
        stems = _stems(question, language)[:_MAX_WORDS]
        places: dict[int, int] = {}

        def look_for(document: int, name: str) -> None:
            without_brackets = re.sub(r"\([^)]*\)", " ", name)  # Mercury (planet)
            place = _place(_stems(without_brackets, language), stems)
            if place >= 0:
                places.setdefault(document, place)

        look_for(own, self._article(own).title)
        for link in links:
            target = int(self._links.target[link])
            look_for(target, self._article(target).title)
            look_for(target, self._anchor(link))
        names = list(_possible_ids(words, language))
        rows = self._index.document_ids.rows(hash_ids(id_ for _, id_ in names)).tolist()
        for (place, _), row in zip(names, rows, strict=True):
            if row in back:
                places.setdefault(row, place)
        return sorted(places, key=places.__getitem__)

    def _entities(
        self, named: Sequence[int], own: int, linked: dict[int, int], back: dict[int, int]
    ) -> Iterator[Entity]:
        for row in named:
            if row == own:
                yield Entity(self._article(row), "own")
            elif row in linked:
                yield Entity(self._article(row), "linked", self._anchor(linked[row]))
            else:
                yield Entity(self._article(row), "linking", self._anchor(back[row]))


def _stems(text: str, language: str) -> list[str]:
    words = (text[start:end] for start, end in word_spans(text, language))
    return [stem for word in words if (stem := term(word, language))]


def _place(name: list[str], question: list[str]) -> int:
    """The place of the words of a name, one after another, in a question; -1 for none."""
    for start in range(len(question) - len(name) + 1) if name else ():
        if question[start : start + len(name)] == name:
            return start
    return -1


def _possible_ids(words: Sequence[str], language: str) -> Iterator[tuple[int, str]]:
    """Possible ids of articles that a question names: neighbouring words in the usual spellings."""
    for start in range(len(words)):
        for end in range(start + 1, min(start + _MAX_NAME_WORDS, len(words)) + 1):
            run = words[start:end]
            if end == start + 1 and not term(run[0], language):
                continue
            for spelling in (run, [run[0].capitalize(), *run[1:]], [word.capitalize() for word in run]):
                for joint in "_ ":
                    yield start, joint.join(spelling)
