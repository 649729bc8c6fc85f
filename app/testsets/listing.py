"""The test sets as a list for people: on the terminal, and as the tables of docs/test-sets.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.filesize import decimal

from app.testsets import Corpus, Gap, Places, TestSet, all_test_sets, places


class TestSetRow(NamedTuple):
    """A test set in the list. state: "ready", or what it needs."""

    name: str
    title: str
    queries: str
    corpus: str
    licence: str
    state: str


def test_set_rows(data: Path | None = None) -> list[TestSetRow]:
    """A row for each test set, in the order of their names. data: as for `open_test_set`."""
    at = places(data)
    return [
        TestSetRow(
            test_set.name,
            test_set.title,
            _count(test_set.queries),
            test_set.corpus.title,
            test_set.licence,
            _state(test_set, at),
        )
        for _, test_set in sorted(all_test_sets().items())
    ]


def markdown_sets() -> str:
    """The table of test sets."""
    rows = (
        (
            f"`{name}`",
            test_set.title,
            _count(test_set.queries),
            f"`{test_set.corpus.index}`",
            " or ".join(source.needs for source in test_set.sources),
            test_set.licence,
        )
        for name, test_set in sorted(all_test_sets().items())
    )
    return _table(("name", "what", "questions", "index", "needs", "licence"), rows)


def markdown_corpora() -> str:
    """The table of corpora, by the names of their indexes."""
    corpora: dict[str, Corpus] = {}
    for test_set in all_test_sets().values():
        corpora.setdefault(test_set.corpus.index, test_set.corpus)
    rows = (
        (f"`{index}`", corpus.title, _count(corpus.documents), corpus.where, f"`{corpus.build}`")
        for index, corpus in sorted(corpora.items())
    )
    return _table(("index", "corpus", "documents", "where", "command"), rows)


def _state(test_set: TestSet, at: Places) -> str:
    gaps: list[Gap] = []
    for source in test_set.sources:
        gap = source.gap(at)
        if gap is None:
            return "ready"
        gaps.append(gap)
    for gap in gaps:
        if gap.download:
            return "--download" + (f" ({decimal(gap.size)})" if gap.size else "")
    return f"needs {gaps[0].what}"


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = (head, ["---"] * len(head), *rows)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
