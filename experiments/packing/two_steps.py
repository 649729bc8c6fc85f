"""Questions of two steps over the links that editors set: a section that asks leads to a page that answers.

    NAME/docs.jsonl.zst          the pages with their sections and links
    NAME/queries.test.jsonl.gz   questions; "path" names the two pages, "anchor" the link between them
    NAME/qrels.test.txt          relevant: both pages

The rule: a sentence of a section contains a link to another page, and that page has a section of `MIN_WORDS`
words or more. The question is the sentence with an ellipsis in place of the anchor, and the heading of the
section that answers:

    "Start … before the network": what does the page on "…" say about Configuration files?

The sentence has `MIN_SENTENCE` to `MAX_SENTENCE` words without the anchor, and one link. Neither it nor the
heading has a word of the anchor or of the title of the page that answers, and the section that asks has no
word of the heading. So the page that answers can be known by the link alone. Each page is in one question at
most; the links are drawn at random.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial

from experiments.packing.held_out import row_of, within
from experiments.packing.rows import Files, Row, collection
from linkseek.indexer.documents import Document, Link
from linkseek.retriever.links.sentences import sentence_spans
from linkseek.retriever.search.query_words import terms
from linkseek.retriever.search.runs import encode_id

MIN_SENTENCE, MAX_SENTENCE = 8, 40
MIN_WORDS = 20
SEED = 1


def two_steps(name: str, pages: Sequence[Document], count: int = 40) -> Files:
    """The files of a corpus. count: of questions, at most."""
    draw, asked = random.Random(SEED), list[Row]()
    known = {page.id: page for page in pages}
    headings = cache(lambda id_: list(_headings(known[id_])))
    candidates = [row for page in pages for row in _questions(page, known, headings, draw)]
    draw.shuffle(candidates)
    used: set[str] = set()
    for row in candidates:
        if used.isdisjoint(row["path"]) and len(asked) < count:
            used.update(row["path"])
            asked.append({"id": f"two-{len(asked) + 1:02}"} | row)
    documents = [row_of(within(page, known)) for page in pages]
    judgements = [f"{row['id']} 0 {encode_id(page)} 1" for row in asked for page in row["path"]]
    return collection(name, documents, "test", asked, judgements)


Headings = list[tuple[str, frozenset[str]]]
"""The headings of a page that answers, and their words."""


def _headings(page: Document) -> Iterator[tuple[str, frozenset[str]]]:
    for heading, start, end in sections(page):
        if len(page.text[start:end].split()) >= MIN_WORDS and terms(heading):
            yield heading, terms(heading)


def _questions(
    page: Document, known: dict[str, Document], headings: Callable[[str], Headings], draw: random.Random
) -> Iterator[Row]:
    """Those that the sections of a page ask."""
    for heading, start, end in sections(page):
        read = cache(partial(terms, f"{heading} {page.text[start:end]}"))
        own_links = [link for link in page.links if link.start < end and link.end > start]
        for first, last in sentence_spans(page.text[start:end]) if own_links else ():
            sentence = (start + first, start + last)
            links = [x for x in own_links if x.start < sentence[1] and x.end > sentence[0]]
            if len(links) == 1 and links[0].target != page.id and links[0].target in known:
                yield from _question(page, sentence, links[0], known[links[0].target], headings, read, draw)


def _question(
    page: Document,
    sentence: tuple[int, int],
    link: Link,
    answering: Document,
    headings: Callable[[str], Headings],
    read: Callable[[], frozenset[str]],
    draw: random.Random,
) -> Iterator[Row]:
    """One question at most. headings: of a page. read: the words of the section that asks."""
    if link.start < sentence[0] or link.end > sentence[1]:
        return
    anchor = page.text[link.start : link.end]
    rest = page.text[sentence[0] : link.start], page.text[link.end : sentence[1]]
    names = terms(f"{anchor} {answering.title}")
    length = len(" ".join(rest).split())
    if not MIN_SENTENCE <= length <= MAX_SENTENCE or not names.isdisjoint(terms(" ".join(rest))):
        return
    asked = [heading for heading, words in headings(answering.id) if words.isdisjoint(names | read())]
    if asked:
        text = " ".join(f"{rest[0]}…{rest[1]}".split()).rstrip(".")
        yield {
            "text": f'"{text}": what does the page on "…" say about {draw.choice(asked)}?',
            "answers": [answering.title],
            "path": [page.id, answering.id],
            "anchor": anchor,
        }


def sections(page: Document) -> Iterator[tuple[str, int, int]]:
    """The heading, start and end of each section; the lead is skipped."""
    ends = [*(section.start for section in page.sections[1:]), len(page.text)]
    for section, end in zip(page.sections, ends[: len(page.sections)], strict=True):
        yield " ".join(section.heading.split()).rstrip(":"), section.start, end
