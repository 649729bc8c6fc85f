"""Where Linkseek's own files and commands are: the sample, settings of trainings, the door.

A checkout has them as `samples/` and `configs/`, the installed package inside its folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

import linkseek
from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.program.text import nearest

PACKAGE = Path(str(linkseek.__file__)).parent
"""The folder of the package `linkseek`; in a checkout next to `app`, `indexer` and so on."""


def bundled(name: str) -> Path:
    """Where a bundled file or folder is, such as "samples/qrels.txt"."""
    installed = PACKAGE / name
    return installed if installed.exists() else PACKAGE.parent / name


def own_command(*words: str) -> list[str]:
    """The command line of `linkseek WORDS` for a process of its own.

    With -P no module in the working folder replaces one of Linkseek's.
    """
    return [sys.executable, "-P", "-m", "linkseek", *words]


def find_preset(folder: Path, path: Path) -> Path:
    """A TOML file by its path, or by its name in a folder, such as "hlp-pretrain" in `configs/`.

    Raises `UsageError` for a name that is neither.
    """
    if path.suffix or path.name != str(path) or path.exists():
        return path
    presets = {preset.stem: preset for preset in folder.glob("*.toml")}
    if path.name not in presets:
        raise UsageError(f"{path}: no such file or preset", nearest(path.name, presets))
    return presets[path.name]
