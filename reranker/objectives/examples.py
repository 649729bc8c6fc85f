"""Contrasts for people: shared by the examples of several objectives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from linkseek.indexer.program.text import WORD
from linkseek.reranker.contrasts import TextPair
from linkseek.reranker.objectives.source import ContrastSource
from linkseek.retriever.links.sentences import Span
from linkseek.retriever.mining.examples import Text, passage_text


def document_text(pair: TextPair, id_: str = "", note: str = "") -> Text:
    """The document of a pair."""
    return Text(pair.document, document_id=id_, title=pair.title, note=note)


def compared_text(better: TextPair, worse: TextPair, document_id: str) -> Text:
    """The document that two sets of words are compared for, with the words of both marked."""

    def spans(query: str) -> tuple[Span, ...]:
        words = set(query.lower().split())
        matches = WORD.finditer(better.document)
        return tuple(match.span() for match in matches if match.group().lower() in words)

    return replace(document_text(better, document_id), marks=spans(worse.query), strong=spans(better.query))


def text_around(source: ContrastSource, link: Mapping[str, Any], text: str) -> Text:
    """A text from the passage that holds a link (`ContrastSource.link_evidence`)."""
    (row,) = source.index.passages.rows_of([link["passage_id"]]).tolist()
    return passage_text(source, row, text)
