"""The test sets as a list for the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from linkseek.app.testsets.definition import TestSet
from linkseek.app.testsets.registry import all_test_sets, places
from linkseek.app.testsets.sources import Places
from linkseek.indexer.program.text import byte_size


class TestSetRow(NamedTuple):
    """A test set in the list. state: "ready", or what it needs."""

    name: str
    queries: str
    title: str
    licence: str
    state: str


def test_set_rows(data: Path | None = None) -> list[TestSetRow]:
    """A row for each test set, in the order of their names. data: as for `open_test_set`."""
    at = places(data)
    return [
        TestSetRow(name, _count(s.queries), s.title, s.licence, _state(s, at))
        for name, s in sorted(all_test_sets().items())
    ]


def _state(test_set: TestSet, at: Places) -> str:
    gaps = [source.gap(at) for source in test_set.sources]
    missing = [gap for gap in gaps if gap is not None]
    if len(missing) < len(gaps):
        return "ready"
    for gap in missing:
        if gap.download:
            return "--download" + (f" ({byte_size(gap.size)})" if gap.size else "")
    return f"needs {missing[0].missing}"


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"
