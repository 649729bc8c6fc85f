"""Sources in plain files: those that the user has in a data folder, and those that we download."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from app.testsets import Contents, Gap, Places, Source
from app.testsets.download import WebFile, check, download
from indexer.base.errors import InputError
from indexer.files.sources import open_source, read_lines
from retriever.queries import read_queries
from retriever.ranking import Query
from retriever.search.runs import Qrels, read_qrels

SAMPLE = Path(__file__).parents[2] / "samples"


@dataclass(frozen=True, slots=True)
class Files(Source):
    """Questions, and perhaps judgements, in files of the data folder; the first name that is there counts.

    numbered: the questions' ids are their numbers from 0, whatever the file calls them (DPR's ids).
    judged_only: questions without judgements are of another split, and are left out.
    document, group: fields of a JSONL file, with the id of the right document and a subset's name.
    folder: where the files are, if not in the data folder. label: what the files are called together.
    """

    queries: tuple[str, ...]
    qrels: tuple[str, ...] = ()
    numbered: bool = False
    judged_only: bool = False
    document: str = ""
    group: str = ""
    folder: Path | None = None
    label: str = ""

    @property
    def needs(self) -> str:
        """The usual names, in the data folder."""
        if self.label or self.folder is not None:
            return self.label or "nothing"
        return " and ".join(f"`{names[0]}`" for names in (self.queries, self.qrels) if names)

    def gap(self, places: Places) -> Gap | None:
        """The first file that is not there."""
        folder = self.folder or places.data
        for names in filter(None, (self.queries, self.qrels)):
            if folder is None or _first(folder, names) is None:
                usual = " or ".join(dict.fromkeys((names[0], names[-1])))
                if folder is None:
                    return Gap(f"{usual} in a data folder (none is named)", "Name yours: --data DIR.")
                return Gap(f"{usual} in {folder}", "Put it there, or name another folder: --data DIR.")
        return None

    def read(self, places: Places) -> Contents:
        """Both files."""
        folder = self.folder or places.data
        path = _first(folder, self.queries) if folder else None
        if folder is None or path is None:
            raise InputError(f"{folder}: no {self.queries[0]}", _AGAIN)
        queries = read_queries(path)
        if self.numbered:
            queries = [Query(str(row), query.text, query.answers) for row, query in enumerate(queries)]
        qrels: Qrels | None = None
        read_from = [path]
        if (judged := _first(folder, self.qrels)) is not None:
            qrels = read_qrels(judged)
            read_from.append(judged)
        if self.document:
            qrels = {query: {document: 1} for query, document in _field(path, self.document)}
        if self.judged_only and qrels is not None:
            queries = [query for query in queries if query.id in qrels]
        groups: dict[str, list[str]] = {}
        if self.group:
            for query, group in _field(path, self.group):
                groups.setdefault(group, []).append(query)
        return Contents(
            queries,
            qrels,
            {group: tuple(ids) for group, ids in groups.items()},
            read_from=", ".join(map(str, read_from)),
        )


@dataclass(frozen=True, slots=True)
class Web(Source):
    """A file of questions that we download into the cache."""

    file: WebFile

    @property
    def needs(self) -> str:
        """The flag."""
        return "`--download`"

    def gap(self, places: Places) -> Gap | None:
        """The file, if it is not in the cache."""
        return web_gap(self.file, places)

    def fetch(self, places: Places) -> None:
        """Download it."""
        download(self.file, places.cache / self.file.name)

    def read(self, places: Places) -> Contents:
        """The questions. Raises `InputError` if the file was altered since it came."""
        path = places.cache / self.file.name
        check(self.file, path)
        return Contents(read_queries(path), read_from=str(path))


def web_gap(file: WebFile, places: Places) -> Gap | None:
    """A gap that `--download` fills, unless the file is in the cache."""
    path = places.cache / file.name
    if path.exists():
        return None
    return Gap(
        str(path),
        f"Give --download to get {file.described()} and keep it there, or put it there yourself.",
        download=True,
        size=file.size,
    )


def read_json_rows(path: Path, key: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """(place for errors, object) for each entry of a JSON array, or of the array under `key`.

    Raises `InputError` for anything else, and for an empty array.
    """
    _, stream = open_source(path)
    with stream:
        data = stream.read()
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InputError(f"{path}: not JSON ({error})", _AGAIN) from None
    rows = value.get(key) if key and isinstance(value, dict) else value
    if not isinstance(rows, list) or not rows:
        expected = f'an array of questions under "{key}"' if key else "an array of questions"
        raise InputError(f"{path}: expected {expected}", _AGAIN)
    for number, row in enumerate(rows, start=1):
        place = f"{path}, question {number:,}"
        if not isinstance(row, dict):
            raise InputError(f"{place}: expected an object, found {type(row).__name__}", _AGAIN)
        yield place, row


def _first(folder: Path, names: Sequence[str]) -> Path | None:
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _field(path: Path, name: str) -> list[tuple[str, str]]:
    """(query id, a field's text) for each line of a JSONL file that `read_queries` has read."""
    values = []
    _, stream = open_source(path)
    with stream:
        for number, line in read_lines(stream):
            row = orjson.loads(line)
            value = row.get(name)
            if not isinstance(value, str) or not value:
                raise InputError(
                    f'{path}, line {number:,}: the field "{name}" is {value!r}, expected a text',
                    _AGAIN,
                )
            values.append((str(row["id"]), value))
    return values


_AGAIN = "Get the file again."
