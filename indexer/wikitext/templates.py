"""The templates that are running text, and the text of each.

A template is a program of its wiki, and none is run. The few here, by name, are those without which
sentences have holes: a character, one of their arguments, or a measure, a date, a number as the English
Wikipedia writes it. All others (boxes, notes, navigation) are dropped, and so is the second unit of
{{convert}}, which would have to be computed.

Source: the templates' documentation, https://en.wikipedia.org/wiki/Template:Convert and so on.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from typing import Final

from mwparserfromhell.wikicode import Wikicode

from linkseek.indexer.wikitext.characters import MARKS, raised

_SYMBOLS: Final = {
    "nbsp": " ", "space": " ", "spaces": " ", "thinsp": " ", "thin space": " ", "ndash": "–",
    "en dash": "–", "endash": "–", "–": "–", "mdash": "—", "em dash": "—", "emdash": "—", "—": "—",
    "snd": " – ", "spnd": " – ", "spaced ndash": " – ", "spaced en dash": " – ", "dash": " – ",
    "spaced mdash": " — ", "·": " · ", "middot": " · ", "dot": " · ", "•": " • ", "bullet": " • ",
    "'": "'", "'s": "'s", "' \"": "'\"", "\" '": "\"'", "=": "=", "pi": "π", "sic": "",
    "okina": "ʻ", "hamza": "ʼ",
    "shy": "", "zwj": "\u200d", "zwnj": "\u200c",
}  # fmt: skip
"""Templates that stand for a character, without regard to arguments (unless named below, too)."""

_ARGUMENT: Final = {
    "nowrap": "1", "nobr": "1", "nowiki": "1", "small": "1", "smaller": "1", "big": "1",
    "larger": "1", "em": "1", "strong": "1", "abbr": "1", "abbrv": "1", "tooltip": "1",
    "lang": "2", "transl": "-1", "transliteration": "-1", "script": "2", "linktext": "1",
    "sub": "1", "mvar": "1", "math": "1", "sic": "1", "not a typo": "1", "vanchor": "1",
    "visible anchor": "1", "ill": "1", "interlanguage link": "1", "ill-wd": "1", "link-interwiki":
    "en", "formatnum": "1", "nts": "1", "nihongo": "1", "unicode": "1", "flag": "1",
    "polytonic": "1", "smallcaps": "1", "sc": "1", "keypress": "1", "mono": "1", "plainlist": "1",
    "columns-list": "-1", "div col list": "-1", "column": "1", "color": "2", "gaps": "*",
    "chem": "*", "chem2": "*", "gloss": "1", "angbr": "1", "quote": "1", "blockquote": "1",
    "cquote": "1", "quotation": "1", "bquote": "1",
}  # fmt: skip
"""The argument that is shown; -1: the last, *: all of them, one after another."""

_QUOTATIONS: Final = frozenset({"quote", "blockquote", "cquote", "quotation", "bquote"})

Arguments = dict[str, Wikicode]
Shape = Callable[[Arguments], Sequence[str | Wikicode]]


def shape_of(name: str) -> Shape | None:
    """How a template is shown, or None if it is dropped."""
    name = name.replace("_", " ").strip().lower()
    if name in _SHAPES:
        return _SHAPES[name]
    if name in _ARGUMENT or name.startswith("lang-"):
        return lambda arguments: _argument(name, arguments)
    return (lambda _: [_SYMBOLS[name]]) if name in _SYMBOLS else None


def _argument(name: str, arguments: Arguments) -> Sequence[str | Wikicode]:
    which = _ARGUMENT.get(name, "1")
    positional = _positional(arguments)
    if name in _QUOTATIONS:
        shown = arguments.get("text") or arguments.get("quote") or arguments.get("1")
        return ["\n\n", shown, "\n\n"] if shown else []
    if which == "*":
        return positional
    if which == "-1":
        return positional[-1:]
    shown = arguments.get("lt") or arguments.get(which)
    return [_SYMBOLS.get(name, "") if shown is None else shown]


def _positional(arguments: Arguments) -> list[Wikicode]:
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
    if len(words) < 2:
        return words
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


def _fraction(arguments: Arguments) -> Sequence[str]:
    """{{frac|3|1|2}}: "3 1/2"; with one argument its reciprocal."""
    words = _words(arguments)
    if len(words) == 1:
        return ["1/", words[0]]
    return [" ".join([*words[:-2], "/".join(words[-2:])])]


def _circa(arguments: Arguments) -> Sequence[str]:
    """{{circa|1900}}: "c. 1900"."""
    return ["c. " + " – ".join(_words(arguments)[:2])]


_MONTHS = "January February March April May June July August September October November December".split()


def _as_of(arguments: Arguments) -> Sequence[str | Wikicode]:
    """{{as of|2012|3|lc=y}}: "as of March 2012"."""
    if "alt" in arguments:
        return [arguments["alt"]]
    year_month_day = _words(arguments)[:3]
    if len(year_month_day) > 1 and year_month_day[1].isdecimal():
        month = int(year_month_day[1])
        year_month_day[1] = _MONTHS[month - 1] if 1 <= month <= 12 else ""
    start = "as of " if "lc" in arguments else "As of "
    return [start + " ".join(word for word in reversed(year_month_day) if word)]


def _power(arguments: Arguments) -> Sequence[str]:
    """{{e|6}}: "×10⁶"."""
    return ["×10", raised("".join(_words(arguments)[:1]))]


def _value(arguments: Arguments) -> Sequence[str]:
    """{{val|6.24|e=18|u=m}}: "6.24×10¹⁸ m"."""
    power = _power({"1": arguments["e"]}) if "e" in arguments else []
    unit = arguments.get("u") or arguments.get("ul")
    return [*_words(arguments)[:1], *power, f" {unit}" if unit else ""]


def _raised(arguments: Arguments) -> Sequence[str]:
    """{{sup|2}}: a superscript."""
    return [raised("".join(_words(arguments)[:1]))]


_SHAPES: Final[dict[str, Shape]] = {
    "convert": _convert, "cvt": _convert, "frac": _fraction, "fraction": _fraction,
    "sfrac": _fraction, "circa": _circa, "c.": _circa, "as of": _as_of, "asof": _as_of,
    "e": _power, "val": _value, "sup": _raised,
}  # fmt: skip
