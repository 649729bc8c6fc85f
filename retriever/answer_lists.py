"""The short answers to a question, in the forms in which data sets and libraries write them.

    "Jove", ["Jove", "Jupiter"], [["Jove"], ["Jupiter"]]      JSON
    {"value": "Jove", "aliases": ["Jupiter"]}                 TriviaQA
    {"text": ["Jove"], "answer_start": [3]}                   SQuAD
    ['Jove', "L'Aquila"], ('Jove',), {'Jove'}                 printed by Python
    ['Jove' 'Jupiter']                                        by numpy
    array(['Jove', 'Jupiter'], dtype=object)                  by pandas, also within a dictionary

What was printed is parsed, never evaluated. Between brackets, elements are separated by commas alone, or as
numpy prints them, by white space alone: Python would join 'Jove' 'Jupiter' to one text.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

import orjson

from linkseek.indexer.base.errors import InputError
from linkseek.indexer.base.text import with_whole_characters

_EXPECTED = (
    "Expected a list of texts such as ['Paris', \"L'Aquila\"], in JSON or as Python or numpy print it; "
    "expressions are not evaluated."
)
_CUT = (
    "Printing has cut it. Write the file again as JSON lines: df.to_json(FILE, orient='records', lines=True)."
)
_LIST_THEM = 'Write them as a list, such as ["Jove", "Jupiter"], also if it is one alone.'
_IN_DICTIONARIES = "value", "text", "answer", "answers", "aliases"
"""Keys of a dictionary of answers, without case, blanks and underscores; others are ignored."""
_DEPTH = 8
MISSING = "None", "nan", "NaN", "null", "<NA>"
"""How missing values are printed."""
_PRINTED = re.compile(
    r"""(?:[a-zA-Z_][\w.]*\()?\s*[\[({]\s*(?:[bBrRuU]{0,2}["']|[\[({]\s*["'\[({]|[a-zA-Z_][\w.]*\(|[\])}]\s*$)|set\(\)$|<\w+>\s*\["""
)
_TOKEN = re.compile(
    r"""\s*+(?:(?P<text>[uU]?(?:'(?:[^'\\\n]|\\.)*+'|"(?:[^"\\\n]|\\.)*+"))|(?P<mark>[\[\](){},:=])"""
    r"|(?P<cut>\.\.\.|…)|(?P<number>[-+]?\d[\d.eE+-]*+)|(?P<name>[a-zA-Z_][\w.]*+|<NA>))"
)
_PAIRS = {"[": "]", "(": ")", "{": "}"}
_TEXTS = re.compile(r"(?:np\.|numpy\.)?str_")
_LISTS = re.compile(r"(?:np\.|numpy\.)?array|list|tuple|set|frozenset|(?:pd\.|pandas\.)?(?:Index|Series)")


def read_answers(value: Any, place: str, *, is_cell: bool = False) -> tuple[str, ...]:
    """The answers that a value of JSON, or a cell of a table, holds; place: for errors.

    is_cell: whether a text must be a printed list; else it is one answer, unless it begins as such a list.
    Raises `InputError` for anything else than texts, and for a list that was printed in part.
    """
    try:
        if isinstance(value, str):
            text = value.strip()
            if not text and not is_cell:
                return ()
            if is_cell or _PRINTED.match(text):
                return tuple(map(with_whole_characters, _texts(_parse(text), 0)))
            if text in MISSING:
                raise _RefusedError(
                    f"{text} is how a missing value is printed", "Leave the answers empty instead."
                )
            if "|" in text:
                raise _RefusedError("several, separated by |, or one that holds it", _LIST_THEM)
            value = [value]
        return tuple(map(with_whole_characters, _texts(value, 0)))
    except _RefusedError as refused:
        reason, hint = refused.args
        shown = str(value)[:60]
    except UnicodeError:
        reason, hint, shown = "half a character", _EXPECTED, ascii(value)[:60]
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
    """The value of a printed list: texts, numbers, None, lists and dictionaries."""
    try:
        return orjson.loads(text)  # first, since JSON's escapes are not all Python's
    except orjson.JSONDecodeError:
        reader = _Printed(text)
    value = reader.value(0)
    if reader.kind != "end":
        raise _RefusedError()
    return value


class _Printed:
    """A printed value, token by token. kind, token: the next one; gap: whether white space is before it."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._next()

    def value(self, depth: int) -> Any:
        kind, token = self.kind, self.token
        if depth > _DEPTH:
            raise _RefusedError("nested too deeply")
        if kind == "text":
            self._next()
            return _literal(token)
        if kind == "number":
            self._next()
            return 0  # of places, which nobody reads; among answers it is refused
        if kind == "mark" and token in _PAIRS:
            self._next()
            return self._items(token, depth)
        if kind == "name" and token in MISSING:
            self._next()
            return None
        if kind == "name":
            return self._call(token, depth)
        raise _RefusedError()

    def _items(self, opening: str, depth: int) -> Any:
        """The elements up to the closing bracket; a dictionary where keys are followed by a colon."""
        items: list[Any] = []
        keys: list[str] = []
        separators = set()
        while not self._take(_PAIRS[opening]):
            if items:
                comma = self._take(",")
                separators.add(comma)
                if comma and self._take(_PAIRS[opening]):  # ('a',)
                    break
                if len(separators) > 1 or not (comma or (opening == "[" and self.gap)):
                    raise _RefusedError("a comma is missing between two of them")
            item = self.value(depth + 1)
            if opening == "{" and self._take(":"):
                keys.append(str(item))
                item = self.value(depth + 1)
            items.append(item)
        if keys and len(keys) != len(items):
            raise _RefusedError()
        if opening == "(" and len(items) == 1 and not separators:
            return items[0]
        return dict(zip(keys, items, strict=True)) if keys or (opening == "{" and not items) else items

    def _call(self, name: str, depth: int) -> Any:
        """np.str_('a'), array([...], dtype=object): the argument; what has a name is not read."""
        self._next()
        if not (_TEXTS.fullmatch(name) or _LISTS.fullmatch(name)) or not self._take("("):
            raise _RefusedError(f"{name} is not a text")
        value: Any = []
        is_first = True
        while not self._take(")"):
            if not is_first and not self._take(","):
                raise _RefusedError()
            if self.kind == "name" and self.token not in MISSING and self._is_option():
                self._skip_option(depth)
            elif is_first:
                value = self.value(depth + 1)
            else:
                raise _RefusedError()
            is_first = False
        return value

    def _is_option(self) -> bool:
        return self._text[self._at :].lstrip().startswith("=")

    def _skip_option(self, depth: int) -> None:
        self._next()
        self._next()  # the name, and the sign
        if self.kind == "name":
            self._next()
            if self._take("("):  # dtype('O')
                self.value(depth + 1)
                if not self._take(")"):
                    raise _RefusedError()
        else:
            self.value(depth + 1)

    def _take(self, mark: str) -> bool:
        """Go on if the next token is this one."""
        if self.kind == "cut":
            raise _RefusedError('it goes on where "..." stands', _CUT)
        if self.kind == "end":
            raise _RefusedError("its end is missing", _CUT)
        if (self.kind, self.token) != ("mark", mark):
            return False
        self._next()
        return True

    def _next(self) -> None:
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            if self._text[self._at :].strip():
                cut = self._text.rstrip().endswith(("...", "…"))
                raise _RefusedError('it ends with "..."', _CUT) if cut else _RefusedError()
            self.kind, self.token, self.gap = "end", "", False
            return
        self.kind, self.token = str(match.lastgroup), match[str(match.lastgroup)]
        self.gap = match.start(self.kind) > self._at
        self._at = match.end()


def _literal(token: str) -> str:
    try:
        return str(ast.literal_eval(token))
    except (ValueError, SyntaxError):
        raise _RefusedError(f"{token[:40]} is not a text of Python") from None
