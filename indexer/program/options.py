"""Command lines: one typed model gives the flags of a command, its `--help`, and the keys of its TOML file.

`parse_options` reads the options of a command, a subclass of `Options`: each field is a flag
(`--passage-words 100`) and a key of the file of `--config` (`passage_words = 100`). `parse_config` reads the
settings of a training, a tree of tables: CONFIG.toml with any value replaced by `--table.key VALUE` or
`--set table.key=VALUE`. The command line wins over the file in both. Configuration ends here: what is called
gets plain keyword arguments. A service also reads its options from the environment (`parse_service_options`).
"""

from __future__ import annotations

import argparse
import inspect
import os
import re
import shlex
import shutil
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin

import orjson
from pydantic_settings import (
    BaseSettings,
    CliPositionalArg,
    CliSettingsSource,
    CliToggleFlag,
    SettingsConfigDict,
)
from pydantic_settings.exceptions import SettingsError

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
    validate,
)
from linkseek.indexer.program.text import nearest


class Options(Settings):
    """The options of one command.

    The docstring of a switch that is on says what it does, as a command: "read the title". Its flag is
    `--no-title`, whose help is "do not read the title".
    """

    config: Path | None = None
    """a TOML file with any of these options as keys; the command line wins"""

    not_keywords = frozenset({"config"})


@dataclass(frozen=True)
class MoreHelp:
    """Metadata of a field whose help text ends with what is only known at run time, such as all readers."""

    text: Callable[[], str]
    """called when `--help` is asked for"""


T = TypeVar("T", bound=Options)
Config = TypeVar("Config", bound=Settings)


def parse_options(options: type[T], argv: Sequence[str], program: str) -> T:
    """The options from a command line and the config file that it names.

    Raises `UsageError` with the nearest known name for an unknown one. `--help` prints and exits.
    """

    return _parse(options, argv, program, {})


def options_lines(options: Mapping[str, Any]) -> list[bytes]:
    """The lines of a file for `--config` with these options; None: not given."""
    # Texts, numbers and lists of JSON are those of TOML, but for one character.
    values = {name: orjson.dumps(value, default=str) for name, value in options.items() if value is not None}
    return [f"{name} = ".encode() + v.replace(b"\x7f", b"\\u007f") + b"\n" for name, v in values.items()]


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
    class Command(options, BaseSettings):  # type: ignore[valid-type, misc]
        __doc__ = inspect.cleandoc(options.__doc__ or "")
        model_config = SettingsConfigDict(cli_kebab_case=True, cli_implicit_flags="toggle")

    given = environment | _read_arguments(Command, argv, program)
    hint = f"See {program} --help."
    if environment:
        hint += f" From the environment: {', '.join(_ENVIRONMENT + name.upper() for name in environment)}."
    file = Path(given["config"]) if "config" in given else None
    values = read_toml(file, "Write name = value, one a line.") if file else {}
    values = {key.replace("-", "_"): value for key, value in values.items()}
    if "config" in values:
        raise UsageError(f'{file}: unknown key "config"', "An options file cannot name another options file.")
    return validate(options, values | given, file=file, given=given, hint=hint)


def parse_config(model: type[Config], argv: Sequence[str], program: str) -> tuple[Config, bool]:
    """The settings of a training command: CONFIG.toml, and values given on the command line; and --plan.

    Raises `UsageError` as `read_settings` does.
    """

    class Command(model, BaseSettings):  # type: ignore[valid-type, misc]
        __doc__ = inspect.cleandoc(model.__doc__ or "") + _help_of_lists(model)
        model_config = SettingsConfigDict(cli_use_class_docs_for_groups=True, cli_avoid_json=True)

        config: CliPositionalArg[Path]
        """the settings file, or the name of one in configs/, such as hlp-pretrain"""
        set: list[str] = []
        """TABLE.KEY=VALUE, or TABLE.NUMBER.KEY=VALUE in a list of tables; may be repeated"""
        plan: CliToggleFlag[bool] = False
        """print steps, tokens, time, memory and disk, estimated from a few steps; then end"""

    overrides, others = [], []  # a list option of pydantic-settings would split values at their commas
    words = iter(argv)
    for word in words:
        if word == "--set" or word.startswith("--set="):
            overrides.append(word.partition("=")[2] or next(words, ""))
        else:
            others.append(word)
    given = _read_arguments(Command, others, program)
    file = find_preset(bundled("configs"), Path(given.pop("config")))
    plan = bool(given.pop("plan", False))
    values = _merge(override(read_toml(file, model.hint), overrides), given)
    return validate(model, values, file=file, given=_merge(override({}, overrides), given)), plan


def _merge(values: Values, given: Values) -> Values:
    """Both, the given ones where both have a value; tables are merged key by key."""
    merged = dict(values)
    for key, value in given.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if both else value
    return merged


def _read_arguments(command: type[BaseSettings], argv: Sequence[str], program: str) -> Values:
    """The values given on a command line, by field and nested as the model is."""
    kebab = command.model_config.get("cli_kebab_case")
    arguments = []
    for argument in argv:
        name, equals, value = argument.partition("=")
        if re.match(r"--[A-Za-z]", name):
            name = name.replace("_", "-") if kebab else "--" + name[2:].replace("-", "_")
            argument = name + equals + value
        arguments.append(argument)
    if {"-h", "--help"} & set(argv):
        for field in command.model_fields.values():
            more = [extra.text() for extra in field.metadata if isinstance(extra, MoreHelp)]
            field.description = ": ".join([field.description or "", *more])
            if kebab and field.default is True:  # its flag is --no-NAME
                field.description = f"do not {field.description}"
    arguments, texts = _numbered_texts(command, arguments)
    try:
        source: CliSettingsSource[Any] = CliSettingsSource(
            command,
            cli_prog_name=program,
            cli_hide_none_type=True,
            cli_exit_on_error=False,
            cli_parse_args=arguments,
            formatter_class=_HelpFormatter,
        )
        given: Values = _with_texts(source(), texts)
        return given
    except SettingsError as error:
        message = str(error).removeprefix("error parsing CLI: ")
        unknown = message.partition("unrecognized arguments: ")[2].split()
        if unknown:
            message = _unknown(command, *unknown)
        raise UsageError(message, f"See {program} --help.") from None


def _unknown(command: type[BaseSettings], word: str, *more: str) -> str:
    """What is wrong with words that a command does not know, and what is meant."""
    known = {flag(name): annotation for name, annotation in _flat(command)}
    if command.model_config.get("cli_kebab_case"):
        on = [flag(name) for name, field in command.model_fields.items() if field.default is True]
        known = {f"--no{name[1:]}" if name in on else name: type_ for name, type_ in known.items()}
    if word.startswith("-"):
        name = word.partition("=")[0]
        if name in map(flag, _positional(command)):
            return f"unknown option {name}. Leave {name} out, and give its value alone."
        return f"unknown option {name}. {nearest(name, known)}"
    if more and f"--{word}" in known:
        return f"{word}: an option begins with --. Did you mean --{word} {more[0]}?"
    own = command.__mro__[1].__annotations__  # such as --corpus, before options of several commands
    types = {name: known.get(flag(name)) for name in own}
    paths = [flag(name) for name, type_ in types.items() if Path in (type_, *get_args(type_))]
    meant = f" Did you mean {paths[0]} {word}?" if paths and not _positional(command) else ""
    return f"{word}: a value without an option.{meant}"


def _flat(model: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The fields of a tree of settings as TABLE.KEY, with what they hold."""
    for name, field in model.model_fields.items():
        if is_table(field.annotation):
            yield from _flat(field.annotation, f"{prefix}{name}.")
        else:
            yield prefix + (field.alias or name), field.annotation


def _positional(command: Any) -> list[str]:
    """The fields that are words of the command line, without a flag."""
    mark = get_args(CliPositionalArg[str])[1]
    return [name for name, field in command.model_fields.items() if mark in field.metadata]


def _numbered_texts(command: Any, argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """`--pipeline a b` as `--pipeline #0 --pipeline #1`, and the texts, here a and b.

    Lists accept both forms; before the words that a command has without a flag, such as a question, only one
    value for each flag. pydantic-settings would split the texts at commas, and read quotes and brackets as
    JSON; names of files, measures and questions have them.
    """
    fields = {flag(name): field for name, field in _flat(command)}
    lists = {name for name, field in fields.items() if get_origin(field) is list}
    texts_in = {name for name in lists if _is_text(fields[name])}
    switches = {name for name, field in fields.items() if field is bool}
    words = [flag(name) for name in _positional(command)]
    awaited = bool(words)
    out: list[str] = []
    texts: list[str] = []
    current = ""  # the flag whose values we are reading
    for argument in argv:
        name, equals, value = argument.partition("=")
        if re.match(r"--?[A-Za-z]", argument):
            current = "" if name in switches or name.startswith("--no-") else name
            if name in texts_in and equals:
                texts.append(value)
                argument = f"{name}=#{len(texts) - 1}"
            if equals:
                current = ""
        elif argument != "--":
            awaited &= current != ""
            if current in lists and out[-1] != current:
                out.append(current)
            if current in texts_in or (not current and not texts_in.isdisjoint(words)):
                texts.append(argument)
                argument = f"#{len(texts) - 1}"
            current = current if current in lists and not awaited else ""
        else:
            current = ""
        out.append(argument)
    return out, texts


def _is_text(field: Any) -> bool:
    """Whether the values of a list are texts or words of a few."""
    [value] = get_args(field)
    return value in (str, Path) or get_origin(value) is Literal


def _with_texts(values: Any, texts: Sequence[str]) -> Any:
    """The values with the texts instead of their numbers, which stand in lists alone."""
    if isinstance(values, dict):
        return {name: _with_texts(value, texts) for name, value in values.items()}
    if isinstance(values, list):
        return [texts[int(v[1:])] if isinstance(v, str) and re.fullmatch(r"#\d+", v) else v for v in values]
    return values


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


_QUOTED = r"(?:\w*Path\()?'([^']*)'\)?"
"""An item of a list as Python writes it: 'text' or PosixPath('path')."""


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Says NAME instead of list[str], omits defaults that are not values, and names groups like tables."""

    _METAVARS: ClassVar = {
        "list[int]": "N",
        "list[str]": "NAME",
        "list[Path]": "FILE",
        "Path": "PATH",
        "str": "NAME",
        "int": "N",
        "float": "X",
        "list[JSON]": "JSON",
        "bool": "{true,false}",
    }

    def _metavar_formatter(self, action: argparse.Action, default_metavar: str) -> Any:
        if isinstance(action.metavar, str):
            choices = re.sub(r"^(?:list\[)?\{,?(.*)\}\]?$", r"{\1}", action.metavar)
            action.metavar = self._METAVARS.get(choices, choices)
        return super()._metavar_formatter(action, default_metavar)

    def _get_help_string(self, action: argparse.Action) -> str | None:
        switch = "|False|True" if action.nargs == 0 else ""
        default = rf" ?\(default(: (null|None|\[\]{switch}|)| factory: list)\)$"
        text = re.sub(default, "", action.help or "")
        values = re.search(r"\(default: \[(.+)\]\)$", text)
        if values:  # as they are given, not as Python writes a list of texts or paths
            listed = re.sub(_QUOTED, r"\1", values[1])
            text = f"{text[: values.start()]}(default: {listed})"
        return text.replace("True)", "true)").replace("False)", "false)")

    def start_section(self, heading: str | None) -> None:
        """A group of settings is a table of the file."""
        super().start_section(re.sub(r"^(\w+) options$", r"[\1]", heading or ""))

    def add_usage(self, usage: str | None, actions: Any, groups: Any, prefix: str | None = None) -> None:
        """The pattern alone, where settings are too many to be listed."""
        if any("." in option for action in actions for option in action.option_strings):
            usage = "%(prog)s CONFIG [--set TABLE.KEY=VALUE] [--TABLE.KEY VALUE]"
        super().add_usage(usage, actions, groups, prefix)
