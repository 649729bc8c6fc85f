"""Records as JSON in files of the folder of results, checked key by key.

Evaluations and comparisons are known by the names of their folders. A name is looked up in the list of
existing ones and never made into a path, and a link that leads out of the folder is not followed.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, ValidationError, model_serializer

from linkseek.indexer.program.errors import InputError, MachineError, UsageError, raise_of_machine
from linkseek.indexer.program.paths import check_name, is_inside
from linkseek.indexer.program.text import nearest

_HINT = "Make it again, or remove its folder."


class JsonRecord(BaseModel):
    """Immutable and complete: unknown keys, other types, NaN and infinity are errors."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, validate_by_name=True,
        validate_by_alias=True, serialize_by_alias=True,
    )  # fmt: skip


class Sparse(JsonRecord):
    """A record that is written without the keys that have no value."""

    @model_serializer(mode="wrap")
    def _without_none(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in dump(self).items() if value is not None}


def first_fault(error: ValidationError) -> str:
    """The first key of a record that is invalid, and why."""
    first = error.errors(include_url=False, include_input=False)[0]
    place, reason = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
    return f"{place}: {reason}" if place else reason


def stamps(folder: Path, file: str) -> dict[str, tuple[int, int]]:
    """Names of the folders that contain a file, with its time and size, which a new version changes."""
    found = {}
    for path in folder.glob(f"[!.]*/{file}"):
        with suppress(OSError):
            status = path.stat()
            found[path.parent.name] = (status.st_mtime_ns, status.st_size)
    return found


def find_folder(folder: Path, file: str, name: str, kind: str, nothing: str) -> tuple[Path, tuple[int, int]]:
    """The folder of a name that contains a file, and the file's stamp. kind, nothing: words for messages.

    Raises `UsageError` if there is no such folder, `InputError` as `inside_file` does.
    """
    known = stamps(folder, file)
    if name not in known:
        hint = nearest(name, set(known)) if known else nothing
        raise UsageError(f'there is no {kind} "{name[:100]}"', hint)
    inside_file(folder, folder / name / file)
    return folder / name, known[name]


def inside_file(folder: Path, path: Path) -> Path:
    """A file with all links followed. Raises `InputError` if that is not a file, or not in the folder."""
    name = path.relative_to(folder)
    try:
        real = path.resolve()
        known = real.is_file()
    except (OSError, RuntimeError):  # links in a circle
        known = False
    if not known:
        raise InputError(f"{name}: No such file", _HINT)
    if not is_inside(folder, real):
        raise InputError(f"{name}: a link that leads out of the folder of results", "Put the file there.")
    return real


def read_inside(folder: Path, path: Path) -> bytes:
    """The content of a file in the folder. Raises `InputError` as `inside_file` does."""
    try:
        return inside_file(folder, path).read_bytes()
    except OSError as error:
        raise_of_machine(error)
        raise InputError(f"{path.relative_to(folder)}: {error.strerror}", _HINT) from None


def new_folder(parent: Path, name: str) -> Path:
    """Make a new folder: NAME, or NAME-2, NAME-3, ... if the name is taken.

    Raises `UsageError` for a name that no folder can have, `MachineError` if it cannot be made.
    """
    check_name(name, "the folder")
    try:
        parent.mkdir(parents=True, exist_ok=True)
        for number in range(1, 1000):
            folder = parent / (name if number == 1 else f"{name}-{number}")
            with suppress(FileExistsError):  # also for a link
                folder.mkdir()
                return folder
    except OSError as error:
        raise MachineError(f"{parent}: {error.strerror}", "Jobs need a folder to write to.") from None
    raise MachineError("too many jobs are being started at once", "Try again in a moment.")
