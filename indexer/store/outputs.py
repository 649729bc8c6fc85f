"""Writing where users have files of their own: no file is ever replaced that we did not write.

    OUTPUT.linkseek-lock     held while a command writes OUTPUT; released however it ends
    FOLDER/.linkseek.json    the files of a folder that Linkseek's commands wrote, with size and time

A file that the record lacks, or that was changed since, is the user's: a command that would write it is
refused before its work. Names next to an output contain "linkseek", so they are nobody else's.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from linkseek.indexer.machine.locks import open_lock, remove_lock, take_lock
from linkseek.indexer.program.errors import BusyError, DamagedIndexError, UsageError
from linkseek.indexer.store.artifacts import (
    HALF_WRITTEN,
    TEMPORARY,
    atomic_file,
    next_to,
    read_json,
    temporary_path,
    write_json,
)

RECORD = ".linkseek.json"
_MARK = b"linkseek: "
_held: dict[Path, int] = {}
"""The locks that this process holds, and the thread that took each."""


@contextmanager
def locked(output: Path) -> Iterator[None]:
    """Hold the lock of an output, whose folder is created if it is missing.

    Raises `BusyError` naming the process that holds it, `UsageError` if a file of the user has its name.
    """
    lock = next_to(output, "lock")
    output.parent.mkdir(parents=True, exist_ok=True)
    handle = _hold(lock, output)
    _held[lock] = threading.get_ident()
    try:
        yield
    finally:
        del _held[lock]
        remove_lock(lock, handle)


def _hold(lock: Path, output: Path, *, wait: bool = False) -> int:
    """Create and lock a file. The lock ends with the process, however that ends."""
    while True:
        handle = open_lock(lock, 0o644)
        try:
            holder = _holder(handle)
            if holder and not holder.startswith(_MARK):
                raise UsageError(f"{lock}: not a lock of Linkseek", "Move this file away.")
            if not take_lock(handle, wait=wait):
                who = holder.removeprefix(_MARK).decode(errors="replace") or "just started"
                raise BusyError(
                    f"{output}: another process is writing it ({who})",
                    "Wait for it to end, or choose another output.",
                )
            # Removed between open and lock? Then the file that we hold is not the one at this path.
            if os.fstat(handle).st_ino == lock.stat().st_ino:
                with suppress(OSError):  # a full disk: the lock holds without words
                    os.ftruncate(handle, 0)
                    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:2]])[:100]
                    ours = f"process {os.getpid()}, {command}".encode(errors="backslashreplace")
                    os.lseek(handle, 0, os.SEEK_SET)
                    os.write(handle, _MARK + ours)
                return handle
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _holder(handle: int) -> bytes:
    """The words in a lock. On Windows nobody else may read the first byte of a locked file."""
    try:
        return os.read(handle, 1000)
    except PermissionError:
        os.lseek(handle, 1, os.SEEK_SET)
        return _MARK[:1] + os.read(handle, 1000)


def check_replaceable(*paths: Path) -> None:
    """Raises `UsageError` naming the first of these paths at which the user has a file or a folder."""
    for path in paths:
        if os.path.lexists(path) and not _is_ours(path):
            raise UsageError(
                f"{path}: exists already, and was not written by Linkseek, or was changed since",
                "Move it away, or choose another output: your own files are never replaced.",
            )


@contextmanager
def output_file(path: Path) -> Iterator[BinaryIO]:
    """A file for the user, locked while it is written if this thread has not locked it, published atomically.

    Raises `UsageError` if the user has a file there, `BusyError` if another process or thread writes it.
    """
    ours = _held.get(next_to(path, "lock")) == threading.get_ident()
    with nullcontext() if ours else locked(path):
        check_replaceable(path)
        with atomic_file(path, _note) as file:  # killed before the next line, it is in the record as this one
            yield file
        _note(path)


def write_output(path: Path, data: bytes | Iterable[bytes]) -> None:
    """Write a file for the user; see `output_file`."""
    with output_file(path) as file:
        file.writelines([data] if isinstance(data, bytes) else data)


def write_output_json(path: Path, value: Any) -> None:
    """Write JSON that people can read as a file for the user; see `output_file`."""
    write_output(path, orjson.dumps(value, option=orjson.OPT_INDENT_2) + b"\n")


def clear_leftovers(output: Path, *folders: Path) -> None:
    """Remove the leftovers of a command that was killed after publishing an output.

    folders: the folders of its work. Nothing happens while another process writes the output.
    """
    left = [temporary_path(output), *folders]
    if any(map(os.path.lexists, [next_to(output, "lock"), *left])):
        with suppress(BusyError, OSError), locked(output):
            for folder in left:
                shutil.rmtree(folder, ignore_errors=True)


def remove_outputs(*paths: Path) -> None:
    """Remove the given files, but only files that Linkseek wrote."""
    for path in filter(_is_ours, paths):
        path.unlink()


def remove_written(folder: Path) -> None:
    """Remove files that Linkseek's commands wrote below a folder, also unfinished ones, and folders that
    become empty.

    Files of the user stay, and files that cannot be removed.
    """
    for place, _, names in os.walk(folder, topdown=False):
        for path in sorted(Path(place, name) for name in names):
            if path.name != RECORD and (_is_ours(path) or path.name.endswith(HALF_WRITTEN)):
                with suppress(OSError):
                    path.unlink()
        with suppress(OSError):
            Path(place, RECORD).unlink(missing_ok=True)
            Path(place).rmdir()


def _is_ours(path: Path) -> bool:
    """Whether the record has it, under its own name or under its name before it was complete."""
    stamp, record = _stamp(path), _read_record(path.parent)
    return bool(stamp) and stamp in (record.get(path.name), record.get(temporary_path(path).name))


def _note(path: Path) -> None:
    """Record a file as written by Linkseek."""
    with _record(path.parent) as record:
        record[path.name] = _stamp(path)
        record.pop(temporary_path(path).name, None)


def _stamp(path: Path) -> list[int]:
    """Size and time of a file; empty if it does not exist."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return []
    return [status.st_size, status.st_mtime_ns]


def _read_record(folder: Path) -> dict[str, list[int]]:
    with suppress(DamagedIndexError):
        record = read_json(folder / RECORD)
        if isinstance(record, dict):
            return record
    return {}


@contextmanager
def _record(folder: Path) -> Iterator[dict[str, list[int]]]:
    """The record of a folder, to be changed by one process at a time."""
    path = folder / RECORD
    lock = next_to(path, "lock")
    handle = _hold(lock, path, wait=True)
    try:
        record = _read_record(folder)
        yield record
        names = {n for n in record if (folder / n).exists() or (folder / n.removesuffix(TEMPORARY)).exists()}
        write_json(path, {name: stamp for name, stamp in record.items() if name in names})
    finally:
        remove_lock(lock, handle)
