"""Where results come from: the command, the versions, and hashes of everything that was read."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

from indexer.artifacts import file_sha256, value_sha256

_PACKAGES = (
    "linkseek",
    "numpy",
    "ir-measures",
    "pytrec-eval-terrier",
    "regex",
    "torch",
    "transformers",
    "sentence-transformers",
    "openvino",
    "faiss-cpu",
    "faiss-gpu",
    "pyserini",
)


class Manifested(Protocol):
    """What is needed of `indexer.index.Index`: manifests, which hold every file's hash."""

    path: Path
    manifest: dict[str, Any]
    parts: dict[str, dict[str, Any]]


def provenance(
    program: str, argv: Sequence[str], index: Manifested, files: Mapping[str, Path]
) -> dict[str, Any]:
    """A record for results.json. files: what was read besides the index, by its role."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": f"{program} {shlex.join(argv)}",
        "versions": {"python": platform.python_version()} | _versions(),
        "index": {
            "path": str(index.path),
            "manifest_sha256": value_sha256(index.manifest),
            "parts_sha256": {name: value_sha256(part) for name, part in index.parts.items()},
        },
        "files": {role: {"path": str(path), "sha256": file_sha256(path)} for role, path in files.items()},
    }


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
