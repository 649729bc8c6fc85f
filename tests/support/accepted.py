"""An altered file of an index whose manifest says that it is as it should be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson

from linkseek.indexer.files.hashes import file_sha256
from linkseek.indexer.store.artifacts import read_json, value_sha256
from linkseek.indexer.store.manifest_files import OWN_HASH


def manifest_bytes(values: Any) -> bytes:
    """A manifest with a hash that fits, as a stranger may write it; other values than objects as they are."""
    content = json.dumps(values).encode()
    try:
        values = orjson.loads(content)  # with the same numbers as reading makes of them
    except orjson.JSONDecodeError:
        return content
    if isinstance(values, dict):
        values.pop(OWN_HASH, None)
        values[OWN_HASH] = value_sha256(values)
    return orjson.dumps(values)


def alter(path: Path, **values: Any) -> None:
    """Replace values of a manifest."""
    path.write_bytes(manifest_bytes(read_json(path) | values))


def accept(file: Path) -> None:
    """Make size and hash of a file the expected ones."""
    path = next(folder for folder in file.parents if (folder / "manifest.json").exists()) / "manifest.json"
    entry = {"bytes": file.stat().st_size, "sha256": file_sha256(file)}
    alter(path, files=read_json(path)["files"] | {str(file.relative_to(path.parent)): entry})
