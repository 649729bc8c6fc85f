"""Records of tables: experiments/records/NAME.json, which figures in docs/ rest on.

A record is experiment.json without the folders of the machine, and in records/values what it was computed
from: the values of each measure by question, so that every figure can be tested again. A table of docs/
names its record, and a column of the record, in a comment above:

    <!-- figures of NAME: COLUMN -->

Its rows are pipelines or the names of rows, perhaps after their groups ("fine-tuned: HLP"), its columns
measures; the record has no others. Without a COLUMN, the columns are "COLUMN, MEASURE". A figure is the
record's to the last digit that it has, and so are the limits of its interval. A record keeps six digits of
each.
"""

from __future__ import annotations

import gzip
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from experiments.tables.definition import ExperimentTable
from linkseek.app.evaluation.provenance import revision
from linkseek.app.report import text
from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.indexer.program.text import nearest
from linkseek.indexer.store.artifacts import kind_and_name, read_json, write_json

RECORDS = Path(__file__).parents[1] / "records"

_HOME = ("~/", "$HOME/")
_FOLDERS = re.compile(r"(?<!\S)(?:~/|/)(?:[^/\s]+/)*")
_TABLE = re.compile(r"<!-- figures of ([\w.-]+)(?:: (.+?))? -->\s*\n((?:\|.*\n?)+)")
_FIGURE = re.compile(r"(-?\d*\.?\d+)(?: \((-?\d*\.?\d+)-(-?\d*\.?\d+)\))?")


def check_committed() -> None:
    """Raises `UsageError` if the code is not that of a commit: what made a record could not be had again."""
    code = revision(RECORDS.parents[1])
    if code is None or code.changed_since:
        raise UsageError("--record: the code has changes that are not committed", "Commit them first.")


def write_record(table: ExperimentTable, name: str) -> Path:
    """Write experiments/records/NAME.json, and the values next to it; returns its path."""
    path = RECORDS / f"{name}.json"
    write_json(path, _rounded(without_folders(table)))  # git keeps what was there
    values = values_path(name)
    values.parent.mkdir(exist_ok=True)
    values.write_bytes(gzip.compress(orjson.dumps(_values(table)), mtime=0))
    return path


def values_path(name: str) -> Path:
    """The values by question of a record."""
    return RECORDS / "values" / f"{name}.json.gz"


def _values(table: ExperimentTable) -> list[dict[str, Any]]:
    """For each column its questions and, by row and measure, a list for each seed of their values."""
    columns = []
    for number in range(len(table.columns)):
        cells = [row.cells[number] for row in table.rows]
        questions = next((cell.questions for cell in cells if cell.questions), ())
        columns.append({"questions": questions, "rows": [_whole(cell.values) for cell in cells]})
    return columns


def _whole(value: Any) -> Any:
    """The same values, with whole numbers as such."""
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return int(value) if value.is_integer() else value


def read_record(name: str) -> ExperimentTable:
    """A record with its values."""
    record = read_json(RECORDS / f"{name}.json")
    for number, column in enumerate(orjson.loads(gzip.decompress(values_path(name).read_bytes()))):
        del record["columns"][number]["title"]
        for row, values in zip(record["rows"], column["rows"], strict=True):
            own = {"questions": column["questions"] if values else [], "values": values}
            row["cells"][number] |= own
            for measure, figure in row["cells"][number]["measures"].items():
                expected, mean = figure.pop("expected"), dict(figure) or None
                row["cells"][number]["measures"][measure] = {"expected": expected, "measured": mean}
    return ExperimentTable.model_validate_json(orjson.dumps(record))


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def without_folders(table: ExperimentTable) -> dict[str, Any]:
    """The contents of experiment.json, with names of files in place of their paths on this machine."""
    values = table.model_dump(mode="json")
    values |= {key: _names(values[key]) for key in ("indexes", "provenance")}
    for origin in values["provenance"].values():
        origin["command"] = shlex.join(map(_argument, shlex.split(origin["command"])))
    for row in values["rows"]:
        for cell in row["cells"]:
            cell["reason"] = _FOLDERS.sub("", cell["reason"])
    return values


def _names(value: Any) -> Any:
    if isinstance(value, dict):
        return {_names(key): _names(item) for key, item in value.items()}
    return [_names(item) for item in value] if isinstance(value, list) else _name(value)


def _name(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    path = kind_and_name(value)[1]
    is_path = path.startswith(_HOME) or Path(path).is_absolute()
    return value.removesuffix(path) + Path(path).name if is_path else value


def _argument(word: str) -> str:
    option, equals, value = word.partition("=")
    return f"{option}={_name(value)}" if equals else str(_name(word))


class Quoted(NamedTuple):
    """A figure of a page, as the page prints it, and whether it agrees with its record."""

    row: str
    measure: str
    shown: str
    agrees: bool


def quoted_figures(page: str) -> Iterator[Quoted]:
    """The figures in the tables of a page that name a record, where the record has one.

    Raises `InputError` for an unknown record, or a column that it lacks.
    """
    for name, title, table in _TABLE.findall(page):
        path = RECORDS / f"{name}.json"
        if not path.is_file():
            known = [record.stem for record in RECORDS.glob("*.json")]
            raise InputError(f"{path}: no such record", nearest(name, known))
        record = read_json(path)
        titles = [column["title"] for column in record["columns"]]
        if title and title not in titles:
            raise InputError(f'the record {name} has no column "{title}"', nearest(title, titles))
        cells = {
            (label, column): cell["measures"]
            for row in record["rows"]
            for column, cell in zip(titles, row["cells"], strict=True)
            for label in _labels(row)
        }
        lines = [[cell.strip(" *`") for cell in line.strip()[1:-1].split("|")] for line in table.splitlines()]
        for label, *figures in lines[2:]:
            for heading, shown in zip(lines[0][1:], figures, strict=False):
                column, _, measure = heading.removesuffix(" %").rpartition(", ")
                figure = cells.get((label, title or column), {}).get(measure, {})
                if "mean" in figure:
                    yield Quoted(label, measure, shown, _agrees(shown, measure, figure))


def _labels(row: dict[str, Any]) -> tuple[str, str, str]:
    """The labels that a page may give a row."""
    return row["pipeline"], row["name"], f"{row['group']}: {row['name']}"


def _agrees(shown: str, measure: str, figure: dict[str, float]) -> bool:
    scale = 100 if text.in_percent(measure) else 1
    values = [scale * figure[key] for key in ("mean", "low", "high")]
    match = _FIGURE.match(re.sub(r"[*\\]", "", shown))  # of a difference that is certain
    pairs = zip(match.groups(), values, strict=True) if match else []
    return match is not None and all(
        abs(float(number) - value) <= 0.501 * 10 ** -len(number.partition(".")[2])
        for number, value in pairs
        if number is not None
    )
