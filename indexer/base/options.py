"""Options of the commands: one typed model gives the command line, the config file and the errors.

A command declares its options once, as a subclass of `Options` whose fields carry their help text as
docstrings. Every option is a flag (`--passage-words 100`) and a key of a TOML file given with
`--config` (`passage_words = 100`); the command line wins. Configuration ends here: what is called
gets plain keyword arguments.
"""

from __future__ import annotations

import argparse
import difflib
import inspect
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar, get_origin

from pydantic import ValidationError
from pydantic_settings import (
    BaseSettings,
    CliApp,
    CliSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)
from pydantic_settings.exceptions import SettingsError

from indexer.base.errors import UsageError


class Options(BaseSettings):
    """The options of one command. Unknown keys and values of the wrong type are errors."""

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        cli_kebab_case=True,
        cli_implicit_flags="toggle",
        cli_hide_none_type=True,
        cli_exit_on_error=False,
    )

    config: Path | None = None
    """a TOML file with any of these options as keys; the command line wins"""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only the file and the command line: an environment variable `INDEX` must not count."""
        return (init_settings,)


T = TypeVar("T", bound=Options)


def parse_options(options: type[T], argv: Sequence[str], program: str) -> T:
    """The options from a command line and the config file that it names.

    Raises `UsageError` with the nearest known name for an unknown one. `--help` prints and exits.
    """
    known = {field.alias or name for name, field in options.model_fields.items()}
    named = {"__doc__": inspect.cleandoc(options.__doc__ or ""), "__module__": __name__}
    options = type(options.__name__, (options,), named)
    source: CliSettingsSource[Any] = CliSettingsSource(
        options, cli_prog_name=program, formatter_class=_HelpFormatter
    )
    arguments = _repeat_list_flags(options, argv)
    from_file = _read_config(arguments, known)
    try:
        return CliApp.run(options, cli_args=arguments, cli_settings_source=source, **from_file)
    except SettingsError as error:
        raise UsageError(_command_line_error(str(error), known), f"See {program} --help.") from None
    except ValidationError as error:
        lines = [
            f"{_flag(str(e['loc'][0])) if e['loc'] else 'options'}: {e['msg']}"
            + (f" (given: {e['input']!r})" if e["type"] != "missing" else "")
            for e in error.errors()
        ]
        raise UsageError("; ".join(lines), f"See {program} --help.") from None


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Says NAME instead of list[str], and nothing of a default that is no value."""

    _METAVARS: ClassVar = {
        "list[str]": "NAME",
        "list[Path]": "FILE",
        "Path": "PATH",
        "str": "NAME",
        "int": "N",
    }

    def _metavar_formatter(self, action: argparse.Action, default_metavar: str) -> Any:
        if isinstance(action.metavar, str):
            action.metavar = self._METAVARS.get(action.metavar, action.metavar)
        return super()._metavar_formatter(action, default_metavar)

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return re.sub(r" \(default: (null|False|True|\[\])\)$", "", action.help or "")


def _flag(field: str) -> str:
    return ("-" if len(field) == 1 else "--") + field.replace("_", "-")


def _repeat_list_flags(options: type[Options], argv: Sequence[str]) -> list[str]:
    """`--pipeline a b` as `--pipeline a --pipeline b`: both are accepted for list options."""
    lists = {_flag(n) for n, f in options.model_fields.items() if get_origin(f.annotation) is list}
    out: list[str] = []
    current = ""  # the list flag whose further values we are reading
    for argument in argv:
        if re.match(r"--?[A-Za-z]", argument):
            current = argument if argument in lists else ""
        elif current and out[-1] != current:
            out.append(current)
        out.append(argument)
    return out


def _read_config(arguments: list[str], known: set[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False, allow_abbrev=False)
    parser.add_argument("--config", type=Path)
    path = parser.parse_known_args(arguments)[0].config
    if path is None:
        return {}
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"--config {path}: {error.strerror}", "Check the path.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not TOML: {error}", "Write name = value, one a line.") from None
    values = {key.replace("-", "_"): value for key, value in values.items()}
    for key in values:
        if key not in known - {"config"}:
            raise UsageError(f'{path}: unknown key "{key}"', nearest(key, known - {"config"}))
    return values


def nearest(name: str, known: set[str] | Sequence[str]) -> str:
    """A hint that names the known name most like a misspelt one, or all of them."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"Did you mean {close[0]}?" if close else f"Known: {', '.join(sorted(known))}."


def _command_line_error(message: str, known: set[str]) -> str:
    message = message.removeprefix("error parsing CLI: ")
    unknown = message.partition("unrecognized arguments: ")[2].split()
    if unknown and unknown[0].startswith("--"):
        name = unknown[0].partition("=")[0]
        return f"unknown option {name}. {nearest(name, [_flag(field) for field in known])}"
    return message
