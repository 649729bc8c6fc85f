"""Test sets that an index asks of itself: its headings, link texts and titles, and the pages they are about.

    headings   a section's heading; relevant: its page (Dietz et al. 2017, TREC Complex Answer Retrieval)
    anchors    the words of a link and its sentence; relevant: the page that it leads to (Dang and Croft 2010,
               Query reformulation using anchor text)
    titles     a page's title; relevant: the page (known items: Azzopardi et al. 2007, Building simulated
               queries for known-item topics)

Words that cannot ask for one page are dropped and counted: those of several pages, in any language, such as
"See also"; numbers; and titles of their own pages. A passage that contains the link of a question, or a copy
of the words around it, is not a result of that question.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from linkseek.app.testsets.definition import LoadedTestSet, grouped
from linkseek.indexer.documents import document_folder
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.passages import PassageStore
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.program.text import counted
from linkseek.retriever.links.sentences import sentence_spans
from linkseek.retriever.queries import evenly_spread
from linkseek.retriever.ranking import Query, Ranking
from linkseek.retriever.search.query_words import terms_in_order, word_spans
from linkseek.retriever.search.runs import Qrels

Kind = Literal["headings", "anchors", "titles"]
KINDS: tuple[Kind, ...] = get_args(Kind)


def own_kind(name: str | None) -> Kind | None:
    """The kind of a test set's name, if it is one of `KINDS`."""
    return next((kind for kind in KINDS if kind == name), None)


SIZE = 200
"""The number of questions drawn by default."""
DRAW_SEED = 12345
MEASURES = ("MRR@10", "Success@1", "Success@10")
FOUND = "Success@10"
"""1 where the page is among the first ten."""

CAUTION = (
    "Such questions use the words of the pages: they show which pages a search misses, not which pipeline "
    "is best for questions that people ask. Headings favour search by words over vectors."
)
"""A note next to every figure."""

HOW = {
    "headings": "Headings of sections that no other page has. Relevant: the page of the section.",
    "anchors": "The words of links, with their sentences. Relevant: the page that the link leads to.",
    "titles": "Titles of pages that no other page has. Relevant: the page.",
}

_HINT = "Headings need sections, anchors need links within sentences, --test-set titles needs only titles."
_READ = 50_000  # documents, evenly spread over the index
_MIN_WORDS = {"headings": 2, "anchors": 1, "titles": 1}
_AROUND = 4  # words of a sentence besides the link's
_MAX_WORDS = 60  # of a question
_COMMON = 0.05  # share of the pages with headings that have a word, above which it says little
_COMMON_PAGES = 5
_COPY = 30  # characters on both sides of a link
MORE = 10
"""Additional results to ask for, in the place of passages that contain the link."""
_FOLDERS = 50  # groups of a report
_NUMBERING = re.compile(r"^\s*(?:(?:\d+[.):])+\d*|[ivxIVX]+[.)])\s+(?=\S)")

_Terms = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Item:
    """Words about a page. document: its row. link: the number of the link that they are of; else -1.

    sentence: the link's. copy: the words around the link, by which passages that contain it are recognised.
    """

    words: str
    document: int
    link: int = -1
    sentence: str = ""
    copy: str = ""

    @property
    def text(self) -> str:
        """The question."""
        return f"{self.words}: {self.sentence}" if self.sentence else self.words


def own_test_set(
    index: OpenIndex,
    kind: Kind,
    size: int = SIZE,
    seed: int = DRAW_SEED,
    kept: NDArray[np.bool_] | None = None,
) -> LoadedTestSet:
    """At most `size` questions that an index asks of itself, with the folders of their pages as groups.

    kept: the documents whose pages are asked for, bool [documents]; default: all. Raises `InputError` if
    nothing is left to ask, with the number that each rule dropped.
    """
    dropped: Counter[str] = Counter()
    items = [*draw(index, kind, size, seed, kept, dropped)]
    reasons = "; ".join(f"{count:,} {reason}" for reason, count in dropped.most_common())
    if not items:
        raise InputError(f"{index.path}: no {kind} for questions" + f" ({reasons})" * bool(reasons), _HINT)
    ids = [_id(index, item) for item in items]
    queries = [Query(id_, item.text) for id_, item in zip(ids, items, strict=True)]
    folders = [(id_, _folder(index, item.document)) for id_, item in zip(ids, items, strict=True)]
    notes = [f"{kind} of the index that gave no question: {reasons}"] if reasons else []
    return LoadedTestSet(
        kind,
        queries,
        {id_: {_document_id(index, item): 1} for id_, item in zip(ids, items, strict=True)},
        groups=grouped(folders) if 1 < len({name for _, name in folders}) <= _FOLDERS else {},
        measures=MEASURES,
        origin={
            "title": f"{kind.capitalize()} of the index",
            "description": f"{HOW[kind]} {CAUTION}",
            "licence": "that of the corpus",
            "source": f"{index.path.name}: {counted(len(items), 'question')} drawn by seed {seed}",
        },
        notes=(*notes, CAUTION),
        copies={id_: item.copy for id_, item in zip(ids, items, strict=True) if item.copy},
    )


def kinds_of(index: OpenIndex) -> list[Kind]:
    """The kinds of questions that a few documents of an index give."""
    return [kind for kind in KINDS if next(draw(index, kind, 1, read=200), None)]


def suggested_items(index: OpenIndex, count: int, read: int = 2_000) -> tuple[list[Query], Qrels]:
    """Questions to start with, and the pages that they are about: headings and link texts in turn, else
    titles; without the sentences of links. read: the documents that are looked at.
    """
    two = [[*draw(index, kind, count, read=read)] for kind in ("headings", "anchors")]
    items = [item for pair in zip_longest(*two) for item in pair if item]
    items = items or [*draw(index, "titles", count, read=read)]
    by_text = {item.words: item for item in items[:count]}
    queries = [Query(str(number), text) for number, text in enumerate(by_text)]
    judged = {query.id: {_document_id(index, by_text[query.text]): 1} for query in queries}
    return queries, judged


def draw(
    index: OpenIndex,
    kind: Kind,
    size: int,
    seed: int = DRAW_SEED,
    kept: NDArray[np.bool_] | None = None,
    dropped: Counter[str] | None = None,
    read: int = _READ,
) -> Iterator[Item]:
    """Items in random order: one of every page before the second of any. dropped: counts of each rule."""
    rows = evenly_spread(range(len(index.documents)), read)
    dropped = Counter[str]() if dropped is None else dropped
    items = [*_usable(index, kind, [*_RAW[kind](index, rows)], kept, dropped)]
    order = np.random.default_rng(seed).permutation(len(items)).tolist()
    turn: Counter[int] = Counter()
    turns: list[tuple[int, int, int]] = []  # of its page, of all, the place
    for place in order:
        document = items[place].document
        turns.append((turn[document], len(turns), place))
        turn[document] += 1
    drawn = 0
    for *_, place in sorted(turns):
        item = items[place] if kind != "anchors" else _with_sentence(index, items[place], dropped)
        if item is not None and drawn < size:
            drawn += 1
            yield item


def without_copies(ranking: Ranking, passages: PassageStore, copies: Mapping[str, str], k: int) -> Ranking:
    """The k best of a ranking without the passages that contain the words around the link of the question.

    copies: those words by query id.
    """
    rows = ranking.rows.copy()  # [Q, k + more]
    for place, query_id in enumerate(ranking.query_ids):
        copy = copies.get(query_id)
        if copy:
            held = [row >= 0 and copy in _plain(passages[row].text) for row in rows[place].tolist()]
            rows[place, held] = -1
    return Ranking.of(ranking.query_ids, rows, ranking.scores, k, ranking.paths)


def _headings(index: OpenIndex, rows: Sequence[int]) -> Iterator[Item]:
    for row in rows:
        for section in index.documents.table.value("sections", row) or ():
            yield Item(_NUMBERING.sub("", _plain(section["heading"])), row)


def _anchors(index: OpenIndex, rows: Sequence[int]) -> Iterator[Item]:
    graph, offsets = index.links, index.passages.offsets
    for row in rows:
        begin, end = (int(graph.offsets[passage]) for passage in offsets[row : row + 2])
        for link in range(begin, end):
            target = int(graph.target[link])
            if target != row:
                text = str(index.passages.table.value("text", int(graph.passage[link])))
                yield Item(_plain(text[int(graph.start[link]) : int(graph.end[link])]), target, link)


def _titles(index: OpenIndex, rows: Sequence[int]) -> Iterator[Item]:
    for row in rows:
        yield Item(_plain(str(index.documents.table.value("title", row))), row)


_RAW: Mapping[Kind, Callable[[OpenIndex, Sequence[int]], Iterator[Item]]]
_RAW = {"headings": _headings, "anchors": _anchors, "titles": _titles}


def _usable(
    index: OpenIndex, kind: Kind, items: list[Item], kept: NDArray[np.bool_] | None, dropped: Counter[str]
) -> Iterator[Item]:
    """The items about pages that are kept whose words can ask for one page, each once."""
    terms = [terms_in_order(item.words, index.language) for item in items]
    pages: defaultdict[_Terms, set[int]] = defaultdict(set)
    pages_of_word: defaultdict[str, set[int]] = defaultdict(set)
    for item, own in zip(items, terms, strict=True):
        pages[own].add(item.document)
        for word in own if kind == "headings" else ():
            pages_of_word[word].add(item.document)
    many = max(_COMMON * len({item.document for item in items}), _COMMON_PAGES)
    common = {word for word, having in pages_of_word.items() if len(having) > many}
    offsets, used = index.passages.offsets, set[tuple[int, _Terms]]()
    for item, own in zip(items, terms, strict=True):
        row = item.document
        if kept is not None and not kept[row]:
            continue
        if kind != "titles" and not any(letter.isalpha() for word in own for letter in word):
            reason = "without a word"
        elif not _MIN_WORDS[kind] <= len(own) <= _MAX_WORDS:
            reason = "with too few or too many words"
        elif len(pages[own]) > 1:
            reason = "shared by several pages"
        elif kind != "titles" and own == _title_terms(index, row):
            reason = "that are the page's title"
        elif common.issuperset(own):
            reason = "with words of many pages' headings"
        elif (row, own) in used:
            reason = "that occur twice"
        elif offsets[row] == offsets[row + 1]:
            reason = "of pages without text"
        else:
            used.add((row, own))
            yield item
            continue
        dropped[reason] += 1


def _with_sentence(index: OpenIndex, item: Item, dropped: Counter[str]) -> Item | None:
    """An anchor with its sentence; None where that is impossible."""
    graph = index.links
    text = str(index.passages.table.value("text", int(graph.passage[item.link])))
    start, end = int(graph.start[item.link]), int(graph.end[item.link])
    spans = (span for span in sentence_spans(text, index.language) if span[0] <= start < span[1])
    first, last = next(spans, (start, end))
    last = max(last, end)
    sentence = _plain(text[first:last])
    copy = _plain(text[max(first, start - _COPY) : min(last, end + _COPY)])
    own = map(int, index.passages.offsets[item.document : item.document + 2])
    words, around = (sum(1 for _ in word_spans(part, index.language)) for part in (item.words, sentence))
    if around < words + _AROUND:
        reason = "without a sentence"
    elif around > _MAX_WORDS:
        reason = "in sentences that are too long"
    elif any(copy in _plain(index.passages[row].text) for row in range(*own)):
        reason = "whose sentence is on the page that they lead to"
    else:
        return replace(item, sentence=sentence, copy=copy)
    dropped[reason] += 1
    return None


def _title_terms(index: OpenIndex, row: int) -> _Terms:
    """The words of a title, without what distinguishes it in brackets."""
    title = str(index.documents.table.value("title", row))
    return terms_in_order(title.partition(" (")[0], index.language)


def _document_id(index: OpenIndex, item: Item) -> str:
    return str(index.documents.table.value("id", item.document))


def _folder(index: OpenIndex, row: int) -> str:
    table = index.documents.table
    return document_folder(str(table.value("id", row)), str(table.value("url", row) or "")) or "/"


def _id(index: OpenIndex, item: Item) -> str:
    """The same for the same question in another draw, so that two reports can be compared."""
    return hashlib.sha256(f"{_document_id(index, item)}\0{item.text}".encode()).hexdigest()[:12]


def _plain(text: str) -> str:
    return " ".join(text.split())
