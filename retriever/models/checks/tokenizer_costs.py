"""Bounds on the cost of a tokenizer, which a model's folder brings along as data.

A tokenizer.json may contain steps that make a text longer, regular expressions and words of any length:
within a few lines, a chain of replacements doubles a text forty times. The tokenizers library takes all of
them, gives regular expressions up only after ten million steps, and then panics. What no model needs is
refused here, before the library reads the file; the rest of panics are errors of the file (`tokenized`).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tokenizers import Encoding, Tokenizer

from linkseek.indexer.program.errors import InputError

_HINT = "No model needs it: download the model again, or from another source."
_GROWTH = 64
"""How many times as long as a text its normalised form may be; the known models stay below 4."""
_ADDED = 1_000
"""Characters that the steps may add to any text."""
_WORD = 1_000
"""Characters of a word that WordPiece cuts: its time grows with their square. BERT has 100."""
_PATTERN = 4_000
"""Characters of a regular expression."""
_MAPPED = 256
"""Bytes that a character may become in a table of sentencepiece; NFKC has 33."""
_SPECIAL = 64
"""Special tokens around a text."""


def check_tokenizer(path: Path, settings: dict[str, Any]) -> None:
    """Raises `InputError` for a tokenizer.json that costs more time or memory than any model's."""
    growth, added = 1.0, 0
    for step in tables(settings.get("normalizer"), settings.get("pre_tokenizer")):
        kind = step.get("type")
        if kind in ("Replace", "Split"):
            _check_pattern(path, step.get("pattern"))
        if kind == "Replace":
            growth *= _factor(step)
        elif kind == "Prepend":
            added += len(str(step.get("prepend")))
        elif kind == "Metaspace":
            growth *= max(1, len(str(step.get("replacement"))))
        elif kind == "Precompiled":
            _check_table(path, step.get("precompiled_charsmap"))
        if growth > _GROWTH or added * growth > _ADDED * _GROWTH or added > _ADDED:
            raise InputError(f"{path}: its steps make a text more than {_GROWTH} times as long", _HINT)
    model = settings.get("model")
    word = model.get("max_input_chars_per_word") if isinstance(model, dict) else None
    if isinstance(word, int) and word > _WORD:
        raise InputError(f"{path}: max_input_chars_per_word is {word:,}, expected {_WORD:,} at most", _HINT)
    if isinstance(model, dict) and model.get("dropout"):
        raise InputError(f"{path}: dropout, which cuts each text at random", "Set it to null.")
    specials = sum("SpecialToken" in step for step in tables(settings.get("post_processor")))
    if specials > _SPECIAL:
        raise InputError(f"{path}: {specials:,} special tokens around a text", _HINT)


def tables(*parts: Any) -> Iterator[dict[str, Any]]:
    """All tables of settings at any depth."""
    rest = list(parts)
    while rest:
        value = rest.pop()
        if isinstance(value, dict):
            yield value
            rest += value.values()
        elif isinstance(value, list):
            rest += value


def _factor(step: dict[str, Any]) -> float:
    """How many times as long a replacement makes a text at most."""
    pattern, content = step.get("pattern"), str(step.get("content"))
    text = pattern.get("String") if isinstance(pattern, dict) else None
    if isinstance(text, str) and text:
        return max(1.0, len(content) / len(text))
    return 1.0 + len(content)  # a regular expression may match nothing, between any two characters


def _check_pattern(path: Path, pattern: Any) -> None:
    """Raises `InputError` for a regular expression with nested repetitions, such as (a+)+."""
    text = pattern.get("Regex") if isinstance(pattern, dict) else None
    if not isinstance(text, str):
        return
    if len(text) > _PATTERN or repeats_repeated(text):
        reason = "a repetition within a repetition" if len(text) <= _PATTERN else f"{len(text):,} characters"
        raise InputError(f"{path}: the regular expression {text[:80]!r} may take forever ({reason})", _HINT)


_PIECE = re.compile(
    r"\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*+\]|\(\?#[^)]*\)|[*+]|\{\d*,\d*\}|\{\d+\}|[()]|[^\\]", re.S
)
_REPEATS = re.compile(r"[*+]|\{\d*,\}|\{\d*,?(?:[2-9]|\d\d+)\}")
_FEW = re.compile(r"\{[2-9]\}")


def repeats_repeated(pattern: str) -> bool:
    """Whether a group that contains a repetition is itself repeated: its time may double with each character.

    A few times the same, as in (\\d{3})+, can be cut in one way only, and counts once.
    """
    open_groups = [0]  # of each open group: 0 without a repetition, 1 with few times the same, 2 with others
    closed = 0  # the same of the group that the last piece closed
    for match in _PIECE.finditer(pattern):
        piece = match.group()
        if piece == "(":
            open_groups.append(0)
        elif piece == ")" and len(open_groups) > 1:
            closed = open_groups.pop()
            open_groups[-1] = max(open_groups[-1], closed)
            continue
        elif _REPEATS.fullmatch(piece):
            if closed == 2:
                return True
            open_groups[-1] = max(open_groups[-1], 1 if _FEW.fullmatch(piece) and not closed else 2)
        closed = 0
    return False


def _check_table(path: Path, table: Any) -> None:
    """Raises `InputError` for a table of characters that makes one of them a long text."""
    try:
        data = base64.b64decode(table or "", validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise InputError(f"{path}: the table of characters is damaged", "Save the model again.") from None
    texts = data[4 + int.from_bytes(data[:4], "little") :]
    longest = max(map(len, texts.split(b"\0")), default=0)
    if longest > _MAPPED:
        raise InputError(f"{path}: a character becomes {longest:,} bytes, expected {_MAPPED} at most", _HINT)


def tokenized(tokenizer: Tokenizer, texts: Sequence[Any]) -> list[Encoding]:
    """The encodings of texts, or of pairs of them, without places. Raises `InputError` where it panics."""
    with panics_refused("the tokenizer of the model"):
        encodings: list[Encoding] = tokenizer.encode_batch_fast(list(texts))
    return encodings


@contextmanager
def panics_refused(what: str) -> Iterator[None]:
    """Raise a panic of a library in Rust as `InputError`; it is no `Exception`, and nobody catches it."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        reason = str(error).partition("\n")[0][:200]
        raise InputError(f"{what} cannot read a text ({reason})", _HINT) from None
