"""linkseek update: add documents to an index and remove some.

Entry script: it reads the options, supplies the encoder, calls `indexer.building.growth`, and prints what
came out.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from linkseek.indexer.base.errors import InputError, UsageError
from linkseek.indexer.base.options import MoreHelp, parse_options
from linkseek.indexer.base.text import printable
from linkseek.indexer.building.changes import Changes
from linkseek.indexer.building.growth import update_index
from linkseek.indexer.building.plan import Plan
from linkseek.indexer.encoding.encode import Encoder
from linkseek.indexer.files.sources import open_source, read_lines
from linkseek.indexer.index import Index
from linkseek.indexer.readers.choices import ReadingOptions
from linkseek.indexer.readers.formats import all_readers, open_reader
from linkseek.indexer.search.faiss_index import AUTO

PROGRAM = "linkseek update"


class UpdateOptions(ReadingOptions):
    """Add documents to an index and remove some, without encoding the others again.

    Documents, passages, links, BM25 and all vectors follow; rankings are those of an index that was built
    from the final corpus. The index stays intact until the new one replaces it; after an interruption, the
    same command resumes.
    """

    index: Path | None = None
    """the index to change"""
    add: Path | None = None
    """a corpus of documents to add, as of linkseek build; one with the id of another replaces it"""
    remove: list[str] = Field([])
    """ids of documents or redirects to remove, also several between commas, or @FILE with an id a line"""
    format: Annotated[str | None, MoreHelp(lambda: ", ".join(all_readers()))] = None
    """the format of --add, recognised by looking at it if not given"""
    on_error: Literal["stop", "skip"] = "stop"
    """at a damaged record or an unknown id: stop, or skip and count it"""
    encoder: list[str] = Field([])
    """further sentence-transformers models, by path or name, whose vectors to add"""
    faiss: str = AUTO
    """the type of FAISS index of their vectors; that of the others stays"""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """where to encode"""
    processes: Annotated[int, Field(ge=1, le=1024)] | None = None
    """processes that parse and threads that index; default one a core"""


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    options = parse_options(UpdateOptions, argv, PROGRAM)
    if options.index is None or not (options.add or options.remove or options.encoder):
        raise UsageError(
            "--index, or what to change, is missing",
            f"For example: {PROGRAM} --index index/wiki --add new.jsonl --remove Alan_Turing",
        )

    index = Index.open(options.index)

    def open_encoder(name: str, title: bool) -> Encoder:
        from linkseek.retriever.models.biencoder import open_biencoder

        return open_biencoder(name, title=title, device=options.device, **_prompts(index, name))

    changes = Changes(
        open_reader(options.add, options.format, options.choices) if options.add else None,
        sorted(_ids(options.remove, index)),
    )
    plan = Plan(
        options.index,
        **options.model_dump(include={"on_error", "faiss", "processes"}),
        encoders=options.encoder,
        command=shlex.join([*PROGRAM.split(), *argv]).encode("utf-8", "replace").decode(),
    )
    built = update_index(options.index, changes, plan, open_encoder)
    if changes.documents:
        update = built.manifest.updates[-1]
        print(
            f"{printable(str(options.index))}: {update.added:,} documents added, of which "
            f"{update.replaced:,} replaced others, {update.removed:,} removed"
        )
    counts = built.manifest.counts
    print(f"It holds {counts.documents:,} documents and {counts.passages:,} passages.")
    print("time: " + ", ".join(f"{name} {s:.1f} s" for name, s in built.seconds.items() if s >= 0.05))


def _prompts(index: Index, name: str) -> dict[str, Any]:
    """The prompts that the index has recorded for an encoder by its location."""
    for part in index.parts.dense.values():
        if part.encoder["location"] == name:
            return {key: part.encoder[key] for key in _PROMPTS if key in part.encoder}
    return {}


_PROMPTS = ("query_prompt", "passage_prompt")


def _ids(values: Sequence[str], index: Index) -> set[str]:
    """The ids that --remove names: each value is an id, several between commas, or @FILE."""
    ids: set[str] = set()
    for value in values:
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InputError(f"--remove {value!a}: not UTF-8", "No document has such an id.") from None
        if value.startswith("@"):
            ids |= set(_lines(Path(value[1:])))
        else:
            ids |= {value} if index.document_ids.row(value) >= 0 else set(value.split(","))
    return ids - {""}


def _lines(path: Path) -> list[str]:
    _, stream = open_source(path)
    with stream:
        try:
            return [line.decode("utf-8") for _, line in read_lines(stream)]
        except UnicodeDecodeError as error:
            problem = f"--remove @{path}: cannot be read ({error})"
            raise InputError(problem, "Give a file with an id a line, in UTF-8.") from None
