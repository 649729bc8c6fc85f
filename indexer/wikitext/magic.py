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

_NAMES: dict[str, Callable[[str, str], str]] = {
    "pagename": lambda title, site: title,
    "fullpagename": lambda title, site: title,
    "basepagename": lambda title, site: title.rpartition("/")[0] or title,
    "rootpagename": lambda title, site: title.partition("/")[0],
    "subpagename": lambda title, site: title.rpartition("/")[2],
    "sitename": lambda title, site: site,
    "articlepagename": lambda title, site: title,
    "subjectpagename": lambda title, site: title,
    "pagenamee": lambda title, site: title.replace(" ", "_"),
    "fullpagenamee": lambda title, site: title.replace(" ", "_"),
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
        word = fold(name)
        value = _NAMES.get(magic_words().get(word, word))
        title = argument.strip() if colon else page.title
        return value(title, page.site) if value and (title or page.site) else match[0]

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
    return _FUNCTIONS[function_of(name)]([Markup(name[match.end() :])] if match else [], arguments)


_First = Sequence[str]


def _changed(change: Callable[[str], str]) -> Callable[[_First, _First], _First]:
    """Changes text without markup; with markup it is shown as it is written."""
    return lambda first, rest: [
        argument if _MARKUP.search(str(argument)) else change(str(argument)) for argument in first
    ]


_MARKUP = re.compile(r"[\[\]{}<>]")


def _if(first: _First, rest: _First) -> _First:
    return rest[:1] if "".join(map(str, first)).strip() else rest[1:2]


def _if_equal(first: _First, rest: _First) -> _First:
    if not rest:
        return []
    same = "".join(map(str, first)).strip() == str(rest[0]).strip()
    return rest[1:2] if same else rest[2:3]


def _plural(first: _First, rest: _First) -> _First:
    one = "".join(map(str, first)).strip() == "1"
    return rest[:1] if one else rest[-1:]


def _switch(first: _First, rest: _First) -> _First:
    """The case with the value, or the last one without a value or for #default."""
    wanted = "".join(map(str, first)).strip()
    if _MARKUP.search(wanted):
        return []
    matches, default = False, ""
    for case in map(str, rest):
        value, equals, shown = case.partition("=")
        matches = matches or value.strip() == wanted
        if matches and equals:
            return [Markup(shown.strip())]
        if value.strip().casefold() == "#default" or not equals:
            default = (shown if equals else value).strip()
    return [Markup(default)] if default else []


def _padded(left: bool) -> Callable[[_First, _First], _First]:
    def pad(first: _First, rest: _First) -> _First:
        text, width = "".join(map(str, first)).strip(), str(rest[0]).strip() if rest else ""
        filling = str(rest[1]).strip() if len(rest) > 1 else "0"
        if _MARKUP.search(text) or not width.isdecimal() or not filling or int(width) > _WIDEST:
            return first
        padding = (filling * int(width))[: max(int(width) - len(text), 0)]
        return [padding + text if left else text + padding]

    return pad


_WIDEST = 500  # as in MediaWiki


def _tag(first: _First, rest: _First) -> _First:
    """{{#tag:ref|...}}: notes, formulas and pictures are dropped like their tags."""
    shown = "".join(map(str, first)).strip().lower() in ("nowiki", "poem", "pre", "span", "div")
    return rest[:1] if shown else []


_FUNCTIONS: dict[str, Callable[[_First, _First], _First]] = {
    "formatnum": _changed(str),
    "#formatnum": _changed(str),
    "lc": _changed(str.lower),
    "uc": _changed(str.upper),
    "lcfirst": _changed(lambda text: text[:1].lower() + text[1:]),
    "ucfirst": _changed(lambda text: text[:1].upper() + text[1:]),
    "padleft": _padded(left=True),
    "padright": _padded(left=False),
    "plural": _plural,
    "gender": lambda first, rest: rest[:1],
    "grammar": lambda first, rest: rest[:1],
    "#if": _if,
    "#ifeq": _if_equal,
    "#switch": _switch,
    "#tag": _tag,
    "#formatdate": _changed(str),
    "#dateformat": _changed(str),
}
