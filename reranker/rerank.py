"""python -m reranker.rerank: a run file -> a run file.

Entry script: it reads the options and the files, opens index and models, and calls `reranker.reranking`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from indexer.base.errors import InputError, UsageError, exit_on_error
from indexer.base.options import Options, parse_options
from indexer.base.progress import progress
from indexer.index import Index
from reranker.candidates import RunCandidates
from reranker.models.bases import CROSS_ENCODER
from reranker.models.bi_encoder import BI_ENCODER_PREFIX
from reranker.models.scoring import open_scorer
from reranker.reranking import DEPTH, Long, Reranker
from retriever.models.locations import DEFAULT_ENCODER, Precision, shipped_models
from retriever.queries import read_queries
from retriever.ranking import Query, Ranking
from retriever.search.runs import read_run, run_ranking, write_run

PROGRAM = "python -m reranker.rerank"


class RerankOptions(Options):
    """Re-rank a run: a model reads each question together with its candidates and puts the best first.

    Takes a TREC run of any system and writes another one. Its ids are passages or documents of the index,
    which gives their texts; what else the index holds does not matter. The best candidates of each question
    are scored and sorted, ties in the order of the run; those below --depth follow as they were. Candidates
    that the index lacks are left out, and so are questions whose text is not in the file of questions; how
    many there were of each is told at the end. For example, the best 20 of BM25 by the default encoder:

    --run results/sample/runs/bm25.trec --index index/sample --queries samples/questions.jsonl
    --model bi-encoder:all-MiniLM-L6-v2 --depth 20 --output results/reranked.trec
    """

    run: Path
    """the TREC run whose candidates are re-ranked"""
    index: Path
    """the index folder with the texts of passages or documents"""
    queries: Path
    """the run's questions: JSONL, TSV (MS MARCO) or CSV (DPR), also compressed"""
    model: list[str] = Field([])
    """the re-ranker, several for an ensemble"""
    output: Path
    """the run to write"""
    depth: Annotated[int, Field(ge=1)] = DEPTH
    """how many candidates of a question are scored"""
    weight: Annotated[float, Field(ge=0, le=1)] | None = None
    """join with the scores of the run, each scaled to 0..1 for each question: the share of the re-ranker"""
    long: Long = "first"
    """of texts longer than the model: read the first part, or (max) all in windows; the best one counts"""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """where the model runs; auto: on a GPU if there is one"""
    precision: Precision = "auto"
    """auto: bfloat16 where the processor or GPU multiplies it"""


def main(argv: Sequence[str], program: str = PROGRAM) -> None:
    """Run the command."""
    options = parse_options(RerankOptions, argv, program)
    if not options.model:
        raise UsageError("--model is missing", f"Name a re-ranker: --model NAME. See {program} --help.")
    if options.output.is_dir():
        raise UsageError(f"--output {options.output}: is a folder", "Name a file for the run.")
    queries, ranking, candidates, notes = read_candidates(
        options.run, Index.open(options.index), options.queries
    )
    scorers = [
        open_scorer(name, device=options.device, precision=options.precision) for name in options.model
    ]
    reranker = Reranker(scorers, candidates, depth=options.depth, weight=options.weight, long=options.long)
    pairs = reranker.pairs(ranking)
    began = time.monotonic()
    with progress("re-ranking", pairs, "pairs") as advance:
        ranking = reranker.rerank(queries, ranking, advance)
    seconds = time.monotonic() - began
    names = "+".join(str(scorer.identity["name"]) for scorer in scorers)
    write_run(options.output, ranking, lambda rows: [candidates.id(int(row)) for row in rows], tag=names)
    print(
        f"{options.output}: {len(queries):,} questions, {pairs:,} pairs in {seconds:,.1f} s "
        f"({pairs / seconds:,.0f}/s)",
        file=sys.stderr,
    )
    for note in notes:
        print(f"note: {note}", file=sys.stderr)


def read_candidates(
    run_path: Path, index: Index, queries_path: Path
) -> tuple[list[Query], Ranking, RunCandidates, list[str]]:
    """A run's questions, its candidates as a `Ranking` of places in `RunCandidates`, and notes for people.

    Raises what the readers raise, and `InputError` if the run is of other questions or another index.
    """
    run = read_run(run_path)
    asked = {query.id: query for query in read_queries(queries_path)}
    queries = [asked[query_id] for query_id in run if query_id in asked]
    if not queries:
        raise InputError(
            f"{run_path}: none of its questions (such as {next(iter(run))!r}) is in {queries_path}",
            "Give the file with the run's questions.",
        )
    ids = list(dict.fromkeys(id_ for query in queries for id_ in run[query.id]))
    candidates = RunCandidates(index, ids, str(run_path))
    place = {id_: place for place, id_ in enumerate(ids) if candidates.known[place]}
    known = {
        query.id: {id_: score for id_, score in run[query.id].items() if id_ in place} for query in queries
    }
    ranking = run_ranking(known, list(known), lambda found: np.array([place[id_] for id_ in found], np.int64))
    notes = []
    if without_text := len(run) - len(queries):
        notes.append(f"{without_text:,} questions of the run are not in {queries_path}; left out")
    if unknown := sum(len(run[query.id]) - len(known[query.id]) for query in queries):
        notes.append(f"{unknown:,} candidates of the run are not in the index; left out")
    if empty := sum(not found for found in known.values()):
        notes.append(f"{empty:,} questions have no candidate in the index; they find nothing")
    return queries, ranking, candidates, notes


RerankOptions.model_fields["model"].description = (
    "the re-ranker, or several for an ensemble: a cross-encoder by folder or name of the Hugging Face Hub"
    + "".join(f", {name}" for name in shipped_models(CROSS_ENCODER))
    + f"; or any encoder by its dot products, such as {BI_ENCODER_PREFIX}{DEFAULT_ENCODER}"
)

if __name__ == "__main__":
    with exit_on_error("rerank"):
        main(sys.argv[1:])
