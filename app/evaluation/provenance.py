"""Where results come from: the command, the code, the machine, and hashes of everything that was read.

Nothing in it names the person or the host: a path below the user's home begins with "~".
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

from indexer.store.artifacts import file_sha256, value_sha256

_PACKAGES = (
    "linkseek",
    "numpy",
    "scipy",
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
_SECONDS = 10
_CHECKOUT = Path(__file__).parents[2]


class Manifested(Protocol):
    """What is needed of `indexer.index.Index`: manifests, which hold every file's hash."""

    path: Path
    manifest: dict[str, Any]
    parts: dict[str, dict[str, Any]]


def provenance(
    program: str,
    argv: Sequence[str],
    index: Manifested,
    files: Mapping[str, Path],
    models: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """A record for results.json. files: what was read besides the index, by its role.

    models: what re-rankers say of themselves, by name or folder; those of the index are added.
    What is not known (no checkout, no model in the index) is left out.
    """
    record: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join([program, *map(_argument, argv)]),
        "versions": {"python": platform.python_version()} | _versions(),
        "machine": machine(),
        "index": {
            "path": _path(index.path),
            "manifest_sha256": value_sha256(index.manifest),
            "parts_sha256": {name: value_sha256(part) for name, part in index.parts.items()},
        },
        "files": {role: {"path": _path(path), "sha256": file_sha256(path)} for role, path in files.items()},
    }
    known = {
        "revision": revision(_CHECKOUT),
        "corpus": _corpus(index.manifest),
        "models": {_path(name): _model(model) for name, model in (models or {}).items()}
        | _models(index.parts),
    }
    return record | {key: value for key, value in known.items() if value}


# --- the code and the machine ----------------------------------------------------------------------


def revision(folder: Path) -> dict[str, Any] | None:
    """The commit of a checkout, and whether files that it tracks were changed since.

    None if the folder is not the root of one, or git is not here or does not answer.
    """
    if not (folder / ".git").exists():  # else git would answer for a repository around this folder
        return None
    git = ("git", "-C", str(folder), "-c", "core.fsmonitor=false")  # a monitor is any program
    commit = _output(*git, "rev-parse", "HEAD")
    changes = _output(*git, "status", "--porcelain", "--untracked-files=no")
    if not commit or changes is None:
        return None
    return {"commit": commit, "changed_since": bool(changes)}


def machine() -> dict[str, Any]:
    """Processor, cores, memory, system and GPUs."""
    facts: dict[str, Any] = {"processor": _processor(), "cores": _cores()}
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on every system
        memory = 0
    if memory > 0:
        facts["memory_gb"] = round(memory / 1e9)
    facts["system"] = f"{platform.system()} {platform.machine()}"
    gpus = _gpus()
    if gpus:
        facts["gpus"] = gpus
    return facts


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


def _cores() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _gpus() -> list[str]:
    """Names and memory, as NVIDIA's own program tells them; asking torch would mean importing it."""
    if shutil.which("nvidia-smi") is None:
        return []
    found = _output("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader")
    return [line.strip() for line in (found or "").splitlines() if line.strip()]


def _output(*command: str) -> str | None:
    """What a program that only reads prints; None if it fails or takes too long."""
    # Of the variables that git gives its hooks, GIT_DIR would point it at another repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment["GIT_OPTIONAL_LOCKS"] = "0"
    try:
        found = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            env=environment,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.decode("utf-8", "replace").strip() if found.returncode == 0 else None


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


# --- the index -------------------------------------------------------------------------------------


def _corpus(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The file that the index was built from, its hash, and the counts that tell its size."""
    record: dict[str, Any] = {}
    for part, keys in (("corpus", ("file", "sha256")), ("counts", ("documents", "passages"))):
        values = manifest.get(part)
        record |= {key: values[key] for key in keys if isinstance(values, dict) and key in values}
    return record


def _models(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The encoders of the index's vectors, by name."""
    encoders = [part.get("encoder") for part in parts.values()]
    return {str(encoder.get("name")): _model(encoder) for encoder in encoders if isinstance(encoder, dict)}


def _model(identity: Mapping[str, Any]) -> dict[str, Any]:
    known = ("sha256", "revision", "dimension")
    return {key: identity[key] for key in known if identity.get(key) is not None}


# --- paths -----------------------------------------------------------------------------------------


def _home() -> str:
    """The user's home with a slash at its end; empty if there is none to hide."""
    try:
        home = str(Path.home())
    except RuntimeError:
        return ""
    return "" if home in ("/", ".") else f"{home.rstrip('/')}/"


def _path(path: Path | str) -> str:
    home, text = _home(), str(path)
    return f"~/{text.removeprefix(home)}" if home and text.startswith(home) else text


def _argument(argument: str) -> str:
    """As one would type it: quoted where needed, and "$HOME" where it was written out by the shell."""
    home = _home()
    if not home or home not in argument:
        return shlex.quote(argument)
    before, _, rest = argument.partition(home)
    if before and not before.endswith("="):  # in the middle of another path
        return shlex.quote(argument)
    return f'{shlex.quote(before) if before else ""}"$HOME"/{shlex.quote(rest) if rest else ""}'
