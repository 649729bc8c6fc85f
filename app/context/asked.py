"""Questions that people asked, from logs that their owner keeps: nothing is logged unless asked for.

A log has a JSON record in each line, whose `asked` has the questions of a request. `linkseek serve
--log-questions` writes such records, and `linkseek app --log-questions FILE` does of the search page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from os import SEEK_END
from pathlib import Path
from typing import Any

import orjson

from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.indexer.program.log import log_line
from linkseek.retriever.queries import checked_question


def read_asked(logs: Iterable[Path]) -> tuple[Counter[str], int]:
    """How often each question was asked, the most frequent first; and the number of lines that are damaged or
    have a question that cannot be asked. LOG.1, which the service has closed, is a part of LOG.

    Raises `InputError` for a log that cannot be read.
    """
    asked: Counter[str] = Counter()
    damaged = 0
    for line in (line for log in _with_older(logs) for line in _lines(log)):
        try:
            asked.update(
                [checked_question(" ".join(text.split())) for text in _questions(orjson.loads(line))]
            )
        except (UsageError, ValueError, AttributeError, TypeError):
            damaged += 1
    return Counter(dict(asked.most_common())), damaged


def note_asked(log: Path, question: str, **facts: Any) -> None:
    """Add a question to a log. What the disk refuses is reported, and lost."""
    record = {"time": datetime.now(UTC), **facts, "asked": [question]}
    try:
        with log.open("ab+") as file:
            is_cut_off = file.seek(0, SEEK_END) and (file.seek(-1, SEEK_END), file.read())[1] != b"\n"
            file.write(b"\n" * bool(is_cut_off) + orjson.dumps(record) + b"\n")
    except OSError as error:
        log_line(f"{log}: {error.strerror}; questions are not logged")


def forget_asked(logs: Iterable[Path], words: str) -> int:
    """Remove the lines with a question that has these words, in any case, in place. Returns their number."""
    removed = 0
    for log in _with_older(logs):
        lines = _lines(log)
        kept = [line for line in lines if not _has(line, words.casefold())]
        removed += len(lines) - len(kept)
        with log.open("r+b") as file:  # a service that writes it goes on
            file.seek(sum(map(len, lines)))
            content = b"".join([*kept, file.read()])
            file.seek(0)
            file.write(content)
            file.truncate()
    return removed


def _with_older(logs: Iterable[Path]) -> Iterator[Path]:
    for log in logs:
        older = log.with_name(f"{log.name}.1")
        yield from [older, log] if older.exists() else [log]


def _lines(log: Path) -> list[bytes]:
    try:
        return log.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise InputError(
            f"{log}: {error.strerror}", "linkseek serve writes it with --log-questions."
        ) from None


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
