"""An index as objectives read it: links joined by `Topology`, texts by passage, sentences and anchors."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError
from linkseek.retriever.links.sentences import Span, sentence_spans
from linkseek.retriever.links.topology import Topology


class LinkSource:
    """An index to mine from."""

    def __init__(self, index: OpenIndex, language: str | None = None) -> None:
        """language: for finding sentences; the index's by default."""
        self.index, self.language = index, language or index.language
        self.is_named = language is not None
        self.topology = Topology(index.links, np.asarray(index.passages.offsets))

    @property
    def missing_links(self) -> str:
        """The reason for missing links between documents; empty if there are links."""
        counts = self.index.manifest.counts
        if counts.between_documents:
            return ""
        return (
            f"needs links between documents, and the index has none ({counts.dangling:,} links lead to "
            f"nothing, {counts.cut:,} are cut by a passage's end)"
        )

    def document_id(self, document: int) -> str:
        """A document's id."""
        return str(self.index.documents.table.value("id", document))

    def title(self, document: int) -> str:
        """A document's title."""
        return str(self.index.documents.table.value("title", document))

    def text(self, passage: int) -> str:
        """A passage's text."""
        return str(self.index.passages.table.value("text", passage))

    def sentences(self, text: str) -> tuple[Span, ...]:
        """The sentences of a text."""
        return sentence_spans(text, self.language)

    def first_section(self, document: int) -> str:
        """The text before a document's first heading; its first passage if there is no such text."""
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

    def anchor_sentence(self, link: int) -> str:
        """The sentence that contains a link's anchor, extended to the anchor's end if that is in the next
        one.

        Raises `InputError` for a blank anchor.
        """
        links = self.index.links
        text = self.text(int(links.passage[link]))
        start, end = stripped_span(text, int(links.start[link]), int(links.end[link]))
        for first, last in self.sentences(text):
            if first <= start < last:
                return text[first : max(last, end)]
        raise InputError(
            f"{self.index.path}: the anchor of link {link} is blank",
            "Build the index again from a corpus whose anchors have text.",
        )

    def link_evidence(self, link: int) -> dict[str, Any]:
        """A link for people: its passage, its place there in characters, its anchor and its target."""
        graph = self.index.links
        passage, start, end = int(graph.passage[link]), int(graph.start[link]), int(graph.end[link])
        place = {"passage_id": self.index.passages.ids([passage])[0], "start": start, "end": end}
        anchor, target = self.text(passage)[start:end], self.document_id(int(graph.target[link]))
        return {**place, "anchor": anchor, "target": target}


def stripped_span(text: str, start: int, end: int) -> Span:
    """The span without the white space at its ends."""
    anchor = text[start:end]
    return start + len(anchor) - len(anchor.lstrip()), start + len(anchor.rstrip())
