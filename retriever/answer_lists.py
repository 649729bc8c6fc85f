"""The short answers to a question, in the forms in which data sets and libraries write them.

    "Jove", ["Jove", "Jupiter"], [["Jove"], ["Jupiter"]]      JSON
    {"value": "Jove", "aliases": ["Jupiter"]}                 TriviaQA
    {"text": ["Jove"], "answer_start": [3]}                   SQuAD
    ['Jove', "L'Aquila"]                                      printed by Python, as in DPR's files

Python's literals are parsed, never evaluated. What numpy and pandas print is refused: it may be cut.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from io import StringIO
from itertools import pairwise
from token import NL, STRING
from tokenize import TokenError, generate_tokens
from typing import Any

import orjson

from linkseek.indexer.program.errors import InputError
from linkseek.indexer.program.text import with_whole_characters

_EXPECTED = (
    'Write a list of texts in JSON, such as ["Paris", "L\'Aquila"]; '
    "from pandas: df.to_json(FILE, orient='records', lines=True)."
)
_LIST_THEM = 'Write them as a list, such as ["Jove", "Jupiter"], even if there is only one.'
_IN_DICTIONARIES = "value", "text", "answer", "answers", "aliases"
"""Keys of a dictionary of answers, without case, blanks and underscores; others are ignored."""
_DEPTH = 8
MISSING = "None", "nan", "NaN", "null", "<NA>"
"""The texts for which missing values are printed."""
_PRINTED = re.compile(
    r"""(?:[a-zA-Z_][\w.]*\()?\s*[\[({]\s*(?:[bBrRuU]{0,2}["']|[\[({]\s*["'\[({]|[a-zA-Z_][\w.]*\(|[\])}]\s*$)|set\(\)$|<\w+>\s*\["""
)


def read_answers(value: Any, place: str, *, is_cell: bool = False) -> tuple[str, ...]:
    """The answers that a value of JSON, or a cell of a table, contains; place: for errors.

    is_cell: whether a text must be a printed list; else it is one answer, unless it begins as such a list.
    Raises `InputError` for anything but texts, and for printed missing values of numpy and pandas.
    """
    try:
        if isinstance(value, str):
            text = value.strip()
            if not text and not is_cell:
                return ()
            if is_cell or _PRINTED.match(text):
                return tuple(map(with_whole_characters, _texts(_parse(text), 0)))
            if text in MISSING:
                raise _RefusedError(f"{text} stands for a missing value", "Leave the answers empty instead.")
            if "|" in text:
                raise _RefusedError("several, separated by |, or one that contains it", _LIST_THEM)
            value = [value]
        return tuple(map(with_whole_characters, _texts(value, 0)))
    except _RefusedError as refused:
        reason, hint = refused.args
        shown = str(value)[:60]
    except UnicodeError:
        reason, hint, shown = "an unpaired surrogate character", _EXPECTED, ascii(value)[:60]
    reason = f" ({reason})" if reason else ""
    raise InputError(f"{place}: the answers are not a list of texts{reason}: {shown}", hint) from None


class _RefusedError(Exception):
    """A reason and a hint."""

    def __init__(self, reason: str = "", hint: str = _EXPECTED) -> None:
        super().__init__(reason, hint)


def _texts(value: Any, depth: int) -> Iterator[str]:
    """The texts of a value: of lists at any depth, and of a dictionary the answer before its aliases."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple) and depth < _DEPTH:
        for item in value:
            yield from _texts(item, depth + 1)
    elif isinstance(value, dict) and depth < _DEPTH:
        named = {re.sub(r"[\W_]", "", str(key).lower()): item for key, item in value.items()}
        if not named.keys() & {*_IN_DICTIONARIES}:
            raise _RefusedError(f"none of its keys is {', '.join(_IN_DICTIONARIES)}")
        held = [named[key] for key in _IN_DICTIONARIES if named.get(key) is not None]
        yield from dict.fromkeys(text for item in held for text in _texts(item, depth + 1))
    else:
        raise _RefusedError()


def _parse(text: str) -> Any:
    """The value of a text in JSON, or of Python's literals as they are printed."""
    try:
        return orjson.loads(text)  # first, since JSON's escapes are not all Python's
    except orjson.JSONDecodeError:
        pass
    try:
        tokens = [token.type for token in generate_tokens(StringIO(text).readline) if token.type != NL]
        if (STRING, STRING) in pairwise(tokens):  # as numpy prints; Python would join them
            raise _RefusedError("a comma is missing between two of them")
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TokenError, TypeError, MemoryError, RecursionError):
        raise _RefusedError() from None
