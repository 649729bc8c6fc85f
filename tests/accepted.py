"""An altered file of an index whose manifest says that it is as it should be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from linkseek.indexer.files.hashes import file_sha256
from linkseek.indexer.store.artifacts import read_json, write_json


def manifest_to_alter(path: Path) -> Any:
    """A manifest without the hash of itself, as earlier versions wrote it and as a stranger may."""
    manifest = read_json(path)
    manifest.pop("manifest_sha256", None)
    return manifest


def accept(file: Path) -> None:
    """Make size and hash of a file the expected ones."""
    folder = next(folder for folder in file.parents if (folder / "manifest.json").exists())
    manifest = manifest_to_alter(folder / "manifest.json")
    entry = {"bytes": file.stat().st_size, "sha256": file_sha256(file)}
    manifest["files"][str(file.relative_to(folder))] = entry
    write_json(folder / "manifest.json", manifest)
