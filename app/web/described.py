"""What there is to say of an index, from its manifests alone: nothing is opened, nothing is hashed.

A manifest is a file like any other: what it lacks is left out, and an index that cannot be opened is listed
with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.background.jobs import Jobs
from app.report.text import day
from indexer.base.errors import LinkseekError
from indexer.base.text import counted
from indexer.index import Index
from indexer.store.artifacts import DENSE, Manifest, read_index_manifest


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an index, with the number and the size of its files."""

    name: str
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Vectors:
    """The vectors of one encoder: name and value of what is known of them."""

    name: str
    default: bool
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Description:
    """An index for people. skipped: reason -> how many records, and where some of them stand."""

    counts: dict[str, int]
    parts: tuple[Part, ...]
    encoders: tuple[Vectors, ...]
    origin: tuple[tuple[str, str], ...]
    versions: dict[str, str]
    skipped: dict[str, tuple[int, tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class Listed:
    """An index in a list. problem: why it cannot be opened; else empty."""

    name: str
    corpus: str = ""
    documents: int = 0
    passages: int = 0
    encoders: tuple[str, ...] = ()
    created: str = ""
    problem: str = ""


def describe(index: Index) -> Description:
    """What is known of an index that is open."""
    manifest = index.manifest
    parts = tuple(
        Part(name, len(part["files"]), sum(file["bytes"] for file in part["files"].values()))
        for name, part in index.parts.items()
    )
    encoders = tuple(
        Vectors(
            name, name == manifest.get("default_encoder"), tuple(_vectors(index.parts[f"{DENSE}/{name}"]))
        )
        for name in index.encoders
    )
    return Description(
        {name: n for name, n in _mapping(manifest, "counts").items() if isinstance(n, int)},
        parts,
        encoders,
        tuple(_origin(manifest)),
        {name: str(version) for name, version in _mapping(manifest, "versions").items()},
        {
            reason: (count, tuple(map(Jobs.beside(index.path).as_sent, examples)))
            for reason, (count, examples) in read_skipped(manifest).items()
        },
    )


def list_descriptions(indexes: Mapping[str, Path]) -> list[Listed]:
    """Every index by its name in `indexes` (`service.list_indexes`)."""
    return [_listed(name, path) for name, path in indexes.items()]


def outcome(path: Path) -> str:
    """What a build has made, in a line: counts, and how much it left out; empty if it is not there."""
    listed = _listed(path.name, path)
    if listed.problem:
        return ""
    skipped = sum(count for count, _ in read_skipped(read_index_manifest(path)).values())
    counts = [counted(listed.documents, "document"), counted(listed.passages, "passage")]
    return ", ".join(counts) + (f"; {counted(skipped, 'record')} left out" if skipped else "")


def read_skipped(manifest: Manifest) -> dict[str, tuple[int, tuple[str, ...]]]:
    """What a build left out: reason -> how many, and where some of them stand."""
    found = {}
    for reason, entry in _mapping(manifest, "skipped").items():
        if isinstance(entry, dict) and isinstance(entry.get("count"), int):
            examples = entry.get("examples")
            found[str(reason)] = (
                entry["count"],
                tuple(map(str, examples if isinstance(examples, list) else ())),
            )
    return found


def _listed(name: str, path: Path) -> Listed:
    try:
        manifest = read_index_manifest(path)
    except (LinkseekError, OSError) as error:
        return Listed(
            name, problem=error.message if isinstance(error, LinkseekError) else str(error.strerror)
        )
    counts = _mapping(manifest, "counts")
    return Listed(
        name,
        str(_mapping(manifest, "corpus").get("file", "")),
        _number(counts.get("documents")),
        _number(counts.get("passages")),
        tuple(part.removeprefix(f"{DENSE}/") for part in manifest["parts"] if part.startswith(f"{DENSE}/")),
        str(manifest.get("created", "")),
    )


def _origin(manifest: Manifest) -> list[tuple[str, str]]:
    corpus, text = _mapping(manifest, "corpus"), _mapping(manifest, "text")
    words = text.get("passage_words")
    cut = "a document is a passage" if words == 0 else f"{words} words"
    size = corpus.get("bytes")
    return [
        ("corpus", str(corpus.get("file", ""))),
        ("format", str(corpus.get("format", ""))),
        ("size of the corpus", f"{size:,} bytes" if isinstance(size, int) else ""),
        ("SHA-256 of the corpus", str(corpus.get("sha256") or "")),
        ("built", day(str(manifest.get("created", "")))),
        ("command", str(manifest.get("command", ""))),
        ("passages of", cut if words is not None else ""),
        ("titles", {True: "are searched too", False: "are not searched"}.get(bool(text.get("title")), "")),
    ]


def _vectors(part: Manifest) -> list[tuple[str, str]]:
    encoder, execution = _mapping(part, "encoder"), _mapping(part, "execution")
    how = [str(execution[name]) for name in ("backend", "device", "precision") if name in execution]
    known = [
        ("model", encoder.get("location") or encoder.get("name")),
        ("revision", encoder.get("revision")),
        ("SHA-256 of the model", encoder.get("sha256")),
        ("vectors", f"{_number(part.get('rows')):,} of {_number(part.get('dimension')):,} dimensions"),
        ("similarity", part.get("metric")),
        ("FAISS", part.get("factory")),
        ("tokens read of a passage", encoder.get("max_tokens")),
        ("encoded with", ", ".join(how)),
    ]
    return [(name, f"{value:,}" if isinstance(value, int) else str(value)) for name, value in known if value]


def _mapping(manifest: Manifest, name: str) -> dict[str, Any]:
    value = manifest.get(name)
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0
