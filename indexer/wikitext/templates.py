"""The templates that are running text, and the text of each.

A template is a program of its wiki, and none is run. The few here, by name, are those without which
sentences have holes: a character, one of their arguments, or a measure, a date, a number as the English
Wikipedia writes it. All others (boxes, notes, navigation) are dropped, and so is the second unit of
{{convert}}, which would have to be computed. Other templates, also of other languages, follow the rules of
`rules.toml`, and the rules that a wiki's owner writes (`--templates`), which win.

Source: the templates' documentation, https://en.wikipedia.org/wiki/Template:Convert and so on.
"""

from __future__ import annotations

import html
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from linkseek.indexer.wikitext.characters import MARKS, Markup, raised

Arguments = dict[str, Markup]
Shape = Callable[[Arguments], Sequence[str]]


def _title(written: str) -> str:
    return " ".join(written.replace("_", " ").split()).lower()


def shape_of(written: str, rules: Mapping[str, str]) -> Shape | None:
    """How a template is shown, or None if it is dropped. rules: as of `rules.toml`, which win."""
    name = _title(written)
    if name not in rules and name in _SHAPES:
        return _SHAPES[name]
    if (rule := rules.get(name, _rules().get(name))) is not None:
        return shape_by_rule(rule)
    if _LANGUAGE.fullmatch(written.strip()):
        return shape_by_rule("{lt|1|text|texte}")
    if _OWN_NAME.fullmatch(written.strip()):
        return lambda _: [written.strip()]
    return (lambda arguments: _form_of(name, arguments)) if name.endswith(" of") else None


_LANGUAGE = re.compile(r"[Ll]ang-.*|[Kk]-[a-z]{2,3}|[A-Za-z][a-z]{1,2}S", re.DOTALL)
"""Templates of a language whose text is their argument: {{lang-fr|chat}}, in Finnish {{k-fr|chat}}, in German
{{frS|chat}}."""

_OWN_NAME = re.compile(r"(?:\d{1,3}|[IVXLCDM]{1,8})(?:ers?|res?|es?|ème|nde?)(?: siècle)?")
"""Templates of the French Wikipedia that show their name: {{1er}}, {{XIXe siècle}}."""

_NOTES = frozenset(
    """r, rp, sfn, sfnp, efn, refn, ref, note, notetag, cite, citation, citation needed, fact, cn, fn, harv,
    harvnb, harvp, clarify, when, who, which, whom, dubious, vague, better source needed, page needed, main,
    full citation needed, not in citation given, dead link, webarchive, coord, coordinates, anchor, ancre,
    refbegin, refend, clear, -, see also, reflist, references""".replace("\n   ", "").split(", ")
)
"""Notes and marks of the editors, which are dropped like <ref> and not counted."""


def is_counted(name: str, rules: Mapping[str, str]) -> bool:
    """Whether the place of a dropped template may be a hole in a sentence."""
    name = _title(name)
    known = rules.get(name, _rules().get(name)) is not None or name in _NOTES
    return not known and not name.startswith(("cite ", "#invoke", "defaultsort", "displaytitle"))


@cache
def _rules() -> dict[str, str]:
    return tomllib.loads(Path(__file__).with_name("rules.toml").read_text("utf-8"))


_PLACE = re.compile(r"\{([^{}]*)\}")


def shape_by_rule(rule: str) -> Shape | None:
    """The shape that a rule describes; None for an empty rule, which drops the template.

    "1": that argument; "-1": the last; "*": all, ", *": with commas; else a text with places for arguments,
    "{1} {unit}", "{lt|1}" for the first that is given, "{1^}" as a superscript. "{1}/{2} || 1/{1}": the first
    of which all arguments are given, else the last. Nothing is shown where no argument is given.
    """
    if not rule:
        return None
    if rule == "-1":
        return lambda arguments: _positional(arguments)[-1:]
    if rule.endswith("*"):
        return lambda arguments: _joined(_positional(arguments), rule[:-1])
    if "{" not in rule and not rule.isdecimal():
        return lambda _: [rule]
    *before, last = [_PLACE.split(f"{{{one}}}" if one.isdecimal() else one) for one in rule.split(" || ")]

    def shape(arguments: Arguments) -> Sequence[str]:
        complete = (one for one in before if all(_given(place, arguments) for place in one[1::2]))
        return _filled(next(complete, last), arguments)

    return shape


def _given(place: str, arguments: Arguments) -> str:
    """The first given argument of a place; empty if there is none."""
    names = place.removesuffix("^").split("|")
    value = next((arguments[name] for name in names if str(arguments.get(name, "")).strip()), "")
    return raised(html.unescape(str(value)).strip(MARKS)) if place.endswith("^") else value


def _joined(values: Sequence[Markup], between: str) -> Sequence[str]:
    shown: list[str] = []
    for value in values:
        if not str(value).strip(MARKS):
            continue
        shown += [between, value] if shown else [value]
    return shown


def _filled(pieces: Sequence[str], arguments: Arguments) -> Sequence[str]:
    """The texts of a rule (even) and what is in its places (odd), with single spaces between."""
    shown: list[str] = []
    given = False
    for at, piece in enumerate(pieces):
        if at % 2 == 0:
            doubled = shown and shown[-1] == "" and not str("".join(map(str, shown)))[-1:].strip()
            shown.append(piece.lstrip() if doubled else piece)
            continue
        shown.append(_given(piece, arguments))
        given = given or bool(shown[-1])
    if not given:
        return []
    while shown and type(shown[-1]) is str and not shown[-1].strip(" -–,.:/"):
        shown.pop()  # of places without arguments at the end: "5 ", "1950--"
    return shown


def _interlanguage(arguments: Arguments) -> Sequence[str]:
    """{{ill|Pump|de|Pumpe}}, as some wikis write it {{ill|en|Pump}}: "Pump"."""
    first_two = list(map(_is_code, _positional(arguments)[:2]))
    return _filled(["", "lt|2" if first_two == [True, False] else "lt|1", ""], arguments)


def _is_code(argument: Markup) -> bool:
    return re.fullmatch(r"[a-z]{2,3}(?:-[a-z]+)?", str(argument).strip()) is not None


def _positional(arguments: Arguments) -> list[Markup]:
    return [arguments[key] for key in map(str, range(1, 20)) if key in arguments]


def _words(arguments: Arguments) -> list[str]:
    """The positional arguments as plain text."""
    return [html.unescape(str(argument)).strip(MARKS) for argument in _positional(arguments)]


_BETWEEN = {"-": "–", "–": "–", "to": " to ", "to(-)": " to ", "and": " and ", "or": " or ",
            "by": " by ", "x": " × ", "×": " × ", "+/-": " ± ", "±": " ± "}  # fmt: skip
_UNITS = {"C": "°C", "F": "°F", "sqmi": "sq mi", "sqft": "sq ft", "sqkm": "km²", "cuft": "cu ft",
          "cuin": "cu in", "sqin": "sq in", "impgal": "imp gal", "usgal": "US gal",
          "oilbbl": "bbl"}  # fmt: skip
_SMALLER = {"ft": ("in",), "lb": ("oz",), "st": ("lb",), "mi": ("ft", "yd"), "yd": ("ft", "in")}


def _convert(arguments: Arguments) -> Sequence[str]:
    """{{convert|5|km|mi}}: the first measure only, "5 km"; also ranges, and 6 ft 2 in."""
    words = _words(arguments)
    if len(words) < 2 or not words[0]:  # computed by a template
        return words[:1]
    shown, rest = words[0], words[1:]
    while len(rest) >= 3 and rest[0] in _BETWEEN:
        shown, rest = shown + _BETWEEN[rest[0]] + rest[1], rest[2:]
    unit = rest[0]
    if unit[-1:] in ("2", "3"):
        unit = unit[:-1] + raised(unit[-1])
    shown = f"{shown} {_UNITS.get(rest[0], unit)}"
    if len(rest) >= 3 and rest[2] in _SMALLER.get(rest[0], ()):
        shown = f"{shown} {rest[1]} {rest[2]}"
    return [shown]


def _measure_or_mention(arguments: Arguments) -> Sequence[str]:
    """In Italian, {{M|5|k|m}}: "5 km"; in Wiktionaries, {{m|la|pompa}}: "pompa"."""
    words = _words(arguments)
    unit = arguments.get("ul") or arguments.get("u")
    if unit or "".join(words[:1])[:1].isdecimal():
        return [*words[:1], " ", unit or "".join(words[1:3])]
    return [shown] if (shown := arguments.get("2") or arguments.get("1")) else []


_MONTHS = "January February March April May June July August September October November December".split()


def _as_of(arguments: Arguments) -> Sequence[str]:
    """{{as of|2012|3|lc=y}}: "as of March 2012"."""
    if "alt" in arguments:
        return [arguments["alt"]]
    year_month_day = _words(arguments)[:3]
    if len(year_month_day) > 1 and year_month_day[1].isdecimal():
        month = int(year_month_day[1])
        year_month_day[1] = _MONTHS[month - 1] if 1 <= month <= 12 else ""
    start = "as of " if "lc" in arguments else "As of "
    return [start + " ".join(word for word in reversed(year_month_day) if word)]


def _ordinal(arguments: Arguments) -> Sequence[str]:
    """{{nth|21}}: "21st"."""
    number = "".join(_words(arguments)[:1])
    plain = {"1": "st", "2": "nd", "3": "rd"}.get(number[-1:], "th")
    return [number, "th" if number[-2:-1] == "1" else plain]


def _form_of(name: str, arguments: Arguments) -> Sequence[str]:
    """A definition in the English Wiktionary, {{plural of|en|cat}}: "plural of cat"."""
    shown = arguments.get("3") or arguments.get("2")
    return [f"{name} ", shown] if shown else []


def _century_es(arguments: Arguments) -> Sequence[str]:
    """In Spanish, {{siglo|XX}}: "XX", {{siglo|I|a|s}}: "siglo I a. C."."""
    number, era, word = (str(arguments.get(key, "")).strip() for key in "123")
    before = {"s": "siglo ", "S": "Siglo "}.get(word[:1], "")
    return [before, number, {"a": " a. C.", "d": " d. C."}.get(era.lower(), "")]


def _century_fr(arguments: Arguments) -> Sequence[str]:
    """In French, {{s|XX|e}}: "XXe siècle", {{sp|XV|e|et|XVI|e|s}}: "XVe et XVIe siècles"."""
    words = _words(arguments)
    if not _ROMAN.fullmatch("".join(words[:1])):
        return []
    second = [" ", words[2], " ", *words[3:5]] if len(words) > 3 else []
    return [*words[:2], *second, " siècle", *words[5:6]]


_ROMAN = re.compile("[IVXL]+")


def _lived(arguments: Arguments) -> Sequence[str]:
    """In Chinese, {{bd|1893年|12月26日|1976年|9月9日}}; in Spanish it is a category."""
    words = _words(arguments)
    if "年" not in "".join(words[:1]):
        return []
    born, died = "".join(words[:2]), "".join(words[2:4])
    return [born, "－", died] if died else [born]


_SHAPES: Final[dict[str, Shape]] = {
    **dict.fromkeys(("convert", "cvt"), _convert),
    **dict.fromkeys(("as of", "asof"), _as_of),
    **dict.fromkeys(("nth", "ordinal"), _ordinal),
    **dict.fromkeys(("ill", "interlanguage link", "ill-wd"), _interlanguage),
    **dict.fromkeys(("sp", "sp-"), _century_fr),
    "s": lambda arguments: _century_fr(arguments) or _positional(arguments)[:1],
    "m": _measure_or_mention,
    "siglo": _century_es,
    "bd": _lived,
}
