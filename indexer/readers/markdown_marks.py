"""Marks within a line that dialects of Markdown add: keys, icons, highlights, edits, names of blocks.

The text stays without its marks; icons and names of blocks are dropped as pictures are, and what an author
proposes to delete is dropped and counted.

Source: the documentation of Python-Markdown, pymdown, MkDocs with Material, CriticMarkup, Obsidian, Logseq.
"""

from __future__ import annotations

import re

from linkseek.indexer.readers.markdown_tags import TAGS, Dropped

EDITS = "deletions and comments in CriticMarkup"

_ICON = re.compile(r":(?:material|octicons|fontawesome|simple)(?:-\w+)+:(?:\{[^{}\n]*\})?[ \t]?")
_KEYS = re.compile(r"(?<!\+)\+\+((?:[\w-]+|\"[^\"\n]+\")(?:\+(?:[\w-]+|\"[^\"\n]+\"))*)\+\+(?!\+)")
_REPLACED = re.compile(r"\{~~((?:(?!~>|~~\}).)*)~>((?:(?!~~\}).)*)~~\}", re.DOTALL)
_DELETED = re.compile(r"\{--(?:(?!--\}).)*--\}|\{>>(?:(?!<<\}).)*<<\}", re.DOTALL)
_ADDED = re.compile(r"\{\+\+((?:(?!\+\+\}).)*)\+\+\}|\{==((?:(?!==\}).)*)==\}", re.DOTALL)
_SPAN = r"(?=[^\sM])((?:(?!MM|\n[ \t]*\n).){1,500}?)(?<=[^\sM])MM"
_HIGHLIGHT = re.compile(r"(?<![=\w])==" + _SPAN.replace("M", "=") + r"(?![=\w])", re.DOTALL)
_INSERTED = re.compile(r"(?<!\^)\^\^" + _SPAN.replace("M", r"\^") + r"(?!\^)", re.DOTALL)
_RAISED = re.compile(r"(?<![\\^~])([\^~])([^\s^~\[\]]{1,40})\1(?!\1)")
_ABBREVIATION = re.compile(r"^\*\[[^\]\n]+\]:.*$", re.MULTILINE)
_BLOCK_NAME = re.compile(r"(?:(?<=\s)|^)\^[A-Za-z0-9-]+[ \t]*$", re.MULTILINE)
_ESCAPED_SNIPPET = re.compile(r"^([ \t]*);(?=-+8<-+)", re.MULTILINE)
_DEFINED = re.compile(r"^ {0,3}\[([^\[\]\n]+)\]:", re.MULTILINE)
_REFERENCE = re.compile(r"(?<![!\]\\])\[([^\[\]\n]+)\]\[([^\[\]\n]*)\]")
_TAG = re.compile(r"(?<![\w#/&\[(\]])#(?!\d+\b)([^\s#,.;:!?\[\](){}\"'<>|`]+)")


def without_marks(text: str, dialect: str, dropped: Dropped) -> str:
    """A text outside code without the marks of its dialect."""
    text, deleted = _DELETED.subn("", _REPLACED.sub(r"\2", text))
    if deleted:
        dropped[EDITS, ""] += deleted
    text = _ADDED.sub(lambda match: match[1] or match[2] or "", text)
    text = _HIGHLIGHT.sub(r"\1", _ICON.sub("", _ABBREVIATION.sub("", text)))
    if dialect in ("", "mkdocs", "logseq"):
        text = _INSERTED.sub(r"\1", text)
    if dialect == "mkdocs":
        text = _RAISED.sub(r"\2", _KEYS.sub(_keys, _ESCAPED_SNIPPET.sub(r"\1", text)))
        text = _without_references(text, dropped)
    if dialect in ("obsidian", "dendron") or (dialect == "" and "[[" in text):
        text = _BLOCK_NAME.sub("", text)
    if dialect == "logseq":
        text = _TAG.sub(r"[[\1|#\1]]", text)
    return text


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
