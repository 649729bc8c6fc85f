"""The walk over a parsed page: its text in document order, and the spans of its links.

The source has been prepared: the remaining templates are running text, links and brackets are balanced. Text
and plain links, which are nearly everything, are read from mwparserfromhell's tokens; its tree, which costs
most of its time, is built for the rest only. As in MediaWiki, letters right after a link belong to its
anchor. Of links within links only the outermost counts. A heading that holds a link is text as well.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import regex
from mwparserfromhell.nodes import ExternalLink, Heading, HTMLEntity, Node, Tag, Template, Text, Wikilink
from mwparserfromhell.parser import tokens
from mwparserfromhell.parser.builder import Builder
from mwparserfromhell.wikicode import Wikicode

try:
    from mwparserfromhell.parser._tokenizer import CTokenizer as Tokenizer
except ImportError:  # where it was installed without a compiler
    from mwparserfromhell.parser.tokenizer import Tokenizer

from linkseek.indexer.documents import Link, Section
from linkseek.indexer.wikitext.characters import GAP, plain
from linkseek.indexer.wikitext.link_targets import WITHOUT_TEXT, LinkingPage, Resolve
from linkseek.indexer.wikitext.magic import call, function_of
from linkseek.indexer.wikitext.plain_text import lay_out
from linkseek.indexer.wikitext.templates import shape_of

# Letters after a link belong to it: [[planet]]s. MediaWiki lists them for each language; scripts
# without lower case, such as Chinese, have none.
_TRAIL = regex.compile(r"\p{Ll}+")
_BREAK = f"\n{GAP}\n"  # in place of a heading


def render(
    source: str, resolve: Resolve, kept: Sequence[str], page: LinkingPage | None = None
) -> tuple[str, list[Link], list[Section]]:
    """The text of the page with its marks, before it is laid out. `kept`: see `lay_out`."""
    walk = _Walk(resolve, kept, page or LinkingPage())
    walk.code(_nodes(Tokenizer().tokenize(source, 0, True)))  # no context, no tags for '' and '''
    return "".join(walk.pieces), walk.links, walk.sections


_PlainLink = tuple[str, str | None]  # title and text, both without markup

_PLAIN_LINKS = (
    (tokens.WikilinkOpen, tokens.Text, tokens.WikilinkClose),
    (tokens.WikilinkOpen, tokens.Text, tokens.WikilinkSeparator, tokens.Text, tokens.WikilinkClose),
)
_OPENING = frozenset(
    [tokens.TemplateOpen, tokens.ArgumentOpen, tokens.WikilinkOpen, tokens.ExternalLinkOpen,
     tokens.HTMLEntityStart, tokens.HeadingStart, tokens.CommentStart, tokens.TagOpenOpen]
)  # fmt: skip
_CLOSING = frozenset(
    [tokens.TemplateClose, tokens.ArgumentClose, tokens.WikilinkClose, tokens.ExternalLinkClose,
     tokens.HTMLEntityEnd, tokens.HeadingEnd, tokens.CommentEnd, tokens.TagCloseClose,
     tokens.TagCloseSelfclose]
)  # fmt: skip


def _nodes(page: Sequence[Any]) -> Iterator[str | _PlainLink | Node]:
    """A page's tokens as texts, plain links, and nodes for everything else."""
    at = 0
    while at < len(page):
        if type(page[at]) is tokens.Text:
            yield page[at].text
            at += 1
            continue
        for kinds in _PLAIN_LINKS:
            piece = page[at : at + len(kinds)]
            if tuple(map(type, piece)) == kinds:
                yield piece[1].text, piece[3].text if len(kinds) > 3 else None
                break
        else:
            piece = page[at : _end(page, at)]
            yield from Builder().build(list(piece)).nodes  # type: ignore[no-untyped-call]
        at += len(piece)


def _end(page: Sequence[Any], at: int) -> int:
    """The place after the token that closes the one at `at`."""
    depth = 0
    for place in range(at, len(page)):
        kind = type(page[place])
        depth += (kind in _OPENING) - (kind in _CLOSING)
        if not depth:
            return place + 1
    return len(page)


@dataclass(slots=True)
class _Walk:
    """The text of a page in document order, before it is laid out."""

    resolve: Resolve
    kept: Sequence[str]
    page: LinkingPage = field(default_factory=LinkingPage)
    pieces: list[str] = field(default_factory=list)
    length: int = 0
    links: list[Link] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    inside_link: bool = False
    anchors: Counter[str] = field(default_factory=Counter)

    def code(self, nodes: Iterable[str | _PlainLink | Node]) -> None:
        """Walk over the nodes of a piece of wikitext."""
        trail_of: str | None = None  # target of the link just before, "" for one without target
        for node in nodes:
            if isinstance(node, str | Text):
                value = node if isinstance(node, str) else node.value
                if trail_of is not None and (trail := _TRAIL.match(value)):
                    self._extend_link(trail[0], trail_of)
                    value = value[trail.end() :]
                self.text(value)
                trail_of = None
            elif isinstance(node, tuple):
                trail_of = self._link(*node)
            elif isinstance(node, Wikilink):
                trail_of = self._link(str(node.title), node.text)
            else:
                trail_of = None
                self._node(node)

    def text(self, value: str) -> None:
        """Append a piece of text."""
        value = plain(value)
        self.pieces.append(value)
        self.length += len(value)

    def show(self, parts: Iterable[str | Wikicode]) -> None:
        """Append pieces of text and of wikitext."""
        for part in parts:
            if isinstance(part, str):
                self.text(part)
            else:
                self.code(part.nodes)

    def _node(self, node: Node) -> None:
        if isinstance(node, HTMLEntity):
            self.text(html.unescape(str(node)))
        elif isinstance(node, ExternalLink):
            self.text(str(node))  # a bare address; those in brackets have been replaced
        elif isinstance(node, Template):
            name = str(node.name)
            shape = shape_of(name, self.page.rules)
            if shape is not None:
                self.show(shape({str(p.name).strip(): p.value for p in node.params}))
            elif function_of(name):
                self.show(call(name, [str(p) if p.showkey else p.value for p in node.params]))
        elif isinstance(node, Heading):
            heading = _Walk(self.resolve, self.kept, replace(self.page, dropped=Counter(), links=Counter()))
            heading.code(node.title.nodes)
            self.pieces.append(_BREAK)
            self.length += len(_BREAK)
            shown, _, _ = lay_out("".join(heading.pieces), heading.links, heading.sections, self.kept)
            self.sections.append(Section(self.length, shown, node.level, self._anchor(shown)))
            if heading.links:  # the heading is also the first paragraph of its section
                self.code(node.title.nodes)
                self.pieces.append(_BREAK)
                self.length += len(_BREAK)
            else:
                self.page.dropped.update(heading.page.dropped)
                self.page.links.update(heading.page.links)
        elif isinstance(node, Tag) and node.contents is not None:
            self.code(node.contents.nodes)

    def _anchor(self, heading: str) -> str:
        anchor = heading.replace(" ", "_")
        self.anchors[anchor] += 1
        return anchor if self.anchors[anchor] == 1 else f"{anchor}_{self.anchors[anchor]}"

    def _link(self, title: str, shown: str | Wikicode | None) -> str | None:
        target = self.resolve(title.replace(GAP, ""))
        self.page.links["shown"] += 1
        if target.hidden:
            return None
        start, outermost = self.length, not self.inside_link
        self.inside_link = True
        if shown is not None and str(shown).strip(f" {GAP}"):
            self.show([shown])
        else:
            self.text(target.label if shown is None else _without_qualifier(target.label))
        if outermost:
            self.inside_link = False
            if target.id is None:
                self.page.dropped[target.reason, ""] += bool(target.reason)
            elif self.length > start:
                self.links.append(Link(start, self.length, target.id))
            else:
                self.page.dropped[WITHOUT_TEXT, ""] += 1
        return target.id or "" if outermost else None

    def _extend_link(self, trail: str, target: str) -> None:
        end = self.length
        self.text(trail)
        if target and self.links and self.links[-1].end == end:  # else the link had no text
            link = self.links.pop()
            self.links.append(Link(link.start, self.length, link.target))


_QUALIFIER = re.compile(r" ?\([^()]*\)$|, .*$")


def _without_qualifier(label: str) -> str:
    """The pipe trick: [[Mercury (planet)|]], [[Boston, Massachusetts|]] show their first part."""
    label = label.partition(":")[2] or label
    return _QUALIFIER.sub("", label.strip()) or label
