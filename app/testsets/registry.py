"""The registry of test sets: every table of `sets/*.toml`, here and in plug-ins, opened by name."""

from __future__ import annotations

import os
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from linkseek.app.testsets.definition import Corpus, LoadedTestSet, Places, TestSet
from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.indexer.program.plugins import load_plugins
from linkseek.indexer.program.text import byte_size, nearest
from linkseek.retriever.models.locations import cache_folder

_FOLDERS = [Path(__file__).parent]


def add_test_sets(folder: Path) -> None:
    """Add the test sets of FOLDER/sets/*.toml and the corpora of FOLDER/corpora.toml, as a plug-in may."""
    _FOLDERS.append(folder)
    all_test_sets.cache_clear()


@cache
def all_test_sets() -> dict[str, TestSet]:
    """Every test set by name, including those of plug-ins, in the order of their files."""
    load_plugins()
    tables = {name: table for folder in _FOLDERS for name, table in _read(folder / "corpora.toml").items()}
    corpora = {name: Corpus(**{"index": name} | table) for name, table in tables.items()}
    sets: dict[str, TestSet] = {}
    for path in sorted(path for folder in _FOLDERS for path in folder.glob("sets/*.toml")):
        for test_set in read_test_sets(_read(path), corpora):
            if test_set.name in sets:
                raise ValueError(f"two test sets are called {test_set.name}")
            sets[test_set.name] = test_set
    return sets


def read_test_sets(tables: dict[str, Any], corpora: dict[str, Corpus]) -> list[TestSet]:
    """The test sets of a TOML file: a table each, with the values of `[defaults]` where it has none.

    Raises pydantic's `ValidationError` for an unknown key or a wrong type.
    """
    defaults = tables.pop("defaults", {})
    rows = ({**defaults, **table, "name": name} for name, table in tables.items())
    return [TestSet(**row | {"corpus": corpora[row["corpus"]]}) for row in rows]


def _read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text("utf-8"))


def find_test_set(name: str) -> TestSet:
    """The test set of a name. Raises `UsageError` that suggests the nearest name for an unknown one."""
    names = {other: test_set for test_set in all_test_sets().values() for other in test_set.also}
    names |= all_test_sets()
    if name not in names:
        titles = {other: test_set.title for other, test_set in names.items()}
        hint = f"{nearest(name, titles, titles)} --list-test-sets lists all."
        raise UsageError(f"--test-set {name}: no such test set", hint)
    return names[name]


def open_test_set(name: str, data: Path | None = None, *, download: bool = False) -> LoadedTestSet:
    """A test set by name, read and checked.

    data: the user's folder of test sets; by default LINKSEEK_DATA, if that is set. download: whether
    missing files may be downloaded. Raises `UsageError` for an unknown name, else as `TestSet.load`.
    """
    return find_test_set(name).load(places(data), download=download)


def places(data: Path | None = None) -> Places:
    """Where files may be. Raises `InputError` if the data folder does not exist."""
    named = os.environ.get("LINKSEEK_DATA")
    folder = data or (Path(named) if named else None)
    if folder is not None and not folder.is_dir():
        raise InputError(f"{folder}: no such folder", "Check --data or LINKSEEK_DATA.")
    return Places(folder, cache_folder() / "test-sets")


class TestSetRow(NamedTuple):
    """A test set in the list. state: "ready", or the files that it needs."""

    name: str
    queries: str
    title: str
    licence: str
    state: str


def test_set_rows(data: Path | None = None) -> list[TestSetRow]:
    """A row for each test set, in the order of their names. data: as for `open_test_set`."""
    at = places(data)
    sets = sorted(all_test_sets().items())
    return [TestSetRow(name, _count(s.queries), s.title, s.licence, _state(s, at)) for name, s in sets]


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
