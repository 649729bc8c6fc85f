"""Command lines: one typed model gives the flags of a command, its `--help`, and the keys of its TOML file.

`parse_options` reads the options of a command, a subclass of `Options`: each field is a flag
(`--passage-words 100`) and a key of the file of `--config` (`passage_words = 100`). `parse_config` reads the
settings of a training, a tree of tables: CONFIG.toml with any value replaced by `--table.key VALUE` or `--set
table.key=VALUE`. The command line wins over the file in both. Configuration ends here: functions get plain
keyword arguments. A service also reads its options from the environment (`parse_service_options`).
"""

from __future__ import annotations

import argparse
import inspect
import os
import re
import shlex
import shutil
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, TypeVar, get_args, get_origin

from pydantic import Field
from pydantic.fields import FieldInfo

from linkseek.indexer.program.bundled import bundled, find_preset
from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.program.settings import (
    Settings,
    Values,
    flag,
    is_table,
    override,
    read_toml,
    table_in,
    toml_value,
    types_in,
    validate,
)
from linkseek.indexer.program.text import nearest


class Options(Settings):
    """The options of one command.

    The docstring of a switch describes its effect when on, as a command: "read the title". Its flag is
    `--no-title`, whose help is "do not read the title".
    """

    config: Path | None = None
    """a TOML file with any of these options as keys; the command line wins"""

    not_keywords = frozenset({"config"})


@dataclass(frozen=True)
class MoreHelp:
    """Metadata of a field whose help text ends with something known only at run time, such as all readers."""

    text: Callable[[], str]
    """called when `--help` is asked for"""


V = TypeVar("V")
_WORD = object()

Positional = Annotated[V, _WORD]
"""A field that is a word of the command line, or its remaining words if it is a list, without a flag."""

T = TypeVar("T", bound=Options)
Config = TypeVar("Config", bound=Settings)


def parse_options(options: type[T], argv: Sequence[str], program: str) -> T:
    """The options from a command line and the config file that it names.

    Raises `UsageError` with the nearest known name for an unknown one. `--help` prints and exits.
    """

    return _parse(options, argv, program, {})


def options_lines(options: Mapping[str, Any]) -> list[bytes]:
    """The lines of a file for `--config` with these options; None: not given."""
    given = {name: value for name, value in options.items() if value is not None}
    return [f"{name} = {toml_value(value)}\n".encode() for name, value in given.items()]


def as_words(options: Options) -> list[str]:
    """The command line of options that are not the defaults, wherever they were given."""
    words: list[str] = []
    for name, field in type(options).model_fields.items():
        value, option = getattr(options, name), flag(field.alias or name)
        if value == field.get_default(call_default_factory=True) or name == "config":
            continue
        if value is False:
            words.append(f"--no-{option.removeprefix('--')}")
        else:
            values = value if isinstance(value, list) else [] if value is True else [value]
            texts = [str(value) for value in values]
            dashed = any(text.startswith("-") for text in texts)
            words += [f"{option}={text}" for text in texts] if dashed else [option, *texts]
    return words


def command_line(program: str, argv: Sequence[str]) -> str:
    """The command as a shell reads it, to be recorded; "?" for bytes of names that are not UTF-8."""
    return shlex.join([*program.split(), *argv]).encode("utf-8", "replace").decode()


def parse_service_options(options: type[T], argv: Sequence[str], program: str) -> T:
    """As `parse_options`, and options that the command line lacks from the environment, before the file's.

    `--time-limit` is LINKSEEK_TIME_LIMIT. A list is split as the command line is; a switch is true or false.
    """
    values: Values = {}
    for name, field in options.model_fields.items():
        if (text := os.environ.get(_ENVIRONMENT + (field.alias or name).upper(), "")) == "":
            continue
        try:
            values[name] = shlex.split(text) if get_origin(field.annotation) is list else text
        except ValueError as error:
            problem = f"{_ENVIRONMENT}{name.upper()}: {error}"
            raise UsageError(problem, "Write it as on the command line.") from None
    return _parse(options, argv, program, values)


_ENVIRONMENT = "LINKSEEK_"


def _parse(options: type[T], argv: Sequence[str], program: str, environment: Values) -> T:
    given = environment | _given(_flags(options), argv, program, options)
    hint = f"See {program} --help."
    if environment:
        hint += f" From the environment: {', '.join(_ENVIRONMENT + name.upper() for name in environment)}."
    file = Path(given["config"]) if "config" in given else None
    values = read_toml(file, "Write name = value, one per line.") if file else {}
    values = {key.replace("-", "_"): value for key, value in values.items()}
    if "config" in values:
        raise UsageError(f'{file}: unknown key "config"', "An options file cannot name another options file.")
    return validate(options, values | given, file=file, given=given, hint=hint)


class _TrainingWords(Settings):
    """The arguments of a training command besides its settings."""

    config: Positional[Path]
    """the settings file, or the name of one in configs/, such as hlp-pretrain"""
    set: list[str] = Field([])
    """TABLE.KEY=VALUE, or TABLE.NUMBER.KEY=VALUE in a list of tables; may be repeated"""


def parse_config(model: type[Config], argv: Sequence[str], program: str) -> Config:
    """The settings of a training command: CONFIG.toml, and values given on the command line.

    Raises `UsageError` as `read_settings` does.
    """

    given = _given(_flags(_TrainingWords) | _flags(model), argv, program, model)
    file = find_preset(bundled("configs"), Path(given.pop("config")))
    overrides = given.pop("set", [])
    values = _merge(override(read_toml(file, model.hint), overrides), given)
    return validate(model, values, file=file, given=_merge(override({}, overrides), given))


def _merge(values: Values, given: Values) -> Values:
    """Both merged, where given values win; tables are merged key by key."""
    merged = dict(values)
    for key, value in given.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if both else value
    return merged


@dataclass(frozen=True)
class _Flag:
    """A flag of a command line: the field that it sets, at its place in a tree of settings.

    table: the docstring of the table that has it.
    """

    place: tuple[str, ...]
    field: FieldInfo
    table: str = ""

    @property
    def is_word(self) -> bool:
        return any(item is _WORD for item in self.field.metadata)

    @property
    def is_switch(self) -> bool:
        """It takes no value. In a table, truth values are written out."""
        return self.field.annotation is bool and len(self.place) == 1

    @property
    def types(self) -> list[Any]:
        """The types of its values, and their component types."""
        return list(types_in([self.field.annotation]))

    @property
    def is_list(self) -> bool:
        return any(get_origin(kind) is list for kind in self.types)

    def arguments(self, helps: bool) -> dict[str, Any]:
        """The arguments of argparse's `add_argument`. helps: whether `--help` is asked for."""
        place = ".".join(self.place)
        text = self._help().replace("%", "%%") if helps else None
        same = {"dest": place, "help": text, "default": argparse.SUPPRESS}
        if self.is_switch:
            return same | {"action": "store_const", "const": not self.field.default}
        if self.is_word:
            return same | {"metavar": place.upper(), "nargs": "*" if self.is_list else "?"}
        several = {"nargs": "+", "action": "extend"} if self.is_list else {"action": _Once}
        return same | {"metavar": self._metavar()} | several

    def value(self, read: Any) -> Any:
        """The value of the field, from argparse's values: numbers may also be separated by commas."""
        if not isinstance(read, list):
            return read
        if str not in self.types and Path not in self.types:
            read = [number for text in read for number in text.split(",")]
        return read if len(read) > 1 or get_origin(self.field.annotation) is list else read[0]

    def _metavar(self) -> str:
        choices: Sequence[Any] = next((get_args(e) for e in self.types if get_origin(e) is Literal), ())
        if choices:
            return f"{{{','.join(str(choice) for choice in choices if choice)}}}"
        if Path in self.types and self.is_list:
            return "FILE"
        return next(name for kind, name in _METAVARS.items() if kind in self.types)

    def _help(self) -> str:
        """Its docstring, with the part known only at run time, and its default."""
        more = [extra.text() for extra in self.field.metadata if isinstance(extra, MoreHelp)]
        text = ": ".join([self.field.description or "", *more])
        default = self.field.get_default(call_default_factory=True)
        if self.is_switch:
            return f"do not {text}" if default else text
        if self.field.is_required():
            return text if self.is_word else f"{text} (required)"
        if default in (None, [], ""):
            return text
        shown = str(default).lower() if isinstance(default, bool) else default
        return f"{text} (default: {', '.join(map(str, shown)) if isinstance(shown, list) else shown})"


_METAVARS = {Path: "PATH", str: "NAME", int: "N", float: "X", bool: "{true,false}"}


def _flags(model: type[Settings], tables: tuple[str, ...] = ()) -> dict[str, _Flag]:
    """The flags of a tree of settings by their names; lists of tables have none."""
    flags: dict[str, _Flag] = {}
    for name, field in model.model_fields.items():
        place = (*tables, field.alias or name)
        made = _Flag(place, field, inspect.cleandoc(model.__doc__ or ""))
        if is_table(field.annotation):
            flags |= _flags(field.annotation, place)  # type: ignore[arg-type]
        elif not table_in(field.annotation):
            no = "no_" if made.is_switch and field.default else ""
            flags[flag(no + ".".join(place))] = made
    return flags


class _Once(argparse.Action):
    """Stores the value of an option that takes one, and refuses a second one."""

    def __call__(self, parser: Any, namespace: Any, value: Any, option: str | None = None) -> None:
        if hasattr(namespace, self.dest):
            raise UsageError(f"{option} is given twice, and takes one value")
        setattr(namespace, self.dest, value)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message.removeprefix("argument "), f"See {self.prog} --help.")


_A_FLAG = re.compile(r"--?[A-Za-z]")


def _given(flags: Mapping[str, _Flag], argv: Sequence[str], program: str, model: type[Settings]) -> Values:
    """The values given on a command line, nested as the settings are. `--help` prints and exits."""
    usage = "%(prog)s CONFIG [--set TABLE.KEY=VALUE] [--TABLE.KEY VALUE]"
    parser = _Parser(
        program,
        usage if any("." in name for name in flags) else None,
        inspect.cleandoc(model.__doc__ or "") + _help_of_lists(model),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    groups: dict[str, Any] = {"": parser}
    helps = not {"-h", "--help"}.isdisjoint(argv)
    for name, each in flags.items():
        table = ".".join(each.place[:-1])
        if table not in groups:
            groups[table] = parser.add_argument_group(f"[{table}]", each.table)
        groups[table].add_argument(*([] if each.is_word else [name]), **each.arguments(helps))
    words = list(argv)
    for number, word in enumerate(words):  # a flag with "-" between its words, a key of a table with "_"
        if _A_FLAG.match(word):
            name, equals, value = word.partition("=")
            words[number] = flag(name.lstrip("-").replace("-", "_")) + equals + value
    has_words = any(each.is_word for each in flags.values())
    if has_words:
        words = _before_words(flags, words)
    values, others = parser.parse_known_args(words)
    if others:
        parser.error(_unknown(flags, model, words, *others))
    given: Values = {}
    for place, each in {".".join(each.place): each for each in flags.values()}.items():
        if place in values:
            inner = given
            for table in each.place[:-1]:
                inner = inner.setdefault(table, {})
            inner[each.place[-1]] = each.value(getattr(values, place))
        elif each.is_word and each.field.is_required():
            parser.error(f"{place.upper()} is missing")
    return given


def _before_words(flags: Mapping[str, _Flag], argv: Sequence[str]) -> list[str]:
    """One value for each flag before the words of a command: `--only=a how far` for `--only a how far`."""
    out, rest = list[str](), list(argv)
    while rest and _A_FLAG.match(rest[0]):
        word = rest.pop(0)
        takes_value = word in flags and not flags[word].is_switch
        if takes_value and rest and rest[0] != "--" and not _A_FLAG.match(rest[0]):
            word += f"={rest.pop(0)}"
        out.append(word)
    return out + rest


def _unknown(
    flags: Mapping[str, _Flag], model: type[Settings], argv: Sequence[str], word: str, *more: str
) -> str:
    """The fault of words that a command does not know, and a suggestion."""
    if word.startswith("-"):
        name = word.partition("=")[0]
        if name in flags:  # a word of the command
            return f"unknown option {name}. Omit {name}, and give only its value."
        return f"unknown option {name}. {nearest(name, flags)}"
    if more and f"--{word}" in flags:
        return f"{word}: an option begins with --. Did you mean --{word} {more[0]}?"
    before = argv[max(argv.index(word) - 2, 0)]
    if before in flags and not flags[before].is_switch and not flags[before].is_list:
        return f"{word}: a second value of {before}, which takes one. Quote a path with spaces."
    own = [name for name, each in flags.items() if each.place[-1] in model.__annotations__]
    inherited = ["--index"] if "--index" in flags and "--index" not in own else []
    paths = [name for name in inherited + own if Path in flags[name].types and name not in argv]
    meant = (
        f" Did you mean {paths[0]} {word}?" if paths and not any(e.is_word for e in flags.values()) else ""
    )
    return f"{word}: a value without an option.{meant}"


def _help_of_lists(model: type[Settings]) -> str:
    """The keys of the lists of tables in a settings file, which have no flags of their own."""
    text = ""
    for name, field in model.model_fields.items():
        table = table_in(field.annotation)
        if table and not is_table(field.annotation):
            text += f"\n\n[[{name}]]: {table.__doc__}\n"
            for key, setting in table.model_fields.items():
                text += "\n" + textwrap.fill(
                    " ".join(f"{key}: {setting.description or ''}".split()),
                    shutil.get_terminal_size().columns - 2,
                    initial_indent="  ",
                    subsequent_indent="      ",
                    break_on_hyphens=False,
                )
    return text
