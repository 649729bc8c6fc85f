"""2WikiMultihopQA's paragraphs with hyperlinks: `para_with_hyperlink.jsonl` (Ho et al. 2020).

A line is the first paragraph of an article: `{"id", "title", "sentences", "mentions"}`. A mention is a link:
`{"sent_idx", "start", "end", "ref_url"}`, with offsets in characters of its sentence. Titles are ids, as
2WikiMultihopQA judges them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from experiments.readers.hotpotqa import title_of
from linkseek.indexer.documents import Document, Link
from linkseek.indexer.readers.jsonl import field_text, first_object_has, load_object
from linkseek.indexer.readers.reader import Outcome, Reader, Record, damaged


class TwoWikiReader(Reader):
    """A paragraph a line."""

    name = "2wiki"
    description = "2WikiMultihopQA's `para_with_hyperlink.jsonl`; `python -m experiments build`"
    passage = "a paragraph"
    passage_words = 0

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """The first line is an object with `sentences` and `mentions`."""
        return first_object_has(head, "title", "sentences", "mentions")

    def parse(self, record: Record) -> Iterable[Outcome]:
        """One document."""
        row = load_object(record.payload)
        title, sentences = field_text(row, "title"), row.get("sentences")
        if not isinstance(sentences, list) or not all(isinstance(text, str) for text in sentences):
            raise damaged('"sentences" is not a list of texts', "record")
        starts, text = [], ""
        for sentence in sentences:
            text += " " if text and not text[-1].isspace() and not sentence[:1].isspace() else ""
            starts.append(len(text))
            text += sentence
        links = [link for mention in row.get("mentions") or () for link in _links(mention, sentences, starts)]
        yield Document(
            id=title, title=title, text=text, links=tuple(sorted(links, key=lambda link: link.start))
        )


def _links(mention: Any, sentences: Sequence[str], starts: Sequence[int]) -> Iterable[Link]:
    """The link of a mention; none where its target is unknown."""
    if not isinstance(mention, dict):
        raise damaged(f'"mentions" holds {type(mention).__name__}, expected objects', "record")
    if not isinstance(mention.get("ref_url"), str):
        return
    number, start, end = (mention.get(name) for name in ("sent_idx", "start", "end"))
    if not (isinstance(number, int) and 0 <= number < len(starts)):
        raise damaged(f'"sent_idx" is {number!r}, of {len(starts)} sentences', "record")
    if not (isinstance(start, int) and isinstance(end, int) and 0 <= start < end <= len(sentences[number])):
        raise damaged(f"a mention at {start!r} to {end!r}, outside its sentence", "record")
    target = title_of(unquote(mention["ref_url"]))
    if target:
        yield Link(starts[number] + start, starts[number] + end, target)
