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
from collections.abc import Callable, Iterable
from pathlib import Path

from linkseek.indexer.readers.markdown.markdown_blocks import LABEL, shown_blocks, without_indents
from linkseek.indexer.readers.markdown.markdown_marks import without_marks
from linkseek.indexer.readers.markdown.markdown_tags import TAGS, Dropped, without_liquid, without_shortcodes

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

_CONFIGS = {
    "mkdocs.yml": "mkdocs", "mkdocs.yaml": "mkdocs", "properdocs.yml": "mkdocs",
    "hugo.toml": "hugo", "hugo.yaml": "hugo", "hugo.yml": "hugo", "hugo.json": "hugo", "config.toml": "hugo",
    "_config.yml": "jekyll", "_config.yaml": "jekyll", "_config.toml": "jekyll",
    "docusaurus.config.js": "docusaurus", "docusaurus.config.ts": "docusaurus",
    "docusaurus.config.mjs": "docusaurus", "docusaurus.config.cjs": "docusaurus",
    "sidebars.js": "docusaurus", "sidebars.ts": "docusaurus",
    "mint.json": "mdx", "docs.json": "mdx", "next.config.js": "mdx", "next.config.mjs": "mdx",
    "astro.config.mjs": "mdx", "astro.config.ts": "mdx",
    "eleventy.config.js": "jekyll", "eleventy.config.mjs": "jekyll", "quartz.config.ts": "obsidian",
    "pelicanconf.py": "mkdocs",  # which has Python-Markdown, too
    "conf.py": "myst", "myst.yml": "myst", "_toc.yml": "myst",
    "logseq/config.edn": "logseq",
}  # fmt: skip


def dialect_of(folder: Path, names: Iterable[str]) -> str:
    """The dialect that the files of a folder show; empty if no dialect is recognised."""
    listed = set(names)
    found = [dialect for name, dialect in _CONFIGS.items() if name in listed or f"docs/{name}" in listed]
    if found:
        return found[0]
    if (folder / ".obsidian").is_dir():
        return "obsidian"
    if (folder / ".eleventy.js").is_file():
        return "jekyll"
    tops = {name.partition("/")[0] for name in listed}
    return "logseq" if {"pages", "journals"} <= tops else ""


def to_commonmark(source: str, dialect: str, dropped: Dropped) -> str:
    """The source of a page without its front matter; what is dropped is counted."""
    if dialect == "plain":
        return source
    if sum(1 for _ in _OPENING.finditer(source)) > _MAX_OPENINGS:
        dropped[TOO_MANY, ""] += 1
        return source
    lines = source.replace("\r\n", "\n").split("\n")
    if dialect in OF_MDX:
        lines = without_indents(lines)
    source = "\n".join(shown_blocks(lines, dialect, dropped))
    return _outside_code(source, lambda text: _text(text, dialect, dropped))


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


_LABEL = re.compile(r"^\([\w:. /-]+\)=[ \t]*$", re.MULTILINE)
_KRAMDOWN = re.compile(r"\{::comment\}.*?\{:/(?:comment)?\}|\{:[:/][^{}\n]*\}", re.DOTALL)
_COMMENT = re.compile(r"%%(?!%).*?%%", re.DOTALL)
_TOC = re.compile(
    r"^[ \t]*(?:\[TOC\]|\[\[(?:_?TOC_?|_TOSP_)\]\]|\$\{toc\}|(?:[-*][ \t]+TOC\n)?\{:[ \t]*toc\s*\})[ \t]*$",
    re.M | re.I,
)
_PAGE_IN_LINK = re.compile(r"\[([^\[\]\n]+)\]\(\[\[([^\[\]\n]+)\]\]\)")

_IMPORT = re.compile(
    r"^import[ \t]+(?:[\w*{$][\w*{}$,\s]*?[ \t\n}]from[ \t]*)?(['\"])[^'\"\n]+\1[ \t]*;?[ \t]*$", re.M
)
_EXPORT = re.compile(
    r"^export[ \t]+(?:const|let|var|function|class|default|async|\{|\*)(?:(?!\n[ \t]*\n)[^\ufdd0])*", re.M
)
_JSX_COMMENT = re.compile(r"\{/\*.*?\*/\}", re.DOTALL)
_JSX_LINE = re.compile(r"^[ \t]*<(/?)([A-Z][\w.]*)((?:\s[^<>]*?)?)/?>[ \t]*$", re.MULTILINE)
_ATTRIBUTE = re.compile(
    r"""\b(title|label|header|heading|summary|description|href|to|link)=\{?["'`]([^"'`]*)["'`]"""
)
_PART = r"(?!\n[ \t]*\n)[^{}\ufdd0]"  # no blank line, no code
_EXPRESSION = re.compile(
    r"(?<![\\\w$={])\{(?![#:.{])(?:P|\{(?:P|\{P{0,999}\}){0,999}\}){1,999}\}".replace("P", f"(?:{_PART})")
)
_IN_TAG = re.compile(
    r"(<[A-Za-z][\w.]*(?:\s+[\w:.-]+(?:=(?:\"[^\"<>]*\"|'[^'<>]*'))?)*)\s+(?:[\w:.-]+=)?"
    r"\{(?:P|\{(?:P|\{P{0,999}\}){0,999}\}){1,999}\}".replace("P", r"(?!\n[ \t]*\n)[^{}]")
)
_STRING = re.compile(r"(?<!=)\{\s*([\"'])([^\"'\n]*)\1\s*\}")  # {' '}
_FRAGMENT = re.compile(r"</?>")
_DOTTED = re.compile(r"</?[A-Z]\w*(?:\.\w+)+")  # <Tabs.Tab>, which is no tag of HTML
_HEADING_NAME = re.compile(r"^(#{1,6}[ \t][^\n]*?)\[#([\w-]+)\][ \t]*$", re.M)  # of Nextra, Fumadocs
_TEMPLATE = re.compile("\\{\\s*(\ufdd0\\d+\ufdd0)\\s*\\}")  # {`text`}


def _without_expressions(text: str) -> str:
    """Tags without the attributes that are expressions: <Tab open={true}> as <Tab>."""
    for _ in range(_MAX_ATTRIBUTES):
        text, count = _IN_TAG.subn(r"\1", text)
        if not count:
            break
    return text


_MAX_ATTRIBUTES = 20


def _text(text: str, dialect: str, dropped: Dropped) -> str:
    def count(
        pattern: re.Pattern[str], replacement: str | Callable[[re.Match[str]], str], reason: str
    ) -> None:
        nonlocal text
        text, number = pattern.subn(replacement, text)
        if number:
            dropped[reason, ""] += number

    if dialect in ("", "obsidian", "logseq"):
        count(_COMMENT, "", COMMENTS)
    if dialect == "logseq":
        text = _logseq(text)
    if dialect == "myst":
        count(re.compile(r"^%.*$", re.M), "", COMMENTS)
        text = re.sub(r"^(?:\+\+\+.*|\^{3,}[ \t]*)$", "", text, flags=re.M)
    count(_JSX_COMMENT, "", COMMENTS)
    count(_IMPORT, "", IMPORTS)
    count(_EXPORT, "", IMPORTS)
    count(_SNIPPETS, "", TAGS)
    count(_PREPROCESSOR, "", TAGS)
    count(_KRAMDOWN, "", TAGS)
    text = _TERM.sub(r"\1", text)
    if dialect == "quarto":
        text = _CROSS_REFERENCE.sub(lambda match: f"[](<{LABEL}{match[1]}>)", text)
    text = _MARKDOWN_WITHIN.sub(r"\1\n", _DOCSIFY.sub("", _DOCSIFY_NAME.sub(r"\1{#\2}", text)))
    if dialect in OF_MDX:
        text = _HEADING_NAME.sub(r"\1{#\2}", _FRAGMENT.sub("", text))
        text = _DOTTED.sub(lambda match: match[0].replace(".", ""), text)
        text = _without_expressions(_VALUE.sub(r'="\2"', _TEMPLATE.sub(r"\1", text)))
        text = _STRING.sub(lambda match: re.sub(r"(?=[^\w\s])", r"\\", match[2]), text)
        count(_EXPRESSION, "", TAGS)
    text = _COMPONENT_LINK.sub(_anchor, _VALUE.sub(r'="\2"', text))
    text = _JSX_LINE.sub(_jsx, _JSX_PAIR.sub(_jsx_pair, text))
    text = _LABEL.sub("", text)
    text = _TOC.sub("", text)
    text = _PAGE_IN_LINK.sub(r"[[\2|\1]]", text)
    text = without_marks(text, dialect, dropped)
    return without_liquid(without_shortcodes(text, dropped), dialect, dropped)


_JSX_PAIR = re.compile(r"^[ \t]*<([A-Z][\w.]*)(\s[^<>\n]*)>([^\n]+?)</\1>[ \t]*$", re.MULTILINE)
_VALUE = re.compile(r"=\{\s*(?:useBaseUrl\()?([\"'])([^\"'\n]*)\1\)?\s*\}")
_COMPONENT_LINK = re.compile(rf"<(/?)(?:{'|'.join(LINK_COMPONENTS)})\b([^<>]*)>")
_SNIPPETS = re.compile(
    r"^[ \t]*-{1,}8<-{1,}[ \t]*(?:[\"'][^\n]*|\n(?:(?![ \t]*-+8<)[^\n]{0,500}\n){0,100}[ \t]*-+8<-+[ \t]*)$",
    re.M,
)
_PREPROCESSOR = re.compile(
    r"(?<!\\)\{\{\s*#\w+[^{}\n]*\}\}|^(?:<<<[ \t]*@?[\w./]|@\[code)[^\n]*$"
    r"|:::(?:image|code)\b[^\n]*?:::|\[!(?:include|video|code[\w-]*)\s*(?:\[[^\[\]\n]*\]\([^()\n]*\)|[^\[\]\n]*)\]",
    re.M | re.I,
)  # {{#include file}} of mdBook; <<< @/file and @[code](file) of VuePress; [!INCLUDE [x](file)] of DocFX
_CROSS_REFERENCE = re.compile(r"(?<![\w@])@(sec-[\w-]*\w)")  # of Quarto
_DOCSIFY = re.compile(r"^[!?]>[ \t]", re.M)
_DOCSIFY_NAME = re.compile(r"^(#{1,6}[ \t][^\n]*?):id=([\w-]+)[ \t]*$", re.M)
_MARKDOWN_WITHIN = re.compile(
    r"^([ \t]*<(?:aside|[a-z]+\b[^<>]*\smarkdown\b[^<>]*)>(?:\s*<summary\b[^\n]*?</summary>)?)[ \t]*$", re.M
)  # <div markdown="1"> of kramdown and Python-Markdown, <aside> of Notion
_TERM = re.compile(r"\[!(?:UICONTROL|DNL)\s+([^\[\]\n]+)\]")


def _anchor(tag: re.Match[str]) -> str:
    """A component that is a link as HTML's own element; a line that begins with <Link is no paragraph."""
    attributes = re.sub(r"(?<=\s)to=", "href=", tag[2])
    return f"<{tag[1]}a{attributes}>"


def _jsx_pair(element: re.Match[str]) -> str:
    """A component with its content on one line: its title, if it has one, above the content."""
    if not _TITLED.search(element[2]):
        return element[0]
    return f"<{element[1]}{element[2]}>\n\n{element[3]}\n"


_TITLED = re.compile(r"\b(?:title|label|header|heading|summary)=")


def _jsx(tag: re.Match[str]) -> str:
    """A component on a line of its own: its title, as a link if it leads somewhere."""
    values = dict(_ATTRIBUTE.findall(tag[3]))
    title = next(
        (values[name] for name in ("title", "label", "header", "heading", "summary") if name in values), ""
    )
    href = values.get("href") or values.get("to") or values.get("link")
    shown = f"[{title}](<{href}>)" if title and href else title
    return f"\n{shown}\n" + (f"\n{values['description']}\n" if "description" in values else "")


_PROPERTY = re.compile(r"^[ \t]*(?:[-*][ \t]+)?[\w.?/-]+::(?:[ \t].*)?$", re.MULTILINE)
_LOGBOOK = re.compile(
    r"^[ \t]*:LOGBOOK:.*?:END:[ \t]*$|^[ \t]*(?:SCHEDULED|DEADLINE): <[^>\n]*>[ \t]*$", re.M | re.S
)
_MACRO = re.compile(
    r"\{\{(?:embed|query|renderer|video|youtube|tweet|cards?|cloze)\b[^{}]*\}\}|\(\([0-9a-f-]{36}\)\)"
)


_ORG_BLOCK = re.compile(
    r"#\+begin_query\b(?s:.)*?#\+end_query\b|#\+(?:begin|end)_\w+[^\n]*|\[#[A-C]\][ \t]", re.I
)


def _logseq(text: str) -> str:
    """Without properties, logbooks, marks of blocks, macros and references to blocks."""
    return _MACRO.sub("", _ORG_BLOCK.sub("", _LOGBOOK.sub("", _PROPERTY.sub("", text))))
