"""Names from outside as paths: the one check between a name and the folder that it is joined to.

The name of an upload, of a step, of a pipeline or of a file in a manifest is foreign text. It is never
repaired, since a repair can make a harmful name of a harmless one (". .." loses its space): it is used as it
is, or refused. `inside` also follows links, so it is called again where a file is opened.
"""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.indexer.program.text import CONTROLS, DIRECTIONS, SURROGATES, escaped, without_hidden

MAX_NAME = 200
"""Bytes of a name. File systems take 255; our suffixes follow, such as `.step.json.linkseek-lock`."""
MAX_PARTS = 16
"""The maximum number of parts of a path, folders and file together."""

NAME_HINT = f"Use letters, digits, hyphens and underscores, {MAX_NAME} bytes at most."

_REFUSED = frozenset(f"/\\{CONTROLS}{DIRECTIONS}{SURROGATES}")
_DRIVE = re.compile(r"[a-z]:", re.ASCII | re.IGNORECASE)
_DEVICE = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9])\s*([.:].*)?", re.IGNORECASE)
"""Names that Windows reserves, with any suffix."""


def name_problem(name: str) -> str:
    """Why a name is not valid for a single file or folder, as a predicate; empty if it is valid."""
    if len(name.encode("utf-8", "surrogatepass")) > MAX_NAME:
        return f"has more than {MAX_NAME} bytes"
    if not _REFUSED.isdisjoint(name):
        return "contains a slash, or a character that cannot be printed"
    looks = without_hidden(unicodedata.normalize("NFKC", name))
    if not re.sub(r"[.\s]", "", looks):
        return "is empty, or consists of dots and spaces"
    if name.endswith(".") or name[-1].isspace():
        return "ends with a dot or a space"
    if _DRIVE.match(looks) or _DEVICE.fullmatch(looks):
        return "is a drive or a device on Windows"
    return ""


def path_problem(path: str) -> str:
    """The same for a path, with "/" between the names of its folders and of its file."""
    parts = path.split("/")
    if len(parts) > MAX_PARTS:
        return f"it has more than {MAX_PARTS} parts"
    problems = ((part, name_problem(part)) for part in parts)
    return next((f'"{escaped(part[:100])}" {problem}' for part, problem in problems if problem), "")


def check_name(name: str, what: str) -> str:
    """Return a valid file name. what: describes it in the message. Raises `UsageError` for others."""
    problem = name_problem(name)
    return _checked(name, f"it {problem}" if problem else "", what)


def check_path(path: str, what: str) -> str:
    """The path itself. Raises `UsageError` if one of its parts is not valid for a file or folder."""
    return _checked(path, path_problem(path), what)


def inside(folder: Path, name: str, what: str = "the name", pattern: str = "{}") -> Path:
    """The path of a file or folder inside a folder. Nothing is created or opened.

    pattern: the additions to the name, such as "{}.trec". Raises `UsageError` unless the name is plain and
    the path, with all links followed, lies below the folder.
    """
    return _joined(folder, pattern.format(check_name(name, what)), what)


def path_inside(folder: Path, path: str, what: str = "the path") -> Path:
    """The same for a path, with "/" between its names."""
    return _joined(folder, check_path(path, what), what)


def _checked(name: str, problem: str, what: str) -> str:
    if problem:
        raise UsageError(f'{what} "{escaped(name[:100])}" cannot name a file: {problem}', NAME_HINT)
    return name


def _joined(folder: Path, path: str, what: str) -> Path:
    if not is_inside(folder, folder / path):
        raise UsageError(
            f'{what} "{escaped(path[:100])}" is a link that leads out of its folder', "Remove it."
        )
    return folder / path


def is_inside(folder: Path, path: Path) -> bool:
    """Whether a path lies below a folder, with all links followed."""
    try:
        return folder.resolve() in path.resolve().parents
    except (OSError, RuntimeError, ValueError):  # links in a circle; a name that no file can have
        return False


def check_file(path: Path) -> None:
    """Raises `InputError` unless there is a regular file: a pipe may never end, and a device never does."""
    if not path.is_file():
        if path.exists() and not path.is_dir():
            hint = "Write its content to a file first, because it is read more than once."
            raise InputError(f"{path}: a pipe or a device, not a file", hint)
        problem = "a folder, not a file" if path.is_dir() else "no such file"
        raise InputError(f"{path}: {problem}", "Check the path.")
