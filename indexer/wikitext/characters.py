"""Characters with a special meaning while a page is processed.

The steps leave marks in the source for later ones: a piece set aside, a gap, a list item, a literal sign. XML
1.0 forbids these control characters, so no export has them; `without_controls` removes them from other
sources. HTML entities are left to `render`: in the source they would become markup.
"""

import re

from linkseek.indexer.program.text import ZERO_WIDTH

KEPT, KEPT_END = "\x01", "\x02"  # around the number of a verbatim piece
GAP = "\x03"  # something was removed here: a word after it is not part of the link before it
ITEM = "\x04"  # a list item begins
MARKS = f" \n\t\xa0{GAP}{ITEM}"
"""Stripped from the ends of a piece of text."""

_LITERALS = str.maketrans("[]", "\x05\x08")
# Here and elsewhere a pattern starts with its possible first characters, and looks back after them: only then
# does the search skip all other text fast.
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\r](?:(?<!\r)|(?=\n))")
_RAISED = str.maketrans("0123456789+-−–", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻")
_INVISIBLE = str.maketrans(
    {after: chr(before) for before, after in _LITERALS.items()}
    | dict.fromkeys("\xa0\u2007\u2009\u200a\u202f\u3000", " ")
    | dict.fromkeys(GAP + ZERO_WIDTH)
)


class Markup(str):
    """A piece of wikitext among texts."""

    __slots__ = ()


def without_controls(source: str) -> str:
    """The source without control characters, its lines ending as on Unix."""
    return _CONTROLS.sub("", source).replace("\r", "\n")


def literal(text: str) -> str:
    """The text with `[` and `]` as no markup until `plain`."""
    return text.translate(_LITERALS)


def plain(text: str) -> str:
    """The text to show: literal signs as themselves, special spaces as spaces, nothing invisible."""
    return text.translate(_INVISIBLE)


def raised(text: str) -> str:
    """Digits and signs as superscripts: ten to the power of six must not become the number 106."""
    return text.translate(_RAISED)
