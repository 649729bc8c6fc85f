"""The walk over a prepared page: its text in document order, and the spans of its links.

The remaining templates are running text, links and brackets are balanced. As in MediaWiki, letters right
after a link belong to its anchor. Of links within links only the outermost counts. A heading that holds a
link is text as well.
"""

import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import regex

from linkseek.indexer.documents import Link, Section
from linkseek.indexer.wikitext.brackets import BracketPair, balance_brackets, pairs_of
from linkseek.indexer.wikitext.characters import GAP, Markup, plain, without_controls
from linkseek.indexer.wikitext.edits import PageText
from linkseek.indexer.wikitext.lines import drop_tables, mark_lines
from linkseek.indexer.wikitext.link_targets import IN_DROPPED, WITHOUT_TEXT, LinkingPage, Resolve
from linkseek.indexer.wikitext.names import function_of, replace_variables
from linkseek.indexer.wikitext.plain_text import lay_out
from linkseek.indexer.wikitext.tags import replace_tags, take_out_extensions
from linkseek.indexer.wikitext.templates import shape_of

# Letters after a link belong to it: [[planet]]s. MediaWiki lists them for each language; scripts
# without lower case, such as Chinese, have none.
_TRAIL = regex.compile(r"\p{Ll}+")
_BREAK = f"\n{GAP}\n"  # in place of a heading
_HEADING = re.compile(r"^(={1,6})(.*?)\1[ \t]*$", re.MULTILINE)
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][\da-fA-F]{1,6}|[A-Za-z]\w{1,31});")
_TITLE = re.compile(r"[^\[\]{}\n]*")


def read_wikitext(source: str, resolve: Resolve, page: LinkingPage | None = None) -> PageText:
    """Text, links and sections of a page; what is dropped is counted in `page`."""
    page = page or LinkingPage()
    source, kept, noted = take_out_extensions(without_controls(source))
    page.links["written"] += noted + source.count("[[")
    source = balance_brackets(replace_variables(replace_tags(source), page), resolve, page)
    rendered = render(mark_lines(drop_tables(source)), resolve, kept, page)
    shown = lay_out(rendered, kept)
    page.dropped[WITHOUT_TEXT, ""] += len(rendered.links) - len(shown.links)
    page.dropped[IN_DROPPED, ""] += max(0, page.links["written"] - page.links["hidden"] - page.links["shown"])
    return shown


def render(source: str, resolve: Resolve, kept: Sequence[str], page: LinkingPage | None = None) -> PageText:
    """The text of the page with its marks, before it is laid out. `kept`: see `lay_out`."""
    walk = _Walk(resolve, kept, page or LinkingPage())
    walk.code(source)
    return walk.result()


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

    def result(self) -> PageText:
        """The text so far."""
        return PageText("".join(self.pieces), tuple(self.links), tuple(self.sections))

    def code(self, source: str) -> None:
        """Walk over a piece of wikitext."""
        trail_of: str | None = None  # target of the link just before, "" for one without target
        at = 0
        for start, end, braces, _ in _outermost(source):
            if start > at:
                self._plain(source[at:start], trail_of)
            at, trail_of = end, None
            if not braces:
                trail_of = self._link(source[start + 2 : end - 2])
            elif heading := _HEADING.fullmatch(source, start, end):
                self._heading(heading[2], len(heading[1]))
            else:
                self._template(source[start + 2 : end - 2])
        self._plain(source[at:], trail_of)

    def _plain(self, value: str, trail_of: str | None) -> None:
        """Append text of the source; it may begin with the end of the link before it."""
        if trail_of is not None and (trail := _TRAIL.match(value)):
            self._extend_link(trail[0], trail_of)
            value = value[trail.end() :]
        self.text(_ENTITY.sub(lambda entity: html.unescape(entity[0]), value) if "&" in value else value)

    def text(self, value: str) -> None:
        """Append a piece of text."""
        value = plain(value)
        self.pieces.append(value)
        self.length += len(value)

    def _template(self, source: str) -> None:
        """Append the pieces of text and of wikitext that a template or a function shows."""
        name, *arguments = _divided(source)
        parts: Sequence[str] = ()
        if function := function_of(name):
            parts = function([*map(Markup, arguments)])
        elif shape := shape_of(name, self.page.rules):
            parts = shape(_named(arguments))
        for part in parts:
            (self.code if isinstance(part, Markup) else self.text)(part)

    def _heading(self, source: str, level: int) -> None:
        heading = _Walk(self.resolve, self.kept, replace(self.page, dropped=Counter(), links=Counter()))
        heading.code(source)
        self._break()
        shown = lay_out(heading.result(), self.kept).text
        self.sections.append(Section(self.length, shown, level, self._anchor(shown)))
        if heading.links:  # the heading is also the first paragraph of its section
            self.code(source)
            self._break()
        else:
            self.page.dropped.update(heading.page.dropped)
            self.page.links.update(heading.page.links)

    def _break(self) -> None:
        self.pieces.append(_BREAK)
        self.length += len(_BREAK)

    def _anchor(self, heading: str) -> str:
        anchor = heading.replace(" ", "_")
        self.anchors[anchor] += 1
        return anchor if self.anchors[anchor] == 1 else f"{anchor}_{self.anchors[anchor]}"

    def _link(self, source: str) -> str | None:
        title, bar, shown = source.partition("|")
        if not _TITLE.fullmatch(title):
            self.code(source)
            return None
        target = self.resolve(title.replace(GAP, ""))
        self.page.links["shown"] += 1
        if target.hidden:
            return None
        start, outermost = self.length, not self.inside_link
        self.inside_link = True
        if shown.strip(f" {GAP}"):
            self.code(shown)
        else:
            self.text(_without_qualifier(target.label) if bar else target.label)
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


def _outermost(source: str) -> Iterator[BracketPair]:
    """The links, templates and headings (7 braces) that are in no other, in order."""
    headings = (BracketPair(*match.span(), 7, 0) for match in _HEADING.finditer(source) if match[2].strip())
    at = 0
    for pair in sorted([*pairs_of(source)[0], *headings], key=lambda pair: (pair.start, -pair.end)):
        if pair.start >= at:
            yield pair
            at = pair.end


_MARK = re.compile(r"\[\[|\]\]|\{\{|\}\}|[|=]")


def _divided(source: str, sign: str = "|") -> list[str]:
    """The name of a template and its arguments; the parts of an argument."""
    pieces, start, depth = [], 0, 0
    for match in _MARK.finditer(source):
        if match[0] not in "|=":
            depth += 1 if match[0][0] in "[{" else -1
        elif match[0] == sign and not depth:
            pieces.append(source[start : match.start()])
            start = match.end()
    return [*pieces, source[start:]]


def _named(arguments: Sequence[str]) -> dict[str, Markup]:
    """The arguments by name, those without one by number."""
    named: dict[str, Markup] = {}
    number = 0
    for argument in arguments:
        name, *value = _divided(argument, "=")
        number += not value
        named[name.strip() if value else str(number)] = Markup("=".join(value) if value else argument)
    return named


_QUALIFIER = re.compile(r" ?\([^()]*\)$|, .*$")


def _without_qualifier(label: str) -> str:
    """The pipe trick: [[Mercury (planet)|]], [[Boston, Massachusetts|]] show their first part."""
    label = label.partition(":")[2] or label
    return _QUALIFIER.sub("", label.strip()) or label
