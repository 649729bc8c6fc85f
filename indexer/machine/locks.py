"""Locks of files on any system: held by an open file, and released however its process ends."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it warns of a Python without locks, where `take_lock` always succeeds
    from filelock import has_fcntl, lock_descriptor

_POSIX = os.name == "posix"
_HAS_LOCKS = has_fcntl or sys.platform == "win32"
_LOOKS, _PAUSE = 3, 0.001  # seconds: another process that looks holds the lock for microseconds


def open_lock(path: Path, mode: int) -> int:
    """Open a file to lock, which is created with a mode if it is missing; a link is not followed."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    return os.open(path, flags, mode)


def take_lock(handle: int, *, wait: bool = False) -> bool:
    """Lock an open file. wait: until it is free; otherwise False if another process holds it."""
    return not _HAS_LOCKS or lock_descriptor(handle, blocking=wait, poll_interval=0.01)


@contextmanager
def holding(path: Path) -> Iterator[None]:
    """Hold the lock of a file, which is created if it is missing; waits until it is free."""
    handle = open_lock(path, 0o600)
    try:
        take_lock(handle, wait=True)
        yield
    finally:
        os.close(handle)


def is_held(path: Path) -> bool:
    """Whether a process holds the lock of a file."""
    for _ in range(_LOOKS):
        try:
            handle = os.open(path, os.O_RDWR)
        except OSError:
            return False
        try:
            if take_lock(handle):
                return False
        finally:
            os.close(handle)
        time.sleep(_PAUSE)
    return True


def remove_lock(path: Path, handle: int) -> None:
    """Remove a locked file and release its lock. On Windows a file that is open cannot be removed."""
    if _POSIX:
        path.unlink(missing_ok=True)
        os.close(handle)
        return
    os.close(handle)
    with suppress(OSError):  # another process has taken it
        path.unlink()
