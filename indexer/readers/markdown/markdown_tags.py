"""Tags of site generators in pages of Markdown: shortcodes, Liquid, Jinja, macros, components.

A tag leaves what its arguments show: a title, as a link if an argument is an address. Any other tag is
dropped and counted by name, unless it is the start of an address. Dialects differ in delimiters and names.

Source: the documentation of Hugo, Jekyll, Hexo, MkDocs, VitePress, mdBook, MDN, GitBook and Markdoc.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

TAGS = "tags of site generators"
DIALECTS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("dialects.toml").read_text("utf-8"))
"""Signs of the dialects: rules, config files, directives, words of tags."""

Dropped = Counter[tuple[str, str]]

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
