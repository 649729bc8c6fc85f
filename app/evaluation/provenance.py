"""The origin of results: the command, the code, the machine, and hashes of everything that was read.

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
from pathlib import Path
from typing import Any

import psutil

from linkseek.app.evaluation.records import JsonRecord, Sparse
from linkseek.indexer.files.hashes import file_sha256
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.machine.devices import usable_cores
from linkseek.indexer.program.bundled import PACKAGE
from linkseek.indexer.program.extras import installed_versions
from linkseek.indexer.search.faiss_index import recall_text
from linkseek.indexer.store.artifacts import value_sha256

_PACKAGES = (
    "linkseek numpy scipy ir-measures pytrec-eval-terrier regex torch transformers sentence-transformers "
    "openvino faiss-cpu faiss-gpu pyserini"
).split()
_SECONDS = 10


class Machine(Sparse):
    """The machine, without its name."""

    processor: str
    cores: int
    memory_gb: int | None = None
    system: str
    gpus: list[str] | None = None


class IndexOrigin(JsonRecord):
    """The index folder, and hashes of its manifests, which contain the hash of every file."""

    path: str
    manifest_sha256: str
    parts_sha256: dict[str, str]


class FileOrigin(JsonRecord):
    """A file that was read."""

    path: str
    sha256: str


class Revision(JsonRecord):
    """The commit of the code, and whether files that it tracks were changed since."""

    commit: str
    changed_since: bool


class Provenance(Sparse):
    """Where results come from; corpus and models as manifests describe them."""

    date: str
    command: str
    versions: dict[str, str]
    machine: Machine
    index: IndexOrigin
    files: dict[str, FileOrigin]
    revision: Revision | None = None
    corpus: dict[str, str | int] | None = None
    models: dict[str, dict[str, str | int]] | None = None
    test_set: dict[str, str] | None = None


def provenance(
    program: str,
    argv: Sequence[str],
    index: OpenIndex,
    files: Mapping[str, Path],
    models: Mapping[str, Mapping[str, Any]] | None = None,
    test_set: dict[str, str] | None = None,
) -> Provenance:
    """The origin of results. files: the files that were read besides the index, by role.

    models: identities of re-rankers, by name or folder; the encoders of the index are added.
    """
    manifest = index.manifest
    given = {"file": manifest.corpus.file or None, "sha256": manifest.corpus.sha256}
    corpus: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    corpus |= {"documents": manifest.counts.documents, "passages": manifest.counts.passages}
    if manifest.updates:
        corpus["updates"] = len(manifest.updates)
    identities = {_path(name): model for name, model in (models or {}).items()}
    for vectors in index.parts.dense.values():
        searched = {"faiss": vectors.factory, "recall": recall_text(vectors) or None}
        identities[vectors.encoder["name"]] = vectors.encoder | searched
    keys = ("sha256", "revision", "dimension", "faiss", "recall")
    described = {
        name: {key: model[key] for key in keys if model.get(key) is not None}
        for name, model in identities.items()
    }
    versions = {"python": platform.python_version()} | installed_versions(_PACKAGES)
    return Provenance(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        command=" ".join([program, *map(_argument, argv)]),
        versions=versions,
        machine=machine(),
        index=IndexOrigin(
            path=_path(index.path),
            manifest_sha256=value_sha256(manifest.to_json()),
            parts_sha256={name: value_sha256(part.to_json()) for name, part in index.parts.items()},
        ),
        files={role: FileOrigin(path=_path(path), sha256=file_sha256(path)) for role, path in files.items()},
        revision=revision(PACKAGE.parent),
        corpus=corpus,
        models=described or None,
        test_set=test_set,
    )


def revision(folder: Path) -> Revision | None:
    """The commit of a checkout, and whether files that it tracks were changed since.

    None if the folder is not the root of one, or git is not installed or fails.
    """
    if not (folder / ".git").exists():  # else git would answer for a repository around this folder
        return None
    git = ("git", "-C", str(folder), "-c", "core.fsmonitor=false")  # a monitor is any program
    commit = _output(*git, "rev-parse", "HEAD")
    changes = _output(*git, "status", "--porcelain", "--untracked-files=no")
    if not commit or changes is None:
        return None
    return Revision(commit=commit, changed_since=bool(changes))


def machine() -> Machine:
    """Processor, cores that this process may use, memory, system and GPUs."""
    return Machine(
        processor=_processor(),
        cores=usable_cores(),
        memory_gb=round(psutil.virtual_memory().total / 1e9),
        system=f"{platform.system()} {platform.machine()}",
        gpus=_gpus() or None,
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


def _gpus() -> list[str]:
    """Names and memory from nvidia-smi, since torch would have to be imported."""
    if shutil.which("nvidia-smi") is None:
        return []
    output = _output("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader")
    return [line.strip() for line in (output or "").splitlines() if line.strip()]


def _output(*command: str) -> str | None:
    """The output of a program that only reads; None if it fails or takes too long."""
    # Of the variables that git gives its hooks, GIT_DIR would point it at another repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment["GIT_OPTIONAL_LOCKS"] = "0"
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, env=environment
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else None


def _home() -> str:
    """The user's home with a separator at its end; empty if unknown."""
    try:
        home = str(Path.home())
    except RuntimeError:
        return ""
    return "" if home in (Path(home).anchor, ".") else f"{home.rstrip(os.sep)}{os.sep}"


def _path(path: Path | str) -> str:
    home, text = _home(), str(path)
    return f"~/{text.removeprefix(home)}" if home and text.startswith(home) else text


def _argument(argument: str) -> str:
    """As one would type it: quoted where needed, and "$HOME" where the shell expanded it."""
    home = _home()
    if not home or home not in argument:
        return shlex.quote(argument)
    before, _, rest = argument.partition(home)
    if before and not before.endswith("="):  # in the middle of another path
        return shlex.quote(argument)
    return f'{shlex.quote(before) if before else ""}"$HOME"/{shlex.quote(rest) if rest else ""}'
