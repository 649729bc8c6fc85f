"""Blocks of Markdown's dialects as their content: admonitions, tabs, containers, directives, elements of MDX.

Code stays as it is, in fences and in directives of code. Directives that a generator would fill in are
dropped and counted by name.

Source: the documentation of MkDocs with Material and pymdown, Docusaurus, MDX, MyST, VitePress and Quarto.
"""

import re
import textwrap
import tomllib
from collections import Counter
from itertools import takewhile
from pathlib import Path
from typing import Any

from linkseek.indexer.readers.folder.page_targets import LABEL

TAGS = "tags of site generators"
DIALECTS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("dialects.toml").read_text("utf-8"))
"""Signs of the dialects: rules, config files, directives, words of tags."""

Dropped = Counter[tuple[str, str]]

_FENCE = re.compile(r"^([ \t]*(?:[-*+>]\s+|\d+[.)]\s+)?)(`{3,}|~{3,})[ \t]*(.*)$")
_ADMONITION = re.compile(r'^(\s*)(?:!!!|\?\?\?\+?)(?:[ \t]+|(?=\w))([\w -]*?)[ \t]*(?:"(.*)")?[ \t]*$')
_TAB = re.compile(r'^(\s*)={3}[!+]*[ \t]+"(.*)"[ \t]*$')
_CONTAINER = re.compile(
    r"^(\s*):{3,}(?![ \t]+[\w-]+\.[\w.-]+[ \t]*$)[ \t]*(\{[^{}]*\}|[\w-]+)?[ \t]*(.*?)[ \t]*:*$"
)
_TITLED = re.compile(r"\.callout|#(?:thm|lem|cor|prp|cnj|def|exm|exr)-")  # by a heading, in Quarto
_HEADING = re.compile(r"\s*#{1,6}\s+(.*)")
_QUOTED = re.compile(r"^ {0,3}> ?")
_DIRECTIVE = re.compile(r"\{([\w:.-]+)\}[ \t]*(.*)$")
_OPTION = re.compile(r"^\s*:([\w-]+):(?:\s+(.*?))?\s*$")
_SHOWN, _UNSHOWN, _CODE = (
    frozenset(DIALECTS["directives"][of].split()) for of in ("shown", "filled", "code")
)
_WHOLE = _UNSHOWN | _CODE | {"figure"}
"""Directives whose content is no Markdown, or whose argument is no title, between colons as in a fence."""


def shown_blocks(lines: list[str], dialect: str, dropped: Dropped, depth: int = 0) -> list[str]:
    """The lines of a page with blocks of dialects as their content; `dropped` counts the others.

    depth: of the blocks around them; deeper than `_DEEPEST`, lines stay as they are.
    """
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
            out += ["", match[1] + title, "", *shown_blocks(inner, dialect, dropped, depth + 1), ""]
            at = end
        elif _QUOTED.match(line) and depth < _DEEPEST:
            end = next((n for n in range(at, len(lines)) if not _QUOTED.match(lines[n])), len(lines))
            quote = [_QUOTED.sub("", one, count=1) for one in lines[at - 1 : end]]
            inner = shown_blocks(list(quote), dialect, dropped, depth + 1)
            out += lines[at - 1 : end] if inner == quote else ["", *(f"> {one}" for one in inner), ""]
            at = end
        elif (match := _CONTAINER.match(line)) and (line.strip().strip(":") == "" or match[2]):
            name = match[2] or ""
            if name.startswith("{") and name[1:-1] in _WHOLE:
                end = _end_of_fence(lines, at, re.sub("[^:].*", "", line.strip()))
                indent = " " * len(match[1])  # which may be of other white space
                fence = _FENCE.match(f"{indent}~~~~{name} {match[3]}")
                assert fence
                out += _fence(fence, lines[at:end], [f"{indent}~~~~"], dialect, dropped, depth)
                at = end + 1
                continue
            title = _title_of_container(name, match[3])
            below = next((n for n in range(at, len(lines)) if lines[n].strip()), at)
            if _TITLED.search(name) and below < len(lines) and (heading := _HEADING.match(lines[below])):
                title, at = heading[1], below + 1
            options, at = _options(lines, at) if (match[2] or "").startswith("{") else ({}, at)
            out += ["", match[1] + _linked(title, options), ""]
        else:
            out.append(line)
    return out


_TAG_AT_START = re.compile(r"([ \t]*)<(/?)([A-Za-z][\w.]*)\b")


def without_indents(lines: list[str]) -> list[str]:
    """The lines of MDX, with the content of each element outside code as far to the right as its tags."""
    lines = lines.copy()
    opened: dict[tuple[str, str], list[int]] = {}
    at, room = 0, _DEEPEST * len(lines)
    while at < len(lines):
        if fence := _FENCE.match(lines[at]):
            at = _end_of_fence(lines, at + 1, fence[2])
        elif tag := _TAG_AT_START.match(lines[at]):
            same = opened.setdefault((tag[1], tag[3]), [])
            if not tag[2]:
                same.append(at)
            elif same and room > 0:
                begun = same.pop()
                start = next((n + 1 for n in range(begun, at) if lines[n].rstrip().endswith(">")), at)
                room -= at - begun
                if start < at:
                    content = textwrap.dedent("\n".join(lines[start:at]))
                    lines[start:at] = textwrap.indent(content, tag[1]).split("\n")
        at += 1
    return lines


def _options(lines: list[str], at: int = 0) -> tuple[dict[str, str], int]:
    """The options of a directive, ":link: guide", that begin at a line; and the line after them."""
    options = [*takewhile(bool, (_OPTION.match(lines[place]) for place in range(at, len(lines))))]
    return {option[1]: option[2] or "" for option in reversed(options) if option}, at + len(options)


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
    closing = re.compile(rf"[>\s]*{mark}{mark[0]}*\s*")
    return next((end for end in range(at, len(lines)) if closing.fullmatch(lines[end])), len(lines))


def _end_of_indented(lines: list[str], at: int, indent: int) -> int:
    end = at
    for place in range(at, len(lines)):
        expanded = lines[place].expandtabs(4)
        if expanded[:indent].strip():
            break
        if expanded.strip():
            lines[place] = expanded if lines[place].startswith("\t") else lines[place]
            end = place + 1
    return end


def _fence(
    fence: re.Match[str], body: list[str], closing: list[str], dialect: str, dropped: Dropped, depth: int
) -> list[str]:
    """A block of code as it is; a directive as its content."""
    directive = _DIRECTIVE.match(fence[3])
    name = directive[1] if directive else ""
    if directive is None or (name not in _SHOWN and name not in _UNSHOWN) or depth >= _DEEPEST:
        if name in _CODE:
            return [f"{fence[1]}{fence[2]}", *body[_options(body)[1] :], *closing]
        return [fence[0], *body, *closing]
    if name in _UNSHOWN:
        dropped[TAGS, f"{{{name}}}"] += 1
        return [""]
    options, at = _options(body)
    body = body[at:]
    if body and body[0].strip() == "---" and "---" in [line.strip() for line in body[1:]]:
        body = body[[line.strip() for line in body].index("---", 1) + 1 :]
    title = "" if name in ("figure", "container", "div", "only", "ifconfig", "cssclass") else directive[2]
    return ["", fence[1] + _linked(title, options), "", *shown_blocks(body, dialect, dropped, depth + 1), ""]
