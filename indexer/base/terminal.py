"""What a terminal is shown. Text from outside is shown there and not obeyed.

Titles, texts, names of files and what a message quotes of them can hold escape sequences, line breaks,
and marks that turn the direction of what follows.
"""

from __future__ import annotations

import sys

_OBEYED = dict.fromkeys(
    [*range(32), *range(0x7F, 0xA0), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A)], " "
)


def printable(text: str) -> str:
    """The text on one line, with a space for each character that a terminal obeys: places stay."""
    return text.translate(_OBEYED)


def say(line: str) -> None:
    """A line on stderr, whole whatever other threads say at the same time: print writes its end apart."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
