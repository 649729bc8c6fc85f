"""Shards that several machines have encoded, joined in one build.

    machine 1    linkseek build --corpus C --index I --shard 1/2
    machine 2    linkseek build --corpus C --index I --shard 2/2
    machine 1    linkseek build --corpus C --index I --join COPY-OF-I.linkseek-building

A shard is adopted if it is intact (by its hash) and made from the same passages by the same encoder in the
same way: it then has the bits that this machine would have computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from linkseek.indexer.building.plan import Inputs
from linkseek.indexer.building.workspace import as_json
from linkseek.indexer.encoding.shards import adopt_shard, read_shard
from linkseek.indexer.program.errors import InputError, MismatchError
from linkseek.indexer.program.frozen import frozen
from linkseek.indexer.store.artifacts import BUILDING, MANIFEST, VECTORS, read_json, workspace_path
from linkseek.indexer.store.manifest_files import read_part
from linkseek.indexer.store.manifests import ShardsPart


def join_shards(folder: Path, fingerprint: Inputs, others: Sequence[Path], count: int) -> None:
    """Link all shards, of which there are `count`, into a folder.

    fingerprint: of the shards. others: indexes that were built with --shard, or copies of their workspaces.
    Raises `MismatchError` for shards of other passages, another encoder or another type of machine,
    `InputError` for a folder without shards and for shards that are missing or damaged.
    """
    missing = [number for number in range(count) if read_shard(folder, number) is None]
    for other in others:
        place = _shards_of(other, folder.name)
        _check_same(place, fingerprint)
        for number in list(missing):
            if shard := read_shard(place, number):
                adopt_shard(shard, folder)
                missing.remove(number)
    if missing:
        raise InputError(
            f"{VECTORS}/{folder.name}: shards {_ranges(missing)} are missing or damaged",
            "Copy or encode them, and build again; without --join, the build encodes them here.",
        )


def _shards_of(path: Path, name: str) -> Path:
    """The folder of an encoder's shards in a workspace, given that folder or its index."""
    for workspace in (path, workspace_path(path)):
        if (workspace / VECTORS / name).is_dir():
            return workspace / VECTORS / name
    raise InputError(
        f"--join {path}: no shards here (no folder {VECTORS}/{name})",
        "Name an index that was built with --shard, or its folder INDEX.linkseek-building.",
    )


def _check_same(place: Path, fingerprint: Inputs) -> None:
    expected = as_json(fingerprint)
    if (place / MANIFEST).exists():
        actual = read_part(place, ShardsPart).fingerprint
    else:
        actual = frozen(read_json(place / BUILDING))
    for key, value in expected.items():
        other = actual.get(key) if isinstance(actual, dict) else None
        if other != value:
            raise MismatchError(
                f"{place}: {key} is {other}, here it is {value}",
                "Encode all shares with the same corpus, options and versions, on machines of one kind.",
            )


def _ranges(numbers: Sequence[int]) -> str:
    """For example "1, 3-5"."""
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
