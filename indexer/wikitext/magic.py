"""Magic words: what `{{PAGENAME}}`, `{{!}}`, `{{formatnum:25000}}` stand for, in the words of every language.

Variables are replaced in the source, before links are cut out of it. Functions that only change the form of
their argument are shown like templates; #if and #ifeq are decided where their conditions are constant. All
that would be computed (#expr, #invoke, the date) is dropped and counted.

Source: https://www.mediawiki.org/wiki/Help:Magic_words and .../Help:Extension:ParserFunctions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from linkseek.indexer.wikitext.characters import Markup
from linkseek.indexer.wikitext.link_targets import LinkingPage
from linkseek.indexer.wikitext.names import fold, magic_words

_VARIABLE = re.compile(r"\{\{[ \t\n]*([^{}|\[\]<>\n]{1,200}?)[ \t\n]*\}\}")
_SUBST = re.compile(r"\{\{\s*(?:safe)?subst:\s*", re.IGNORECASE)
_FUNCTION = re.compile(r"\s*([#\w][\w \-]{0,30}?)\s*[:：]")
_SIGNS = {"!": "|", "(!": "{|", "!)": "|}", "!-": "|-", "!!": "||"}

_NAMES: dict[str, Callable[[str], str]] = {
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
        shown = page.site if word == "sitename" else _NAMES[word](title) if word in _NAMES else ""
        return shown or match[0]

    return _VARIABLE.sub(replaced, _SUBST.sub("{{", source))


def function_of(name: str) -> str:
    """The function that the start of a template calls: "formatnum", "#if"; empty if it is not shown."""
    match = _FUNCTION.match(name)
    if match is None:
        return ""
    word = fold(match[1])
    word = magic_words().get(word, word)
    return word if word in _FUNCTIONS else ""


def call(name: str, arguments: Sequence[str]) -> Sequence[str]:
    """The content that a function shows; its first argument ends the name."""
    match = _FUNCTION.match(name)
    return _FUNCTIONS[function_of(name)](name[match.end() :], arguments) if match else []


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
