"""Markup in brackets: external links, templates, files, and brackets without a partner.

Templates that are not running text (`templates`), links without text (files with their captions, categories),
brackets without a partner, and markup that is nested too deep are dropped. The rest is balanced, which bounds
the time and the stack of the parser. Templates are not expanded: that takes the wiki's own pages and
programs.
"""

from __future__ import annotations

import re

from linkseek.indexer.wikitext.characters import GAP, literal, literal_brackets
from linkseek.indexer.wikitext.edits import Span, cut
from linkseek.indexer.wikitext.targets import Resolve
from linkseek.indexer.wikitext.templates import shape_of

_DEEPEST = 20  # templates and links nested deeper are dropped: nobody reads them
_EXTERNAL_LINK = re.compile(
    r"\[(?:(?:https?|ftps?|ircs?|news|nntp|gopher|git|svn|telnet|sftp|ssh|worldwind)?:?//|mailto:)"
    r"[^\s\[\]<>|]*+[ \t]*+((?:[^\[\]\n]|\[\[[^\[\]\n]*+\]\])*+)\]",
    re.IGNORECASE,
)
_BRACKET = re.compile(r"\[(?:(?<!\[\[)(?!\[)|(?=\[\[))")
_BRACKETED = re.compile(r"\[(?<!\[\[)[^\[\]|\n]*+\](?=\]\])")  # [[Foo|a[1]]]
_BRACKETS = re.compile(r"\[\[(?!\[)|\]\]|\{\{+|\}\}+")
_NAME = re.compile(r"\s*([^|{}\[\]<>]{1,40}?)\s*(?:\||\}\})")
_LINK_TITLE = re.compile(r"[^|\[\]{}\n]*")
_UNCLOSED = re.compile(r"\{\{+[^\n|\[\]{}]*(?:\n[ \t]*\|[^\n]*)+")


def balance_brackets(source: str, resolve: Resolve) -> str:
    """The source with its visible links and templates, and every other bracket as text or dropped."""
    source = _EXTERNAL_LINK.sub(lambda match: match[1] + GAP, source)
    source = _BRACKETED.sub(lambda match: literal(match[0]), source)
    source = _drop_brackets(source, resolve)
    return _BRACKET.sub(literal("["), source)


def _drop_brackets(source: str, resolve: Resolve) -> str:
    """Drop templates that are not running text, hidden links, and brackets without a partner."""
    cuts: list[Span] = []
    stack: list[tuple[int, int]] = []  # (start, length), length 0 for a link
    templates = 0  # in the stack
    for match in _BRACKETS.finditer(source):
        token, start, end = match[0], match.start(), match.end()
        if token == "[[":
            stack.append((start, 0))
        elif token[0] == "{":
            stack.append((start, end - start))
            templates += 1
        elif token == "]]":
            if stack and not stack[-1][1]:
                opening, _ = stack.pop()
                title = _LINK_TITLE.match(source, opening + 2)
                assert title is not None
                if len(stack) > _DEEPEST or (":" in title[0] and resolve(title[0]).hidden):
                    cuts.append((opening, end))
        else:
            while end - start >= 2 and templates:
                opening, length = stack.pop()
                if not length:
                    cuts.append((opening, opening + 2))
                    continue
                used = 3 if min(length, end - start) >= 3 else 2
                inner = opening + length - used
                if used == 3 or len(stack) > _DEEPEST or not _is_running_text(source, inner):
                    cuts.append((inner, start + used))
                start += used
                if length - used >= 2:
                    stack.append((opening, length - used))
                else:
                    templates -= 1
    position = 0
    for opening, length in stack:
        if opening >= position:
            # A box without an end is dropped with its parameter lines, but not the rest of the page.
            box = _UNCLOSED.match(source, opening) if length else None
            position = box.end() if box else opening + (length or 2)
            cuts.append((opening, position))
    return cut(source, cuts, GAP)


_OPEN_OR_CLOSE = re.compile(r"\[\[|\]\]|\{\{+|\}\}|^\{(?=\|)", re.MULTILINE)


def hide_loose_brackets(source: str) -> str:
    """The source with every bracket literal that no other closes, after all other steps.

    The parser would read to the end of the page for each of them.
    """
    loose: list[Span] = []
    links: list[Span] = []
    templates: list[tuple[int, list[Span]]] = []  # where each opens, and the links that are open around it
    for match in _OPEN_OR_CLOSE.finditer(source):
        token, (start, end) = match[0], match.span()
        if token == "[[":
            links.append((start, end))
        elif token == "]]":
            if links:
                links.pop()
        elif token == "}}":
            if templates:
                loose += links
                _, links = templates.pop()
        elif token == "{":  # of a table
            loose.append((start, end))
        else:
            loose.append((start, end - 2))  # empty, but in "{{{{"
            templates.append((end - 2, links))
            links = []
    for opening, around in templates:
        loose += [*around, (opening, opening + 2)]
    loose += links
    pieces: list[str] = []
    position = 0
    for start, end in sorted(loose):
        pieces += source[position:start], literal_brackets(source[start:end])
        position = end
    pieces.append(source[position:])
    return "".join(pieces)


def _is_running_text(source: str, opening: int) -> bool:
    match = _NAME.match(source, opening + 2)
    return match is not None and shape_of(match[1]) is not None
