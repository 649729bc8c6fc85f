"""The test sets as a list for people: rows for the terminal, and tables for docs/reference/test-sets.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from linkseek.app.testsets.definition import Corpus, TestSet
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


_PACKING = "; BEIR's packing: CC BY-SA 4.0"
"""What the licences of all collections of BEIR end in; the page says it once."""


def test_sets_markdown() -> str:
    """The generated part of docs/reference/test-sets.md: the table of test sets and the table of corpora."""
    set_rows = []
    for name, s in sorted(all_test_sets().items()):
        index, needs = f"`{s.corpus.index}`", " or ".join(source.needs for source in s.sources)
        set_rows.append(
            (f"`{name}`", s.title, _count(s.queries), index, needs, s.licence.removesuffix(_PACKING))
        )
    corpora: dict[str, Corpus] = {}
    for test_set in all_test_sets().values():
        corpora.setdefault(test_set.corpus.index, test_set.corpus)
    corpus_rows = (
        (f"`{index}`", corpus.title, _count(corpus.documents), corpus.where, f"`{corpus.build_options}`")
        for index, corpus in sorted(corpora.items())
    )
    return "\n".join(
        (
            "### Test sets\n",
            _table(("name", "test set", "questions", "index", "needs", "licence"), set_rows),
            "### Corpora\n",
            _table(("index", "corpus", "documents", "where to get it", "options"), corpus_rows),
        )
    )


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


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = (head, ["---"] * len(head), *rows)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
