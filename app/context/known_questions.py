"""Questions with known answers: suggestions for the search page, and whether a passage is relevant.

A question is recognised with other case and white space, and without its question mark. There are two grounds
of relevance: a passage contains one of the answers by DPR's rules (`retriever.answers`); it or its document
is judged relevant. A measure is on one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.machine.once import shared_property
from linkseek.indexer.passages import Passage
from linkseek.indexer.program.bundled import bundled
from linkseek.retriever.answers import AnswerKind, AnswerMatcher, PatternMatcher, answer_spans
from linkseek.retriever.queries import read_queries
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.query_words import Span
from linkseek.retriever.search.runs import Qrels, read_qrels

Ground = Literal["answers", "judgements"]

SAMPLE_CORPUS = "linkseek-sample.xml.bz2"
SAMPLE_QUESTIONS = bundled("samples/questions.jsonl")
SAMPLE_QRELS = SAMPLE_QUESTIONS.with_name("qrels.txt")

# Plain ones that words alone answer, and reworded ones that need more.
_FIRST = ("sample-093", "sample-003", "sample-007", "sample-098", "sample-015", "sample-040")

_MARKS = " ?.!\u2026\u061f\uff1f"  # with which a question may end
_MAX_MARKED = 20_000  # characters in which answers are marked; `is_relevant` reads the whole text


@dataclass(frozen=True)
class Known:
    """The answers and judgements of one question; false if it has neither.

    relevance: passage or document id -> judgement, from 1. kind: of the answers. ground: which counts where
    both are known.
    """

    answers: tuple[str, ...] = ()
    relevance: Mapping[str, int] | None = None
    kind: AnswerKind = "tokens"
    ground: Ground = "answers"

    def __bool__(self) -> bool:
        return bool(self.answers) or self.relevance is not None

    @shared_property
    def _matcher(self) -> AnswerMatcher | PatternMatcher:
        return AnswerMatcher(self.answers) if self.kind == "tokens" else PatternMatcher(self.answers)

    @property
    def grounds(self) -> list[Ground]:
        """The known grounds of relevance, the one that counts first."""
        known: dict[Ground, bool] = {"answers": bool(self.answers), "judgements": self.relevance is not None}
        return sorted(filter(known.__getitem__, known), key=lambda ground: ground != self.ground)

    def relevance_of(self, passage: Passage) -> dict[Ground, bool]:
        """Whether a passage is relevant on each of `grounds`."""
        return {ground: self._is_relevant(passage, ground) for ground in self.grounds}

    def _is_relevant(self, passage: Passage, ground: Ground) -> bool:
        if ground == "answers":
            return self._matcher.matches(passage.text)
        return max((self.relevance or {}).get(id_, 0) for id_ in (passage.id, passage.document_id)) > 0

    def spans(self, text: str) -> tuple[Span, ...]:
        """The places of answers in a text, in characters; none of answers that are patterns."""
        if not self.answers or self.kind != "tokens":
            return ()
        return tuple(answer_spans(text[:_MAX_MARKED], self.answers))


class KnownQuestions:
    """The questions of a test set, looked up by their text."""

    def __init__(
        self,
        queries: Sequence[Query],
        qrels: Qrels | None = None,
        kind: AnswerKind = "tokens",
        first: Sequence[str] = (),
    ) -> None:
        """qrels: judgements by the queries' ids. kind: of the answers. first: ids to suggest first."""
        self.queries = tuple(queries)
        self._qrels, self._kind, self._first = qrels, kind, first
        self._by_text = {_folded(query.text): query for query in reversed(self.queries)}

    def find(self, question: str) -> Known:
        """The answers and judgements of a question."""
        query = self._by_text.get(_folded(question))
        if query is None:
            return Known()
        relevance = None if self._qrels is None else self._qrels.get(query.id)
        return Known(query.answers, relevance, self._kind)

    def suggestions(self, count: int = 6) -> list[str]:
        """A few questions to start with: `first`, then others.

        The others are taken from all over the test set, because neighbours are often about one article.
        """
        chosen = [query for id_ in self._first for query in self.queries if query.id == id_]
        others = [query for query in self.queries if query.id not in self._first]
        step = max(len(others) // count, 1)
        return [query.text for query in [*chosen, *others[::step]][:count]]


def sample_questions(index: OpenIndex) -> KnownQuestions:
    """The questions of the sample for its index; none for any other."""
    if index.manifest.corpus.file != SAMPLE_CORPUS:
        return KnownQuestions([])
    return KnownQuestions(read_queries(SAMPLE_QUESTIONS), read_qrels(SAMPLE_QRELS), first=_FIRST)


def _folded(question: str) -> str:
    return " ".join(question.casefold().replace("\u2019", "'").split()).rstrip(_MARKS)
