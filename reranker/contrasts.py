"""Contrasts: a pair of query and document that should score higher than others, as JSON lines.

    {"objective": "php-hp", "better": PAIR, "worse": [PAIR, ...], "evidence": {...}}
    PAIR: {"query": "...", "title": "...", "document": "...", "anchors": [[start, end], ...]}

One object a line. PROP and HARP have one worse pair in a contrast, PHP many. A worse pair omits the fields
that it shares with the better one: "query" if only the document differs, "title" and "document" if only the
query differs.
Empty titles, anchors and evidence are omitted as well. Titles are separate from documents, since training
decides whether they are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from linkseek.indexer.files.json_stream import json_object
from linkseek.indexer.files.sources import open_source, read_lines
from linkseek.indexer.program.errors import InputError

_EXPECTED = (
    'Expected one contrast per line: {"objective": ..., "better": {"query", "document"}, '
    '"worse": [{"document"}, ...]}; linkseek mine-contrasts writes them.'
)


@dataclass(frozen=True, slots=True)
class TextPair:
    """A query and a document, which a cross-encoder reads together.

    anchors: the spans of the query that link to the document, in characters, half-open, ascending, disjoint.
    """

    query: str
    document: str
    title: str = ""
    anchors: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Contrast:
    """A pair that should score higher than all the worse ones.

    objective: the one that made it. evidence: its documents, links and numbers, for people.
    """

    better: TextPair
    worse: tuple[TextPair, ...]
    objective: str
    evidence: dict[str, Any] = field(default_factory=dict)


def contrast_line(contrast: Contrast) -> bytes:
    """One line of JSON, with its line break."""
    worse = [_pair_row(pair, contrast.better) for pair in contrast.worse]
    row: dict[str, Any] = {"objective": contrast.objective, "better": _pair_row(contrast.better)}
    row["worse"] = worse
    if contrast.evidence:
        row["evidence"] = contrast.evidence
    return orjson.dumps(row) + b"\n"


def _pair_row(pair: TextPair, better: TextPair | None = None) -> dict[str, Any]:
    row: dict[str, Any] = {}
    if better is None or pair.query != better.query:
        row["query"] = pair.query
    if better is None or (pair.title, pair.document) != (better.title, better.document):
        if pair.title:
            row["title"] = pair.title
        row["document"] = pair.document
    if pair.anchors:
        row["anchors"] = pair.anchors
    return row


def number_contrasts(path: Path, known: Iterable[str] | None = None) -> Iterator[tuple[int, Contrast]]:
    """The contrasts of a file with the numbers of their lines, from 1, streaming; a file may have none.

    known: the valid objectives; any by default. Raises `InputError` naming file, line and field for a
    field that is missing or of another type, an empty text, anchors outside the query, no worse pair, and an
    unknown objective.
    """
    names = None if known is None else sorted(known)
    _, stream = open_source(path)
    with stream:
        for number, line in read_lines(stream):
            yield number, read_contrast(line, f"{path}, line {number:,}", names)


def read_contrast(line: bytes, place: str, known: list[str] | None = None) -> Contrast:
    """The contrast of one line. place: for messages. Raises as `number_contrasts`."""
    row = json_object(line, place, _EXPECTED)
    objective = _text(row, "objective", place, "")
    if known is not None and objective not in known:
        raise InputError(
            f'{place}: "objective" is {objective!r}, which is unknown',
            f"Known ones: {', '.join(known)}. Mine the contrasts again, or remove the line.",
        )
    better = _pair(row.get("better"), None, f'{place}: "better"')
    worse = row.get("worse")
    if not isinstance(worse, list) or not worse:
        raise InputError(f'{place}: "worse" must be a list with at least one pair', _EXPECTED)
    evidence = row.get("evidence", {})
    if not isinstance(evidence, dict):
        raise InputError(f'{place}: "evidence" is {type(evidence).__name__}, expected an object', _EXPECTED)
    pairs = tuple(_pair(pair, better, f'{place}: "worse" {n}') for n, pair in enumerate(worse, start=1))
    return Contrast(better, pairs, objective, evidence)


def _pair(row: Any, better: TextPair | None, place: str) -> TextPair:
    if not isinstance(row, dict):
        raise InputError(f"{place} is {type(row).__name__}, expected an object", _EXPECTED)
    query = better.query if better and "query" not in row else _text(row, "query", place)
    if better and "document" not in row and "title" not in row:
        title, document = better.title, better.document
    else:
        title = _text(row, "title", place, "") if "title" in row else ""
        document = _text(row, "document", place, "" if title else None)
    return TextPair(query, document, title, _spans(row, query, place))


def _text(row: dict[str, Any], name: str, place: str, empty: str | None = None) -> str:
    """A text, which may only be blank if `empty` is given."""
    value = row.get(name)
    if not isinstance(value, str):
        kind = "missing" if name not in row else type(value).__name__
        raise InputError(f'{place}: "{name}" is {kind}, expected a text', _EXPECTED)
    if empty is None and not value.strip():
        raise InputError(f'{place}: "{name}" is empty', _EXPECTED)
    return value


def _spans(row: dict[str, Any], query: str, place: str) -> tuple[tuple[int, int], ...]:
    spans, last = [], 0
    anchors = row.get("anchors", [])
    for span in anchors if isinstance(anchors, list) else [anchors]:
        fits = isinstance(span, list) and len(span) == 2 and all(type(bound) is int for bound in span)
        if not fits or not last <= span[0] < span[1] <= len(query):
            raise InputError(
                f'{place}: "anchors" contains {span!r}',
                f"Expected ascending [start, end] within the {len(query)} characters of the query.",
            )
        last = span[1]
        spans.append((span[0], span[1]))
    return tuple(spans)
