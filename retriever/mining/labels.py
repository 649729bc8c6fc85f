"""Labelled pairs from questions: a relevant passage for each, and hard negatives from any ranking.

Relevance comes from one of four sources:

    judgements   each relevant passage, or one of them drawn at random (HotpotQA in HLP, section 5.4); of a
                 relevant document its best-ranked passage, or its first; where the question has answers, the
                 document's best-ranked passage that contains one
    answers      the best-ranked passage that contains one (DPR, Karpukhin et al. 2020, section 5)
    pairs        an earlier file, for a second round with the ranking of a better model
    ranking      the best-ranked passages themselves, without hard negatives, for a teacher (distillation)

Hard negatives are the best-ranked passages that are not relevant, not of a relevant document, and contain no
answer where the questions have answers.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError
from linkseek.retriever.answers import AnswerKind, find_answers
from linkseek.retriever.mining.drawing import open_readers
from linkseek.retriever.mining.pairs import Pair, PairContext, passage_context
from linkseek.retriever.ranking import Query, Ranking
from linkseek.retriever.search.runs import Qrels, resolve_columns

_BLOCK = 100  # questions whose passages are read together

NO_POSITIVE = "without a relevant passage"
NO_NEGATIVE = "without a hard negative"


def holds_answers(
    index: OpenIndex,
    queries: Sequence[Query],
    ranking: Ranking,
    kind: AnswerKind = "tokens",
    processes: int = 1,
) -> NDArray[np.bool_]:
    """Mask of the passages of a ranking that contain an answer to their question, bool [Q, k].

    processes: that read passages, each for some of the questions; see `worker_pool`. Raises `MachineError` if
    one is ended.
    """
    answers = [query.answers for query in queries]
    size = _BLOCK if processes > 1 and len(queries) > _BLOCK else max(len(queries), 1)
    blocks = [slice(start, start + size) for start in range(0, max(len(queries), 1), size)]
    reopen = partial(OpenIndex.open, index.path.resolve())
    with open_readers(index, reopen, partial(_find, kind), min(processes, len(blocks))) as read:
        return np.concatenate([*read((answers[block], ranking.rows[block]) for block in blocks)])


def _find(
    kind: AnswerKind, index: OpenIndex, answers: Sequence[Sequence[str]], rows: NDArray[np.int64]
) -> NDArray[np.bool_]:
    return find_answers(answers, rows, partial(_text, index), kind)


@dataclass(frozen=True)
class RankedQuestions:
    """Questions with a ranking to take hard negatives from.

    answering: bool [Q, k] of `holds_answers`, by answer_kind. limit: hard negatives of a pair. counts: gets
    the number of questions without a relevant passage or a hard negative.
    """

    index: OpenIndex
    queries: Sequence[Query]
    ranking: Ranking
    answering: NDArray[np.bool_]
    limit: int
    counts: Counter[str]
    answer_kind: AnswerKind = "tokens"

    def pairs_from_judgements(self, qrels: Qrels, seed: int | None = None) -> Iterator[Pair]:
        """A pair for each relevant passage or document, the most relevant first.

        seed: draws one of a question's, by the seed and the question's id alone; the others are not negatives
        either. Raises `InputError` if none of the judged ids is in the index.
        """
        passages, judged_questions = self.index.passages, {query.id for query in self.queries} & qrels.keys()
        ids = list(dict.fromkeys(id_ for query in judged_questions for id_ in qrels[query]))
        resolved = resolve_columns(self.index, ids)
        if not (resolved.rows >= 0).any():
            raise InputError(
                "none of the judged ids is in the index" + (f", such as {ids[0]!r}" if ids else ""),
                "Give the judgements that belong to the questions and the index.",
            )
        row_of = dict(zip(ids, resolved.rows.tolist(), strict=True))
        for place, query in enumerate(self.queries):
            judged = sorted(qrels.get(query.id, {}).items(), key=lambda item: -item[1])
            positives = relevant = [row_of[id_] for id_, value in judged if value > 0 and row_of[id_] >= 0]
            rows = ranked = self.ranking.rows[place]  # [k]
            if resolved.level == "documents":
                ranked = np.where(rows >= 0, passages.document_rows(rows), -1)  # [k]
                best = (self._best_passage(row, rows[ranked == row], query.answers) for row in relevant)
                positives = [row for row in best if row >= 0]
            hard = self._hard_negatives(place, np.isin(ranked, relevant))
            self.counts[NO_POSITIVE] += not positives
            self.counts[NO_NEGATIVE] += bool(positives) and not hard
            chosen = list(dict.fromkeys(positives))
            if seed is not None and chosen:
                generator = np.random.default_rng((seed, zlib.crc32(query.id.encode())))
                chosen = [chosen[generator.integers(len(chosen))]]
            for row in chosen:
                context = passage_context(passages, row)
                yield Pair(query.text, context, hard_negatives=hard, answers=query.answers)

    def pairs_from_answers(self) -> Iterator[Pair]:
        """A pair for each question with an answer in some passage of the ranking."""
        for place, query in enumerate(self.queries):
            answering = self.answering[place]  # [k]
            if not answering.any():
                self.counts[NO_POSITIVE] += 1
                continue
            hard = self._hard_negatives(place)
            self.counts[NO_NEGATIVE] += not hard
            best = int(self.ranking.rows[place, np.argmax(answering)])
            positive = passage_context(self.index.passages, best)
            yield Pair(query.text, positive, hard_negatives=hard, answers=query.answers)

    def pairs_from_ranking(self) -> Iterator[Pair]:
        """A pair for each passage of the ranking."""
        for query, rows in zip(self.queries, self.ranking.rows, strict=True):
            for row in rows[rows >= 0].tolist():
                yield Pair(query.text, passage_context(self.index.passages, row), answers=query.answers)

    def pairs_again(self, earlier: Iterable[Pair]) -> Iterator[Pair]:
        """Earlier pairs, matched by their question's text, with hard negatives from this ranking.

        Raises `InputError` if none of the questions has such a pair.
        """
        place_of = {query.text: place for place, query in enumerate(self.queries)}
        by_question: dict[str, list[Pair]] = defaultdict(list)
        for pair in earlier:
            by_question[pair.query].append(pair)
        if not by_question.keys() & place_of.keys():
            hint = "Give the questions they are from."
            raise InputError("none of the questions is in the earlier pairs", hint)
        self.counts[NO_POSITIVE] += len(place_of.keys() - by_question.keys())
        for text, pairs in by_question.items():
            if text not in place_of:
                continue
            known = {(pair.positive.title, pair.positive.text) for pair in pairs}
            candidates = self._hard_negatives(place_of[text], limit=self.limit + len(pairs))
            hard = tuple(c for c in candidates if (c.title, c.text) not in known)[: self.limit]
            self.counts[NO_NEGATIVE] += not hard
            for pair in pairs:
                yield replace(pair, hard_negatives=hard)

    def _best_passage(self, document: int, ranked: NDArray[np.int64], answers: Sequence[str]) -> int:
        """A document's best-ranked passage, else its first; with answers, among passages with one, or -1."""
        first, last = self.index.passages.offsets[document : document + 2]
        rows = np.array(list(dict.fromkeys([*ranked.tolist(), *range(first, last)])), np.int64)  # [n]
        if answers:
            rows = rows[find_answers([answers], rows[None], partial(_text, self.index), self.answer_kind)[0]]
        return int(rows[0]) if len(rows) else -1

    def _hard_negatives(
        self, place: int, relevant: NDArray[np.bool_] | bool = False, limit: int | None = None
    ) -> tuple[PairContext, ...]:
        """The best-ranked passages for a question that are neither relevant (bool [k]) nor answering."""
        rows = self.ranking.rows[place]  # [k]
        rows = rows[(rows >= 0) & ~(relevant | self.answering[place])]
        passages = self.index.passages
        return tuple(passage_context(passages, int(row)) for row in rows[: limit or self.limit])


def _text(index: OpenIndex, row: int) -> str:
    return str(index.passages.table.value("text", row))
