"""Text from outside on a terminal, which shows it and does not obey it.

Titles, texts, names of files and what a message quotes of them can hold escape sequences, line breaks,
and marks that turn the direction of what follows.
"""

from __future__ import annotations

_OBEYED = dict.fromkeys(
    [*range(32), *range(0x7F, 0xA0), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A)], " "
)


def printable(text: str) -> str:
    """The text on one line, with a space for each character that a terminal obeys: places stay."""
    return text.translate(_OBEYED)
