"""python -m experiments pack NAME --from FILES --output DIR: a test collection from its publishers' files.

Entry script: it reads the originals, writes the collection into a data folder, and checks that the test
sets that read it get their known questions and judgements.
"""

from __future__ import annotations

import gzip
import hashlib
import tomllib
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import zstandard
from pydantic import Field

from experiments.packing.collections import MAKERS
from experiments.packing.originals import Originals
from experiments.packing.rows import Rows
from linkseek.app.testsets.files import FileSource
from linkseek.app.testsets.registry import all_test_sets, places
from linkseek.indexer.program.errors import InputError, UsageError, log_line
from linkseek.indexer.program.options import Options, Positional, parse_options
from linkseek.indexer.program.settings import Settings
from linkseek.indexer.program.text import nearest
from linkseek.indexer.store.outputs import check_replaceable, locked, write_output

PROGRAM = "python -m experiments pack"


class PackOptions(Options):
    """Write a test collection into a data folder, from the files that its publishers offer.

    docs/results/experiments.md lists the names, and the files that each needs with their addresses.
    """

    name: Positional[str] = Field(...)
    """the collection, such as squad"""
    sources: list[Path] = Field(alias="from", min_length=1)
    """the publishers' files, or folders that contain them"""
    output: Path
    """the data folder; test sets find the collection there with --data or LINKSEEK_DATA"""


class PackingInfo(Settings):
    """A packing: a table of packings.toml."""

    title: str
    originals: dict[str, str]
    """File -> where it is published."""
    sha256: str = ""
    """Of the documents, "" if the packing has none."""


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    options = parse_options(PackOptions, argv, PROGRAM)
    if options.name not in MAKERS:
        raise UsageError(f"{options.name}: no such packing", nearest(options.name, set(MAKERS)))
    packing = all_packings()[options.name]
    with locked(options.output / options.name):
        originals = Originals(options.sources, packing.originals)
        try:
            files = MAKERS[options.name](originals)
        except (
            LookupError,
            ValueError,
            TypeError,
            AttributeError,
            StopIteration,
            zipfile.BadZipFile,
        ) as error:
            raise InputError(
                f"{options.name}: an original lacks what is packed ({type(error).__name__}: {error})",
                "Get its files again: " + ", ".join(sorted(set(packing.originals.values()))),
            ) from error
        check_replaceable(*(options.output / name for name in files))
        write_files(files, options.output)
        check_packing(packing, files, options.output)


@cache
def all_packings() -> dict[str, PackingInfo]:
    """Every packing by name."""
    tables = tomllib.loads(Path(__file__).with_name("packings.toml").read_text("utf-8"))
    return {name: PackingInfo(**table) for name, table in tables.items()}


def packings_markdown() -> str:
    """The table of packings for docs/results/experiments.md."""
    lines = ["| name | collection | publishers' files |", "| --- | --- | --- |"]
    for name, packing in sorted(all_packings().items()):
        by_address: dict[str, list[str]] = {}
        for file, address in packing.originals.items():
            by_address.setdefault(address, []).append(f"`{file}`")
        originals = "; ".join(f"{', '.join(files)}: {address}" for address, files in by_address.items())
        lines.append(f"| `{name}` | {packing.title} | {originals} |")
    return "\n".join(lines)


def write_files(files: Mapping[str, Rows], folder: Path) -> None:
    """Write the files of a packing, each atomically. The same rows give the same bytes."""
    for name, rows in files.items():
        lines = (row if isinstance(row, str) else orjson.dumps(row).decode() for row in rows)
        data = "".join(f"{line}\n" for line in lines).encode()
        if name.endswith(".gz"):
            data = gzip.compress(data, mtime=0)
        elif name.endswith(".zst"):
            data = zstandard.ZstdCompressor(level=10).compress(data)
        write_output(folder / name, data)
        log_line(f"{folder / name}: {len(rows):,} lines")


def check_packing(packing: PackingInfo, files: Mapping[str, Rows], folder: Path) -> None:
    """Compare the documents with their known hash, and load every test set that reads these files.

    Raises `InputError` if anything differs from the collection that published figures were measured on.
    """
    for name, rows in files.items():
        if name.endswith("docs.jsonl.zst") and packing.sha256 not in ("", documents_sha256(rows)):
            raise InputError(
                f"{folder / name}: not the known documents (their SHA-256 is {documents_sha256(rows)}, "
                f"expected {packing.sha256})",
                "An original is another version, or cut off. Figures measured here compare with no others.",
            )
    for test_set in all_test_sets().values():
        source = test_set.sources[0]
        if isinstance(source, FileSource) and source.names[0][0] in files:
            loaded = test_set.load(places(folder))
            log_line(f"test set {test_set.name}: {len(loaded.queries):,} questions, as known")


def documents_sha256(rows: Iterable[Any]) -> str:
    """A hash of documents: their ids, titles, texts, and the places and targets of their links."""
    digest = hashlib.sha256()
    for row in rows:
        links = [(link["start"], link["end"], link["target"]) for link in row["links"]]
        digest.update(orjson.dumps([row["id"], row["title"], row["text"], links]) + b"\n")
    return digest.hexdigest()
