"""linkseek score: pairs -> the same pairs with a re-ranker's scores, which a training can follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

from linkseek.indexer.machine.devices import Precision
from linkseek.indexer.program.errors import log_line
from linkseek.indexer.program.options import MoreHelp, Options, parse_options
from linkseek.indexer.program.progress import progress
from linkseek.reranker.models.bases import CROSS_ENCODER
from linkseek.reranker.models.scoring import PairScorer, open_scorer
from linkseek.reranker.pair_texts import Candidate
from linkseek.retriever.mining.pairs import Pair, check_output, pair_line, read_pairs, write_lines
from linkseek.retriever.models.locations import shipped_models

PROGRAM = "linkseek score"
_BLOCK = 256  # pairs


class ScoreOptions(Options):
    """Score the passages of training pairs with a re-ranker, for `teacher.scores` of linkseek train.

    The relevant passage, the negatives and the hard negatives of a pair each get the model's score for the
    question, as teacher_score. Passages that are too long for the model are truncated.
    """

    pairs: Path
    """the pairs, as `linkseek mine` and `linkseek negatives` write them, or DPR's"""
    model: Annotated[str, MoreHelp(lambda: ", ".join(shipped_models(CROSS_ENCODER)))]
    """the re-ranker: a cross-encoder by folder or name, or bi-encoder:NAME"""
    output: Path
    """the file of pairs to write, ending in .jsonl or .jsonl.zst"""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """where the model runs; auto: on a GPU if there is one"""
    precision: Precision = "auto"
    """auto: bfloat16 where the processor or GPU supports it"""


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    options = parse_options(ScoreOptions, argv, PROGRAM)
    check_output(options.output)
    scorer = open_scorer(options.model, options.device, options.precision)
    with progress("scoring", unit="pairs") as advance:

        def lines() -> Iterator[bytes]:
            pairs = read_pairs(options.pairs)
            while block := [*islice(pairs, _BLOCK)]:
                yield from map(pair_line, scored(block, scorer))
                advance(len(block))

        count = write_lines(options.output, lines())
    log_line(f"{options.output}: {count:,} pairs with the scores of {options.model}")


def scored(pairs: Sequence[Pair], scorer: PairScorer) -> Iterator[Pair]:
    """The pairs with a score of each passage."""
    contexts = [(pair, context) for pair in pairs for context in pair.contexts]
    form = scorer.text_format
    texts = [form.head(Candidate(c.title, c.text)) + c.text for _, c in contexts]
    scores = iter(scorer.score([form.query(pair.query) for pair, _ in contexts], texts).tolist())
    for pair in pairs:
        first, *others = (replace(context, score=next(scores)) for context in pair.contexts)
        cut = len(pair.negatives)
        yield replace(pair, positive=first, negatives=(*others[:cut],), hard_negatives=(*others[cut:],))
