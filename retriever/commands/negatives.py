"""linkseek negatives: labelled pairs with hard negatives, from questions and any run file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.machine.cluster import connected, worker_count
from linkseek.indexer.machine.devices import usable_cores
from linkseek.indexer.program.errors import InputError, UsageError, log_line
from linkseek.indexer.program.options import Options, parse_options
from linkseek.indexer.program.progress import progress
from linkseek.indexer.program.settings import Seed
from linkseek.retriever.answers import AnswerKind
from linkseek.retriever.mining.labels import RankedQuestions, holds_answers
from linkseek.retriever.mining.pairs import Pair, check_output, pair_line, read_pairs, write_lines
from linkseek.retriever.queries import read_queries
from linkseek.retriever.ranking import Query, Ranking
from linkseek.retriever.search.runs import check_questions, read_qrels, read_run, resolve_columns, run_ranking

PROGRAM = "linkseek negatives"

_RESULTS_OF_A_PROCESS = 500_000  # which are searched in the few seconds that a process takes to start


class NegativesOptions(Options):
    """Label questions for fine-tuning: a relevant passage for each, and hard negatives from a run.

    Relevant passages come from --qrels, from an earlier file of --pairs, or else from the answers of the
    questions. Writes DPR's JSON lines.
    """

    index: Path
    """the index folder"""
    run: Path
    """a TREC run of the questions, of any system; its best passages that are not relevant are the
    negatives"""
    queries: Path
    """the questions: JSON lines, TSV or DPR's CSV"""
    qrels: Path | None = None
    """judgements of passages or documents; for a document, the passage with an answer counts, if questions
    have answers
    """
    positives: Literal["all", "one", "ranked"] = "all"
    """which relevant passages of --qrels give a pair: all, or one at random; ranked: a pair for each of the
    --depth best passages of the run, relevant or not, for a teacher
    """
    seed: Seed = 1
    """seed of that draw"""
    pairs: Path | None = None
    """labelled pairs whose relevant passages are kept, for a second round with another run"""
    answers: AnswerKind = "tokens"
    """how answers are matched in a passage"""
    depth: Annotated[int, Field(ge=1)] = 100
    """the number of results to consider for a question"""
    negatives: Annotated[int, Field(ge=0)] = 30
    """maximum number of hard negatives per pair, the best-ranked first"""
    processes: Annotated[int, Field(ge=1, le=1024)] | None = None
    """processes that look for answers in passages; default one per core, for large inputs"""
    ray: str | None = None
    """look for answers on a Ray cluster, with a worker per core: its address, or local to start one here"""
    output: Path
    """the file of pairs to write, ending in .jsonl or .jsonl.zst"""


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    options = parse_options(NegativesOptions, argv, PROGRAM)
    if options.qrels and options.pairs:
        raise UsageError("--qrels and --pairs are both given", "Give one of them.")
    if options.positives == "one" and not options.qrels:
        raise UsageError("--positives one: draws from the passages of --qrels", "Give --qrels.")
    if options.positives == "ranked" and options.pairs:
        raise UsageError("--positives ranked: takes the passages of the run", "Omit --pairs.")
    check_output(options.output)
    index = OpenIndex.open(options.index)
    queries = read_queries(options.queries)
    run = read_run(options.run)
    check_questions(run, [query.id for query in queries], str(options.run))
    queries = [query for query in queries if query.id in run]
    ranking = run_ranking(
        run, [q.id for q in queries], lambda ids: resolve_columns(index, ids).passages, options.depth
    )
    counts: Counter[str] = Counter()
    with connected(options.ray), progress("labelling questions"):
        pairs = _pairs(index, queries, ranking, options, counts)
        first = next(pairs, None)
        if first is None:
            raise InputError(
                f"none of {len(queries):,} questions has a relevant passage",
                "Use more of the run (--depth), or check the answers or judgements.",
            )
        written = write_lines(options.output, map(pair_line, chain([first], pairs)))
    faults = "".join(f", {count:,} {fault}" for fault, count in sorted(counts.items()) if count)
    log_line(f"{options.output}: {written:,} pairs of {len(queries):,} questions{faults}")


def _pairs(
    index: OpenIndex, queries: list[Query], ranking: Ranking, options: NegativesOptions, counts: Counter[str]
) -> Iterator[Pair]:
    if options.positives == "ranked":
        nothing = np.zeros(ranking.rows.shape, np.bool_)
        return RankedQuestions(index, queries, ranking, nothing, 0, counts).pairs_from_ranking()
    earlier = list(read_pairs(options.pairs)) if options.pairs else []
    if earlier:  # the answers of a question may be in the pairs only
        answers = {pair.query: pair.answers for pair in earlier}
        queries = [Query(q.id, q.text, q.answers or answers.get(q.text, ())) for q in queries]
    if any(query.answers for query in queries):
        useful = min(usable_cores(), 1 + ranking.rows.size // _RESULTS_OF_A_PROCESS)
        processes = worker_count(options.processes or useful)
        answering = holds_answers(index, queries, ranking, options.answers, processes)
    elif options.qrels or options.pairs:
        answering = np.zeros(ranking.rows.shape, np.bool_)
    else:
        raise UsageError(
            f"{options.queries}: the questions have no answers, and there are no judgements",
            "Give --qrels, or questions with answers.",
        )
    questions = RankedQuestions(
        index, queries, ranking, answering, options.negatives, counts, options.answers
    )
    if options.qrels:
        seed = options.seed if options.positives == "one" else None
        return questions.pairs_from_judgements(read_qrels(options.qrels), seed)
    return questions.pairs_again(earlier) if options.pairs else questions.pairs_from_answers()
