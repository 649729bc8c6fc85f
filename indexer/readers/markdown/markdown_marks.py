"""Marks within a line that dialects of Markdown add: keys, icons, highlights, edits, names of blocks.

The text stays without its marks; icons and names of blocks are dropped as pictures are, and what an author
proposes to delete is dropped and counted.

Source: the documentation of Python-Markdown, pymdown, MkDocs with Material, CriticMarkup, Obsidian, Logseq.
"""

from __future__ import annotations

import re

from linkseek.indexer.readers.markdown.markdown_tags import TAGS, Dropped

EDITS = "deletions and comments in CriticMarkup"

_ICON = re.compile(r":(?:material|octicons|fontawesome|simple)(?:-\w+)+:(?:\{[^{}\n]*\})?[ \t]?")
_KEYS = re.compile(r"(?<!\+)\+\+((?:[\w-]+|\"[^\"\n]+\")(?:\+(?:[\w-]+|\"[^\"\n]+\"))*)\+\+(?!\+)")
_SPAN = r"(?=[^\sM])((?:(?!MM|\n[ \t]*\n).){1,500}?)(?<=[^\sM])MM"
_HIGHLIGHT = re.compile(r"(?<![=\w])==" + _SPAN.replace("M", "=") + r"(?![=\w])", re.DOTALL)
_INSERTED = re.compile(r"(?<!\^)\^\^" + _SPAN.replace("M", r"\^") + r"(?!\^)", re.DOTALL)
_RAISED = re.compile(r"(?<![\\^~])([\^~])([^\s^~\[\]]{1,40})\1(?!\1)")
_ABBREVIATION = re.compile(r"^\*\[[^\]\n]+\]:.*$", re.MULTILINE)
_BLOCK_NAME = re.compile(r"(?:(?<=\s)|^)\^[A-Za-z0-9-]+[ \t]*$", re.MULTILINE)
_ESCAPED_SNIPPET = re.compile(r"^([ \t]*);(?=-+8<-+)", re.MULTILINE)
_BRACKETED = re.compile(r"(?<![!\]\\\w])\[([^\[\]\n]+)\]\{(?:[.#][\w-]|[\w-]+=)[^{}\n]*\}")  # [text]{.class}
_DEFINED = re.compile(r"^ {0,3}\[([^\[\]\n]+)\]:", re.MULTILINE)
_REFERENCE = re.compile(r"(?<![!\]\\])\[([^\[\]\n]+)\]\[([^\[\]\n]*)\]")
_TAG = re.compile(r"(?<![\w#/&\[(\]])#(?!\d+\b)([^\s#,.;:!?\[\](){}\"'<>|`]+)")


def without_marks(text: str, dialect: str, dropped: Dropped) -> str:
    """A text outside code without the marks of its dialect."""
    text, deleted = _edited(_replaced(text), {"{--": "--}", "{>>": "<<}"}, keep=False)
    if deleted:
        dropped[EDITS, ""] += deleted
    text, _ = _edited(text, {"{++": "++}", "{==": "==}"}, keep=True)
    text = _BRACKETED.sub(r"\1", text)
    text = _HIGHLIGHT.sub(r"\1", _ICON.sub("", _ABBREVIATION.sub("", text)))
    if dialect in ("", "mkdocs", "logseq"):
        text = _INSERTED.sub(r"\1", text)
    if dialect in ("mkdocs", "quarto"):
        text = _RAISED.sub(r"\2", text)
    if dialect == "mkdocs":
        text = _KEYS.sub(_keys, _ESCAPED_SNIPPET.sub(r"\1", text))
        text = _without_references(text, dropped)
    if dialect == "obsidian" or (dialect == "" and "[[" in text):
        text = _BLOCK_NAME.sub("", text)
    if dialect == "logseq":
        text = _TAG.sub(r"[[\1|#\1]]", text)
    return text


class _Marks:
    """The places of a mark in a text. Asked in ascending order, all of them take one pass."""

    def __init__(self, text: str, mark: str) -> None:
        self._text, self._mark, self._next = text, mark, -1

    def after(self, place: int) -> int:
        """The first mark at or after a place; the length of the text after the last mark."""
        if self._next < place:
            found = self._text.find(self._mark, place)
            self._next = found if found >= 0 else len(self._text)
        return self._next


def _edited(text: str, ends: dict[str, str], *, keep: bool) -> tuple[str, int]:
    """The text without its edits, or without their marks, and their number. ends: {mark: its end}."""
    marks = {start: _Marks(text, end) for start, end in ends.items()}
    pieces, place, count = list[str](), 0, 0
    for match in re.finditer("|".join(map(re.escape, ends)), text):
        stop = marks[match[0]].after(match.end())
        if match.start() < place or stop == len(text):
            continue
        pieces += text[place : match.start()], text[match.end() : stop] if keep else ""
        place, count = stop + len(ends[match[0]]), count + 1
    return "".join(pieces) + text[place:], count


def _replaced(text: str) -> str:
    """The text with the new part of each {~~old~>new~~}."""
    changes, ends = _Marks(text, "~>"), _Marks(text, "~~}")
    pieces, place = list[str](), 0
    for match in re.finditer(r"\{~~", text):
        change, end = changes.after(match.end()), ends.after(match.end())
        if match.start() < place or change >= end or end == len(text):
            continue
        pieces += text[place : match.start()], text[change + 2 : end]
        place = end + len("~~}")
    return "".join(pieces) + text[place:]


def _keys(match: re.Match[str]) -> str:
    """ctrl+page-up as it is shown: Ctrl+Page Up."""
    keys = re.findall(r"\"[^\"]+\"|[\w-]+", match[1])
    return "+".join(key[1:-1] if key[0] == '"' else key.replace("-", " ").title() for key in keys)


def _without_references(text: str, dropped: Dropped) -> str:
    """[text][name] without a definition in the page leads to an entry that mkdocstrings makes."""
    defined = {" ".join(name.casefold().split()) for name in _DEFINED.findall(text)}

    def shown(match: re.Match[str]) -> str:
        if " ".join((match[2] or match[1]).casefold().split()) in defined:
            return match[0]
        dropped[TAGS, "[][]"] += 1
        return match[1]

    return _REFERENCE.sub(shown, text)
