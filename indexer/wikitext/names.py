"""What MediaWiki calls things in each language: namespaces, redirects, magic words.

An export names its namespaces once, in their current names, while pages go on to use aliases, older names and
names in other languages. `names.json` has them all, of 400 languages, and the codes of wikis that differ from
those of their languages. Everything is compared folded.

Source: the files languages/messages/Messages*.php of MediaWiki 1.39 (`$namespaceNames`, `$namespaceAliases`,
`$namespaceGenderAliases`, `$magicWords`, `$fallback`).
"""

from __future__ import annotations

import json
import re
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

_NAMES = Path(__file__).with_name("names.json")


def fold(name: str) -> str:
    """A name for comparing: no underscores, single spaces, without case."""
    return " ".join(name.replace("_", " ").split()).casefold()


@cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(_NAMES.read_text("utf-8"))
    return data


@lru_cache(maxsize=16)
def namespace_names(language: str) -> dict[str, int]:
    """Folded names of namespaces in a language and in those that it falls back to; its own ones win."""
    languages = _data()["languages"]
    code = language.lower()
    order = list(dict.fromkeys([_data()["codes"].get(code, code), code, code.partition("-")[0]]))
    for code in order:  # grows meanwhile
        order += [code for code in languages.get(code, {}).get("fallback", ()) if code not in order]
    names: dict[str, int] = {}
    for code in [*order, "en"]:
        for number, written in languages.get(code, {}).get("namespaces", {}).items():
            for name in written:
                names.setdefault(fold(name), int(number))
    return names


@cache
def hidden_names() -> dict[str, int]:
    """Folded names of files, media and categories in all languages; none that means anything else in one."""
    meanings: dict[str, set[int]] = {}
    for facts in _data()["languages"].values():
        for number, written in facts.get("namespaces", {}).items():
            for name in written:
                meanings.setdefault(fold(name), set()).add(int(number))
    return {name: min(found) for name, found in meanings.items() if found in ({-2}, {6}, {14})}


_REDIRECT = re.compile(r"\s*[#＃]\s*([^\[\]{}|<>\n:：#]{1,60}?)\s*[:：]?\s*\[\[([^\[\]|\n]+)")


def redirect_target(source: str) -> str:
    """The title that a page leads to if it is a redirect in any language; else nothing."""
    match = _REDIRECT.match(source)
    return match[2] if match and _without_dots(fold(match[1])) in _redirect_words() else ""


@cache
def _redirect_words() -> frozenset[str]:
    return frozenset(_without_dots(fold(word)) for word in _data()["words"]["redirect"])


def _without_dots(folded: str) -> str:
    """Turkish has two letters i; pages in capitals confuse them."""
    return folded.replace("i\u0307", "i").replace("ı", "i")


@cache
def magic_words() -> dict[str, str]:
    """Magic words of all languages, folded, and MediaWiki's names for them: "nompage" -> "pagename"."""
    words = {alias: word for word, aliases in _data()["words"].items() for alias in aliases}
    return {fold(alias.rstrip("：")): word for alias, word in words.items() if word != "redirect"}
