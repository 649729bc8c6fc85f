"""Labelled pairs from questions: a right passage for each, and hard negatives from any ranking.

What is right, one of three say:

    judgements   each relevant passage; of a relevant document its best-ranked passage, or its first;
                 where the question has answers, the document's best-ranked passage that holds one
    answers      the best-ranked passage that holds one (DPR, Karpukhin et al. 2020, section 5)
    pairs        what an earlier file says, for a second round with the ranking of a better model

Hard negatives are the best-ranked passages that are not right: not relevant, no passage of a relevant
document, and without an answer where the questions have answers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from indexer.base.errors import InputError
from indexer.index import Index, resolve_ids
from retriever.answers import AnswerKind, find_answers
from retriever.mining.pairs import Context, Pair
from retriever.ranking import Query, Ranking
from retriever.search.runs import Qrels

NO_RIGHT = "without a right passage"
NO_NEGATIVE = "without a hard negative"


def holds_answers(
    index: Index, queries: Sequence[Query], ranking: Ranking, kind: AnswerKind = "tokens"
) -> NDArray[np.bool_]:
    """Which passages of a ranking hold an answer to their question, bool [Q, k]."""
    return find_answers(
        [query.answers for query in queries],
        ranking.rows,
        partial(_text, index),
        kind,
    )


def pairs_from_judgements(
    index: Index,
    queries: Sequence[Query],
    ranking: Ranking,
    qrels: Qrels,
    answering: NDArray[np.bool_],
    most: int,
    counts: Counter[str],
    answer_kind: AnswerKind = "tokens",
) -> Iterator[Pair]:
    """A pair for each relevant passage or document, the most relevant first.

    answering: bool [Q, k] of `holds_answers`, by answer_kind. most: hard negatives of a pair. counts: gets
    how many questions have which fault. Raises `InputError` if none of the judged ids is in the index.
    """
    wanted = {query.id for query in queries}
    ids = list(dict.fromkeys(id_ for query in wanted & qrels.keys() for id_ in qrels[query]))
    resolved = resolve_ids(index, ids)
    by_document, numbers = resolved.level == "documents", resolved.rows  # [n]
    if not (numbers >= 0).any():
        raise InputError(
            "none of the judged ids is in the index" + (f", such as {ids[0]!r}" if ids else ""),
            "Give the judgements that belong to the questions and the index.",
        )
    number_of = dict(zip(ids, numbers.tolist(), strict=True))
    for place, query in enumerate(queries):
        judged = sorted(qrels.get(query.id, {}).items(), key=lambda item: -item[1])
        relevant = [number_of[id_] for id_, value in judged if value > 0 and number_of[id_] >= 0]
        rows = ranking.rows[place]  # [k]
        found = rows if not by_document else np.where(rows >= 0, index.passages.document_rows(rows), -1)
        right = np.isin(found, relevant) | answering[place]  # [k]
        hard = _contexts(index, rows[(rows >= 0) & ~right], most)
        positives = relevant
        if by_document:
            positives = [
                row
                for n in relevant
                for row in _passage_of(index, n, rows[found == n], query.answers, answer_kind)
            ]
        counts[NO_RIGHT] += not positives
        counts[NO_NEGATIVE] += bool(positives) and not hard
        for row in dict.fromkeys(positives):
            yield Pair(query.text, _context(index, row), hard_negatives=hard, answers=query.answers)


def _passage_of(
    index: Index, document: int, ranked: NDArray[np.int64], answers: Sequence[str], kind: AnswerKind
) -> list[int]:
    """A document's best-ranked passage, else its first; where there are answers, of those that hold one."""
    first, last = index.passages.offsets[document : document + 2]
    rows = np.array(list(dict.fromkeys([*ranked.tolist(), *range(first, last)])), np.int64)  # [n]
    if answers:
        rows = rows[find_answers([answers], rows[None], partial(_text, index), kind)[0]]
    return [int(row) for row in rows[:1]]


def _text(index: Index, row: int) -> str:
    return str(index.passages.table.value("text", row))


def pairs_from_answers(
    index: Index,
    queries: Sequence[Query],
    ranking: Ranking,
    answering: NDArray[np.bool_],
    most: int,
    counts: Counter[str],
) -> Iterator[Pair]:
    """A pair for each question that some passage of the ranking answers."""
    for place, query in enumerate(queries):
        rows, right = ranking.rows[place], answering[place]  # [k], [k]
        if not right.any():
            counts[NO_RIGHT] += 1
            continue
        hard = _contexts(index, rows[(rows >= 0) & ~right], most)
        counts[NO_NEGATIVE] += not hard
        best = int(rows[int(np.argmax(right))])
        yield Pair(query.text, _context(index, best), hard_negatives=hard, answers=query.answers)


def pairs_again(
    index: Index,
    queries: Sequence[Query],
    ranking: Ranking,
    answering: NDArray[np.bool_],
    most: int,
    counts: Counter[str],
    earlier: Iterable[Pair],
) -> Iterator[Pair]:
    """Earlier pairs with the hard negatives of this ranking; they are found by the text of the question.

    Raises `InputError` if none of the questions has such a pair.
    """
    place_of = {query.text: place for place, query in enumerate(queries)}
    right: dict[str, list[Pair]] = defaultdict(list)
    for pair in earlier:
        right[pair.query].append(pair)
    if not right.keys() & place_of.keys():
        raise InputError("none of the questions is in the earlier pairs", "Give the questions they are from.")
    counts[NO_RIGHT] += len(place_of.keys() - right.keys())
    for text, pairs in right.items():
        if text not in place_of:
            continue
        place = place_of[text]
        rows = ranking.rows[place]  # [k]
        known = {(pair.positive.title, pair.positive.text) for pair in pairs}
        candidates = _contexts(index, rows[(rows >= 0) & ~answering[place]], most + len(pairs))
        hard = tuple(c for c in candidates if (c.title, c.text) not in known)[:most]
        counts[NO_NEGATIVE] += not hard
        for pair in pairs:
            yield replace(pair, hard_negatives=hard)


def _contexts(index: Index, rows: NDArray[np.int64], most: int) -> tuple[Context, ...]:
    return tuple(_context(index, int(row)) for row in rows[:most])


def _context(index: Index, row: int) -> Context:
    passage = index.passages[row]
    return Context(passage.title, passage.text, passage.id)
