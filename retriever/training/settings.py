"""Settings files of training: TOML tables to checked values and back.

A file names every table at most once, or has a list of tables ([[stages]]); what it leaves out has a default.
An unknown table or key is an error with the nearest known one, and single values can be set on the command
line as TABLE.KEY=VALUE, or TABLE.NUMBER.KEY=VALUE where tables are a list, numbered from 1.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from indexer.base.errors import UsageError
from indexer.base.options import nearest

Values = dict[str, Any]


class Table(BaseModel):
    """One table of a settings file. Unknown keys and values of the wrong type are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


T = TypeVar("T", bound=Table)


def read_command(
    program: str, about: str, example: str, argv: Sequence[str], read: Callable[[Path, Sequence[str]], T]
) -> T:
    """What a training command is told: CONFIG.toml, and any number of --set TABLE.KEY=VALUE.

    about: the first line of its help. example: where such a file is found. read: as `read_tables` does.
    """
    parser = argparse.ArgumentParser(program, description=about)
    parser.add_argument("config", type=Path, help=f"a settings file; see {example}")
    parser.add_argument(
        "--set", action="append", default=[], metavar="TABLE.KEY=VALUE", dest="overrides",
        help="one setting instead of the file's, TABLE.NUMBER.KEY=VALUE in a list of tables; may be repeated",
    )  # fmt: skip
    options = parser.parse_args(argv)
    return read(options.config, options.overrides)


def read_values(path: Path, overrides: Sequence[str] = ()) -> Values:
    """The tables of a file, with values set as "TABLE.KEY=VALUE" (VALUE in TOML; else taken as text).

    Raises `UsageError` for an unreadable file and an override without a key.
    """
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", "Name a file such as configs/hlp.toml.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not TOML: {error}", "See configs/ for examples.") from None
    for override in overrides:
        key, equals, text = override.partition("=")
        *tables, name = key.strip().split(".")
        if not equals or not name or not all(tables):
            raise UsageError(
                f"--set {override}: expected TABLE.KEY=VALUE", "For example: --set training.seed=2"
            )
        inner: Any = values
        for table in tables:
            if isinstance(inner, list):
                inner = inner[int(table) - 1] if table in map(str, range(1, len(inner) + 1)) else None
            else:
                inner = inner.setdefault(table, {})
            if not isinstance(inner, dict | list):
                raise UsageError(f"--set {override}: {table} is no table", "Expected TABLE.KEY=VALUE.")
        if isinstance(inner, list):
            raise UsageError(
                f"--set {override}: {tables[-1]} is a list of tables",
                f"Say which: {tables[-1]}.1.{name}=VALUE.",
            )
        try:
            inner[name] = tomllib.loads(f"value = {text.strip()}")["value"]
        except tomllib.TOMLDecodeError:
            inner[name] = text.strip()
    return values


def read_tables(model: type[T], path: Path, overrides: Sequence[str] = ()) -> T:
    """A settings file whose tables may all be left out, but for lists of them.

    Raises `UsageError` naming file and key for what is unknown or does not fit.
    """
    values = read_values(path, overrides)
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Table):
            values.setdefault(name, {})
    return check_values(model, values, path)


def check_values(model: type[T], values: Mapping[str, Any], path: Path) -> T:
    """Values as the settings of one command; raises `UsageError` naming file, table and key."""
    _check_keys(path, "", values, model)
    try:
        return model.model_validate(values)
    except ValidationError as error:
        lines = [
            f"{'.'.join(map(str, e['loc']))}: {e['msg']}"
            + ("" if e["type"] == "missing" or not e["loc"] else f" (given: {e['input']!r})")
            for e in error.errors()
        ]
        raise UsageError(f"{path}: " + "; ".join(lines), "See docs/training.md for all settings.") from None


def _check_keys(path: Path, place: str, values: Any, model: type[BaseModel]) -> None:
    if not isinstance(values, Mapping):
        return
    for key, value in values.items():
        field = model.model_fields.get(key)
        if field is None:
            what = f'key "{key}" in [{place}]' if place else f'table or key "{key}"'
            raise UsageError(f"{path}: unknown {what}", nearest(key, set(model.model_fields)))
        inner = f"{place}.{key}".strip(".")
        if isinstance(field.annotation, type) and issubclass(field.annotation, Table):
            _check_keys(path, inner, value, field.annotation)
        for table in get_args(field.annotation):
            if isinstance(table, type) and issubclass(table, Table) and isinstance(value, list):
                for number, entry in enumerate(value, start=1):
                    _check_keys(path, f"{inner}.{number}", entry, table)


def settings_text(settings: Table) -> str:
    """Settings as TOML, all of them; what has no value is left out."""
    tables: list[str] = []
    for name, value in settings.model_dump(mode="json").items():
        heads = [f"[[{name}]]"] * len(value) if isinstance(value, list) else [f"[{name}]"]
        for head, table in zip(heads, value if isinstance(value, list) else [value], strict=True):
            keys = [f"{key} = {_toml(entry)}" for key, entry in table.items() if entry is not None]
            tables.append("\n".join([head, *keys]) + "\n")
    return "\n".join(tables)


def _toml(value: Any) -> str:
    """A TOML value: JSON's numbers, truth values, texts and lists are TOML's too."""
    return orjson.dumps(value).decode()
