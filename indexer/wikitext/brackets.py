"""Markup in brackets: external links, templates, files, and brackets without a partner.

Templates that are not running text (`templates`), links without text (files with their captions, categories),
brackets without a partner, and markup that is nested too deep are dropped. The rest is balanced, which bounds
the time and the stack of the parser. Templates are not expanded: that takes the wiki's own pages and
programs.
"""

import re
from collections.abc import Iterator, Sequence, Set
from typing import NamedTuple

from linkseek.indexer.wikitext.characters import GAP, literal
from linkseek.indexer.wikitext.edits import Span, cut
from linkseek.indexer.wikitext.link_targets import OTHER_SITES, TEMPLATES, LinkingPage, Resolve, Target
from linkseek.indexer.wikitext.names import function_of
from linkseek.indexer.wikitext.templates import rule_of, shape_of

_DEEPEST = 20  # templates and links nested deeper are dropped: nobody reads them
_EXTERNAL_LINK = re.compile(
    r"\[(?:(?:https?|ftps?|ircs?|nntp|gopher|git|mms|redis|svn|telnet|sftp|ssh|worldwind)?:?//"
    r"|(?:bitcoin|geo|magnet|mailto|matrix|news|sips?|sms|tel|urn|xmpp):(?!\s))"
    r"[^\s\[\]<>|]*+[ \t]*+((?:[^\[\]\n]|\[\[[^\[\]\n]*+\]\])*+)\]",
    re.IGNORECASE,
)
_EXTERNAL_AS_LINK = re.compile(r"\[\[(https?://[^\s\[\]<>|]++)[ \t]*+(?:\|([^\[\]\n]*+))?\]\]", re.IGNORECASE)
_BRACKETED = re.compile(r"\[(?<!\[\[)[^\[\]|\n]*+\](?=\]\])")  # [[Foo|a[1]]]
_BRACKETS = re.compile(r"\[\[(?!\[)|\]\]|\{\{+|\}\}+")
_NAME = re.compile(r"\s*([^|{}\[\]<>]{1,40}?)\s*(?:\||\}\})")
_LINK_TITLE = re.compile(r"[^|\[\]{}\n]*")
_UNCLOSED = re.compile(r"\{\{+[^\n|\[\]{}]*(?:\n[ \t]*\|[^\n]*)+")


def balance_brackets(source: str, resolve: Resolve, page: LinkingPage) -> str:
    """The source with its visible links and templates, and every other bracket as text or dropped."""
    source = _EXTERNAL_AS_LINK.sub(lambda match: f"[{match[1]} {match[2] or ''}]", source)
    source, external = _EXTERNAL_LINK.subn(lambda match: match[1] + GAP, source)
    page.dropped[OTHER_SITES, ""] += external
    source = _BRACKETED.sub(lambda match: literal(match[0]), source)
    closed, lone, opened = pairs_of(source)
    cuts: list[Span] = [*lone, *_unclosed(source, opened, page)]
    dropped: set[Span] = set()  # the templates among the cuts
    for start, end, braces, depth in closed:
        if braces:
            drop = braces == 3 or depth > _DEEPEST or not _is_running_text(source, start, page)
            if drop and braces == 2:
                dropped.add((start, end))
        else:
            title = next(_LINK_TITLE.finditer(source, start + 2))[0]
            hidden = ":" in title and _is_hidden(source, start, end, resolve(title))
            page.links["hidden"] += hidden
            drop = hidden or depth > _DEEPEST
        if drop:
            cuts.append((start, end))
    _count_templates(source, cuts, dropped, page)
    return cut(source, cuts, GAP)


class BracketPair(NamedTuple):
    """A link ([[ ]], no braces), a template (2 braces) or a parameter (3). depth: what is open around it."""

    start: int
    end: int
    braces: int
    depth: int


def pairs_of(source: str) -> tuple[list[BracketPair], list[Span], list[tuple[int, int]]]:
    """The pairs of brackets, inner ones first; links without an end; (start, braces) of what stays open.

    `]]` closes the link that was opened last; `}}` closes as many templates and parameters as it has braces
    for, from the last run of opening braces on, and ends the links that are open inside.
    """
    closed: list[BracketPair] = []
    lone: list[Span] = []
    stack: list[tuple[int, int]] = []
    templates = 0  # in the stack
    for match in _BRACKETS.finditer(source):
        start, end = match.span()
        if source[start] in "[{":
            braces = end - start if source[start] == "{" else 0
            stack.append((start, braces))
            templates += bool(braces)
        elif source[start] == "]":
            if stack and not stack[-1][1]:
                closed.append(BracketPair(stack.pop()[0], end, 0, len(stack)))
        else:
            while end - start >= 2 and templates:
                opening, braces = stack.pop()
                if not braces:
                    lone.append((opening, opening + 2))
                    continue
                used = 3 if min(braces, end - start) >= 3 else 2
                start += used
                closed.append(BracketPair(opening + braces - used, start, used, len(stack)))
                if braces - used >= 2:
                    stack.append((opening, braces - used))
                else:
                    templates -= 1
    return closed, lone, stack


def _unclosed(source: str, stack: Sequence[tuple[int, int]], page: LinkingPage) -> Iterator[Span]:
    """What is open at the end: a box with its parameter lines, but not the rest of the page."""
    position = 0
    for opening, length in stack:
        if opening >= position:
            page.links["hidden"] += not length
            box = _UNCLOSED.match(source, opening) if length else None
            position = box.end() if box else opening + (length or 2)
            yield opening, position


def _count_templates(source: str, cuts: Sequence[Span], dropped: Set[Span], page: LinkingPage) -> None:
    """Count the dropped templates that are in no other cut."""
    position = 0
    for start, end in sorted(cuts, key=lambda span: (span[0], -span[1])):
        if start >= position and (start, end) in dropped:
            _count(source, start, end, page)
        position = max(position, end)


def _is_running_text(source: str, opening: int, page: LinkingPage) -> bool:
    name = _NAME.match(source, opening + 2)
    return bool((name and shape_of(name[1], page.rules)) or function_of(source[opening + 2 : opening + 42]))


def _is_hidden(source: str, opening: int, end: int, target: Target) -> bool:
    if not target.aside:
        return target.hidden
    return not _ALONE.sub("", source[opening:end].join(_on_line(source, opening, end))).strip()


_ALONE = re.compile(r"\[\[[^\[\]|\n]*\]\]|<!--.*?-->")


def _on_line(source: str, start: int, end: int) -> tuple[str, str]:
    """What is before and after a piece on its line, of a long one what is near."""
    before, after = source[max(start - _NEAR, 0) : start], source[end : end + _NEAR]
    return before.rpartition("\n")[2], after.partition("\n")[0]


_NEAR = 200
_DROPPED_NAME = re.compile(r"\s*([^|{}\[\]<>\n]{1,60})")
_IN_BRACKETS = re.compile(r"\{\{[^{}]*+\}\}|\A[^{}]*+\}\}|\{\{[^{}]*+\Z|\[\[[^\[\]|]{1,20}:[^\[\]]*+\]\]")
_WORD = re.compile(r"\w")


def _count(source: str, start: int, end: int, page: LinkingPage) -> None:
    """Count a dropped template if there is other text on its line."""
    name = _DROPPED_NAME.match(source, start + 2)
    if name is None or rule_of(name[1], page.rules) is not None:
        return
    if any(_WORD.search(_IN_BRACKETS.sub("", piece)) for piece in _on_line(source, start, end)):
        page.dropped[TEMPLATES, name[1].partition(":")[0].strip()] += 1
