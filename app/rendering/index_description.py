"""The description of an index for people, from its manifests alone: no file is opened, nothing is hashed.

An index whose manifests are damaged is listed with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from linkseek.app.report.text import day
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.language.codes import ENGLISH
from linkseek.indexer.program.errors import LinkseekError
from linkseek.indexer.program.text import counted
from linkseek.indexer.search.faiss_index import recall_text
from linkseek.indexer.store.manifest_files import read_index_manifest, read_parts
from linkseek.indexer.store.manifests import IndexManifest, VectorsPart

Facts = list[tuple[str, str]]
"""Names and values."""


class ListedIndex(NamedTuple):
    """An index in a list. problem: why it cannot be opened; else it has a manifest."""

    name: str
    manifest: IndexManifest | None = None
    problem: str = ""


def describe(index: OpenIndex, as_sent: Callable[[str], str] = str) -> dict[str, Any]:
    """The values of `index.html` for an open index.

    as_sent: gives uploaded files, in a text, the names that their sender knows.
    """
    manifest = index.manifest
    return {
        "counts": manifest.counts,
        "default": manifest.default_encoder,
        "encoders": {name: _vectors(part) for name, part in index.parts.dense.items()},
        "origin": _origin(manifest, as_sent),
        "parts": dict(index.parts.items()),
        "skipped": {
            reason: (entry.count, list(map(as_sent, entry.examples)))
            for reason, entry in manifest.skipped.items()
        },
    }


def outcome(path: Path) -> str:
    """The result of a build in a line: counts, and the number of skipped records; empty if it is missing."""
    manifest = listed(path.name, path).manifest
    if manifest is None:
        return ""
    skipped = sum(entry.count for entry in manifest.skipped.values())
    counts = [counted(manifest.counts.documents, "document"), counted(manifest.counts.passages, "passage")]
    return ", ".join(counts) + (f"; {counted(skipped, 'record')} skipped" if skipped else "")


def listed(name: str, path: Path) -> ListedIndex:
    """An index of a list, from its manifests."""
    try:
        manifest = read_index_manifest(path)
        read_parts(path, manifest)
    except (LinkseekError, OSError) as error:
        return ListedIndex(
            name, problem=error.message if isinstance(error, LinkseekError) else str(error.strerror)
        )
    return ListedIndex(name, manifest)


def _origin(manifest: IndexManifest, as_sent: Callable[[str], str]) -> Facts:
    corpus, text, command = manifest.corpus, manifest.text, manifest.command
    words = text.passage_words
    cut = "a document is a passage" if words == 0 else f"{words} words"
    if text.min_words:
        cut += f"; a last one under {text.min_words} joins the one before it"
    return [
        ("corpus", corpus.file),
        ("format", corpus.format),
        ("size of the corpus", f"{corpus.bytes:,} bytes"),
        ("SHA-256 of the corpus", corpus.sha256 or ""),
        ("updates since", f"{len(manifest.updates):,}" if manifest.updates else ""),
        ("built", day(manifest.created)),
        ("command", _without_folders(command) if as_sent(command) == command else ""),  # not of an upload
        ("passages of", cut if words is not None else ""),
        ("titles indexed", ("with headings" if text.headings else "yes") if text.title else "no"),
        ("language", text.language if text.language != ENGLISH else ""),
        ("versions", ", ".join(f"{name} {version}" for name, version in manifest.versions.items())),
    ]


def _without_folders(text: str) -> str:
    """A command, or a path, with names in the place of paths of this machine."""
    return re.sub(r"""(?<![^\s'"=])(?:[A-Za-z]:)?[/\\~](?:[^\s'"/\\]*[/\\])*(?=[^\s'"/\\])""", "", text)


def _vectors(part: VectorsPart) -> Facts:
    encoder = part.encoder
    how = [str(part.execution[name]) for name in ("backend", "device", "precision") if name in part.execution]
    known = [
        ("model", _without_folders(encoder["location"]) or encoder["name"]),
        ("revision", encoder.get("revision")),
        ("SHA-256 of the model", encoder["sha256"]),
        ("vectors", f"{part.rows:,} of {part.dimension:,} dimensions"),
        ("similarity", part.metric),
        ("FAISS", part.factory),
        ("recall of its searches", recall_text(part)),
        ("tokens read of a passage", encoder.get("max_tokens")),
        ("encoded with", ", ".join(how)),
    ]
    return [(name, f"{value:,}" if isinstance(value, int) else str(value)) for name, value in known if value]
