"""Questions from an index itself, for comparing pipelines without a test set.

Headings and link texts are what its authors call its topics. They are taken from documents that are evenly
spread over the index, without any chance: the same index always suggests the same questions.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from linkseek.app.context.known_questions import KnownQuestions
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.language.codes import ENGLISH
from linkseek.retriever.queries import evenly_spread
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.query_words import word_spans

_OFFERED = 60
_DOCUMENTS = 2_000  # read at most
_LINKS = 200  # of a document
_ALONE = range(5, 13)  # words of a heading that says enough without its title
_WITH_TITLE = range(2, 13)
_ANCHOR_WORDS = range(2, 13)


HOW = (
    "Headings and link texts, from documents that are evenly spread over the index. No other document has "
    "such a heading; short ones follow its title. A link text leads to one document and is not its title."
)
"""A sentence on how questions are chosen."""


def own_questions(index: OpenIndex) -> KnownQuestions:
    """Questions from an index, without known answers."""
    texts = suggest_questions(index, _OFFERED)
    return KnownQuestions([Query(str(number), text) for number, text in enumerate(texts)])


def suggest_questions(index: OpenIndex, count: int) -> list[str]:
    """At most `count` questions: headings and link texts in turn, no two of one kind from one document.

    Only headings that no other document has, of those that are read, are chosen. One of five words or more
    stands alone; a shorter one follows the title of its document. A link text has two words or more, leads
    to one document only, and is not its title.
    """
    rows = evenly_spread(range(len(index.documents)), _DOCUMENTS)
    headings, anchors = [*_headings(index, rows)], [*_anchors(index, rows)]
    half = -(-count // 2)
    anchors = evenly_spread(anchors, max(half, count - len(headings)))
    pairs = zip_longest(evenly_spread(headings, count - min(half, len(anchors))), anchors)
    return list(dict.fromkeys(text for pair in pairs for text in pair if text))[:count]


def _headings(index: OpenIndex, rows: Sequence[int]) -> Iterator[str]:
    """One for each document that has any: the first that no other has, or else the first with the title."""
    table = index.documents.table
    headings = [
        [_plain(section["heading"]) for section in table.value("sections", row) or []] for row in rows
    ]
    documents = Counter(heading.casefold() for texts in headings for heading in {*texts})
    for row, texts in zip(rows, headings, strict=True):
        own = [text for text in texts if documents[text.casefold()] == 1]
        alone = next((text for text in own if _words(index, text) in _ALONE), "")
        title = _plain(str(table.value("title", row)))
        if alone:
            yield alone
        elif own and title and _words(index, f"{title} {own[0]}") in _WITH_TITLE:
            yield f"{title}: {own[0]}"


def _anchors(index: OpenIndex, rows: Sequence[int]) -> Iterator[str]:
    """One for each document that has any."""
    graph, table = index.links, index.passages.table
    anchors: list[list[str]] = []
    targets: defaultdict[str, set[int]] = defaultdict(set)
    for row in rows:
        begin, end = (int(graph.offsets[passage]) for passage in index.passages.offsets[row : row + 2])
        texts = []
        for link in range(begin, min(end, begin + _LINKS)):
            text = str(table.value("text", int(graph.passage[link])))
            anchor = _plain(text[int(graph.start[link]) : int(graph.end[link])])
            target = int(graph.target[link])
            targets[anchor.casefold()].add(target)
            if target != row and _words(index, anchor) in _ANCHOR_WORDS:
                texts.append(anchor)
        anchors.append(texts)
    used: set[str] = set()
    for texts in anchors:
        for anchor in texts:
            folded = anchor.casefold()
            if folded in used or len(targets[folded]) > 1:
                continue
            [target] = targets[folded]
            title = _plain(str(index.documents.table.value("title", target)))
            if folded != title.casefold().partition(" (")[0]:
                used.add(folded)
                yield anchor
                break


def _words(index: OpenIndex, text: str) -> int:
    """How many words a text has, also in languages without blanks between them."""
    if index.language == ENGLISH:
        return len(text.split())
    return sum(1 for _ in word_spans(text, index.language))


def _plain(text: str) -> str:
    return " ".join(text.split())
