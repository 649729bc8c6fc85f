"""linkseek recall: how many of the exact best passages an approximate index returns.

The exact search reads all vectors once, for all questions together. The approximate one is tried with a grid
of its search parameter (candidates of `compact`, nprobe of IVF, efSearch of HNSW). Results are written into
the manifest of the vectors, with the cheapest setting that reaches .99, which searches use from then on.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import orjson
from numpy.typing import NDArray
from pydantic import Field
from rich.console import Console
from rich.table import Table

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.options import Options, parse_options
from linkseek.indexer.program.progress import progress
from linkseek.indexer.search.faiss_index import FaissIndex, search_grid
from linkseek.indexer.search.faiss_tools import Hits, exhaustive_search, recall
from linkseek.indexer.store.artifacts import vector_part
from linkseek.indexer.store.manifest_files import write_manifest
from linkseek.indexer.store.manifests import Recall, Tried
from linkseek.indexer.store.outputs import locked

PROGRAM = "linkseek recall"
ENOUGH = 0.99
_DEPTH = 100
_TIMED = 30  # questions, one at a time
_BLOCK = 8_192  # rows


class RecallOptions(Options):
    """Compare the searches of an index with the exact search over its vectors.

    Prints recall and time for a grid of search settings, and makes the cheapest that reaches .99 the default
    of this index (the best, if none does).
    """

    index: Path
    """the folder of the index"""
    encoder: str | None = None
    """the name of the vectors, a folder in dense/ of the index; default the first"""
    queries: Path
    """questions in any format that evaluations read"""
    limit: Annotated[int, Field(ge=1)] = 1000
    """read only this many questions"""
    json_: bool = Field(False, alias="json")
    """print JSON instead of a table"""


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    options = parse_options(RecallOptions, argv, PROGRAM)
    from linkseek.retriever.models.biencoder import open_biencoder
    from linkseek.retriever.models.prompts import recorded_prompt
    from linkseek.retriever.queries import read_queries
    from linkseek.retriever.search.searchers import check_made_by

    texts = [query.text for query in read_queries(options.queries, options.limit)]
    index = OpenIndex.open(options.index)
    dense = index.own_dense(options.encoder)
    encoder = open_biencoder(dense.encoder["location"])
    check_made_by(dense.encoder, encoder.identity)
    prompt = recorded_prompt(dense.encoder, encoder.identity)
    queries = encoder.search_vectors(texts, **prompt)  # [Q, d]
    part = vector_part(index.encoder_name(options.encoder))
    blocks = (dense.vectors[start : start + _BLOCK] for start in range(0, len(dense), _BLOCK))
    measured = measure(dense, blocks, queries)
    if not options.json_:
        _print(measured)
    write_measured(index, part, measured)
    setting = measured.chosen.setting
    if options.json_:
        print(orjson.dumps({"recall": measured.to_json(), "search": setting}).decode())
    else:
        print(f"The default from now on: {described(setting)}")


def write_measured(index: OpenIndex, part: str, measured: Recall) -> None:
    """Add the measurements of a part's vectors, and the chosen setting, to their manifest.

    Raises `DamagedIndexError` if a new index with other vectors has replaced the one that was measured,
    `BusyError` while another process writes it.
    """
    with locked(index.path.resolve()):
        index.check_in_place(part)
        write_manifest(
            index.path / part, index.parts[part].replace(recall=measured, search=measured.chosen.setting)
        )


def measure(index: FaissIndex, blocks: Iterator[NDArray[np.float16]], queries: NDArray[np.float32]) -> Recall:
    """Recall and time of each setting.

    blocks: all vectors, float16 [b, d] each. queries: float32 [Q, d].
    """
    depth = min(_DEPTH, len(index))
    with progress("exact search", len(index), "vectors") as advance:
        expected, _ = exhaustive_search(blocks, queries, depth, advance)
    grid = settings(index.manifest.factory, len(index))
    tried = []
    with progress("trying settings", len(grid), "settings") as advance:
        for setting in grid:

            def search(vectors: NDArray[np.float32], setting: dict[str, int] = setting) -> Hits:
                return index.search(vectors, depth, **setting)

            found, _ = search(queries)
            seconds = [_seconds(search, queries[at : at + 1]) for at in range(min(_TIMED, len(queries)))]
            milliseconds = 1000 * statistics.median(seconds)
            tried.append(Tried(setting=setting, recall=recall(found, expected), milliseconds=milliseconds))
            advance(1)
    enough = [row for row in tried if row.recall >= ENOUGH]
    chosen = enough[0] if enough else max(tried, key=lambda row: row.recall)
    return Recall(depth=depth, questions=len(queries), chosen=chosen, tried=tuple(tried))


def settings(factory: str, rows: int) -> list[dict[str, int]]:
    """The grid for a type of index with this many rows, the cheapest setting first."""
    name, values = search_grid(factory)
    return [{name: value} for value in sorted({min(value, rows) for value in values})] or [{}]


def _seconds(search: Callable[[NDArray[np.float32]], object], vectors: NDArray[np.float32]) -> float:
    started = time.perf_counter()
    search(vectors)
    return time.perf_counter() - started


def _print(measured: Recall) -> None:
    table = Table("setting", f"recall@{measured.depth}", "ms a question", box=None, padding=(0, 2))
    for row in measured.tried:
        chosen = "  <- chosen" if row == measured.chosen else ""
        table.add_row(described(row.setting), f"{row.recall:.4f}", f"{row.milliseconds:.1f}{chosen}")
    Console(highlight=False).print(table)
    if measured.chosen.recall < ENOUGH:
        print(f"No setting reaches {ENOUGH}; this is the best. --faiss compact or Flat reaches more.")


def described(setting: dict[str, int]) -> str:
    """A setting in words."""
    return ", ".join(f"{value:,} {name}" for name, value in setting.items()) or "as it is"
