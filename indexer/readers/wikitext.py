"""Wikitext to running text, with the exact character span of every link.

In the order of MediaWiki's own parser: extension tags and comments are taken out first (what is
inside `<ref>` or `<nowiki>` is no markup), then templates and files by their brackets, then tables,
and what is left is parsed by mwparserfromhell and walked once. The text that comes out of that walk
is laid out and cleaned by edits which carry the links and sections along.

Left out on purpose: templates are not expanded (the few whose argument is running text are in
`_SYMBOLS`, `_ARGUMENT` and `_SHAPES`; all others are dropped), and so are tables, references, files
with their captions, formulas and galleries. Headings are sections and not part of the text.

Source: https://www.mediawiki.org/wiki/Help:Formatting and .../Markup_spec.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

import mwparserfromhell
import regex  # type: ignore[import-untyped]
from mwparserfromhell.nodes import (
    ExternalLink,
    Heading,
    HTMLEntity,
    Node,
    Tag,
    Template,
    Text,
    Wikilink,
)
from mwparserfromhell.wikicode import Wikicode

from indexer.documents import Link, Section

Edit = tuple[int, int, str]
"""text[start:end] becomes the string."""


@dataclass(frozen=True, slots=True)
class Target:
    """What `[[...]]` points to. `id`: the document, None where the link leaves only its text."""

    id: str | None = None
    label: str = ""
    """What is shown where the link has no text of its own."""
    hidden: bool = False
    """Nothing is shown: files, categories, the sidebar's links to other languages."""


Resolve = Callable[[str], Target]
"""What is between `[[` and `|`, as it is written, to its target."""

# Marks in the source while it is worked on. XML 1.0 forbids these characters: no export has them.
_KEPT, _KEPT_END = "\x01", "\x02"  # around the number of a piece that is no markup
_GAP = "\x03"  # something was taken out here: a word behind it is no part of the link before it
_ITEM = "\x04"  # a list item begins
# Characters that open no markup where they stand. mwparserfromhell would try each of them, in time
# that grows with the square of their number and in recursion that can overflow the C stack.
_LITERALS = str.maketrans("[=<]", "\x05\x06\x07\x08")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?=\n)")

_DEEPEST = 20  # templates and links nested deeper are dropped: nobody reads them


def read_wikitext(
    source: str, resolve: Resolve
) -> tuple[str, tuple[Link, ...], tuple[Section, ...]]:
    """Text, links and sections of a page. `RecursionError` is the caller's to catch."""
    kept: list[str] = []
    source = _CONTROLS.sub("", source).replace("\r", "\n")
    source = _take_out_extensions(source, kept)
    source = _TAG.sub(_replace_tag, _SUPERSCRIPT.sub(_superscript, source))
    source = _EXTERNAL_LINK.sub(_label, source)
    source = _BRACKETED.sub(lambda match: match[0].translate(_LITERALS), source)
    source = _drop_brackets(source, resolve)
    source = _BRACKET.sub("[".translate(_LITERALS), source).replace("<", "<".translate(_LITERALS))
    source = _drop_tables(source)
    source = _QUOTED_LINE.sub(_drop_quotes, source)
    for pattern, replacement in _LINES:
        source = pattern.sub(replacement, source)
    source = _HEADING.sub(_keep_heading, source)
    walk = _Walk(resolve)
    walk.code(mwparserfromhell.parse(source, skip_style_tags=True))
    return _clean(walk, kept)


# --- extension tags and HTML ---

_RAW = ("nowiki", "pre", "source", "syntaxhighlight")  # their content is text and not markup
_DROPPED = (
    "ref", "references", "math", "chem", "ce", "gallery", "timeline", "score", "imagemap", "hiero",
    "graph", "mapframe", "maplink", "templatedata", "templatestyles", "categorytree", "inputbox",
    "section", "includeonly", "style", "table",
)  # fmt: skip
_EXTENSION = re.compile(
    rf"(?:(?<=\n)[ \t]*+(?><!--.*?-->)[ \t]*+\n|<!--.*?(?:-->|\Z))"
    rf"|<({'|'.join(_RAW + _DROPPED)})(?=[\s/>])([^<>]*)>",
    re.IGNORECASE | re.DOTALL,
)


def _take_out_extensions(source: str, kept: list[str]) -> str:
    """Drop comments and the tags of `_DROPPED` with their content; put aside that of `_RAW`."""
    pieces: list[str] = []
    position = 0
    unclosed: set[str] = set()
    while match := _EXTENSION.search(source, position):
        pieces.append(source[position : match.start()])
        position = match.end()
        if match[1] is None:
            continue
        name = match[1].lower()
        content = ""
        if not match[2].endswith("/") and name not in unclosed:
            closing = _closing(source, name, position)
            if closing is None:
                unclosed.add(name)  # an opening tag alone is dropped without what follows it
            else:
                content = source[position : closing.start()]
                position = closing.end()
        pieces.append(_GAP)
        if name in _RAW and content.strip():
            if name in ("nowiki", "pre"):
                content = html.unescape(content).replace("\xa0", " ")
            around = "" if name == "nowiki" or "\n" not in content else "\n\n"
            pieces.append(f"{around}{_KEPT}{len(kept)}{_KEPT_END}{around}")
            kept.append(content.strip("\n") if around else content)
    pieces.append(source[position:])
    return "".join(pieces)


def _closing(source: str, name: str, position: int) -> re.Match[str] | None:
    # Only tables nest: for the others MediaWiki, too, takes the first closing tag.
    depth = 1
    for match in re.compile(rf"<(/)?{name}(?(1)\s*|(?:\s[^<>]*)?)>", re.IGNORECASE).finditer(
        source, position
    ):
        depth += -1 if match[1] else name == "table"
        if not depth:
            return match
    return None


# fmt: off
_INLINE = frozenset([
    "abbr", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i",
    "ins", "kbd", "mark", "noinclude", "onlyinclude", "q", "rb", "rp", "rt", "ruby", "s", "samp",
    "small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr",
    *_RAW, *_DROPPED,
])
_BLOCK = frozenset([
    "blockquote", "caption", "center", "div", "dl", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "ol",
    "p", "poem", "tbody", "td", "th", "thead", "tr", "ul",
])
# fmt: on
_TAG = re.compile(r"</?([a-zA-Z][a-zA-Z0-9]*)(?=[\s/>])[^<>]*>|__[^\W\d_]{3,40}__")
_SUPERSCRIPT = re.compile(r"<sup>\s*([-+−–]?\d{1,5}[-+−]?)\s*</sup>", re.IGNORECASE)
_RAISED = str.maketrans("0123456789+-−–", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻")


def _superscript(match: re.Match[str]) -> str:
    # 10<sup>6</sup> must not become the number 106.
    return match[1].translate(_RAISED)


def _replace_tag(match: re.Match[str]) -> str:
    if match[1] is None:  # __TOC__; __init__ is somebody's text
        return "" if match[0] == match[0].upper() else match[0]
    name = match[1].lower()
    if name == "br":
        return " "
    if name in ("li", "dt", "dd"):
        return f"\n{_ITEM}"
    if name in _BLOCK:
        return "\n\n"
    return _GAP if name in _INLINE else match[0]


# --- templates, files, tables ---

_EXTERNAL_LINK = re.compile(
    r"\[(?:(?:https?|ftps?|ircs?|news|nntp|gopher|git|svn|telnet|sftp|ssh|worldwind)?:?//|mailto:)"
    r"[^\s\[\]<>|]*+[ \t]*+((?:[^\[\]\n]|\[\[[^\[\]\n]*+\]\])*+)\]",
    re.IGNORECASE,
)
_BRACKET = re.compile(r"(?<!\[)\[(?!\[)|\[(?=\[\[)")
_BRACKETED = re.compile(r"(?<!\[)\[[^\[\]|\n]*+\](?=\]\])")  # [[Foo|a[1]]]
_BRACKETS = re.compile(r"\[\[(?!\[)|\]\]|\{\{+|\}\}+")
_NAME = re.compile(r"\s*([^|{}\[\]<>]{1,40}?)\s*(?:\||\}\})")
_LINK_TITLE = re.compile(r"[^|\[\]{}\n]*")
_UNCLOSED = re.compile(r"\{\{+[^\n|\[\]{}]*(?:\n[ \t]*\|[^\n]*)+")


def _label(match: re.Match[str]) -> str:
    return match[1] + _GAP


def _drop_brackets(source: str, resolve: Resolve) -> str:
    """Drop templates that are not running text, hidden links, and brackets without a partner."""
    cuts: list[tuple[int, int]] = []
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
            # A box that was never closed takes its parameter lines along, and not the page's rest.
            box = _UNCLOSED.match(source, opening) if length else None
            position = box.end() if box else opening + (length or 2)
            cuts.append((opening, position))
    return _cut(source, cuts)


def _is_running_text(source: str, opening: int) -> bool:
    match = _NAME.match(source, opening + 2)
    return match is not None and _shape(match[1]) is not None


def _cut(source: str, cuts: Iterable[tuple[int, int]], instead: str = _GAP) -> str:
    pieces: list[str] = []
    position = 0
    for start, end in sorted(cuts, key=lambda cut: (cut[0], -cut[1])):
        if start >= position:
            pieces += source[position:start], instead
            position = end
        elif end > position:
            position = end
    pieces.append(source[position:])
    return "".join(pieces)


_TABLE_EDGE = re.compile(rf"^[ \t:*#{_GAP}]*(?:(\{{\|)|\|\}}(?!\}}))[^\n]*", re.MULTILINE)


def _drop_tables(source: str) -> str:
    cuts, stack = [], []
    for match in _TABLE_EDGE.finditer(source):
        if match[1]:
            stack.append(match)
        elif stack:
            # What stands behind the end of a table belongs to the page.
            end = source.index("|}", match.start()) + 2
            cuts.append((stack.pop().start(), end))
    cuts += [(match.start(), match.end()) for match in stack]
    return _cut(source, cuts, "\n\n") if cuts else source


# --- lines ---

_QUOTED_LINE = re.compile(r"^.*''.*$", re.MULTILINE)
_QUOTES = re.compile(r"'{2,}")


def _drop_quotes(line: re.Match[str]) -> str:
    """Drop the marks of italics (2), bold (3) and both (5), and keep real apostrophes.

    Where bold and italics both come out odd on a line, one ''' is an apostrophe and italics, as in
    l'''Avare'': after a single letter if there is such a place, else after a word, else anywhere.
    """
    text = line[0]
    runs = [
        (m.start(), m.end(), {2: 2, 3: 3, 4: 3}.get(len(m[0]), 5)) for m in _QUOTES.finditer(text)
    ]
    bold = [start for start, end, size in runs if size == 3]
    odd_bold = (len(bold) + sum(size == 5 for _, _, size in runs)) % 2
    odd_italics = sum(size != 3 for _, _, size in runs) % 2
    apostrophe = -1
    if bold and odd_bold and odd_italics:
        apostrophe = min(bold, key=lambda at: (_rank(text[max(at - 2, 0) : at]), at))
    pieces: list[str] = []
    position = 0
    for start, end, size in runs:
        literal = end - start - size + (start == apostrophe)
        pieces += text[position:start], "'" * literal, _GAP
        position = end
    return "".join(pieces) + text[position:]


def _rank(before: str) -> int:
    if before.endswith(" ") or not before:
        return 2
    return 0 if len(before) == 1 or before[0] == " " else 1


_LINES = [
    (re.compile(pattern, re.MULTILINE), replacement)
    for pattern, replacement in [
        (rf"^ +(?=[^\s|}}{_GAP}])", _ITEM),  # MediaWiki, too, shows such a line as a line
        (rf"^{_GAP}+|{_GAP}[ \t{_GAP}]*$", ""),  # "{{anchor|x}}== Heading ==" is a heading
        (r"^-{4,}", "\n"),
        # "; term : explanation"
        (r"^([*#:]*;(?:[^\n:\[\]{}]*|[^\n]*? )):(?!//)[ \t]*(?=\S)", rf"\1\n{_ITEM}"),
        (r"^[*#:;]+[ \t]*", _ITEM),
        # Language variants: -{zh-hans:A; zh-hant:B}- shows one of them.
        (r"-\{(?!\{)(?:[-A-Za-z;]*+[|:])?([^{};]*+)[^{}]*+\}-", r"\1"),
    ]
]  # fmt: skip


_HEADING = re.compile(r"^=[^\n]*", re.MULTILINE)
_HEADING_PARTS = re.compile(r"(={1,6})(.*?)(\1[ \t]*)", re.DOTALL)


def _keep_heading(line: re.Match[str]) -> str:
    match = _HEADING_PARTS.fullmatch(line[0])
    if match is None or not match[2].strip():
        return line[0].translate(_LITERALS)
    return match[1] + match[2].replace("=", "=".translate(_LITERALS)) + match[3]


# --- templates whose argument is running text ---

_SYMBOLS: Final = {
    "nbsp": " ", "space": " ", "spaces": " ", "thinsp": " ", "thin space": " ", "ndash": "–",
    "en dash": "–", "endash": "–", "–": "–", "mdash": "—", "em dash": "—", "emdash": "—", "—": "—",
    "snd": " – ", "spnd": " – ", "spaced ndash": " – ", "spaced en dash": " – ", "dash": " – ",
    "spaced mdash": " — ", "·": " · ", "middot": " · ", "dot": " · ", "•": " • ", "bullet": " • ",
    "'": "'", "'s": "'s", "' \"": "'\"", "\" '": "\"'", "=": "=", "pi": "π", "sic": "",
    "okina": "ʻ", "hamza": "ʼ",
    "shy": "", "zwj": "\u200d", "zwnj": "\u200c",
}  # fmt: skip
"""Templates that stand for a character, without regard to arguments (unless named below, too)."""

_ARGUMENT: Final = {
    "nowrap": "1", "nobr": "1", "nowiki": "1", "small": "1", "smaller": "1", "big": "1",
    "larger": "1", "em": "1", "strong": "1", "abbr": "1", "abbrv": "1", "tooltip": "1",
    "lang": "2", "transl": "-1", "transliteration": "-1", "script": "2", "linktext": "1",
    "sub": "1", "mvar": "1", "math": "1", "sic": "1", "not a typo": "1", "vanchor": "1",
    "visible anchor": "1", "ill": "1", "interlanguage link": "1", "ill-wd": "1", "link-interwiki":
    "en", "formatnum": "1", "nts": "1", "nihongo": "1", "unicode": "1", "flag": "1",
    "polytonic": "1", "smallcaps": "1", "sc": "1", "keypress": "1", "mono": "1", "plainlist": "1",
    "columns-list": "-1", "div col list": "-1", "column": "1", "color": "2", "gaps": "*",
    "chem": "*", "chem2": "*", "gloss": "1", "angbr": "1", "quote": "1", "blockquote": "1",
    "cquote": "1", "quotation": "1", "bquote": "1",
}  # fmt: skip
"""The argument that is shown; -1: the last, *: all of them, one after another."""

_QUOTATIONS: Final = frozenset({"quote", "blockquote", "cquote", "quotation", "bquote"})

Arguments = dict[str, Wikicode]
Shape = Callable[[Arguments], Sequence[str | Wikicode]]


def _shape(name: str) -> Shape | None:
    """How a template is shown, or None if it is dropped."""
    name = name.replace("_", " ").strip().lower()
    if name in _SHAPES:
        return _SHAPES[name]
    if name in _ARGUMENT or name.startswith("lang-"):
        return lambda arguments: _argument(name, arguments)
    return (lambda _: [_SYMBOLS[name]]) if name in _SYMBOLS else None


def _argument(name: str, arguments: Arguments) -> Sequence[str | Wikicode]:
    which = _ARGUMENT.get(name, "1")
    positional = [arguments[key] for key in map(str, range(1, 20)) if key in arguments]
    if name in _QUOTATIONS:
        shown = arguments.get("text") or arguments.get("quote") or arguments.get("1")
        return ["\n\n", shown, "\n\n"] if shown else []
    if which == "*":
        return positional
    if which == "-1":
        return positional[-1:]
    shown = arguments.get("lt") or arguments.get(which)
    if shown is None:
        return [_SYMBOLS.get(name, "")]
    return [shown]


_BREAK = f"\n{_GAP}\n"  # a heading stood here
_MARKS = f" \n\t\xa0{_GAP}{_ITEM}"


def _words(arguments: Arguments) -> list[str]:
    """The positional arguments as plain text."""
    keys = [key for key in map(str, range(1, 20)) if key in arguments]
    return [html.unescape(str(arguments[key])).strip(_MARKS) for key in keys]


_BETWEEN = {"-": "–", "–": "–", "to": " to ", "to(-)": " to ", "and": " and ", "or": " or ",
            "by": " by ", "x": " × ", "×": " × ", "+/-": " ± ", "±": " ± "}  # fmt: skip
_UNITS = {"C": "°C", "F": "°F", "sqmi": "sq mi", "sqft": "sq ft", "sqkm": "km²", "cuft": "cu ft",
          "cuin": "cu in", "sqin": "sq in", "impgal": "imp gal", "usgal": "US gal",
          "oilbbl": "bbl"}  # fmt: skip
_SMALLER = {"ft": ("in",), "lb": ("oz",), "st": ("lb",), "mi": ("ft", "yd"), "yd": ("ft", "in")}


def _convert(arguments: Arguments) -> Sequence[str]:
    """{{convert|5|km|mi}}: the first measure only, "5 km"; also ranges, and 6 ft 2 in."""
    words = _words(arguments)
    if len(words) < 2:
        return words
    shown, rest = words[0], words[1:]
    while len(rest) >= 3 and rest[0] in _BETWEEN:
        shown, rest = shown + _BETWEEN[rest[0]] + rest[1], rest[2:]
    shown = f"{shown} {_unit(rest[0])}"
    if len(rest) >= 3 and rest[2] in _SMALLER.get(rest[0], ()):
        shown = f"{shown} {rest[1]} {rest[2]}"
    return [shown]


def _unit(name: str) -> str:
    return _UNITS.get(name) or (
        name[:-1] + name[-1].translate(_RAISED) if name[-1:] in ("2", "3") else name
    )


def _fraction(arguments: Arguments) -> Sequence[str]:
    """{{frac|3|1|2}}: "3 1/2"; with one argument its reciprocal."""
    words = _words(arguments)
    if len(words) == 1:
        return ["1/", words[0]]
    return [" ".join([*words[:-2], "/".join(words[-2:])])]


def _circa(arguments: Arguments) -> Sequence[str]:
    """{{circa|1900}}: "c. 1900"."""
    return ["c. " + " – ".join(_words(arguments)[:2])]


_MONTHS = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
]  # fmt: skip


def _as_of(arguments: Arguments) -> Sequence[str | Wikicode]:
    """{{as of|2012|3|lc=y}}: "as of March 2012"."""
    if "alt" in arguments:
        return [arguments["alt"]]
    year_month_day = _words(arguments)[:3]
    if len(year_month_day) > 1 and year_month_day[1].isdecimal():
        month = int(year_month_day[1])
        year_month_day[1] = _MONTHS[month - 1] if 1 <= month <= 12 else ""
    start = "as of " if "lc" in arguments else "As of "
    return [start + " ".join(word for word in reversed(year_month_day) if word)]


def _power(arguments: Arguments) -> Sequence[str]:
    """{{e|6}}: "×10⁶"."""
    return ["×10", "".join(_words(arguments)[:1]).translate(_RAISED)]


def _value(arguments: Arguments) -> Sequence[str]:
    """{{val|6.24|e=18|u=m}}: "6.24×10¹⁸ m"."""
    power = _power({"1": arguments["e"]}) if "e" in arguments else []
    unit = arguments.get("u") or arguments.get("ul")
    return [*_words(arguments)[:1], *power, f" {unit}" if unit else ""]


def _raised(arguments: Arguments) -> Sequence[str]:
    """{{sup|2}}: a superscript."""
    return ["".join(_words(arguments)[:1]).translate(_RAISED)]


_SHAPES: Final[dict[str, Shape]] = {
    "convert": _convert, "cvt": _convert, "frac": _fraction, "fraction": _fraction,
    "sfrac": _fraction, "circa": _circa, "c.": _circa, "as of": _as_of, "asof": _as_of,
    "e": _power, "val": _value, "sup": _raised,
}  # fmt: skip


# --- the walk ---

# Letters behind a link belong to it: [[planet]]s. MediaWiki lists them for each language; scripts
# without lower case, such as Chinese, have none.
_TRAIL = regex.compile(r"\p{Ll}+")
_INVISIBLE = str.maketrans(
    {after: chr(before) for before, after in _LITERALS.items()}
    | dict.fromkeys("\xa0\u2007\u2009\u200a\u202f\u3000", " ")
    | dict.fromkeys(f"{_GAP}\u00ad\u200b\u200e\u200f\u2060\ufeff")
)


@dataclass(slots=True)
class _Walk:
    """What a page shows, in document order, before it is laid out."""

    resolve: Resolve
    pieces: list[str] = field(default_factory=list)
    length: int = 0
    links: list[tuple[int, int, str]] = field(default_factory=list)
    headings: list[tuple[int, str, int]] = field(default_factory=list)
    inside_link: bool = False

    def code(self, code: Wikicode) -> None:
        """Walk over the nodes of a piece of wikitext."""
        trail_of: str | None = None  # target of the link just before, "" for one without target
        for node in code.nodes:
            if isinstance(node, Text):
                value = node.value
                if trail_of is not None and (trail := _TRAIL.match(value)):
                    self._extend_link(trail[0], trail_of)
                    value = value[trail.end() :]
                self.text(value)
                trail_of = None
            elif isinstance(node, Wikilink):
                trail_of = self._link(node)
            else:
                trail_of = None
                self._node(node)

    def text(self, value: str) -> None:
        """Show a piece of text."""
        value = value.translate(_INVISIBLE)
        self.pieces.append(value)
        self.length += len(value)

    def show(self, parts: Iterable[str | Wikicode]) -> None:
        """Show pieces of text and of wikitext."""
        for part in parts:
            if isinstance(part, str):
                self.text(part)
            else:
                self.code(part)

    def _node(self, node: Node) -> None:
        if isinstance(node, HTMLEntity):
            self.text(html.unescape(str(node)))
        elif isinstance(node, ExternalLink):
            self.text(str(node))  # an address as it stands; those in brackets are gone
        elif isinstance(node, Template):
            shape = _shape(str(node.name))
            if shape is not None:
                self.show(shape({str(p.name).strip(): p.value for p in node.params}))
        elif isinstance(node, Heading):
            heading = _Walk(self.resolve)
            heading.code(node.title)
            self.pieces.append(_BREAK)
            self.length += len(_BREAK)
            self.headings.append((self.length, _clean(heading, [])[0], node.level))
        elif isinstance(node, Tag) and node.contents is not None:
            self.code(node.contents)

    def _link(self, node: Wikilink) -> str | None:
        title = str(node.title).replace(_GAP, "")
        target = self.resolve(title)
        if target.hidden:
            return None
        start, outermost = self.length, not self.inside_link
        self.inside_link = True
        if node.text is not None and str(node.text).strip(f" {_GAP}"):
            self.code(node.text)
        else:
            self.text(target.label if node.text is None else _without_qualifier(target.label))
        if outermost:
            self.inside_link = False
            if target.id is not None and self.length > start:
                self.links.append((start, self.length, target.id))
        return target.id or "" if outermost else None

    def _extend_link(self, trail: str, target: str) -> None:
        self.text(trail)
        if target and self.links:
            start, _, target = self.links.pop()
            self.links.append((start, self.length, target))


def _without_qualifier(label: str) -> str:
    """The pipe trick: [[Mercury (planet)|]], [[Boston, Massachusetts|]] show their first part."""
    label = label.partition(":")[2] or label
    return re.sub(r" ?\([^()]*\)$|, .*$", "", label.strip()) or label


# --- layout and cleaning ---


def apply_edits(
    text: str, edits: Sequence[Edit], spans: Iterable[tuple[int, int]]
) -> tuple[str, list[tuple[int, int]]]:
    """The edited text, and where each half-open span of characters went.

    `edits` are sorted and do not overlap. A span keeps those of its characters that are kept, and a
    replacement if it held all of the characters replaced. A point (start == end) stays a point, and
    moves behind the replacement of what was around it.
    """
    pieces: list[str] = []
    position = 0
    for start, end, replacement in edits:
        pieces += text[position:start], replacement
        position = end
    pieces.append(text[position:])
    starts = [edit[0] for edit in edits]
    ends = [edit[1] for edit in edits]
    # moved[i]: by how much text moves behind the first i edits.
    moved = [0, *accumulate(len(new) - (end - start) for start, end, new in edits)]

    def opening(at: int) -> int:
        edit = bisect_left(starts, at) - 1  # the last edit that starts before
        return (max(at, ends[edit]) if edit >= 0 else at) + moved[edit + 1]

    def closing(at: int) -> int:
        edit = bisect_right(ends, at)  # the first edit that ends behind
        return (min(at, starts[edit]) if edit < len(starts) else at) + moved[edit]

    mapped = []
    for start, end in spans:
        first = opening(start)
        mapped.append((first, max(first, closing(end))))
    return "".join(pieces), mapped


def _clean(walk: _Walk, kept: Sequence[str]) -> tuple[str, tuple[Link, ...], tuple[Section, ...]]:
    text = "".join(walk.pieces)
    spans = [(start, end) for start, end, _ in walk.links]
    spans += [(start, start) for start, _, _ in walk.headings]
    text, spans = apply_edits(text, _layout(text), spans)
    for _ in range(8):  # "( ( ) )": what is empty can stand in what is empty
        edits = [
            (match.start(), match.end(), _DEBRIS_BECOMES[match.lastgroup or ""])
            for match in _DEBRIS.finditer(text)
        ]
        if not edits:
            break
        text, spans = apply_edits(text, edits, spans)
    if kept:
        edits = [
            (match.start(), match.end(), kept[int(match[1])]) for match in _KEPT_MARK.finditer(text)
        ]
        text, spans = apply_edits(text, edits, spans)
    shown = text.rstrip()
    links = []
    for (start, end), (_, _, target) in zip(spans, walk.links, strict=False):
        anchor = text[start:end]
        start += len(anchor) - len(anchor.lstrip())
        end = start + len(anchor.strip())
        if start < end:
            links.append(Link(start, end, target))
    sections = tuple(
        Section(min(start, len(shown)), heading, level)
        for (start, _), (_, heading, level) in zip(
            spans[len(walk.links) :], walk.headings, strict=True
        )
    )
    return shown, tuple(links), sections


def _layout(text: str) -> list[Edit]:
    """Lines to paragraphs (a blank line between them) and list items (a line each).

    Lines that show nothing but punctuation, and the rows of tables that were never opened, go.
    """
    edits: list[Edit] = []
    position = previous_end = 0
    first, previous_item, blank, heading = True, False, False, False
    for line in text.split("\n"):
        content = line.strip(_MARKS)
        start = position + (line.index(content[0]) if content else 0)
        item = _ITEM in line[: start - position]
        position += len(line) + 1
        if not _WORD.search(content) or content[0] == "|":
            blank = True
            heading = heading or _GAP in line
            continue
        if first:
            between = ""
        elif item and not heading and (previous_item or not blank):
            between = "\n"
        else:
            between = "\n\n" if blank or previous_item else " "
        end = start + len(content)
        if between != " " and (stray := _STRAY.match(text, start)):
            start = stray.end()
        edits.append((previous_end, start, between))
        previous_end, previous_item = end, item
        first = blank = heading = False
    edits.append((previous_end, len(text), ""))
    return edits


_WORD = re.compile(r"\w")
_STRAY = re.compile(r"[ ,;:.]+[ ](?=[\w(])")  # what a template before it left: ", born 1950"
_KEPT_MARK = re.compile(rf"{_KEPT}(\d+){_KEPT_END}")

# Every alternative begins with a plain character, so that the search skips ordinary text fast.
_DEBRIS = re.compile(
    r"""
    (?P<nothing>
        [ ](?<=\w\.[ ])\.(?!\S|[ ]\.)                # "1888. ."
      | [ ](?=[ )]|[,;](?:[ \n)\]"”]|\Z))
      | [ ](?<!\.[ ])(?=\.(?![\w.]|[ ]\.))           # a space before a comma
      | \((?<!\w\()[ ,;:/–—-]*\) | \([ ,;:/–—-]+\)   # brackets around nothing, not main()
      | [,;](?=[ ][–—][ ])                             # "(x; – 1982)"
      | ,(?=[ ]*(?:[,;][ ]|\))) | ;(?=[ ]*\))        # ", ,", "1950, )"
      | \[[ ,;]*\]
      | \[\[ | \]\] | \{\{+ | \}\}+ | \{\| | \|\}    # brackets without a partner
    )
    | (?P<bracket> \([ ,;:]+ )                       # "(; born 1950)"
    | (?P<semicolon> ;[ ]*,(?=[ ]) )
    | (?P<space> \t | \x04 )
    """,
    re.VERBOSE,
)
_DEBRIS_BECOMES = {"nothing": "", "bracket": "(", "semicolon": ";", "space": " "}
