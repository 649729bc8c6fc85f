"""python app/evaluate.py: questions through pipelines; runs and results to a folder.

Entry script: it reads options and files, opens the index and the pipelines, and calls
`app.evaluation.runner`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import orjson
from pydantic import Field, PositiveInt

from app.evaluation.provenance import provenance
from app.evaluation.runner import evaluate, run_names
from app.evaluation.table import results_console, results_table
from app.pipelines import open_pipelines
from indexer.artifacts import write_json
from indexer.errors import UsageError, exit_on_error
from indexer.index import Index
from indexer.options import Options, parse_options
from retriever.queries import read_queries
from retriever.runs import read_qrels

PROGRAM = "python app/evaluate.py"


class EvaluateOptions(Options):
    """Evaluate pipelines on a file of questions.

    Writes OUTPUT/runs/NAME.trec for every pipeline and OUTPUT/results.json; files of an earlier
    evaluation in the same folder are replaced.
    """

    index: Path
    """the index folder"""
    queries: Path
    """questions: JSONL, TSV (MS MARCO) or CSV (DPR), also compressed"""
    qrels: Path | None = None
    """judgements: a TREC file or BEIR's TSV, on passages or on documents"""
    pipeline: list[str] = Field([])
    """the pipelines to run, by name"""
    pipelines_file: Path | None = None
    """a TOML file with pipelines of your own"""
    run: list[Path] = Field([])
    """TREC runs of other systems, to be measured beside the pipelines"""
    depth: PositiveInt = 100
    """how many passages to retrieve for a question"""
    limit: PositiveInt | None = None
    """only the first so many questions"""
    measure: list[str] = Field([])
    """measures: accuracy@K, or any name of ir-measures; by default the usual ones"""
    batch_size: PositiveInt = 256
    """questions at a time"""
    json_: bool = Field(False, alias="json")
    """print results.json to the standard output, everything else to the standard error"""
    output: Path
    """the folder for runs and results"""


def main(argv: Sequence[str]) -> None:
    """Run the command with these arguments."""
    options = parse_options(EvaluateOptions, argv, program=PROGRAM)
    run_names(options.pipeline, options.run)
    if options.output.exists() and not options.output.is_dir():
        raise UsageError(f"--output {options.output}: is a file", "Name a folder.")
    queries = read_queries(options.queries, options.limit)
    qrels = read_qrels(options.qrels) if options.qrels else None
    index = Index.open(options.index)
    options.output.mkdir(parents=True, exist_ok=True)
    results = evaluate(
        index=index,
        queries=queries,
        pipelines=open_pipelines(index, options.pipeline, options.pipelines_file),
        runs=options.run,
        qrels=qrels,
        qrels_name=str(options.qrels),
        depth=options.depth,
        measures=options.measure,
        batch_size=options.batch_size,
        output=options.output,
    )
    files = {"queries": options.queries} | {f"run {path.name}": path for path in options.run}
    if options.qrels:
        files["qrels"] = options.qrels
    results["provenance"] = provenance(PROGRAM, argv, index, files)
    write_json(options.output / "results.json", results)
    if options.json_:
        sys.stdout.buffer.write(orjson.dumps(results, option=orjson.OPT_INDENT_2) + b"\n")
        sys.stdout.buffer.flush()
    console = results_console(stderr=options.json_)
    console.print(results_table(results))
    for note in results["notes"]:
        console.print(f"note: {note}", markup=False, highlight=False)


if __name__ == "__main__":
    with exit_on_error("evaluate"):
        main(sys.argv[1:])
