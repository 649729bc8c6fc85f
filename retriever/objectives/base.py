"""The interface of an objective of bi-encoders (`retriever.mining.objective`), which makes pairs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.program.text import WORD
from linkseek.retriever.links.source import LinkSource
from linkseek.retriever.links.topology import PassagePairs
from linkseek.retriever.mining.drawn_negatives import NegativeKind, draw_negatives
from linkseek.retriever.mining.objective import Draws, Numbers, Objective, setting
from linkseek.retriever.mining.pairs import Pair, pair_line, passage_context


class PairTexts(NamedTuple):
    """The texts of a pair: the query, and the positive passage as the objective leaves it."""

    query: str
    positive: str


@dataclass(frozen=True)
class PairObjective(Objective[Pair]):
    """One way to make pairs: a query, and the passage that a search for it should find."""

    unit = "pair"
    query_is: ClassVar[str]
    """The query, for the table in the documentation."""
    positive_is: ClassVar[str] = ""
    """The passage to find, for the same table."""

    negatives: NegativeKind = setting(  # noqa: RUF009 (a field, not a shared value)
        "none", "a negative per pair: random, or overlap (mentions the same, but is not a pair)"
    )

    @abstractmethod
    def texts(self, source: LinkSource, pairs: PassagePairs, i: int, draw: int) -> PairTexts | None:
        """The texts of pair i; None if it has none (a passage of one sentence).

        draw: an integer in [0, 2**62) that decides every random choice.
        """

    def kind(self, pairs: PassagePairs, i: int) -> str:
        """The name of pair i's topology (a training batch contains one)."""
        return self.name

    def complete(self, source: LinkSource, rows: PassagePairs, draws: Draws) -> PassagePairs:
        """Add negatives to the drawn candidates."""
        return replace(rows, negative=draw_negatives(source, rows, self.negatives, draws))

    def read(self, source: LinkSource, rows: PassagePairs, draws: Draws) -> Iterator[Pair | None]:
        """The pairs of passages with their texts."""
        passages = source.index.passages
        links = ("query", rows.query_link), ("positive", rows.positive_link), ("shared", rows.shared_link)
        for i, draw in enumerate(draws.tolist()):
            texts = self.texts(source, rows, i, draw)
            if texts is None:
                yield None
                continue
            asked_from = passages[int(rows.query[i])]
            own = {role: int(column[i]) for role, column in links}
            negative = -1 if rows.negative is None else int(rows.negative[i])
            yield Pair(
                query=straight(texts.query),
                positive=replace(passage_context(passages, int(rows.positive[i])), text=texts.positive),
                negatives=(passage_context(passages, negative),) if negative >= 0 else (),
                objective=self.kind(rows, i),
                query_title=asked_from.title,
                query_id=asked_from.id,
                evidence={role: source.link_evidence(link) for role, link in own.items() if link >= 0},
            )

    def line(self, pair: Pair) -> bytes:
        """A pair as a line of JSON."""
        return pair_line(pair)

    def numbers(self, pair: Pair) -> Numbers:
        """Statistics of a pair, with the share of the query's words in its passage."""
        query, positive = pair.query, pair.positive.text
        words, passage_words = _words(query), set(_words(positive))
        overlap = sum(word in passage_words for word in words) / len(words) if words else 0.0
        worse = len(pair.negatives)
        return Numbers(pair.objective, len(query.split()), len(positive.split()), worse, overlap)

    def generator(self, seed: int) -> np.random.Generator:
        """A generator from the seed alone, so that an objective draws the same pairs in a mix as alone."""
        return np.random.default_rng(seed)


def straight(text: str) -> str:
    """A text with straight apostrophes, as HLP's released pairs have them; of the same length."""
    return text.replace("\u2019", "'")


def _words(text: str) -> list[str]:
    return [word.lower() for word in WORD.findall(text)]


def pairs_without_query_link(
    query: NDArray[Any], positive: NDArray[Any], positive_link: NDArray[Any] | None = None
) -> PassagePairs:
    """Candidates whose query is chosen when its text is read.

    query: int [n], the passage that the query is from, or the first one of the document that it is from.
    """
    none = np.full(len(query), -1, np.int32)
    link = none if positive_link is None else positive_link.astype(np.int32)
    return PassagePairs(query.astype(np.int32), positive.astype(np.int32), none, link, none)
