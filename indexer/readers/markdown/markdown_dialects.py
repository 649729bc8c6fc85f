"""Dialects of Markdown as CommonMark: what site generators and note programs add to it.

Blocks become their content (`markdown_blocks`), links become links (shortcodes, Liquid tags, roles), and
tags that a generator would fill in are dropped and counted by name. Code is never touched. What is
unmistakable is read in every folder; the rest depends on the dialect, which config files show, or
`--markdown`.

A tag (shortcodes, Liquid, Jinja, macros, components) leaves what its arguments show: a title, as a link if an
argument is an address. Any other tag is dropped, unless it is the start of an address.

Source: the documentation of MkDocs with Material and pymdown, Hugo, Jekyll, Hexo, MDX, Docusaurus, MyST,
Obsidian, Logseq, VitePress, mdBook, MDN, GitBook and Markdoc.
"""

import re
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path

from linkseek.indexer.readers.folder.page_targets import LABEL
from linkseek.indexer.readers.markdown.markdown_blocks import (
    DIALECTS,
    TAGS,
    Dropped,
    shown_blocks,
    without_indents,
)

OF_MDX = ("mdx", "docusaurus")
TOO_MANY = "pages read as plain CommonMark: too many tags"

_MAX_OPENINGS = 5_000  # each may be searched for its end through the rest of the page
_OPENING = re.compile(
    r"\{%|\{\{|\{/\*|\{::|\{(?:--|~~|\+\+|==|>>)|^import\b|^[ \t]*(?::LOGBOOK:|~~~|```)|#\+begin_query",
    re.MULTILINE | re.IGNORECASE,
)


def dialect_of(folder: Path, names: Iterable[str]) -> str:
    """The dialect that a folder, its docs, or the folder around it show; empty if none is recognised."""
    folder = folder.absolute()
    for places, others in (((folder, folder / "docs"), ()), ((folder.parent,), DIALECTS["shared"])):
        for dialect, configs in DIALECTS["configs"].items():
            if any((place / name).exists() for name in {*configs}.difference(others) for place in places):
                return str(dialect)
    tops = {name.partition("/")[0] for name in names}
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

    def change(text: str) -> str:
        return _references(_text(text, dialect, dropped), dialect, dropped, anchors)

    return outside(_PROTECTED, source, _role, change, "\ufdd0")


_PROTECTED = re.compile(
    r"^(?P<fence>(?:[ \t]*(?:[-*+>][ \t]+|\d+[.)][ \t]+)?)(?P<mark>`{3,}|~{3,})[^\n]*\n"
    r"(?:.*?\n)??[ \t>]*(?P=mark)[`~]*[ \t]*$"
    r"|(?:[ \t]*)(?:`{3,}|~{3,})[^\n`]*\n(?s:.)*\Z)"
    r"|\{(?P<role>[\w:+-]+)\}`(?P<content>[^`\n]+)`"
    r"|(?P<ticks>(?<!`)(?P<tick>`+)(?!`)(?:(?!\n[ \t]*\n)(?s:.))*?(?<!`)(?P=tick)(?!`))",
    re.MULTILINE | re.DOTALL,
)


_TEXT_AND_TARGET = re.compile(r"(.*?)\s*<([^<>]+)>$", re.DOTALL)


def _role(match: re.Match[str]) -> str:
    """{doc}`text <guide>` as a link; of other roles the text. Code stays as it is."""
    if not match["role"]:
        return match[0]
    name, content = match["role"].rpartition(":")[2], match["content"]
    pair = _TEXT_AND_TARGET.match(content)
    text, target = (pair[1], pair[2]) if pair else ("", content)
    if name in ("doc", "download", "any") or (name == "external" and "/" in target):
        return f"[{text}](<{target}>)"
    if name in ("ref", "numref", "eq", "std:ref"):
        return f"[{text}](<{LABEL}{target.strip()}>)"
    shown = text if pair else content.lstrip("!~")
    return f"`{shown}`" if name in ("code", "literal", "samp", "command", "file") else shown


def _tag(match: re.Match[str]) -> str:
    """A tag of MDX without the attributes that are expressions, <Tab open={true}> as <Tab>; <Tabs.Tab> is no
    tag of HTML."""
    tag = _EXPRESSION.sub("", match[0])
    return re.sub(r"\A</?[A-Z]\w*(?:\.\w+)+", lambda name: name[0].replace(".", ""), tag)


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


_REFERENCE = re.compile(r"(?<![!\]\\\w])\[([^\[\]\n]+)\]\[([^\[\]\n]*)\]")


def _references(text: str, dialect: str, dropped: Dropped, anchors: Container[str]) -> str:
    """The text with [text][name] that no line defines as a link to the only heading of that name."""
    if "][" not in text:
        return text
    defined = {*map(_name, re.findall(r"^ {0,3}\[([^\[\]\n]+)\]:", text, re.MULTILINE))}

    def reference(match: re.Match[str]) -> str:
        name = match[2] or match[1]
        if _name(name) in defined:
            return match[0]
        if (slug := name.strip("`").lower().replace(" ", "-")) in anchors:
            return f"[{match[1]}](<{LABEL}{slug}>)"
        dropped[TAGS, ""] += dialect == "mkdocs"  # an entry that mkdocstrings makes
        return match[1] if dialect == "mkdocs" else match[0]

    return _REFERENCE.sub(reference, text)


_IN_BRACES = r"\{(?:P|\{(?:P|\{P{0,999}\}){0,999}\}){1,999}\}"  # without a blank line
_BRACES = _IN_BRACES.replace("P", r"(?!\n[ \t]*\n)[^{}]")
_CODELESS = _IN_BRACES.replace("P", r"(?:(?!\n[ \t]*\n)[^{}\ufdd0])")
_EXPRESSION = re.compile(rf"\s+(?:[\w:.-]+=)?{_BRACES}")
_SHOWN_BY: dict[str, Callable[[re.Match[str]], str]] = {
    "tag": _tag,
    "component": _component,
    "keys": _keys,
    "escaped": lambda match: re.sub(r"(?=[^\w\s])", r"\\", match[2]),
}


def _pattern(rule: dict[str, str]) -> re.Pattern[str]:
    written = rule["pattern"].replace("BRACES", _BRACES).replace("CODELESS", _CODELESS)
    return re.compile(f"(?{rule.get('flags', 'm')}){written}")


_RULES = [(_pattern(rule), rule) for rule in DIALECTS["rules"]]


def _text(text: str, dialect: str, dropped: Dropped) -> str:
    dialects = {dialect or "none", "" if dialect or "[[" not in text else "wiki"}
    for pattern, rule in _RULES:
        if "dialects" in rule and dialects.isdisjoint(rule["dialects"].split()):
            continue

        def change(match: re.Match[str], rule: dict[str, str] = rule) -> str:
            instead = _SHOWN_BY[rule["by"]](match) if "by" in rule else match.expand(rule.get("shown", ""))
            dropped[rule.get("reason", ""), rule.get("name", "")] += "reason" in rule and instead != match[0]
            return instead

        text = pattern.sub(change, text)
    return without_tags(text, dialect, dropped)


_OF_ADDRESSES: dict[str, str] = DIALECTS["addresses"]
_TEXTS, _ADDRESSES, _LABELLED, _LOGIC, _FILLED = (
    tuple(DIALECTS["tags"][kind].split()) for kind in ("texts", "addresses", "labelled", "logic", "filled")
)

_ARGUMENT = re.compile(r"""(?:([\w-]+)=\{?)?(["'`])(.*?)\2""", re.DOTALL)
_OPEN, _CLOSE = r"(?:\{\{[<%]|\{%)-?\s*", r"\s*-?(?:[>%]\}\}|%\})"
_WRITTEN = r"(?:[^{}%]|%(?!\})|\{(?![{%])|\}(?!\}))*?"
_VERBATIM = re.compile(
    rf"{_OPEN}(raw|highlight|comment)\b{_WRITTEN}{_CLOSE}(.*?){_OPEN}(?:/\s*|end)\1{_CLOSE}"
    r"|\{\{(?P<start>[<%])/\*(?P<escaped>.*?)\*/(?P<end>[>%])\}\}",
    re.DOTALL,
)
_AROUND = re.compile(
    rf"{_OPEN}([\w.-]+)(?=[ \t])({_WRITTEN}){_CLOSE}\s*([^{{}}\[\]\n]+?)\s*{_OPEN}/\s*\1{_CLOSE}"
)
_TAG = re.compile(rf"{_OPEN}(?P<end>/)?\s*(?P<name>[\w./-]*)(?P<written>{_WRITTEN})/?{_CLOSE}")
_VALUE = re.compile(
    r"""(?<!\\)\{\{-?\s*(?:(["'])(?P<text>[^"'{}]*)\1\s*\|[^{}]*"""
    r"""|(?P<name>[#$]?[\w.\[\]'"-]+)(?P<written>\s*\([^{}]*\)\s*|\s*\|[^{}]*|\s[^{}]*)?)-?\}\}"""
)
_OF_SITE = re.compile(
    r"#|(?:site|page|include|layout|config|extra|book|\$?frontmatter|\$\w+|theme|base_\w+"
    r"|[a-z-]+_(?:inline|header))\b",
    re.IGNORECASE,
)
_BEFORE_ADDRESS = ("](", "]:", "]: ", "href=", "src=", "}}")
_NEAR = 20  # characters


def arguments_of(written: str) -> dict[str, str]:
    """The quoted arguments of a tag by name; the first without a name under ""."""
    values: dict[str, str] = {}
    for name, _, value in _ARGUMENT.findall(written):
        values.setdefault(name, value)
    return values


def shown_by(values: Mapping[str, str], *further: str) -> str:
    """The text in the arguments of a tag, as a link if one is an address. further: other names of texts."""
    text = next((values[name] for name in (*_TEXTS, *further) if values.get(name)), "")
    address = next((values[name] for name in _ADDRESSES if values.get(name)), "")
    return f"[{text}](<{address}>)" if text and address else text


def paragraphs(values: Mapping[str, str], *further: str) -> str:
    """As `shown_by`, and the description below it, of a tag on a line of its own."""
    return "\n\n".join(["", *filter(None, (shown_by(values, *further), values.get("description"))), ""])


def without_tags(text: str, dialect: str, dropped: Dropped) -> str:
    """The text with what its tags show; the others are dropped and counted by name."""
    if "{{" not in text and "{%" not in text:
        return text

    def verbatim(match: re.Match[str]) -> str:
        if match["start"]:
            return f"{{{{{match['start']}{match['escaped']}{match['end']}}}}}"
        return {"comment": "", "raw": match[2]}.get(match[1], f"\n```\n{match[2].strip()}\n```\n")

    def around(match: re.Match[str]) -> str:
        values = arguments_of(match[2])
        linked = shown_by(values | {"title": match[3]})
        return linked if linked != match[3] and not shown_by(values) else match[0]

    def tag(match: re.Match[str]) -> str:
        name, values = match["name"], arguments_of(match["written"])
        if name == "raw":  # without its end
            return match[0]
        if name in _OF_ADDRESSES:
            written = values.get("path") or values.get("") or match["written"].strip().removeprefix("path=")
            return _OF_ADDRESSES[name].format(written).replace("//", "/") if _in_address(match) else ""
        liquid = not match[0].startswith("{{")
        if match["end"] or (liquid and name.startswith("end")):
            return ""
        begins, ends = _line(match)
        shown = shown_by(values, *(("name", "") if name in _LABELLED else ()))
        if not shown or (liquid and not name.startswith("include") and (name in _LOGIC or not begins)):
            dropped[TAGS, name] += 1
            return ""
        if begins and ends:
            return paragraphs(values, "name", "")
        return shown + " " * match.string[match.end() : match.end() + 1].isalnum()

    def value(match: re.Match[str]) -> str:
        name, written = match["name"], (match["written"] or "").strip("- \t\n")
        if name is None:
            return match["text"]
        called, alone = written.startswith("("), all(_line(match))
        filled = dialect in _FILLED or (dialect == "" and alone and name.isidentifier())
        macro = dialect == "logseq" and written
        if not (called or macro or _OF_SITE.match(name) or (filled and written[:1] in ("", "|"))):
            return match[0]
        if not _in_address(match):
            dropped[TAGS, name] += 1
        texts = [value for _, _, value in _ARGUMENT.findall(written)] if called and not alone else []
        return next(filter(None, texts[1::-1]), "")

    def change(text: str) -> str:
        return _VALUE.sub(value, _TAG.sub(tag, _AROUND.sub(around, text)))

    return outside(_VERBATIM, text, verbatim, change, "\ufdd1")


def outside(
    pattern: re.Pattern[str],
    text: str,
    shown: Callable[[re.Match[str]], str],
    change: Callable[[str], str],
    mark: str,
) -> str:
    """Change the text between matches, which hold their place meanwhile between marks (no characters)."""
    kept: list[str] = []

    def keep(match: re.Match[str]) -> str:
        kept.append(shown(match))
        return f"{mark}{len(kept) - 1}{mark}"

    text = change(pattern.sub(keep, text.replace(mark, "")))
    return re.sub(f"{mark}(\\d+){mark}", lambda match: kept[int(match[1])], text)


def _in_address(match: re.Match[str]) -> bool:
    before = match.string[max(0, match.start() - _NEAR) : match.start()]
    return before.rstrip("<\"'").endswith(_BEFORE_ADDRESS)


def _line(match: re.Match[str]) -> tuple[bool, bool]:
    """Whether a tag begins its line, and whether it ends it."""
    before = match.string[max(0, match.start() - _NEAR) : match.start()]
    after = match.string[match.end() : match.end() + _NEAR]
    return before.rstrip(" \t")[-1:] in ("", "\n"), after.lstrip(" \t")[:1] in ("", "\n")
