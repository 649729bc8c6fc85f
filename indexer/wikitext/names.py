"""What MediaWiki calls things in each language: namespaces, redirects, and magic words with what they show.

An export names its namespaces once, in their current names, while pages go on to use aliases, older names and
names in other languages. `names.json` has them all, of 400 languages, and the codes of wikis that differ from
those of their languages. Everything is compared folded.

Variables ({{PAGENAME}}, {{!}}) are replaced in the source, before links are cut out of it. Functions that
only change the form of their argument ({{formatnum:25000}}) are shown like templates; #if and #ifeq are
decided where their conditions are constant. All that would be computed (#expr, #invoke, the date) is dropped
and counted.

Source: the files languages/messages/Messages*.php of MediaWiki 1.39 (`$namespaceNames`, `$namespaceAliases`,
`$namespaceGenderAliases`, `$magicWords`, `$fallback`); https://www.mediawiki.org/wiki/Help:Magic_words and
.../Help:Extension:ParserFunctions.
"""

import json
import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

from linkseek.indexer.wikitext.characters import Markup
from linkseek.indexer.wikitext.link_targets import LinkingPage

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


_VARIABLE = re.compile(r"\{\{[ \t\n]*([^{}|\[\]<>\n]{1,200}?)[ \t\n]*\}\}")
_SUBST = re.compile(r"\{\{\s*(?:safe)?subst:\s*", re.IGNORECASE)
_FUNCTION = re.compile(r"\s*([#\w][\w \-]{0,30}?)\s*[:：]")
_SIGNS = {"!": "|", "(!": "{|", "!)": "|}", "!-": "|-", "!!": "||"}

_PAGE_NAMES: dict[str, Callable[[str], str]] = {
    **dict.fromkeys(("pagename", "fullpagename", "articlepagename", "subjectpagename"), str),
    **dict.fromkeys(("pagenamee", "fullpagenamee"), lambda title: title.replace(" ", "_")),
    "basepagename": lambda title: title.rpartition("/")[0] or title,
    "rootpagename": lambda title: title.partition("/")[0],
    "subpagename": lambda title: title.rpartition("/")[2],
}


def replace_variables(source: str, page: LinkingPage) -> str:
    """The source with the names of the page and the site, and with `{{!}}` as a bar."""
    if "{{" not in source:
        return source

    def replaced(match: re.Match[str]) -> str:
        written = match[1]
        if written in _SIGNS:
            return _SIGNS[written]
        name, colon, argument = written.partition(":")
        if name.isascii() and not name.isupper():
            return match[0]
        word = magic_words().get(fold(name), fold(name))
        title = argument.strip() if colon else page.title
        shown = page.site if word == "sitename" else _PAGE_NAMES[word](title) if word in _PAGE_NAMES else ""
        return shown or match[0]

    return _VARIABLE.sub(replaced, _SUBST.sub("{{", source))


def function_of(name: str) -> Callable[[Sequence[str]], Sequence[str]] | None:
    """The function that a template calls ("formatnum", "#if"), from the arguments after the first, which ends
    the name, to what it shows; None if it is not shown."""
    match = _FUNCTION.match(name)
    word = fold(match[1]) if match else ""
    function = _FUNCTIONS.get(magic_words().get(word, word))
    return partial(function, name[match.end() :]) if match and function else None


_Function = Callable[[str, Sequence[str]], Sequence[str]]
_MARKUP = re.compile(r"[\[\]{}<>]")


def _changed(change: Callable[[str], str]) -> _Function:
    """Changes text without markup; with markup it is shown as it is written."""
    return lambda first, rest: [Markup(first) if _MARKUP.search(first) else change(first)]


_SHOWN_TAGS = ("nowiki", "poem", "pre", "span", "div")
"""Of {{#tag:ref|...}}: notes, formulas and pictures are dropped like their tags."""

_FUNCTIONS: dict[str, _Function] = {
    **dict.fromkeys(("formatnum", "#formatnum", "#formatdate", "#dateformat"), _changed(str)),
    "lc": _changed(str.lower),
    "uc": _changed(str.upper),
    "lcfirst": _changed(lambda text: text[:1].lower() + text[1:]),
    "ucfirst": _changed(lambda text: text[:1].upper() + text[1:]),
    "plural": lambda first, rest: rest[:1] if first.strip() == "1" else rest[-1:],
    **dict.fromkeys(("gender", "grammar"), lambda first, rest: rest[:1]),
    "#if": lambda first, rest: rest[:1] if first.strip() else rest[1:2],
    "#ifeq": lambda first, rest: rest[1:2] if first.strip() == "".join(rest[:1]).strip() else rest[2:3],
    "#tag": lambda first, rest: rest[:1] if first.strip().lower() in _SHOWN_TAGS else [],
}
