"""Dialects of Markdown as CommonMark: what site generators and note programs add to it.

Blocks become their content (`markdown_blocks`), links become links (shortcodes, Liquid tags, roles), and
tags that a generator would fill in are dropped and counted by name. Code is never touched. What is
unmistakable is read in every folder; the rest depends on the dialect, which config files show, or
`--markdown`.

Source: the documentation of MkDocs with Material and pymdown, Hugo, Jekyll, MDX, Docusaurus, MyST, Obsidian,
Logseq, VitePress and MDN.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable
from functools import lru_cache
from pathlib import Path

from linkseek.indexer.readers.folder.page_targets import LABEL
from linkseek.indexer.readers.markdown.markdown_blocks import DIALECTS, shown_blocks, without_indents
from linkseek.indexer.readers.markdown.markdown_tags import (
    TAGS,
    Dropped,
    arguments_of,
    paragraphs,
    shown_by,
    without_tags,
)

EDITS = "deletions and comments in CriticMarkup"
COMMENTS = "comments of authors"
IMPORTS = "imports and exports of MDX"

OF_MDX = ("mdx", "docusaurus")
LINK_COMPONENTS = ("Link", "NavLink", "NuxtLink", "RouterLink", "RouteLink", "router-link", "Anchor")

TOO_MANY = "pages read as plain CommonMark: too many tags"

_MAX_OPENINGS = 5_000  # each may be searched for its end through the rest of the page
_OPENING = re.compile(
    r"\{%|\{\{|\{/\*|\{::|\{(?:--|~~|\+\+|==|>>)|^import\b|^[ \t]*(?::LOGBOOK:|~~~|```)|#\+begin_query",
    re.MULTILINE | re.IGNORECASE,
)


def dialect_of(folder: Path, names: Iterable[str]) -> str:
    """The dialect that the files of a folder show; empty if no dialect is recognised."""
    listed = set(names)
    for dialect, names in DIALECTS["configs"].items():
        if any(name in listed or f"docs/{name}" in listed for name in names):
            return str(dialect)
    if any((above / ".obsidian").is_dir() for above in (folder.absolute(), *folder.absolute().parents[:2])):
        return "obsidian"
    if (folder / ".eleventy.js").is_file():
        return "jekyll"
    tops = {name.partition("/")[0] for name in listed}
    return "logseq" if {"pages", "journals"} <= tops else ""


def to_commonmark(source: str, dialect: str, dropped: Dropped, anchors: Container[str] = ()) -> str:
    """The source of a page without its front matter; what is dropped is counted. anchors: of other pages."""
    if dialect == "plain":
        return source
    if sum(1 for _ in _OPENING.finditer(source)) > _MAX_OPENINGS:
        dropped[TOO_MANY, ""] += 1
        return source
    lines = source.replace("\r\n", "\n").split("\n")
    if dialect in OF_MDX:
        lines = without_indents(lines)
    source = "\n".join(shown_blocks(lines, dialect, dropped))
    return _outside_code(
        source, lambda text: _references(_text(text, dialect, dropped), dialect, dropped, anchors)
    )


_PROTECTED = re.compile(
    r"^(?P<fence>(?:[ \t]*(?:[-*+>][ \t]+|\d+[.)][ \t]+)?)(?P<mark>`{3,}|~{3,})[^\n]*\n"
    r"(?:.*?\n)??[ \t>]*(?P=mark)[`~]*[ \t]*$"
    r"|(?:[ \t]*)(?:`{3,}|~{3,})[^\n`]*\n(?s:.)*\Z)"
    r"|(?P<role>\{[\w:+-]+\}`[^`\n]+`)"
    r"|(?P<ticks>(?<!`)(?P<tick>`+)(?!`)(?:(?!\n[ \t]*\n)(?s:.))*?(?<!`)(?P=tick)(?!`))",
    re.MULTILINE | re.DOTALL,
)


def _outside_code(source: str, change: Callable[[str], str]) -> str:
    """Apply a change to the text between blocks and spans of code, which hold their place meanwhile."""
    kept: list[str] = []

    def keep(match: re.Match[str]) -> str:
        if match["role"]:
            return _role(match["role"])
        kept.append(match[0])
        return f"{_PLACE}{len(kept) - 1}{_PLACE}"

    source = change(_PROTECTED.sub(keep, source.replace(_PLACE, "")))
    return re.sub(f"{_PLACE}(\\d+){_PLACE}", lambda match: kept[int(match[1])], source)


_PLACE = "\ufdd0"  # no character


_ROLE = re.compile(r"\{([\w:+-]+)\}`(.*)`$", re.DOTALL)
_TEXT_AND_TARGET = re.compile(r"(.*?)\s*<([^<>]+)>$", re.DOTALL)


def _role(role: str) -> str:
    """{doc}`text <guide>` as a link; of other roles the text."""
    match = _ROLE.match(role)
    assert match is not None
    name, content = match[1].rpartition(":")[2], match[2]
    pair = _TEXT_AND_TARGET.match(content)
    text, target = (pair[1], pair[2]) if pair else ("", content)
    if name in ("doc", "download", "any") or (name == "external" and "/" in target):
        return f"[{text}](<{target}>)"
    if name in ("ref", "numref", "eq", "std:ref"):
        return f"[{text}](<{LABEL}{target.strip()}>)"
    shown = text if pair else content.lstrip("!~")
    return f"`{shown}`" if name in ("code", "literal", "samp", "command", "file") else shown


_SPAN = r"(?=[^\sM])((?:(?!MM|\n[ \t]*\n).){1,500}?)(?<=[^\sM])MM"
_PART = r"(?!\n[ \t]*\n)[^{}\ufdd0]"  # no blank line, no code
_BRACES = r"\{(?:P|\{(?:P|\{P{0,999}\}){0,999}\}){1,999}\}"
_JSX = r"[ \t]*<(/?)([A-Z][\w.]*)((?:\s[^<>]*?)?)/?>[ \t]*"
_EXPRESSION = re.compile(r"\s+(?:[\w:.-]+=)?" + _BRACES.replace("P", r"(?!\n[ \t]*\n)[^{}]"))
_STRING_VALUE = re.compile(r"=\{\s*(?:useBaseUrl\()?([\"'])([^\"'\n]*)\1\)?\s*\}")


def _up_to(end: str) -> str:
    """The content of an edit."""
    return rf"(?:(?!{end}).){{0,2000}}+"


def _tag(match: re.Match[str]) -> str:
    """A tag of MDX without the attributes that are expressions, <Tab open={true}> as <Tab>; <Tabs.Tab> is no
    tag of HTML."""
    tag = _EXPRESSION.sub("", _STRING_VALUE.sub(r'="\2"', match[0]))
    return re.sub(r"\A</?[A-Z]\w*(?:\.\w+)+", lambda name: name[0].replace(".", ""), tag)


def _anchor(tag: re.Match[str]) -> str:
    """A component that is a link as HTML's own element; a line that begins with <Link is no paragraph."""
    attributes = re.sub(r"(?<=\s)to=", "href=", tag[2])
    return f"<{tag[1]}a{attributes}>"


def _component(tag: re.Match[str]) -> str:
    """A component on a line of its own: what its attributes show, above its content."""
    values = arguments_of(tag[3])
    content = tag[4] if tag.re.groups > 3 else ""
    if content and not shown_by(values):
        return tag[0]
    return paragraphs(values) + (f"\n{content}\n" if content else "")


def _keys(match: re.Match[str]) -> str:
    """ctrl+page-up as it is shown: Ctrl+Page Up."""
    keys = re.findall(r"\"[^\"]+\"|[\w-]+", match[1])
    return "+".join(key[1:-1] if key[0] == '"' else key.replace("-", " ").title() for key in keys)


def _name(written: str) -> str:
    return " ".join(written.casefold().split())


@lru_cache(maxsize=1)
def _defined(text: str) -> frozenset[str]:
    return frozenset(map(_name, re.findall(r"^ {0,3}\[([^\[\]\n]+)\]:", text, re.MULTILINE)))


_REFERENCE = re.compile(r"(?<![!\]\\\w])\[([^\[\]\n]+)\]\[([^\[\]\n]*)\]")


def _references(text: str, dialect: str, dropped: Dropped, anchors: Container[str]) -> str:
    """The text with [text][name] that no line defines as a link to the only heading of that name."""

    def reference(match: re.Match[str]) -> str:
        name = match[2] or match[1]
        if _name(name) in _defined(text):
            return match[0]
        if (slug := name.strip("`").lower().replace(" ", "-")) in anchors:
            return f"[{match[1]}](<{LABEL}{slug}>)"
        dropped[TAGS, ""] += dialect == "mkdocs"  # an entry that mkdocstrings makes
        return match[1] if dialect == "mkdocs" else match[0]

    return _REFERENCE.sub(reference, text) if "][" in text else text


_Shown = str | Callable[[re.Match[str]], str]


def _rule(dialects: str, pattern: str, shown: _Shown = "", reason: str = "", flags: int = re.M) -> _Rule:
    return frozenset(dialects.split()), re.compile(pattern, flags), shown, reason


_Rule = tuple[frozenset[str], re.Pattern[str], _Shown, str]
_RULES: list[_Rule] = [
    _rule("none obsidian logseq", r"%%(?!%).*?%%", "", COMMENTS, re.S),
    # Properties, logbooks, blocks of Org, and references to blocks.
    _rule("logseq", r"^[ \t]*(?:[-*][ \t]+)?[\w.?/-]+::(?:[ \t].*)?$"),
    _rule("logseq", r"^[ \t]*:LOGBOOK:(?s:.)*?:END:[ \t]*$|^[ \t]*(?:SCHEDULED|DEADLINE): <[^>\n]*>[ \t]*$"),
    _rule("logseq", r"#\+begin_query\b(?s:.)*?#\+end_query\b|#\+(?:begin|end)_\w+[^\n]*|\[#[A-C]\][ \t]",
          "", "", re.I),
    _rule("logseq", r"\(\([0-9a-f-]{36}\)\)", "", TAGS),
    _rule("myst", r"^%.*$", "", COMMENTS),
    _rule("myst", r"^(?:\+\+\+.*|\^{3,}[ \t]*)$"),
    _rule("", r"\{/\*.*?\*/\}", "", COMMENTS, re.S),
    _rule("", r"^import[ \t]+(?:[\w*{$][\w*{}$,\s]*?[ \t\n]from[ \t]*)?(['\"])[^'\"\n]+\1[ \t]*;?[ \t]*$",
          "", IMPORTS),
    _rule("", r"^export[ \t]+(?:const|let|var|function|class|default|async|\{|\*)"
              r"(?:(?!\n[ \t]*\n)[^\ufdd0])*", "", IMPORTS),
    # Included files: of pymdown, VuePress and DocFX.
    _rule("", r"^[ \t]*-{1,}8<-{1,}[ \t]*(?:[\"'][^\n]*|\n(?:(?![ \t]*-+8<)[^\n]{0,500}\n)"
              r"{0,100}[ \t]*-+8<-+[ \t]*)$", "", TAGS),
    _rule("", r"^(?:<<<[ \t]*@?[\w./]|@\[code)[^\n]*$|:::(?:image|code)\b[^\n]*?:::"
              r"|\[!(?:include|video|code[\w-]*)\s*(?:\[[^\[\]\n]*\]\([^()\n]*\)|[^\[\]\n]*)\]",
          "", TAGS, re.M | re.I),
    # Options of kramdown, tables of contents, terms of DocFX, references within a book of Quarto.
    _rule("", r"\{::comment\}.*?\{:/(?:comment)?\}|\{:[:/][^{}\n]*\}", "", TAGS, re.S),
    _rule("", r"^[ \t]*(?:\[TOC\]|\[\[(?:_?TOC_?|_TOSP_)\]\]|\$\{toc\}|(?:[-*][ \t]+TOC\n)?"
              r"\{:[ \t]*toc\s*\})[ \t]*$", "", "", re.M | re.I),
    _rule("", r"\[!(?:UICONTROL|DNL)\s+([^\[\]\n]+)\]", r"\1"),
    _rule("quarto", r"(?<![\w@])@(sec-[\w-]*\w)", rf"[](<{LABEL}\1>)"),
    # Names of headings: of Docsify, Nextra and Fumadocs; Docsify's notes; Markdown within HTML.
    _rule("", r"^(#{1,6}[ \t][^\n]*?):id=([\w-]+)[ \t]*$", r"\1{#\2}"),
    _rule("mdx docusaurus", r"^(#{1,6}[ \t][^\n]*?)\[#([\w-]+)\][ \t]*$", r"\1{#\2}"),
    _rule("", r"^[!?]>[ \t]"),
    _rule("", r"^([ \t]*<(?:aside|[a-z]+\b[^<>]*\smarkdown\b[^<>]*)>"
              r"(?:\s*<summary\b[^\n]*?</summary>)?)[ \t]*$", r"\1\n"),
    # Fragments, expressions and components of MDX.
    _rule("mdx docusaurus", r"</?>"),
    _rule("mdx docusaurus", "\\{\\s*(\ufdd0\\d+\ufdd0)\\s*\\}", r"\1"),  # {`text`}
    _rule("mdx docusaurus", r"</?[A-Za-z](?:[^<>{}\"']|\"[^\"<>]*\"|'[^'<>]*'|B)*+>".replace(
        "B", _BRACES.replace("P", r"(?!\n[ \t]*\n)[^{}]")), _tag),
    _rule("mdx docusaurus", r"(?<!=)\{\s*([\"'])([^\"'\n]*)\1\s*\}",
          lambda match: re.sub(r"(?=[^\w\s])", r"\\", match[2])),  # {' '}
    _rule("mdx docusaurus", r"(?<![\\\w$={])(?=\{[^#:.{])" + _BRACES.replace("P", f"(?:{_PART})"), "", TAGS),
    _rule("", _STRING_VALUE.pattern, r'="\2"'),
    _rule("", rf"<(/?)(?:{'|'.join(LINK_COMPONENTS)})\b([^<>]*)>", _anchor),
    _rule("", r"^[ \t]*<()([A-Z][\w.]*)(\s[^<>\n]*)>([^\n]+?)</\2>[ \t]*$", _component),
    _rule("", f"^{_JSX}$", _component),
    _rule("", r"^\([\w:. /-]+\)=[ \t]*$"),  # a label of MyST
    # Relations of Notion's properties.
    _rule("", r"(?:(?<=: )|(?<=, ))([^\s,:()\[\]][^,:()\[\]\n]{0,100}) "
              r"\(([^()\s]{1,400}%20[0-9a-f]{32}\.(?:md|csv))\)", r"[\1](\2)"),
    _rule("", r"\[([^\[\]\n]+)\]\(\[\[([^\[\]\n]+)\]\]\)", r"[[\2|\1]]"),
    # CriticMarkup.
    _rule("", rf"\{{~~{_up_to('~>|~~}')}~>({_up_to('~~}')})~~\}}", r"\1", "", re.S),
    _rule("", rf"\{{--{_up_to('--}')}--\}}|\{{>>{_up_to('<<}')}<<\}}", "", EDITS, re.S),
    _rule("", rf"\{{\+\+({_up_to('[+][+]}')})\+\+\}}|\{{==({_up_to('==}')})==\}}", r"\1\2", "", re.S),
    # Marks within a line: [text]{.class}, abbreviations, icons, highlights, keys, names of blocks, tags.
    _rule("", r"(?<![!\]\\\w])\[([^\[\]\n]+)\]\{(?:[.#][\w-]|[\w-]+=)[^{}\n]*\}", r"\1"),
    _rule("", r"^\*\[[^\]\n]+\]:.*$"),
    _rule("", r":(?:material|octicons|fontawesome|simple)(?:-\w+)+:(?:\{[^{}\n]*\})?[ \t]?"),
    _rule("", r"(?<![=\w])==" + _SPAN.replace("M", "=") + r"(?![=\w])", r"\1", "", re.S),
    _rule("none mkdocs logseq", r"(?<!\^)\^\^" + _SPAN.replace("M", r"\^") + r"(?!\^)", r"\1", "", re.S),
    _rule("mkdocs quarto", r"(?<![\\^~])([\^~])([^\s^~\[\]]{1,40})\1(?!\1)", r"\2"),
    _rule("mkdocs", r"^([ \t]*);(?=-+8<-+)", r"\1"),
    _rule("mkdocs", r"(?<!\+)\+\+((?:[\w-]+|\"[^\"\n]+\")(?:\+(?:[\w-]+|\"[^\"\n]+\"))*)\+\+(?!\+)", _keys),
    _rule("obsidian wiki", r"(?:(?<=\s)|^)\^[A-Za-z0-9-]+[ \t]*$"),
    _rule("logseq", r"(?<![\w#/&\[(\]])#(?!\d+\b)([^\s#,.;:!?\[\](){}\"'<>|`]+)", r"[[\1|#\1]]"),
]  # fmt: skip
"""What marks and tags of dialects become, in order: (dialects, pattern, what is shown, why it is counted).

No dialect: all of them. "none" is a folder without a dialect, "wiki" such a page with links as [[page]].
"""


def _text(text: str, dialect: str, dropped: Dropped) -> str:
    dialects = {dialect or "none", "" if dialect or "[[" not in text else "wiki"}
    for only, pattern, shown, reason in _RULES:
        if only and only.isdisjoint(dialects):
            continue

        def change(match: re.Match[str], shown: _Shown = shown, reason: str = reason) -> str:
            instead = match.expand(shown) if isinstance(shown, str) else shown(match)
            dropped[reason, ""] += bool(reason) and instead != match[0]
            return instead

        text = pattern.sub(change, text)
    return without_tags(text, dialect, dropped)
