"""linkseek join: collect the shards that several machines have encoded, for the last build.

    machine 1    linkseek build --corpus C --index I --shard 1/2
    machine 2    linkseek build --corpus C --index I --shard 2/2
    machine 1    linkseek join --index I COPY-OF-I.linkseek-building
                 linkseek build --corpus C --index I

A shard is adopted if it is intact (by its hash) and made from the same passages by the same encoder in the
same way: it then has the bits that this machine would have computed. Missing shards are listed; the last
build would encode them itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field
from pydantic_settings import CliPositionalArg

from linkseek.indexer.building.workspace import Workspace
from linkseek.indexer.encoding.shards import adopt_shard, read_shard, shard_count
from linkseek.indexer.program.errors import DamagedIndexError, InputError, MismatchError, UsageError
from linkseek.indexer.program.options import Options, parse_options
from linkseek.indexer.store.artifacts import (
    BUILDING,
    DENSE,
    MANIFEST,
    PASSAGES,
    VECTORS,
    read_json,
    workspace_path,
    write_json,
)
from linkseek.indexer.store.manifest_files import read_part
from linkseek.indexer.store.manifests import PassagesPart, ShardsPart

PROGRAM = "linkseek join"


class JoinOptions(Options):
    """Collect the shards that other machines have encoded with `linkseek build --shard i/n`."""

    others: CliPositionalArg[list[Path]] = Field([])
    """indexes whose shards are adopted, or their INDEX.linkseek-building, copied from other machines"""
    index: Path | None = None
    """the index that the last build will make"""


@dataclass
class Joined:
    """The shards of one encoder: their number, and which are missing or damaged."""

    total: int
    adopted: int = 0
    missing: list[int] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)


def main(argv: Sequence[str]) -> None:
    """Run the command. Raises `InputError` naming the shards that are missing."""
    options = parse_options(JoinOptions, argv, PROGRAM)
    if options.index is None or not options.others:
        raise UsageError(
            "--index or the folders with the shards are missing",
            f"For example: {PROGRAM} --index index/wiki copies/wiki.linkseek-building",
        )
    incomplete = []
    for name, joined in join_shards(options.index, options.others).items():
        complete = joined.total - len(joined.missing)
        print(f"{DENSE}/{name}: {complete} of {joined.total} shards are there, {joined.adopted} adopted")
        for path in joined.damaged:
            print(f"  damaged, skipped: {path}")
        if joined.missing:
            incomplete.append(f"{DENSE}/{name}: shards {_ranges(joined.missing)}")
    if incomplete:
        raise InputError(
            f"missing: {'; '.join(incomplete)}",
            "Copy or encode them, and join again; or build without --shard, which encodes them here.",
        )
    print(f"Now build without --shard: linkseek build --corpus ... --index {options.index}")


def join_shards(index: Path, others: Sequence[Path]) -> dict[str, Joined]:
    """Link the shards of other workspaces into the workspace of `index`; the results by encoder name.

    Raises `MismatchError` for shards of other passages, another encoder or another type of machine,
    `InputError` for a folder without shards, `BusyError` while a build works on `index`.
    """
    with Workspace(index.resolve()) as workspace:
        sources = [_workspace_of(other) for other in others]
        result = {}
        for name in sorted({path.name for source in sources for path in (source / VECTORS).glob("*")}):
            target = workspace.folder / VECTORS / name
            folders = [source / VECTORS / name for source in sources if (source / VECTORS / name).is_dir()]
            fingerprint = _agreed([target, *folders])
            if not target.exists():
                target.mkdir(parents=True)
                write_json(target / BUILDING, fingerprint)
            passages = _passages([workspace.folder, *sources], fingerprint)
            joined = Joined(shard_count(passages, fingerprint["shard_rows"]))
            for number in range(joined.total):
                _adopt(number, target, folders, joined)
            result[name] = joined
    return result


def _workspace_of(path: Path) -> Path:
    """INDEX.linkseek-building, given that folder or INDEX."""
    for folder in (path, workspace_path(path)):
        if (folder / VECTORS).is_dir():
            return folder
    raise InputError(
        f"{path}: no shards here (no folder {VECTORS})",
        "Name an index that was built with --shard, or its folder INDEX.linkseek-building.",
    )


def _agreed(folders: Sequence[Path]) -> dict[str, Any]:
    """The fingerprint that the shards of all folders share."""
    fingerprints = [(folder, _fingerprint(folder)) for folder in folders if folder.exists()]
    first, expected = fingerprints[0]
    for folder, actual in fingerprints[1:]:
        for key in expected | actual:
            if actual.get(key) != expected.get(key):
                raise MismatchError(
                    f"{folder}: {key} is {actual.get(key)}, in {first} it is {expected.get(key)}",
                    "Encode all shares with the same corpus, options and versions, on machines of one kind.",
                )
    return expected


def _fingerprint(folder: Path) -> dict[str, Any]:
    if (folder / MANIFEST).exists():
        return read_part(folder, ShardsPart).fingerprint
    fingerprint: dict[str, Any] = read_json(folder / BUILDING)
    rows = fingerprint.get("shard_rows") if isinstance(fingerprint, dict) else None
    if not isinstance(rows, int) or rows < 1 or "passages" not in fingerprint:
        raise DamagedIndexError(f"{folder / BUILDING}: altered", "Encode this share again.")
    return fingerprint


def _passages(folders: Sequence[Path], fingerprint: dict[str, Any]) -> int:
    """The number of passages that the shards are made from."""
    for folder in folders:
        if (folder / PASSAGES / MANIFEST).exists():
            manifest = read_part(folder / PASSAGES, PassagesPart)
            if manifest.content_sha256 == fingerprint["passages"]:
                return manifest.passages
    raise InputError(
        f"{folders[0]}: the passages that the shards were made from are missing",
        "Copy the whole folder INDEX.linkseek-building of another machine, not its vectors alone.",
    )


def _adopt(number: int, target: Path, folders: Sequence[Path], joined: Joined) -> None:
    if read_shard(target, number):
        return
    for folder in folders:
        shard = read_shard(folder, number)
        if shard:
            adopt_shard(shard, target)
            joined.adopted += 1
            return
        if (folder / f"{number:05d}.npy").exists():
            joined.damaged.append(str(folder / f"{number:05d}.npy"))
    joined.missing.append(number)


def _ranges(numbers: Sequence[int]) -> str:
    """For example "1, 3-5"."""
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
