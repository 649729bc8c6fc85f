"""Settings: typed models, the TOML files that they are read from, and errors that name file, table and key.

Everything that Linkseek reads as TOML (a command's options, a training's settings, pipelines, experiments)
is a tree of `Settings`, one model for each table. Unknown keys and values of the wrong type are errors.
"""

from __future__ import annotations

import errno
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeVar, get_args

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from linkseek.indexer.program.errors import UsageError, raise_of_machine
from linkseek.indexer.program.paths import check_file
from linkseek.indexer.program.text import nearest

Values = dict[str, Any]

Seed = Annotated[int, Field(ge=0, lt=1 << 32)]
"""The seed of every draw; NumPy's older generators take no other."""


class Settings(BaseModel):
    """One table of settings; the docstrings of its fields explain them in `--help` and docs/."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        protected_namespaces=(),
        allow_inf_nan=False,
    )

    hint: ClassVar[str] = ""
    """where to look up valid settings; printed with every error"""

    not_keywords: ClassVar[frozenset[str]] = frozenset()
    """fields that the function of the same purpose in Python does not take as keywords"""

    @classmethod
    def from_keywords(cls, function: str, keywords: Mapping[str, Any], /, **own: Any) -> Self:
        """Settings from the keywords of a function in Python, which adds some of its own.

        Raises `UsageError` with the nearest known name for an unknown keyword, and for an invalid value.
        """
        known = cls.model_fields.keys() - cls.not_keywords - own.keys()
        for name in keywords:
            if name not in known:
                raise UsageError(f'{function}: unknown keyword "{name}"', nearest(name, known))
        return validate(cls, {**keywords, **own}, file=Path(function))

    @model_validator(mode="before")
    @classmethod
    def _missing_tables_are_empty(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        tables: Values = {name: {} for name, field in cls.model_fields.items() if is_table(field.annotation)}
        return tables | values

    @field_validator("*")
    @classmethod
    def _is_usable(cls, value: Any) -> Any:
        """Refuse values no library takes: NUL, numbers of more than 64 bits, paths that nothing can name."""
        for item in value if isinstance(value, list | tuple) else [value]:
            if isinstance(item, str | Path) and "\0" in str(item):
                raise ValueError("contains the character NUL")
            if isinstance(item, int) and abs(item) >= 1 << 63:
                raise ValueError("the number has more than 64 bits")
            if isinstance(item, Path):
                _check_path(item)
        return value


def _check_path(path: Path) -> None:
    try:
        str(path).encode()
        path.stat()
    except UnicodeEncodeError:  # no manifest could hold it
        raise ValueError("the path is not UTF-8; rename the file or folder") from None
    except OSError as error:  # any other is met, and told, where the path is used
        if error.errno == errno.ELOOP:
            raise ValueError("symbolic links that form a circle") from None


T = TypeVar("T", bound=Settings)


def is_table(annotation: Any) -> bool:
    """Whether a field contains a table of its own."""
    return isinstance(annotation, type) and issubclass(annotation, Settings)


def table_in(annotation: Any) -> type[Settings] | None:
    """The model of the tables in a field: a single table, or the tables in a list or dictionary."""
    if is_table(annotation):
        return annotation  # type: ignore[no-any-return]
    return next(filter(None, map(table_in, get_args(annotation))), None)


def read_settings(model: type[T], path: Path, overrides: Sequence[str] = ()) -> T:
    """Settings from a TOML file, with single values replaced by overrides such as "table.key=value".

    Raises `UsageError` naming file, table and key of any unknown, missing or invalid value.
    """
    return validate(model, override(read_toml(path, model.hint), overrides), file=path)


_MAX_CHARACTERS = 1_000_000
_LONG_KEY = re.compile(
    r"""(?<![\w"'-])(?:[\w"'-]++[ \t]*+\.[ \t]*+){100}"""
)  # Python's parser needs its square


def read_toml(path: Path, hint: str) -> Values:
    """The tables of a TOML file.

    Raises `InputError` if it is missing, `UsageError` with this hint if it is not TOML.
    """
    check_file(path)
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(_MAX_CHARACTERS + 1)
        if len(text) > _MAX_CHARACTERS:
            raise UsageError(f"{path}: more than {_MAX_CHARACTERS:,} characters", hint)
        return parse_toml(text, str(path))
    except OSError as error:
        raise_of_machine(error)
        raise UsageError(f"{path}: {error.strerror}", hint) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not TOML: {error}", hint) from None


def parse_toml(text: str, name: str) -> Values:
    """The tables of a text. Raises `UsageError` for values that Python cannot represent, else
    TOMLDecodeError.
    """
    try:
        if _LONG_KEY.search(text):
            raise RecursionError
        return tomllib.loads(text)
    except RecursionError:
        raise UsageError(f"{name}: nested too deeply", "Settings have fewer than ten levels.") from None
    except ValueError as error:
        if isinstance(error, tomllib.TOMLDecodeError):
            raise
        raise UsageError(f"{name}: a number has too many digits", "Use one of at most 18.") from None


def override(values: Values, overrides: Sequence[str]) -> Values:
    """Settings with values replaced: TABLE.KEY=VALUE, or TABLE.NUMBER.KEY=VALUE in a list of tables.

    Numbers count from 1. VALUE is TOML; anything else is taken as text. The given dictionary is changed.
    """
    for text in overrides:
        key, equals, value = text.partition("=")
        *tables, name = key.strip().split(".")
        if not equals or not name or not all(tables):
            raise UsageError(f"--set {text}: expected TABLE.KEY=VALUE", "For example: --set training.seed=2")
        inner: Any = values
        for table in tables:
            if isinstance(inner, list):
                inner = inner[int(table) - 1] if table in map(str, range(1, len(inner) + 1)) else None
            else:
                inner = inner.setdefault(table, {})
            if not isinstance(inner, dict | list):
                raise UsageError(f"--set {text}: {table} is not a table", "Expected TABLE.KEY=VALUE.")
        if isinstance(inner, list):
            hint = f"Add its number: {tables[-1]}.1.{name}=VALUE."
            raise UsageError(f"--set {text}: {tables[-1]} is a list of tables", hint)
        try:
            inner[name] = parse_toml(f"value = {value.strip()}", f"--set {key}")["value"]
        except tomllib.TOMLDecodeError:
            inner[name] = value.strip()
    return values


def validate(
    model: type[T],
    values: Mapping[str, Any],
    *,
    file: Path | None = None,
    table: str = "",
    given: Mapping[str, Any] | None = None,
    hint: str = "",
) -> T:
    """Values as a model.

    file: where they come from, and the table in it. given: the keys that came from the command line. hint:
    instead of the model's. Raises `UsageError` for the first unknown key, with the nearest known one;
    otherwise for everything that is missing or invalid.
    """
    hint = hint or model.hint
    try:
        return model.model_validate(values)
    except ValidationError as error:
        errors = error.errors()
    flag_faults, file_faults = [], []
    for e in errors:
        parts = [str(part + 1) if isinstance(part, int) else part for part in e["loc"]]
        name = ".".join([table, *parts] if table else parts)
        tables, _, key = name.rpartition(".")
        if e["type"] == "extra_forbidden":
            kind = "table" if isinstance(e["input"], dict) else "key"
            where = f" in [{tables}]" if tables else ""
            hint = nearest(key, known_keys(model, e["loc"][:-1]) - {"config"})
            place = "--set" if given and _contains(given, e["loc"]) else file
            raise UsageError(f'{place}: unknown {kind} "{key}"{where}', hint) from None
        value = "" if e["type"] == "missing" or not e["loc"] else f" (given: {e['input']!r})"[:300]
        problem = _problem(model, e["loc"], e)
        if file is None or (given and _contains(given, e["loc"])):
            flag_faults.append(f"{flag(name)}: {problem}{value}")
        else:
            file_faults.append(f"{name}: {problem}{value}" if name else problem)
    if file_faults:
        flag_faults.append(f"{file}: {'; '.join(file_faults)}")
    raise UsageError("; ".join(flag_faults), hint)


def _contains(values: Any, keys: Iterable[str | int]) -> bool:
    """Whether nested dictionaries have a value at these keys; a number is a place in a list."""
    for key in keys:
        if not isinstance(values, dict):
            break
        if key not in values:
            return False
        values = values[key]
    return True


def flag(name: str) -> str:
    """The command-line flag of an option, `-k` or `--index-name`, or of a key of a table, `--data.seed`."""
    return f"-{name}" if len(name) == 1 else f"--{name}" if "." in name else f"--{name.replace('_', '-')}"


def known_keys(model: type[Settings], tables: Iterable[str | int]) -> set[str]:
    """The keys that a table in a tree of settings may have."""
    for table in tables:
        field = model.model_fields.get(str(table))  # None for the number or the name of one of several tables
        model = (table_in(field.annotation) if field else None) or model
    return {field.alias or name for name, field in model.model_fields.items()}


_NEEDS = {
    "missing": "missing",
    **dict.fromkeys(("int", "float", "greater", "less", "finite"), "needs a number"),
    "bool": "needs true or false",
    "string_type": "needs a text",
    "path_type": "needs a path",
    "list_type": "needs a list",
    **dict.fromkeys(("dict_type", "model_type"), "needs a table"),
    "too_short": "needs at least one value",
}
"""The type of pydantic's errors, or its first word -> the expected value, in our words."""
_LIMITS = {"ge": "of at least", "gt": "above", "le": "of at most", "lt": "below"}


def _problem(model: type[Settings], keys: Iterable[str | int], error: Mapping[str, Any]) -> str:
    """The error of one value: the expected value, with the limits of a number."""
    fields: Iterable[Any] = ()
    for key in keys:
        fields = [f for name, f in model.model_fields.items() if key in (name, f.alias)] or fields
        model = next(filter(None, (table_in(f.annotation) for f in fields)), model)
    if error["type"] == "string_pattern_mismatch":
        return f"not in the expected form: {' '.join((next(iter(fields)).description or '').split())}"
    if error["type"] == "literal_error":
        return "needs " + re.sub(r"'([^']+)'", r"\1", error["ctx"]["expected"])
    needs = _NEEDS.get(error["type"]) or _NEEDS.get(error["type"].partition("_")[0], "")
    if needs != "needs a number":
        return needs or error["msg"].removeprefix("Value error, ")
    types = list(types_in([(f.annotation, *f.metadata) for f in fields]))
    limits = {
        name: f"{getattr(each, name):,}"
        for name in _LIMITS
        for each in types
        if getattr(each, name, None) is not None
    }
    if limits.keys() == {"ge", "le"}:
        words = [f"from {limits['ge']} to {limits['le']}"]
    else:
        words = [f"{_LIMITS[name]} {limit}" for name, limit in limits.items()]
    whole = int in types and float not in types
    return f"needs a {'whole ' * whole}number {' and '.join(words)}".rstrip()


def types_in(types: Iterable[Any]) -> Iterator[Any]:
    """Types, and the types and limits that they are made of."""
    for each in types:
        yield each
        yield from types_in(each if isinstance(each, tuple) else get_args(each))
        yield from getattr(each, "metadata", ())


def settings_text(settings: Settings) -> str:
    """Settings as TOML, with all defaults; settings without a value are omitted."""
    tables: list[str] = []
    for name, value in settings.model_dump(mode="json").items():
        heads = [f"[[{name}]]"] * len(value) if isinstance(value, list) else [f"[{name}]"]
        for head, table in zip(heads, value if isinstance(value, list) else [value], strict=True):
            keys = [f"{key} = {toml_value(entry)}" for key, entry in table.items() if entry is not None]
            tables.append("\n".join([head, *keys]) + "\n")
    return "\n".join(tables)


def toml_value(value: Any) -> str:
    """A TOML value: JSON's numbers, truth values, texts and lists are TOML's too, but for one character."""
    return orjson.dumps(value, default=str).decode().replace("\x7f", "\\u007f")
