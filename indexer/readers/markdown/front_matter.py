"""Front matter of Markdown: YAML between lines of ---, TOML between lines of +++ or after ---toml, JSON
between lines of ;;; or after ---json; the lines at the start that MkDocs, Pandoc and Logseq read.

`title`, `date`, `tags` and the language become metadata; slugs, permalinks, aliases and the like are further
addresses of the page.
"""

import datetime
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

import yaml

from linkseek.indexer.readers.folder.page_targets import climb

_MAX_CHARACTERS = 1 << 16
_MAX_ALIASES = 20
ERRORS = (
    yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, ArithmeticError, RecursionError,
)  # fmt: skip
"""The parsers' own errors, and those that PyYAML raises for values that do not fit their tags."""

_FENCED = re.compile(
    r"(?:(?P<yaml>\A---)|\s*\+\+\+|\s*(?P<json>;;;|---[ \t]*json)|\s*---[ \t]*toml)[ \t]*\r?\n"
    r"(?P<written>.*?)^(?:(?(yaml)(?:---|\.\.\.)|(?:\+\+\+|;;;|---)))[ \t]*(?:\r?\n|\Z)",
    re.DOTALL | re.MULTILINE,
)
_MKDOCS = re.compile(r"(?: {0,3}[\w-]+:[^\n]*\n(?: {4,}[^\n]*\n)*)+(?=[ \t]*(?:\n|\Z))")
_MKDOCS_LINE = re.compile(r"^ {0,3}([\w-]+):(.*(?:\n {4,}.*)*)", re.MULTILINE)
_MKDOCS_NAMES = frozenset("title author authors date summary description template tags keywords".split())
_PANDOC = re.compile(r"%[ \t]+([^\n]+)\n(?:%[^\n]*\n){0,2}(?=[ \t]*(?:\n|\Z))")
_LOGSEQ = re.compile(r"(?:[ \t]*(?:- )?[\w?/-]+::(?:[ \t][^\n]*)?(?:\n|\Z))+")
_LOGSEQ_LINE = re.compile(r"([\w?/-]+)::[ \t]*(.*)")


def split_front_matter(source: str, dialect: str) -> tuple[dict[Any, Any], str]:
    """(values, rest of the page); text between two lines --- that is not a mapping stays text.

    Raises one of `ERRORS` for front matter that is damaged or too long.
    """
    if match := _FENCED.match(source):
        written, rest = match["written"], source[match.end() :]
        if match["yaml"]:
            mapping = read_yaml(written)
            return ({}, f"{written}\n\n{rest}") if mapping is None else (mapping, rest)
        if len(written) > _MAX_CHARACTERS:
            raise ValueError("too long")
        values = json.loads(written) if match["json"] else tomllib.loads(written.replace("\r\n", "\n"))
        if not isinstance(values, dict):
            raise ValueError("no object")
        return values, rest
    head = source[:_MAX_CHARACTERS].replace("\r\n", "\n")
    if dialect == "logseq" and (match := _LOGSEQ.match(head)):
        pairs = [(name.lower(), value) for name, value in _LOGSEQ_LINE.findall(match[0])]
        return {name: re.sub(r"\[\[|\]\]", "", value).strip() for name, value in pairs}, source
    if dialect == "mkdocs" and (match := _MKDOCS.match(head)):
        values = {name.lower(): " ".join(text.split()) for name, text in _MKDOCS_LINE.findall(match[0])}
        if _MKDOCS_NAMES & values.keys():
            return values, head[match.end() :] + source[_MAX_CHARACTERS:]
    if dialect != "myst" and (match := _PANDOC.match(head)):
        return {"title": match[1].strip()}, head[match.end() :] + source[_MAX_CHARACTERS:]
    return {}, source


def without_front_matter(source: str) -> str:
    """The page without what looks like front matter."""
    return _FENCED.sub("", source, count=1) if _FENCED.match(source) else source


_RULES = {
    first: [
        (tag, pattern)
        for tag, pattern in rules
        if not (tag.endswith((":int", ":float")) or (tag.endswith(":bool") and first in "yYnNoO"))
    ]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_LOADER = type("_Loader", (yaml.SafeLoader,), {"yaml_implicit_resolvers": _RULES})
"""As sites read YAML 1.2: `off` and `no` are words; numbers, such as 12:30 and 010, stay as written."""


def read_yaml(written: str) -> dict[Any, Any] | None:
    """The values by name; None if it is not a mapping. Raises one of `ERRORS`."""
    if len(written) > _MAX_CHARACTERS:
        raise ValueError("too long")
    # Merge keys (<<, !!merge) copy the mappings that they name: 13 lines of them could fill any memory.
    merges = "<<" in written or "merge" in written
    if merges and sum(isinstance(event, yaml.AliasEvent) for event in yaml.parse(written)) > _MAX_ALIASES:
        raise ValueError("too many aliases")
    values = yaml.load(written, _LOADER)
    return (values or {}) if isinstance(values, dict | None) else None


def metadata_of(front: dict[Any, Any]) -> dict[str, str]:
    """`title`, `date`, `tags` and `language` as texts: dates as in ISO 8601, tags with commas."""
    front = {str(name).lower(): value for name, value in front.items()}
    texts = {name: as_text(front.get(name)) for name in ("title", "date", "tags")}
    texts["language"] = as_text(
        next((front[name] for name in ("language", "lang", "locale") if name in front), "")
    )
    return {name: text for name, text in texts.items() if text}


def as_text(value: Any) -> str:
    """A value as text on one line; nothing for values within values."""
    if isinstance(value, list):
        return ", ".join(filter(None, (as_text(one) for one in value if not isinstance(one, list))))
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if not isinstance(value, str | int | float):
        return ""
    text = " ".join(str(value).split())
    return text.encode("utf-8", "replace").decode()  # YAML can write half of a surrogate pair


KEYS = ("id", "uid", "zettel-id")
"""Names of the key of a note, by which links may name it."""
_OTHER_NAMES = "slug permalink url aliases alias redirect_from redirects redirect_to_this id".split()
_ORDER = re.compile(r"(?:^|(?<=/))\d+[-_.]\s*(?=\D)")  # 01-intro/02-guide.md
_POST = re.compile(
    r"(?:(?:^|/)_(?:posts|drafts)/(?:.*/)?|(^(?:(?!_posts/|_drafts/)[^/]+/)*))(\d{4})[-/](\d\d?)[-/](\d\d?)[-/]([^/]+?)(?:/index)?$"
)
"""Of Jekyll, under the site's root; of Docusaurus, under the folder of the blog."""
_JOURNAL = re.compile(r"(?:^|/)journals/(\d{4})[_-](0[1-9]|1[0-2])[_-](\d\d)$")
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_ENDINGS = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}


def addresses_of(page: str, front: dict[Any, Any]) -> Iterator[str]:
    """Further addresses of a page: paths from the root of the site without slashes at their ends."""
    bare = page.rpartition(".")[0]
    for name in _OTHER_NAMES:
        values = front.get(name)
        for value in values if isinstance(values, list) else [values]:
            written = as_text(value).partition("#")[0].strip()
            if written and (":" not in written or (name.startswith("alias") and "://" not in written)):
                address = climb(page, written).strip("/")
                yield address
                yield f"{page.partition('/')[0]}/{address}"  # where the site's root is the folder's parent
                if name == "slug" and bare.endswith("/index"):  # of Hugo's bundles: the folder's name
                    yield climb(page.rpartition("/")[0], written).strip("/")
                if "/" in written and not written.startswith((".", "/")):  # of MDN, in any folder
                    yield written.strip("/")
                if address.lower().endswith((".html", ".htm")):  # which links may omit
                    yield address.rpartition(".")[0]
                if name in ("aliases", "alias"):  # of notes: names, wherever the page is
                    yield from (part.strip(" /") for part in {written, *written.split(",")})
    if post := _POST.search(bare):
        address = f"{post[1] or ''}{post[2]}/{post[3]:0>2}/{post[4]:0>2}/{post[5]}"
        yield from (address, f"{address}.html")
    if day := _JOURNAL.search(bare):  # of Logseq, whose links name it "Jan 2nd, 2024"
        number = int(day[3])
        yield f"{_MONTHS[int(day[2]) - 1]} {number}{_ENDINGS.get(number, 'th')}, {day[1]}"
    without_order = _ORDER.sub("", bare)
    if without_order != bare:
        yield from (without_order, without_order + PurePosixPath(page).suffix)
        yield without_order.removesuffix("/index")
    if bare.startswith("_") and "/" in bare and not bare.startswith("_posts/"):  # a collection of Jekyll
        yield from (bare[1:], f"{bare[1:]}.html")
