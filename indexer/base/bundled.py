"""Files that come with Linkseek: the sample, settings of trainings, experiments.

A checkout has them as `samples/`, `configs/` and `experiments/`, the installed package inside a folder
`linkseek` next to the packages.
"""

from __future__ import annotations

from pathlib import Path

from indexer.base.errors import UsageError
from indexer.base.settings import nearest

_ROOT = Path(__file__).parents[2]


def bundled(name: str) -> Path:
    """Where a bundled file or folder is, such as "samples/qrels.txt"."""
    installed = _ROOT / "linkseek" / name
    return installed if installed.exists() else _ROOT / name


def find_preset(folder: str, path: Path) -> Path:
    """A TOML file by its path, or by the name of one in a bundled folder: "hlp-1" in "experiments".

    Raises `UsageError` for a name that is neither.
    """
    if path.suffix or path.name != str(path) or path.exists():
        return path
    presets = {preset.stem: preset for preset in bundled(folder).glob("*.toml")}
    if path.name not in presets:
        raise UsageError(f"{path}: no such file or preset", nearest(path.name, presets))
    return presets[path.name]
