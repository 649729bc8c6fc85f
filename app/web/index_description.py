"""The description of an index for people, from its manifests alone: no file is opened, nothing is hashed.

A manifest is a file like any other: missing or odd entries are skipped, and an index that cannot be opened
is listed with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linkseek.app.report.text import day
from linkseek.indexer.base.errors import LinkseekError
from linkseek.indexer.base.text import counted
from linkseek.indexer.index import Index
from linkseek.indexer.search.faiss_index import recall_text
from linkseek.indexer.store.artifacts import DENSE, Manifest, read_index_manifest, read_part

Facts = list[tuple[str, str]]
"""Names and values."""

_COUNTS = {
    "documents": "documents",
    "passages": "passages",
    "links": "links in passages",
    "between_documents": "links between documents",
    "redirects": "redirects",
    "dangling_redirects": "broken redirects",
    "dangling": "broken links (dropped)",
    "cut": "links split by a passage boundary (dropped)",
}


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an index, with the number and the size of its files."""

    name: str
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Vectors:
    """The vectors of one encoder."""

    name: str
    default: bool
    facts: Facts


@dataclass(frozen=True, slots=True)
class Description:
    """An index for people. skipped: reason -> number of records, and the places of some of them."""

    counts: Facts
    parts: list[Part]
    encoders: list[Vectors]
    origin: Facts
    skipped: dict[str, tuple[int, list[str]]]


@dataclass(frozen=True, slots=True)
class Listed:
    """An index in a list. problem: why it cannot be opened; else empty."""

    name: str
    corpus: str = ""
    documents: int = 0
    passages: int = 0
    encoders: tuple[str, ...] = ()
    built: str = ""
    problem: str = ""


def describe(index: Index, as_sent: Callable[[str], str] = str) -> Description:
    """The description of an open index.

    as_sent: gives uploaded files, in a text, the names that their sender knows.
    """
    manifest = index.manifest
    counts = _mapping(manifest, "counts")
    return Description(
        [
            (label, f"{counts[name]:,}")
            for name, label in _COUNTS.items()
            if isinstance(counts.get(name), int)
        ],
        [
            Part(name, len(part["files"]), sum(file["bytes"] for file in part["files"].values()))
            for name, part in index.parts.items()
        ],
        [
            Vectors(name, name == manifest.get("default_encoder"), _vectors(index.parts[f"{DENSE}/{name}"]))
            for name in index.encoders
        ],
        _origin(manifest, len(index.updates), as_sent),
        {
            reason: (count, list(map(as_sent, places)))
            for reason, (count, places) in read_skipped(manifest).items()
        },
    )


def outcome(path: Path) -> str:
    """The result of a build in a line: counts, and the number of skipped records; empty if it is missing."""
    index = listed(path.name, path)
    if index.problem:
        return ""
    skipped = sum(count for count, _ in read_skipped(read_index_manifest(path)).values())
    counts = [counted(index.documents, "document"), counted(index.passages, "passage")]
    return ", ".join(counts) + (f"; {counted(skipped, 'record')} skipped" if skipped else "")


def read_skipped(manifest: Manifest) -> dict[str, tuple[int, list[str]]]:
    """The records that a build skipped: reason -> their number, and the places of some of them."""
    skipped = {}
    for reason, entry in _mapping(manifest, "skipped").items():
        if isinstance(entry, dict) and isinstance(entry.get("count"), int):
            places = entry.get("examples")
            skipped[str(reason)] = entry["count"], [*map(str, places if isinstance(places, list) else ())]
    return skipped


def listed(name: str, path: Path) -> Listed:
    """An index of a list, from its manifests."""
    try:
        manifest = read_index_manifest(path)
        for part in manifest["parts"]:
            read_part(path / part)
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
        day(str(manifest.get("created", ""))),
    )


def _origin(manifest: Manifest, updates: int, as_sent: Callable[[str], str]) -> Facts:
    corpus, text = _mapping(manifest, "corpus"), _mapping(manifest, "text")
    words = text.get("passage_words")
    cut = "a document is a passage" if words == 0 else f"{words} words"
    if shortest := text.get("min_words"):
        cut += f"; a last one under {shortest} joins the one before it"
    size, versions = corpus.get("bytes"), _mapping(manifest, "versions")
    command = str(manifest.get("command", ""))
    return [
        ("corpus", str(corpus.get("file", ""))),
        ("format", str(corpus.get("format", ""))),
        ("size of the corpus", f"{size:,} bytes" if isinstance(size, int) else ""),
        ("SHA-256 of the corpus", str(corpus.get("sha256") or "")),
        ("updates since", f"{updates:,}" if updates else ""),
        ("built", day(str(manifest.get("created", "")))),
        ("command", command if as_sent(command) == command else ""),  # an upload's cannot be repeated
        ("passages of", cut if words is not None else ""),
        ("titles indexed", "yes" if text.get("title") else "no"),
        ("versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
    ]


def _vectors(part: Manifest) -> Facts:
    encoder, execution = _mapping(part, "encoder"), _mapping(part, "execution")
    how = [str(execution[name]) for name in ("backend", "device", "precision") if name in execution]
    known = [
        ("model", encoder.get("location") or encoder.get("name")),
        ("revision", encoder.get("revision")),
        ("SHA-256 of the model", encoder.get("sha256")),
        ("vectors", f"{_number(part.get('rows')):,} of {_number(part.get('dimension')):,} dimensions"),
        ("similarity", part.get("metric")),
        ("FAISS", part.get("factory")),
        ("recall of its searches", recall_text(part)),
        ("tokens read of a passage", encoder.get("max_tokens")),
        ("encoded with", ", ".join(how)),
    ]
    return [(name, f"{value:,}" if isinstance(value, int) else str(value)) for name, value in known if value]


def _mapping(manifest: Manifest, name: str) -> dict[str, Any]:
    value = manifest.get(name)
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0
