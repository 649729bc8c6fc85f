"""Permissions of files that a library wrote for one user alone."""

from __future__ import annotations

import os
from pathlib import Path


def share(path: Path) -> None:
    """Give a file, or a folder with all its contents, the permissions of this user's new files.

    The libraries' weights and temporary folders are for their user alone, and models are meant to be shared.
    """
    umask = os.umask(0o077)
    os.umask(umask)
    for each in (path, *path.rglob("*")) if path.is_dir() else (path,):
        if not each.is_symlink():
            each.chmod((0o777 if each.is_dir() else 0o666) & ~umask)
