"""linkseek tira: the entry point of a software on TIRA, from a folder with documents and queries to a run.

TIRA calls `linkseek tira --input $inputDataset --output $outputDir`, where the input has documents.jsonl.gz
(docno, text) and queries.jsonl (qid, query), as ir_datasets exports them, and reads run.txt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import orjson
from pydantic import Field

from linkseek.indexer.base.errors import InputError
from linkseek.indexer.base.options import Options, parse_options
from linkseek.indexer.base.paths import inside
from linkseek.indexer.files.sources import open_source, read_lines
from linkseek.indexer.store.outputs import check_replaceable
from linkseek.retriever.queries import read_queries

PROGRAM = "linkseek tira"
_EXPECTED = 'Expected one document a line: {"docno": ..., "text": ...}'


class TiraOptions(Options):
    """Answer the queries of a TIRA data set, whose documents are indexed first, with a run."""

    input: Path
    """the folder of the data set, with documents.jsonl.gz and queries.jsonl"""
    output: Path
    """the folder for run.txt"""
    pipeline: str = "bm25"
    """the pipeline that answers"""
    encoder: list[str] = Field([])
    """models that make vectors, for pipelines that need them"""
    k: Annotated[int, Field(ge=1, le=100_000)] = 1000
    """documents of a query"""


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    options = parse_options(TiraOptions, argv, PROGRAM)
    options.output.mkdir(parents=True, exist_ok=True)
    run = inside(options.output, "run.txt")
    check_replaceable(run)
    documents, queries = (_named(options.input, name) for name in ("documents", "queries"))
    questions = read_queries(queries)
    with TemporaryDirectory(prefix="linkseek-") as folder:
        index = import_module("linkseek").build(
            _documents(documents), Path(folder) / "index", options.encoder, passage_words=0
        )
        hits = index.search(questions, options.k, options.pipeline)
        hits.to_run(run)


def _named(folder: Path, name: str) -> Path:
    for path in (folder / f"{name}.jsonl.gz", folder / f"{name}.jsonl"):
        if path.is_file():
            return path
    raise InputError(f"{folder}: has no {name}.jsonl, also not as .gz", "Name the folder of a TIRA data set.")


def _documents(path: Path) -> Iterator[dict[str, Any]]:
    _, stream = open_source(path)
    with stream:
        for number, line in read_lines(stream):
            try:
                row = orjson.loads(line)
                text = row.get("text") or row.get("default_text") or ""
                yield {"id": str(row["docno"]), "title": str(row.get("title") or ""), "text": str(text)}
            except (orjson.JSONDecodeError, KeyError, AttributeError) as error:
                raise InputError(f"{path}, line {number:,}: {error}", _EXPECTED) from None
