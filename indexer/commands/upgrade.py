"""linkseek upgrade: convert an index of an earlier version to this one, without encoding anything again.

What earlier versions wrote otherwise, oldest first:

    counts           links that redirects resolve were counted as "redirects", in place of all redirects
    title_separator  encoders did not name it; it was a space
    manifest_sha256  manifests had no hash of themselves

Files are linked, manifests written anew, and the result replaces the index in one step, as after a build.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from linkseek.indexer.base.errors import UsageError
from linkseek.indexer.base.options import Options, parse_options
from linkseek.indexer.base.progress import progress
from linkseek.indexer.base.text import printable
from linkseek.indexer.building.workspace import Workspace, link_tree
from linkseek.indexer.files.hashes import file_sha256
from linkseek.indexer.index import Index
from linkseek.indexer.store.artifacts import (
    BUILD_AGAIN,
    DENSE,
    DOCUMENTS,
    LINKS,
    MANIFEST,
    VECTORS,
    link_or_copy,
    read_json,
    rebuild_hint,
)
from linkseek.indexer.store.manifest_files import (
    OWN_HASH,
    as_record,
    is_index,
    no_index,
    read_part,
    read_values,
    verify_part,
    write_manifest,
)
from linkseek.indexer.store.manifests import (
    FileEntry,
    IndexManifest,
    ManifestRecord,
    PartitionNames,
    PartManifest,
    PartNames,
    ShardsPart,
    part_kind,
)
from linkseek.indexer.store.outputs import RECORD

PROGRAM = "linkseek upgrade"
_SHARDS = f"{VECTORS}/{MANIFEST}"
_COUNTS = "the counts of redirects"
_SEPARATOR = "the title separator of encoders"
_HASHES = "hashes of manifests"


class UpgradeOptions(Options):
    """Convert an index that an earlier Linkseek built to what this one writes; nothing is encoded again.

    All files are verified first. The index is replaced in one step, and stays as it is if anything fails.
    """

    index: Path | None = None
    """the index"""


class _Names(ManifestRecord):
    """What the manifest of an index of any version names."""

    parts: PartNames
    partitions: PartitionNames = ()


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    options = parse_options(UpgradeOptions, argv, PROGRAM)
    if options.index is None:
        raise UsageError("--index is missing", f"For example: {PROGRAM} --index index/wiki")
    changes = upgrade_index(options.index)
    done = f"converted ({', '.join(changes)})" if changes else "is of this version already"
    print(f"{printable(str(options.index))}: {done}")


def upgrade_index(index: Path) -> list[str]:
    """Convert an index in place; returns the changes in words, none if it is as this version writes it.

    Raises `DamagedIndexError` for a damaged index and for a format that cannot be converted, `UsageError`
    next to an interrupted build, `BusyError` while another process writes the index. The index stays as it
    was after any error.
    """
    if not is_index(index):
        raise no_index(index)
    with Workspace(index.resolve()) as workspace:
        source, copy = workspace.index, workspace.folder
        if any(path.name != RECORD for path in copy.iterdir()):
            raise UsageError(
                f"{copy}: left by an interrupted build",
                f"Finish the build, or remove that folder; then run {PROGRAM} again.",
            )
        workspace.never_resumes()
        try:
            changes: list[str] = []
            for name in (*_names(source).partitions, "."):
                changes += _convert(source / name, copy / name)
            if changes:
                workspace.publish(Index.open(copy).manifest)
        finally:
            workspace.discard()
    return list(dict.fromkeys(changes))


def _names(index: Path) -> _Names:
    return as_record(_Names, read_values(index, BUILD_AGAIN), index)


def _convert(source: Path, copy: Path) -> list[str]:
    """Copy an index, except for its partitions, as this version writes it; returns the changes in words."""
    names, changes = _names(source), []
    parts = {name: read_part(source / name, PartManifest) for name in names.parts}
    with progress(f"verifying {source}", sum(part.bytes for part in parts.values()), "bytes") as advance:
        for name in parts:
            verify_part(source / name, advance)
            link_tree(source / name, copy / name)
    whole = read_values(source, BUILD_AGAIN)
    values = {name: read_values(source / name, rebuild_hint(source / name)) for name in parts}
    if LINKS in values and DOCUMENTS in values:
        changes += _convert_counts(whole, values[LINKS], values[DOCUMENTS])
    for name in parts:
        if name.startswith(f"{DENSE}/"):
            changes += _convert_encoder(values[name], copy / name)
    for name, part in values.items():
        kind = part_kind(name, divided=bool(names.partitions))
        write_manifest(copy / name, as_record(kind, part, source / name))
    link_or_copy(source / MANIFEST, copy / MANIFEST)
    write_manifest(copy, as_record(IndexManifest, whole, source))
    hashed = all(OWN_HASH in read_json(source / name / MANIFEST) for name in (".", *parts))
    return changes + [_HASHES] * (not hashed)


def _convert_counts(whole: dict[str, Any], links: dict[str, Any], documents: dict[str, Any]) -> list[str]:
    """Change the counts of an index and of its links."""
    counts, all_counts = links.get("counts"), whole.get("counts")
    if not isinstance(counts, dict) or not isinstance(all_counts, dict) or "redirects" not in counts:
        return []
    links["counts"] = {"resolved_redirects": counts.pop("redirects"), **counts}
    all_counts["redirects"] = documents.get("redirects")
    whole["counts"] = all_counts | links["counts"]
    return [_COUNTS]


def _convert_encoder(vectors: dict[str, Any], folder: Path) -> list[str]:
    """Change the encoder of vectors in a copied part, and in the manifest of its shards."""
    changed = _name_separator(vectors.get("encoder")) | _name_separator(vectors["fingerprint"].get("encoder"))
    if changed and _SHARDS in vectors["files"]:
        shards = read_part(folder / VECTORS, ShardsPart).to_json()
        _name_separator(shards["fingerprint"].get("encoder"))
        write_manifest(folder / VECTORS, as_record(ShardsPart, shards, folder / VECTORS))
        path = folder / _SHARDS
        entry = FileEntry(bytes=path.stat().st_size, sha256=file_sha256(path))
        vectors["files"][_SHARDS] = entry.to_json()
    return [_SEPARATOR] * changed


def _name_separator(encoder: Any) -> bool:
    """Whether an identity lacked the separator between title and text, which it then names."""
    lacks = isinstance(encoder, dict) and "query_prompt" in encoder and "title_separator" not in encoder
    if lacks:
        location = {"location": encoder.pop("location")} if "location" in encoder else {}
        encoder |= {"title_separator": " "} | location
    return lacks
