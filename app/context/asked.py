"""Questions that people asked, from logs that their owner keeps: nothing is logged unless asked for.

A log has a JSON record in each line, whose `asked` has the questions of a request. `linkseek serve
--log-questions` writes such records, and `linkseek app --log-questions FILE` does of the search page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from os import SEEK_END
from pathlib import Path
from typing import Any

import orjson

from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.indexer.program.log import log_line
from linkseek.retriever.queries import checked_question

OLDER = "{}.1"
"""The name of the part of a log that the service has closed because it was large."""


def read_asked(logs: Iterable[Path]) -> tuple[Counter[str], int]:
    """How often each question was asked, the most frequent first; and the number of lines that are damaged or
    have a question that cannot be asked.

    Raises `InputError` for a log that cannot be read.
    """
    asked: Counter[str] = Counter()
    damaged = 0
    for record in (_record(line) for log in _with_older(logs) for line in _lines(log)):
        try:
            asked.update([checked_question(" ".join(text.split())) for text in _questions(record or {})])
            damaged += record is None
        except UsageError:
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


def forget_asked(logs: Iterable[Path], is_meant: Callable[[str], bool]) -> int:
    """Remove questions from logs, in place; lines keep their other facts. Returns their number."""
    removed = 0
    for log in _with_older(logs):
        lines, kept = _lines(log), []
        for line in lines:
            record = _record(line) or {}
            asked = _questions(record)
            left = [text for text in asked if not is_meant(text)]
            removed += len(asked) - len(left)
            changed = {**record, "asked": left} if left else {k: v for k, v in record.items() if k != "asked"}
            kept.append(line if len(left) == len(asked) else orjson.dumps(changed) + b"\n")
        with log.open("r+b") as file:  # a service that writes it goes on
            file.seek(sum(map(len, lines)))
            content = b"".join([*kept, file.read()])
            file.seek(0)
            file.write(content)
            file.truncate()
    return removed


def _with_older(logs: Iterable[Path]) -> Iterator[Path]:
    for log in logs:
        older = log.with_name(OLDER.format(log.name))
        yield from [older] if older.exists() else []
        yield log


def _lines(log: Path) -> list[bytes]:
    try:
        return log.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise InputError(
            f"{log}: {error.strerror}", "linkseek serve writes it with --log-questions."
        ) from None


def _record(line: bytes) -> dict[str, Any] | None:
    """A record; None for a damaged one."""
    try:
        record = orjson.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _questions(record: dict[str, Any]) -> list[str]:
    asked = record.get("asked")
    return [text for text in asked if isinstance(text, str)] if isinstance(asked, list) else []
