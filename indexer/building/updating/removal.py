"""Removing an index, and giving it another name.

Both hold the lock of the index, so that nothing is building it, and refuse a folder that has other files.
Whoever has it open goes on reading: its files are mapped, and are freed when they are closed.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from linkseek.indexer.building.workspace import strange_file
from linkseek.indexer.program.errors import MachineError, UsageError
from linkseek.indexer.store.artifacts import beside
from linkseek.indexer.store.manifest_files import is_index
from linkseek.indexer.store.outputs import locked


def remove_index(index: Path) -> None:
    """Remove the folder of an index. Until it is moved away, nothing is removed.

    Raises `UsageError` if it is a link or no index, or holds files of the user; `BusyError` if it is written.
    """
    removed = beside(index, "removed")
    with locked(index):
        _check(index)
        with suppress(FileNotFoundError):  # of a removal that was interrupted
            shutil.rmtree(removed)
        _move(index, removed)
    shutil.rmtree(removed, ignore_errors=True)


def rename_index(index: Path, new: Path) -> None:
    """Give the folder of an index another name in the same folder. Raises as `remove_index`, and
    `UsageError` if something has the new name."""
    with locked(index), locked(new):
        _check(index)
        if os.path.lexists(new):
            raise UsageError(f'there is an index "{new.name}" already', "Choose another name.")
        _move(index, new)


def _check(index: Path) -> None:
    if index.is_symlink():
        raise UsageError(f"{index}: a link", "Remove or rename it by hand.")
    if not is_index(index):
        raise UsageError(f"{index}: not an index", "Look at the list.")
    strange = strange_file(index)
    if strange is not None:
        problem = f"{index}: holds a file that is not of an index ({strange.relative_to(index)})"
        raise UsageError(problem, "Move it away first.")


def _move(index: Path, target: Path) -> None:
    try:
        index.rename(target)
    except OSError as error:  # read-only, or open on Windows
        raise MachineError(
            f"{index}: {error.strerror}", "Close what uses it, and check its rights."
        ) from None
