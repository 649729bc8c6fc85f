"""The templates that are running text, and the text of each.

A template is a program of its wiki, and none is run. The few here, by name, are those without which
sentences have holes: a character, one of their arguments, or a measure, a date, a number as the English
Wikipedia writes it. All others (boxes, notes, navigation) are dropped, and so is the second unit of
{{convert}}, which would have to be computed. Other templates, also of other languages, follow the rules of
`rules.toml`, and the rules that a wiki's owner writes (`--templates`), which win.

Source: the templates' documentation, https://en.wikipedia.org/wiki/Template:Convert and so on.
"""

import html
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from linkseek.indexer.wikitext.characters import MARKS, Markup, raised

Arguments = dict[str, Markup]
Shape = Callable[[Arguments], Sequence[str]]


def _title(written: str) -> str:
    return " ".join(written.replace("_", " ").split())


def rule_of(written: str, rules: Mapping[str, str]) -> str | None:
    """The rule of a template by its name, as it is written; None if it has none. rules: of its wiki."""
    name = _title(written)
    own: dict[str, str] = _tables()["rules"]
    rule = rules.get(name.lower(), own.get(name.lower()))
    if rule is not None:
        return rule
    return next((rule for pattern, rule in _rules_of_names() if pattern.fullmatch(name)), None)


def shape_of(written: str, rules: Mapping[str, str]) -> Shape | None:
    """How a template is shown, or None if it is dropped. rules: as of `rules.toml`, which win."""
    return shape_by_rule(rule_of(written, rules) or "", _title(written))


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("rules.toml").read_text("utf-8"))


@cache
def _rules_of_names() -> list[tuple[re.Pattern[str], str]]:
    return [(re.compile(pattern, re.DOTALL), rule) for pattern, rule in _tables()["names"].items()]


_PLACE = re.compile(r"\{([^{}]*)\}")
_CONDITION = re.compile(r"\{([^{}=]*)=([^{}]*)\}")


def shape_by_rule(rule: str, name: str = "") -> Shape | None:
    """The shape that a rule describes; None for an empty rule, which drops the template.

    "1": that argument; "-1": the last; "*": all, ", *": with commas; "{convert}": a measure; else a text with
    places for arguments, "{1} {unit}", "{lt|1}" for the first that is given, "{1^}" as a superscript, "{1@}"
    as the name of a month, "{0}" for the name of the template. "{1}/{2} || 1/{1}": the first of which all
    arguments are given, else the last; "{3=s*}" shows nothing, and only what fits the pattern has its text.
    Nothing is shown where no argument is given.
    """
    if not rule:
        return None
    if rule == "{convert}":
        return _convert
    if rule == "-1":
        return lambda arguments: _positional(arguments)[-1:]
    if rule.endswith("*"):
        return lambda arguments: _joined(_positional(arguments), rule[:-1])
    if "{" not in rule and not rule.isdecimal():
        return lambda _: [rule]
    texts = [f"{{{one}}}" if one.isdecimal() else one for one in rule.split(" || ")]

    def shape(arguments: Arguments) -> Sequence[str]:
        arguments = {"0": Markup(name), **arguments}
        fitting = [one for one in texts if _fits(one, arguments)]
        pieces = [_PLACE.split(_CONDITION.sub("", one)) for one in fitting]
        complete = (one for one in pieces if all(_given(place, arguments) for place in one[1::2]))
        return _filled(next(complete, pieces[-1] if texts[-1] in fitting else []), arguments)

    return shape


def _fits(text: str, arguments: Arguments) -> bool:
    """Whether the arguments fit all conditions of a text."""
    conditions = _CONDITION.findall(text)
    return all(fnmatchcase(_given(place, arguments).strip(), pattern) for place, pattern in conditions)


def _given(place: str, arguments: Arguments) -> str:
    """The first given argument of a place; empty if there is none."""
    names = place.rstrip("^@").split("|")
    value = next((arguments[name] for name in names if str(arguments.get(name, "")).strip()), "")
    if place.endswith("^"):
        return raised(html.unescape(str(value)).strip(MARKS))
    number = str(value).strip() if place.endswith("@") else ""
    return _MONTHS[int(number) - 1] if number.isdecimal() and 1 <= int(number) <= 12 else value


_MONTHS = "January February March April May June July August September October November December".split()


def _joined(values: Sequence[Markup], between: str) -> Sequence[str]:
    given = [value for value in values if str(value).strip(MARKS)]
    return [piece for value in given for piece in (between, value)][1:]


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


def _positional(arguments: Arguments) -> list[Markup]:
    return [arguments[key] for key in map(str, range(1, 20)) if key in arguments]


def _words(arguments: Arguments) -> list[str]:
    """The positional arguments as plain text."""
    return [html.unescape(str(argument)).strip(MARKS) for argument in _positional(arguments)]


def _convert(arguments: Arguments) -> Sequence[str]:
    """{{convert|5|km|mi}}: the first measure only, "5 km"; also ranges, and 6 ft 2 in."""
    words = _words(arguments)
    if len(words) < 2 or not words[0]:  # computed by a template
        return words[:1]
    between, units, smaller = (_tables()["measures"][name] for name in ("between", "units", "smaller"))
    shown, rest = words[0], words[1:]
    while len(rest) >= 3 and rest[0] in between:
        shown, rest = shown + between[rest[0]] + rest[1], rest[2:]
    unit = rest[0]
    if unit[-1:] in ("2", "3"):
        unit = unit[:-1] + raised(unit[-1])
    shown = f"{shown} {units.get(rest[0], unit)}"
    if len(rest) >= 3 and rest[2] in smaller.get(rest[0], "").split():
        shown = f"{shown} {rest[1]} {rest[2]}"
    return [shown]
