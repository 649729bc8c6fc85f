"""Reading, writing and verifying the manifests of an index and of its parts (`indexer.store.manifests`)."""

from __future__ import annotations

import shlex
import stat
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TypeVar, cast

import orjson
from pydantic import ValidationError

from linkseek.indexer.files.hashes import OnBytes, file_sha256
from linkseek.indexer.files.listing import folder_suffixes, suffixes_in_words
from linkseek.indexer.program.defaults import SAMPLE_INDEX
from linkseek.indexer.program.errors import DamagedIndexError, NoIndexError, raise_of_machine
from linkseek.indexer.program.frozen import FrozenDict
from linkseek.indexer.program.text import nearest, printable
from linkseek.indexer.store.artifacts import (
    BM25,
    BUILD_AGAIN,
    BUILDING,
    DENSE,
    DOCUMENTS,
    LATE,
    LINKS,
    MANIFEST,
    PASSAGES,
    SPARSE,
    damaged,
    encoder_of,
    prefix_of,
    read_json,
    rebuild_hint,
    value_sha256,
    write_json,
)
from linkseek.indexer.store.manifests import (
    FORMAT_VERSION,
    AllDocuments,
    DocumentsPart,
    EncodedPart,
    FileEntry,
    IndexManifest,
    LatePart,
    LinksPart,
    LucenePart,
    ManifestRecord,
    PartManifest,
    PassagesPart,
    SparsePart,
    VectorsPart,
)

E = TypeVar("E", bound=EncodedPart)
P = TypeVar("P", bound=PartManifest)
R = TypeVar("R", bound=ManifestRecord)

OWN_HASH = "manifest_sha256"
_SMALL = 1 << 20
_OTHERS = 1_000  # files and folders that are looked at for other indexes

_KINDS: dict[str, type[PartManifest]] = {
    DOCUMENTS: DocumentsPart,
    PASSAGES: PassagesPart,
    LINKS: LinksPart,
    BM25: LucenePart,
    DENSE: VectorsPart,
    LATE: LatePart,
    SPARSE: SparsePart,
}


class Parts(FrozenDict[str, PartManifest]):
    """The records of the parts of an index, by name."""

    @property
    def documents(self) -> DocumentsPart:
        """The documents."""
        return cast(DocumentsPart, self[DOCUMENTS])

    @property
    def passages(self) -> PassagesPart:
        """The passages."""
        return cast(PassagesPart, self[PASSAGES])

    @property
    def dense(self) -> dict[str, VectorsPart]:
        """The vectors, by the names of their encoders."""
        return self.encoded(VectorsPart)

    @property
    def late(self) -> dict[str, LatePart]:
        """The token vectors, by the names of their encoders."""
        return self.encoded(LatePart)

    @property
    def sparse(self) -> dict[str, SparsePart]:
        """The term weights, by the names of their encoders."""
        return self.encoded(SparsePart)

    def encoded(self, kind: type[E]) -> dict[str, E]:
        """The parts of a kind, by the names of their encoders."""
        return {encoder_of(name): part for name, part in self.items() if isinstance(part, kind)}

    def made_by(self, encoder: str) -> EncodedPart | None:
        """What an encoder has made, by its location after the prefix of a kind, such as `LATE_PREFIX`."""
        made = ((name, part) for name, part in self.items() if isinstance(part, EncodedPart))
        return next((p for name, p in made if prefix_of(name) + p.encoder["location"] == encoder), None)


def part_kind(name: str, *, divided: bool = False) -> type[PartManifest]:
    """The record of a part by its name. divided: in an index of partitions."""
    if divided and name == DOCUMENTS:
        return AllDocuments
    return _KINDS.get(name.partition("/")[0], PartManifest)


def write_manifest(folder: Path, record: ManifestRecord) -> None:
    """Write the manifest of an index or of a part, with a hash of itself, atomically."""
    values = record.to_json()
    write_json(folder / MANIFEST, values | {OWN_HASH: value_sha256(values)})


def inventory(folder: Path) -> dict[str, FileEntry]:
    """Size and SHA-256 of every file of a part, by its path in the part."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != BUILDING)
    return {
        path.relative_to(folder).as_posix(): FileEntry(bytes=path.stat().st_size, sha256=file_sha256(path))
        for path in files
        if path != folder / MANIFEST
    }


def read_part(folder: Path, kind: type[P]) -> P:
    """The manifest of a part, after checking version and sizes of its files (not their hashes).

    Raises `DamagedIndexError` naming the key that is damaged, or the file that is missing or of another size.
    """
    manifest = _read(kind, folder, rebuild_hint(folder))
    for name, file in manifest.files.items():
        try:
            status = (folder / name).stat()
        except (OSError, ValueError) as error:  # ValueError: no file can have this name
            raise_of_machine(error)
            raise DamagedIndexError(f"{folder / name}: missing", BUILD_AGAIN) from None
        if status.st_size != file.bytes or not stat.S_ISREG(status.st_mode):
            raise DamagedIndexError(
                f"{folder / name}: {status.st_size:,} bytes, expected {file.bytes:,}", BUILD_AGAIN
            )
    return manifest


def read_index_manifest(index: Path) -> IndexManifest:
    """The manifest of an index.

    Raises `DamagedIndexError` naming the key that is missing or damaged, `NoIndexError` if there is no index.
    """
    if not (index / MANIFEST).exists() and not is_index(index):
        raise no_index(index)
    return _read(IndexManifest, index, BUILD_AGAIN)


def read_parts(index: Path, manifest: IndexManifest) -> Parts:
    """The manifests of the parts of an index, as `read_part` reads them."""
    divided = bool(manifest.partitions)
    return Parts({name: read_part(index / name, part_kind(name, divided=divided)) for name in manifest.parts})


def _read(kind: type[R], folder: Path, hint: str) -> R:
    """A folder's manifest as a record.

    Raises `DamagedIndexError` if it is of another format version; with this hint if it was altered, naming
    the first key that is missing or damaged.
    """
    place, values = folder / MANIFEST, read_json(folder / MANIFEST)
    version = values.get("format_version") if isinstance(values, dict) else None
    if version != FORMAT_VERSION:
        newer = isinstance(version, int) and version > FORMAT_VERSION
        raise DamagedIndexError(
            f"{folder}: index format {version}, expected {FORMAT_VERSION}",
            "It was made by a newer Linkseek: update this one." if newer else BUILD_AGAIN,
        )
    expected = values.pop(OWN_HASH, None)
    try:
        if value_sha256(values) != expected:
            raise DamagedIndexError(f"{place}: altered (its hash differs)", hint)
        return kind.model_validate(values)
    except (orjson.JSONEncodeError, RecursionError):
        raise DamagedIndexError(f"{place}: nested too deeply", hint) from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise DamagedIndexError(f'{place}: "{first["loc"][0]}" is missing or damaged', hint) from None


def verify_part(folder: Path, on_bytes: OnBytes | None = None) -> None:
    """Compare the hash of every file. Raises `DamagedIndexError` naming the first that differs."""
    for name, file in read_part(folder, PartManifest).files.items():
        _verify(folder, name, file, on_bytes)


def verify_small_files(folder: Path, manifest: PartManifest) -> None:
    """Compare the hashes of the files up to 1 MB: of a large part a few milliseconds' work."""
    for name, file in manifest.files.items():
        if file.bytes <= _SMALL:
            _verify(folder, name, file)


def _verify(folder: Path, name: str, file: FileEntry, on_bytes: OnBytes | None = None) -> None:
    if file_sha256(folder / name, on_bytes) != file.sha256:
        raise damaged(folder / name, "altered (its hash differs)", folder)


def is_index(folder: Path) -> bool:
    """Whether a folder contains an index, even a damaged one."""
    with suppress(OSError):
        return any((folder / part / MANIFEST).exists() for part in (DOCUMENTS, PASSAGES, LINKS))
    return False


def no_index(path: Path) -> NoIndexError:
    """The error for a path without an index: the path's contents, and the command that makes an index."""
    others: set[str] = set()
    with suppress(OSError):
        for parent in (path.parent, SAMPLE_INDEX.parent):
            names = (other for other in parent.glob("[!.]*") if not other.suffix.startswith(".linkseek-"))
            others |= {str(other) for other in islice(names, _OTHERS) if is_index(other)}
    near = nearest(str(path), others).replace("Known:", "There are:") if others else ""
    quoted = shlex.quote(printable(str(path)))
    if path.is_file():
        problem = "a file, but an index is a folder"
    elif path.is_dir():
        problem = f"not an index (it contains {suffixes_in_words(folder_suffixes(path))})"
    else:
        problem = "no index here"
    if path.is_file() or (path.is_dir() and any(path.iterdir())):
        inside = Path.cwd().is_relative_to(path.resolve())  # an index cannot be in its corpus
        own = shlex.quote(f"{'../' * inside}index/{printable(path.resolve().stem)}")
        return NoIndexError(
            f"{path}: {problem}", f"To index it: linkseek build --corpus {quoted} --index {own}"
        )
    if path == SAMPLE_INDEX:
        return NoIndexError(f"{path}: {problem}", "To build the sample: linkseek build", near)
    hint = f"To build one: linkseek build --corpus FILE --index {quoted}"
    return NoIndexError(f"{path}: {problem}", hint, near)
