"""linkseek rerank: a run file -> a run file."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.machine.devices import Precision
from linkseek.indexer.program.errors import UsageError, log_line
from linkseek.indexer.program.options import MoreHelp, Options, parse_options
from linkseek.indexer.program.progress import progress
from linkseek.indexer.store.outputs import check_replaceable
from linkseek.reranker.candidates import read_candidates
from linkseek.reranker.models.bases import CROSS_ENCODER
from linkseek.reranker.models.scoring import index_scorer, open_scorer
from linkseek.reranker.reranking import DEPTH, Long, Reranker
from linkseek.retriever.models.late import open_late
from linkseek.retriever.models.locations import shipped_models
from linkseek.retriever.search.runs import write_run

PROGRAM = "linkseek rerank"


class RerankOptions(Options):
    """Re-rank a run: a model reads each question together with its candidates and puts the best first.

    Reads a TREC run of any system and writes a new run. Its ids are passages or documents of the index, from
    which only the texts are read. The best candidates of each question are scored and sorted, ties in the
    order of the run; those below --depth follow in their old order. Candidates that the index lacks and
    questions that are not in the file of questions are skipped and counted. For example, the best 20 of BM25
    by the default encoder:

    --run results/sample/runs/bm25.trec --index index/sample --queries samples/questions.jsonl
    --model bi-encoder:all-MiniLM-L6-v2 --depth 20 --output results/reranked.trec
    """

    run: Path
    """the TREC run whose candidates are re-ranked"""
    index: Path
    """the index folder with the texts of passages or documents"""
    queries: Path
    """the run's questions: JSONL, TSV (MS MARCO) or CSV (DPR), also compressed"""
    model: Annotated[list[str], MoreHelp(lambda: ", ".join(shipped_models(CROSS_ENCODER)))] = Field([])
    """the re-ranker, or several for an ensemble: an encoder's dot products, such as
    bi-encoder:all-MiniLM-L6-v2, a cross-encoder by its folder or Hugging Face Hub name, or one that ships
    with Linkseek
    """
    output: Path
    """the run to write"""
    depth: Annotated[int, Field(ge=1)] = DEPTH
    """the number of candidates to score for each question"""
    weight: Annotated[float, Field(ge=0, le=1)] | None = None
    """weight of the re-ranker in a sum with the scores of the run, both scaled to 0..1 for each question"""
    long: Long = "max"
    """texts longer than the model's limit: max reads windows, of which the best counts; first reads only the
    first part, which is faster and mostly ranks worse
    """
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """where the model runs; auto: on a GPU if there is one"""
    precision: Precision = "auto"
    """auto: bfloat16 where the processor or GPU supports it"""


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    options = parse_options(RerankOptions, argv, PROGRAM)
    if not options.model:
        raise UsageError("--model is missing", f"Name a re-ranker: --model NAME. See {PROGRAM} --help.")
    check_replaceable(options.output)
    index = OpenIndex.open(options.index)
    scorers = [
        index_scorer(index, name, partial(open_late, device=options.device))
        or open_scorer(name, device=options.device, precision=options.precision)
        for name in options.model
    ]
    queries, ranking, candidates, notes = read_candidates(options.run, index, options.queries)
    reranker = Reranker(scorers, candidates, depth=options.depth, weight=options.weight, long=options.long)
    pairs = reranker.pairs(ranking)
    began = time.monotonic()
    with progress("re-ranking", pairs, "pairs") as advance:
        ranking = reranker.rerank(queries, ranking, advance)
    seconds = time.monotonic() - began
    names = "+".join(str(scorer.identity["name"]) for scorer in scorers)
    write_run(options.output, ranking, lambda rows: [candidates.id(int(row)) for row in rows], tag=names)
    done = f"{len(queries):,} questions, {pairs:,} pairs in {seconds:,.1f} s ({pairs / seconds:,.0f}/s)"
    log_line(f"{options.output}: {done}")
    for note in notes:
        log_line(f"note: {note}")
