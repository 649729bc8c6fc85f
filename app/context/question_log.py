"""Questions that people asked, from logs that their owner keeps: nothing is logged unless asked for.

A log has a JSON record in each line, whose `asked` has the questions of a request. `linkseek serve
--log-questions` writes such records, and `linkseek app --log-questions FILE` does of the search page.
"""

from __future__ import annotations

import errno
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from os import SEEK_END
from pathlib import Path
from typing import Any, BinaryIO, cast

import orjson

from linkseek.indexer.program.errors import InputError, UsageError, log_line
from linkseek.retriever.queries import checked_question

_PAUSE = 0.1  # seconds
_BYTES = 10 << 20


def read_asked(logs: Iterable[Path]) -> tuple[Counter[str], int]:
    """How often each question was asked, the most frequent first; and the number of lines that are damaged or
    have a question that cannot be asked. LOG.1, which the service has closed, is a part of LOG.

    Raises `InputError` for a log that cannot be read.
    """
    asked: Counter[str] = Counter()
    damaged = 0
    for file in _opened(logs, "rb"):
        for line in filter(bytes.strip, file):
            try:
                texts = [" ".join(text.split()) for text in _questions(orjson.loads(line))]
                asked.update(map(checked_question, texts))
            except (UsageError, ValueError, AttributeError, TypeError):
                damaged += 1
    return Counter(dict(asked.most_common())), damaged


def note_asked(log: Path, question: str, **facts: Any) -> None:
    """Add a question to a log. What the disk refuses is reported, and lost."""
    try:
        append_line(log, log_record({**facts, "asked": [question]}))
    except OSError as error:
        log_line(f"{log}: {error.strerror}; questions are not logged")


def log_record(facts: Mapping[str, Any]) -> bytes:
    """A line of a log: the time, and the facts."""
    option = orjson.OPT_NON_STR_KEYS | orjson.OPT_APPEND_NEWLINE
    return orjson.dumps({"time": datetime.now(UTC), **facts}, option=option)


def append_line(log: Path, line: bytes) -> None:
    """Add a line to a log, completely or not at all; a large log becomes LOG.1, and a new one begins."""
    if log.exists() and log.stat().st_size + len(line) > _BYTES:
        log.replace(log.with_name(f"{log.name}.1"))
    with log.open("ab+", buffering=0) as file:
        size = file.seek(0, SEEK_END)
        if size and (file.seek(-1, SEEK_END), file.read())[1] != b"\n":  # a crash has cut off the last one
            line = b"\n" + line
        try:
            if file.write(line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            file.truncate(size)
            raise


def forget_asked(logs: Iterable[Path], words: str) -> int:
    """Write blanks over the lines with a question that has these words, in any case. Returns their number.

    Nothing moves, so that a service that adds lines meanwhile loses none. Raises as `read_asked`.
    """
    removed = 0
    for file in _opened(logs, "r+b"):
        end = file.seek(0, SEEK_END)  # what is added later is not forgotten
        file.seek(0)
        while (at := file.tell()) < end:
            line = file.readline()
            if not line.endswith(b"\n"):  # it is being written, or was cut off
                time.sleep(_PAUSE)
                file.seek(at)
                line = file.readline()
            if line.strip() and _has(line, words.casefold()):
                file.seek(at)
                file.write(b" " * len(line.rstrip(b"\n")))
                file.seek(at + len(line))
                removed += 1
    return removed


def _opened(logs: Iterable[Path], mode: str) -> Iterator[BinaryIO]:
    """Each log, and then its older part: one that is renewed meanwhile is read, as its older part."""
    for log in logs:
        older = log.with_name(f"{log.name}.1")
        for path in (log, older):
            try:
                with path.open(mode) as file:
                    yield cast(BinaryIO, file)
            except OSError as error:
                if path is log or not isinstance(error, FileNotFoundError):
                    hint = "linkseek serve writes it with --log-questions."
                    raise InputError(f"{path}: {error.strerror}", hint) from None


def _questions(record: dict[str, Any]) -> list[str]:
    asked = record.get("asked", [])
    if not isinstance(asked, list):
        raise TypeError
    return asked


def _has(line: bytes, words: str) -> bool:
    """Whether a line has a question with these words; one that cannot be read, whether it may have any."""
    try:
        return any(words in str(text).casefold() for text in _questions(orjson.loads(line)))
    except (ValueError, AttributeError, TypeError):
        return b'"asked"' in line
