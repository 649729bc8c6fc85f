"""HotpotQA's Wikipedia of October 2017 with the editors' own links, abstracts or whole articles.

The unpacked folder (AA/wiki_00.bz2), or one of its files. A line is an article: `{"id", "url", "title",
"text", "charoffset"}`, of abstracts also `"text_with_links"`. A text is a list of sentences, or a list of
paragraphs that are such lists; links are `<a href="TITLE">`. Titles are ids, as HotpotQA judges them.

Source: https://hotpotqa.github.io/wiki-readme.html.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from linkseek.indexer.documents import Document
from linkseek.indexer.readers.jsonl import (
    TITLE,
    cut_anchors,
    field_text,
    first_object_has,
    load_object,
    title_key,
)
from linkseek.indexer.readers.reader import Ignored, Outcome, Record, damaged
from linkseek.indexer.readers.wiki_json import WikiextractorReader, sentence
from linkseek.indexer.wikitext.link_targets import WITHOUT_TEXT


class HotpotQAReader(WikiextractorReader):
    """An article a line."""

    name = "hotpotqa"
    description = "HotpotQA's Wikipedia with links, the unpacked folder; `python -m experiments build`"
    costly = True

    @classmethod
    def recognises_file(cls, head: bytes) -> bool:
        """The first object has `text_with_links` or `charoffset`."""
        return first_object_has(head, "title", "text_with_links") or first_object_has(
            head, "title", "text", "charoffset"
        )

    def parse(self, record: Record) -> Iterable[Outcome]:
        """One document."""
        row = load_object(record.payload)
        title = field_text(row, "title")
        page, lost = cut_anchors(_joined(row.get("text_with_links", row.get("text"))))
        if lost:
            yield Ignored(WITHOUT_TEXT, lost)
        if not page.text.strip():
            yield Ignored("empty page")
            return
        named = tuple(replace(link, target=link.target.removeprefix(TITLE)) for link in page.links)
        yield Document(title, title, page.text, named, (), field_text(row, "url", default=""))


def _joined(value: Any) -> str:
    """Sentences, or paragraphs of sentences."""
    if not isinstance(value, list):
        raise damaged(f'"text" is {type(value).__name__}, expected a list of sentences', "record")
    paragraphs = value if value and isinstance(value[0], list) else [value]
    if not all(isinstance(paragraph, list) for paragraph in paragraphs):
        raise damaged('"text" holds sentences and paragraphs', "record")
    return "\n\n".join(filter(None, ("".join(map(sentence, paragraph)) for paragraph in paragraphs)))


def title_of(target: str) -> str:
    """The title of the article that a link leads to, as Wikipedia writes titles: "Political philosophy"."""
    return title_key(target.partition("#")[0]).removeprefix(TITLE)
