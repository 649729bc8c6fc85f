"""Wheels of a checkout, and what is in them."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path


def built_wheel(source: Path, folder: Path) -> Path:
    """The wheel that hatchling makes of a checkout, in a folder."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder]
    subprocess.run(command, cwd=source, check=True, stdout=subprocess.DEVNULL)
    [path] = folder.glob("linkseek-*.whl")
    return path


def contents(wheel: Path) -> dict[str, bytes]:
    """The files of a wheel by their names."""
    with zipfile.ZipFile(wheel) as file:
        return {name: file.read(name) for name in file.namelist()}
