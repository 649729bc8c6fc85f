"""linkseek update: add documents to an index and remove some, or keep it in step with a folder.

Entry script: it reads the options, supplies the encoder, calls `indexer.building.updating.growth` or
`indexer.building.updating.mirror`, and prints the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field

from linkseek.indexer.building.corpora import choices_of, readings_of, sources_of
from linkseek.indexer.building.plan import BuildPlan, Built, OpenEncoder
from linkseek.indexer.building.updating.changes import Changes
from linkseek.indexer.building.updating.growth import update_index
from linkseek.indexer.building.updating.mirror import CorpusComparison, Mirror, mirror_index, preview
from linkseek.indexer.encoding.encode import Encoder
from linkseek.indexer.files.sources import open_source, read_lines
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.indexer.program.options import MoreHelp, Options, command_line, parse_options
from linkseek.indexer.program.text import printable
from linkseek.indexer.readers.choices import Choices, ReadingOptions
from linkseek.indexer.readers.formats import all_readers, open_reader
from linkseek.indexer.search.faiss_index import AUTO

PROGRAM = "linkseek update"


class UpdateOptions(ReadingOptions):
    """Add documents to an index and remove some, or keep it in step with a folder; encode only what is new.

    Documents, passages, links, BM25 and all vectors follow; rankings are the same as after a build of the
    final corpus. The index stays intact until the new one replaces it; after an interruption, the same
    command resumes. Corpora are read with the options of the build, unless other options are given.
    """

    not_keywords = Options.not_keywords | {"dry_run", "json_"}

    index: Path | None = None
    """the index to change"""
    add: Path | None = None
    """a corpus of documents to add, in any format of linkseek build; a document replaces the one with the
    same id
    """
    remove: list[str] = Field([])
    """ids of documents or redirects to remove, separated by commas if several, or @FILE with one id per line
    """
    mirror: Path | None = None
    """the current state of a corpus of the index: changed documents are replaced, missing ones removed, new
    ones added, renamed ones listed
    """
    merge: bool = False
    """merge the files that earlier updates have left; hundreds of them slow down searches, whose results do
    not change
    """
    dry_run: bool = False
    """with --mirror: list the changes without making them"""
    max_removed: Annotated[int, Field(ge=0, le=100)] = 50
    """with --mirror: change nothing if more than this percentage of the index's documents is missing"""
    json_: bool = Field(False, alias="json")
    """with --mirror: print the changes as JSON, with all names"""
    format: Annotated[str | None, MoreHelp(lambda: ", ".join(all_readers()))] = None
    """the format of --add, by default recognised by its content; for --mirror, by default the format of the
    build
    """
    encoder: list[str] = Field([])
    """further sentence-transformers models, by path or name, whose vectors to add"""
    late: list[str] = Field([])
    """models whose token vectors to add, for pipelines that re-rank by `late`"""
    sparse: list[str] = Field([])
    """learned sparse models whose term weights to add, for pipelines that search by `sparse`"""
    sparse_terms: Annotated[int, Field(ge=0)] = 0
    """search only the N largest of the added weights of a passage; 0: all"""
    base_url: Annotated[str, Field(pattern=r"^(https?://\S+)?$")] = ""
    """the address of the site that the folder is from, if it differs from the one given to the build"""
    faiss: str = AUTO
    """the type of FAISS index of the added vectors; other vectors keep their type"""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """where to encode"""
    processes: Annotated[int, Field(ge=1, le=1024)] | None = None
    """processes that parse and threads that index; default one per core"""


_CHANGES = {"add", "remove", "encoder", "late", "sparse", "mirror", "base_url", "merge"}


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    options = parse_options(UpdateOptions, argv, PROGRAM)
    asked = options.model_dump(include=_CHANGES)
    if options.index is None or not any(asked.values()):
        raise UsageError(
            "--index or a change is missing",
            f"For example: {PROGRAM} --index index/wiki --add new.jsonl --remove Alan_Turing",
        )
    _check_combination(options)
    index = OpenIndex.open(options.index)
    from linkseek.retriever.models import encoders

    def open_encoder(name: str, title: bool) -> Encoder:
        return encoders.open_encoder(name, title=title, device=options.device, **_prompts(index, name))

    plan = BuildPlan(
        options.index,
        **options.model_dump(include={"faiss", "sparse_terms", "processes", "base_url"}),
        encoders=encoders.located(
            options.encoder, options.late, options.sparse, options.device, options.faiss
        ),
        command=command_line(PROGRAM, argv),
    )
    if options.mirror:
        _mirror(options.index, options.mirror, options, plan, open_encoder)
        return
    path, merge = options.add, options.merge and bool(index.manifest.updates)
    added = open_reader(path, options.format, _choices(options, path, index)) if path else None
    changes = Changes(added, sorted(_ids(options.remove, index)), merge, on_error=options.on_error)
    built = update_index(options.index, changes, plan, open_encoder)
    if changes.documents:
        update = built.manifest.updates[-1]
        print(
            f"{printable(str(options.index))}: {update.added:,} documents added, of which "
            f"{update.replaced:,} replaced others, {update.removed:,} removed"
        )
    elif options.merge:
        print("its files are merged" if changes.merge else "it has not been updated: nothing to merge")
    _print_built(built)


def _check_combination(options: UpdateOptions) -> None:
    """Raises `UsageError` for options that do not go together."""
    of_mirror = {"dry_run": "--dry-run", "max_removed": "--max-removed", "json_": "--json"}
    if options.mirror is None:
        for name in of_mirror.keys() & options.model_fields_set:
            raise UsageError(f"{of_mirror[name]} needs --mirror", f"For example: {PROGRAM} --mirror docs")
    elif options.add or options.remove or options.merge:
        raise UsageError(
            "--mirror excludes --add, --remove and --merge", "Run two commands, one after the other."
        )


def _choices(options: UpdateOptions, path: Path, index: OpenIndex) -> Choices:
    """How to read a corpus that is added: as that at its path, else as the first of the index."""
    sources = sources_of(index.parts.documents) if not index.partitions else ()
    if not sources:
        return options.choices
    readings = readings_of(sources, path)
    earlier = replace(choices_of(sources[max(readings, default=0)]), limit=None)
    return options.choices_over(earlier if readings else replace(earlier, guessed=()))


def _mirror(
    index: Path, path: Path, options: UpdateOptions, plan: BuildPlan, open_encoder: OpenEncoder
) -> None:
    mirror = Mirror(path, options, options.format, options.max_removed)
    if options.dry_run:
        comparison, built = preview(index, mirror, plan), None
    else:
        comparison, built = mirror_index(index, mirror, plan, open_encoder)
    if options.json_:
        print(orjson.dumps((comparison or CorpusComparison()).to_json()).decode())
    else:
        _print_comparison(printable(str(index)), comparison, would=options.dry_run)
        if built:
            _print_built(built)


def _print_comparison(index: str, comparison: CorpusComparison | None, *, would: bool) -> None:
    """Print the numbers of changes, and the first names of each kind."""
    if comparison is None or comparison.is_empty:
        print(f"{index}: up to date, nothing has changed")
        return
    counts = [f"{count:,} {name}" for name, count in comparison.counts.items()]
    print(f"{index}{' would change' if would else ''}: {', '.join(counts)}")
    renamed = tuple(f"{old} -> {new}" for old, new in comparison.renamed)
    lists = comparison.to_json() | {"renamed": renamed}
    for kind in ("added", "changed", "links", "renamed", "removed"):
        for name in lists[kind][:_SHOWN]:
            print(f"  {kind}: {printable(name)}")
        if len(lists[kind]) > _SHOWN:
            print(f"  {kind}: {len(lists[kind]) - _SHOWN:,} more (--json lists all)")


def _print_built(built: Built) -> None:
    counts = built.manifest.counts
    print(f"It contains {counts.documents:,} documents and {counts.passages:,} passages.")
    print("time: " + ", ".join(f"{name} {s:.1f} s" for name, s in built.seconds.items() if s >= 0.05))


_SHOWN = 10


def _prompts(index: OpenIndex, name: str) -> dict[str, Any]:
    """The prompts that the index has recorded for an encoder by its location."""
    part = index.parts.made_by(name)
    return {key: part.encoder[key] for key in _PROMPTS if key in part.encoder} if part else {}


_PROMPTS = ("query_prompt", "passage_prompt")


def _ids(values: Sequence[str], index: OpenIndex) -> set[str]:
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
            return [line.decode("utf-8").removeprefix("\ufeff") for _, line in read_lines(stream)]
        except UnicodeDecodeError as error:
            problem = f"--remove @{path}: cannot be read ({error})"
            raise InputError(problem, "Give a file with one id per line, in UTF-8.") from None
