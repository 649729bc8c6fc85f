"""linkseek merge: merge the files that updates of an index have left.

Every `linkseek update` adds a file of documents and a segment of Lucene, and hundreds slow searches down.
This has nothing to do with `--faiss compact`, a type of vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from linkseek.indexer.building.plan import BuildPlan
from linkseek.indexer.building.updating.changes import Changes
from linkseek.indexer.building.updating.growth import update_index
from linkseek.indexer.encoding.encode import Encoder
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import DamagedIndexError, UsageError
from linkseek.indexer.program.options import Options, command_line, parse_options
from linkseek.indexer.program.text import printable

PROGRAM = "linkseek merge"


class CompactOptions(Options):
    """Merge the files that `linkseek update` has left in an index; what searches return stays the same.

    For smaller vectors, build with --faiss compact instead.
    """

    index: Path | None = None
    """the index"""


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    options = parse_options(CompactOptions, argv, PROGRAM)
    if options.index is None:
        raise UsageError("--index is missing", f"For example: {PROGRAM} --index index/wiki")
    shown = printable(str(options.index))
    if not OpenIndex.open(options.index).updates:
        print(f"{shown}: has not been updated, so there is nothing to merge")
        return
    command = command_line(PROGRAM, argv)
    update_index(options.index, Changes(merge=True), BuildPlan(options.index, command=command), _no_encoder)
    print(f"{shown}: its files are merged")


def _no_encoder(name: str, title: bool) -> Encoder:
    raise DamagedIndexError(
        f"the vectors of {name} do not belong to the passages: a manifest was altered",
        "Build the index again.",
    )
