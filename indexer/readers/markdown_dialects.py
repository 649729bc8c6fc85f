"""Dialects of Markdown as CommonMark: what site generators and note programs add to it.

Blocks become their content (admonitions, tabs, containers, directives), links become links (shortcodes,
Liquid tags, roles), and tags that a generator would fill in are dropped and counted by name. Code is never
touched. What is unmistakable is read in every folder; the rest depends on the dialect, which config files
show, or `--markdown`.

Source: the documentation of MkDocs with Material and pymdown, Hugo, Jekyll, MDX, Docusaurus, MyST, Obsidian,
Logseq, Dendron, VitePress and MDN.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from linkseek.indexer.readers.markdown_marks import without_marks
from linkseek.indexer.readers.markdown_tags import TAGS, Dropped, without_liquid, without_shortcodes

COMMENTS = "comments of authors"
IMPORTS = "imports and exports of MDX"

OF_MDX = ("mdx", "docusaurus")

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
    "dendron.yml": "dendron", "dendron.code-workspace": "dendron", "logseq/config.edn": "logseq",
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
        lines = _without_indents(lines)
    source = "\n".join(_blocks(lines, dialect, dropped))
    return _outside_code(source, lambda text: _text(text, dialect, dropped))


# --- blocks ---

_FENCE = re.compile(r"^([ \t]*(?:[-*+>]\s+|\d+[.)]\s+)?)(`{3,}|~{3,})[ \t]*(.*)$")
_ADMONITION = re.compile(r'^(\s*)(?:!!!|\?\?\?\+?)(?:[ \t]+|(?=\w))([\w -]*?)[ \t]*(?:"(.*)")?[ \t]*$')
_TAB = re.compile(r'^(\s*)={3}[!+]*[ \t]+"(.*)"[ \t]*$')
_CONTAINER = re.compile(r"^(\s*):{3,}[ \t]*(\{[^{}]*\}|[\w-]+)?[ \t]*(.*?)[ \t]*:*$")
_QUOTED = re.compile(r"^ {0,3}> ?")
_GENERATED = re.compile(r"^\s*:{3}[ \t]+[\w-]+(?:\.[\w-]+)+[ \t]*$")  # mkdocstrings: ::: package.module
_SLASHES = re.compile(r"^(\s*)/{3,}(?:[ \t]+([\w-]+)[ \t]*(?:\|[ \t]*(.*?))?)?[ \t]*$")
_DIRECTIVE = re.compile(r"\{([\w:.-]+)\}[ \t]*(.*)$")
_OPTION = re.compile(r"^\s*:([\w-]+):(?:\s+(.*?))?\s*$")
_SHOWN = frozenset(
    """note warning tip important caution danger hint attention error seealso admonition versionadded
    versionchanged versionremoved deprecated tab-set tab-item card grid grid-item grid-item-card card-carousel
    dropdown margin sidebar topic epigraph highlights pull-quote container div figure tab tabbed aside
    details cssclass rubric only ifconfig centered exercise solution prf:theorem prf:definition prf:lemma
    prf:proof prf:example prf:remark proof theorem definition lemma list-table csv-table table glossary hlist
    compound line-block""".split()
)
_UNSHOWN = frozenset(
    """toctree contents tableofcontents image math eval-rst include literalinclude bibliography index
    raw mermaid autoclass automodule autofunction autosummary autodoc2-object iframe video glue""".split()
)
_CODE = frozenset("code code-block code-cell sourcecode parsed-literal doctest".split())


def _blocks(lines: list[str], dialect: str, dropped: Dropped, depth: int = 0) -> list[str]:
    out: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if fence := _FENCE.match(line):
            end = _end_of_fence(lines, at, fence[2])
            out += _fence(fence, lines[at:end], lines[end : end + 1], dialect, dropped, depth)
            at = end + 1
        elif (
            depth < _DEEPEST
            and (match := _ADMONITION.match(line) or _TAB.match(line))
            and ((end := _end_of_indented(lines, at, len(match[1]) + 4)) > at or " " in line.strip())
        ):
            title = match[match.lastindex or 1] if match.re is _TAB or match[3] else ""
            inner = [content[4:] if content.strip() else "" for content in lines[at:end]]
            out += ["", match[1] + title, "", *_blocks(inner, dialect, dropped, depth + 1), ""]
            at = end
        elif _QUOTED.match(line) and depth < _DEEPEST:
            end = next((n for n in range(at, len(lines)) if not _QUOTED.match(lines[n])), len(lines))
            quote = [_QUOTED.sub("", one, count=1) for one in lines[at - 1 : end]]
            inner = _blocks(list(quote), dialect, dropped, depth + 1)
            out += lines[at - 1 : end] if inner == quote else ["", *(f"> {one}" for one in inner), ""]
            at = end
        elif _GENERATED.match(line):
            dropped[TAGS, ":::"] += 1
            at = _end_of_indented(lines, at, 4)
        elif match := _SLASHES.match(line):
            out += ["", match[1] + (match[3] or ""), ""]
        elif (match := _CONTAINER.match(line)) and (line.strip().strip(":") == "" or match[2]):
            title = _title_of_container(match[2] or "", match[3])
            options: dict[str, str] = {}
            if match[2] and match[2][0] == "{":
                options = _options(lines[at:])
                at += len(options)
            out += ["", match[1] + _linked(title, options), ""]
        else:
            out.append(line)
    return out


_TAG_AT_START = re.compile(r"([ \t]*)<(/?)([A-Za-z][\w.]*)\b")
_LONGEST_TAG = 50  # lines


def _without_indents(lines: list[str]) -> list[str]:
    """The lines of MDX, where the content of an element begins as far to the right as its tags."""
    ends = _ends_of_elements(lines)
    out: list[str] = []
    within: list[tuple[int, int]] = []  # (line of the closing tag, columns) of the elements around a line
    columns = 0
    for at, line in enumerate(lines):
        while within and at >= within[-1][0]:
            columns -= within.pop()[1]
        out.append(line.expandtabs(4)[min(columns, _indent(line)) :] if columns else line)
        if at in ends and len(within) < _DEEPEST:
            tag = range(at, min(at + _LONGEST_TAG, ends[at]))
            start = next((n + 1 for n in tag if lines[n].rstrip().endswith(">")), ends[at])
            content = [_indent(lines[n]) for n in range(start, ends[at]) if lines[n].strip()]
            within.append((ends[at], max(0, min(content, default=0) - _indent(line))))
            columns += within[-1][1]
    return out


def _ends_of_elements(lines: list[str]) -> dict[int, int]:
    """Line of an opening tag outside code -> line of its closing tag, which is as far to the right."""
    ends: dict[int, int] = {}
    opened: dict[tuple[str, str], list[int]] = {}
    at = 0
    while at < len(lines):
        if fence := _FENCE.match(lines[at]):
            at = _end_of_fence(lines, at + 1, fence[2])
        elif tag := _TAG_AT_START.match(lines[at]):
            same = opened.setdefault((tag[1], tag[3]), [])
            if not tag[2]:
                same.append(at)
            elif same:
                ends[same.pop()] = at
        at += 1
    return ends


def _indent(line: str) -> int:
    return len(line.expandtabs(4)) - len(line.expandtabs(4).lstrip())


def _options(lines: list[str]) -> dict[str, str]:
    """The options of a directive, ":link: guide", at the start of its lines: as many as there are lines."""
    options: dict[str, str] = {}
    for number, line in enumerate(lines):
        match = _OPTION.match(line)
        if match is None:
            break
        options[match[1] if match[1] not in options else f"{match[1]} {number}"] = match[2] or ""
    return options


def _linked(title: str, options: dict[str, str]) -> str:
    """The title of a card, as a link if an option gives its target."""
    link = options.get("link", "")
    label = LABEL if options.get("link-type") == "ref" else ""
    return f"[{title}](<{label}{link}>)" if link else title


_DEEPEST = 20
_NO_TITLE = re.compile(r"\{[^{}]*\}|[\d ]*|(?:[\w-]+=\"[^\"]*\"\s*)+")
_TITLE = re.compile(r"""\btitle=(["'])(.*?)\1""")


def _title_of_container(name: str, written: str) -> str:
    """::: note Title, :::note[Title]{.class}, ::: {.callout-note title="Title"}; braces are not a title."""
    if _NO_TITLE.fullmatch(written):
        title = _TITLE.search(name)
        return title[2] if title else ""
    return re.sub(r"\s*\{[^{}]*\}\Z", "", written).strip("[]")


def _end_of_fence(lines: list[str], at: int, mark: str) -> int:
    for end in range(at, len(lines)):
        closing = lines[end].strip().lstrip("> ")
        if len(closing) >= len(mark) and not closing.strip(mark[0]):
            return end
    return len(lines)


def _end_of_indented(lines: list[str], at: int, indent: int) -> int:
    end = at
    for place in range(at, len(lines)):
        if not lines[place].strip():
            continue
        if _indent(lines[place]) < indent:
            break
        end = place + 1
    for place in range(at, end):
        lines[place] = lines[place].expandtabs(4) if lines[place].startswith("\t") else lines[place]
    return end


def _fence(
    fence: re.Match[str], body: list[str], closing: list[str], dialect: str, dropped: Dropped, depth: int
) -> list[str]:
    """A block of code as it is; a directive as its content."""
    directive = _DIRECTIVE.match(fence[3])
    name = directive[1] if directive else ""
    if directive is None or (name not in _SHOWN and name not in _UNSHOWN) or depth >= _DEEPEST:
        if name in _CODE:
            while body and _OPTION.match(body[0]):
                body = body[1:]
            return [f"{fence[1]}{fence[2]}", *body, *closing]
        return [fence[0], *body, *closing]
    if name in _UNSHOWN:
        dropped[TAGS, f"{{{name}}}"] += 1
        return [""]
    options = _options(body)
    body = body[len(options) :]
    if body and body[0].strip() == "---" and "---" in [line.strip() for line in body[1:]]:
        body = body[[line.strip() for line in body].index("---", 1) + 1 :]
    title = "" if name in ("figure", "container", "div", "only", "ifconfig", "cssclass") else directive[2]
    return ["", fence[1] + _linked(title, options), "", *_blocks(body, dialect, dropped, depth + 1), ""]


# --- text ---

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


LABEL = "#label:"
"""Before the name of a label in the address of a link."""

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

    if dialect in ("", "obsidian", "logseq", "dendron"):
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
        text = _CROSS_REFERENCE.sub(lambda match: f"[](<{LABEL}{match[1] or match[2]}>)", text)
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
_COMPONENT_LINK = re.compile(
    r"<(/?)(?:Link|NavLink|NuxtLink|RouterLink|RouteLink|router-link|Anchor)\b([^<>]*)>"
)
_SNIPPETS = re.compile(
    r"^[ \t]*-{1,}8<-{1,}[ \t]*(?:[\"'][^\n]*|\n(?:(?![ \t]*-+8<)[^\n]{0,500}\n){0,100}[ \t]*-+8<-+[ \t]*)$",
    re.M,
)
_PREPROCESSOR = re.compile(
    r"(?<!\\)\{\{\s*#\w+[^{}\n]*\}\}|^(?:<<<[ \t]*@?[\w./]|@\[code)[^\n]*$"
    r"|:::(?:image|code)\b[^\n]*?:::|\[!(?:include|video|code[\w-]*)\s*(?:\[[^\[\]\n]*\]\([^()\n]*\)|[^\[\]\n]*)\]",
    re.M | re.I,
)  # {{#include file}} of mdBook; <<< @/file and @[code](file) of VuePress; [!INCLUDE [x](file)] of DocFX
_CROSS_REFERENCE = re.compile(r"(?<![\w@])(?:@(sec-[\w-]*\w)|\\@ref\(([\w-]+)\))")  # of Quarto, bookdown
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
