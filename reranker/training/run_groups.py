"""Groups of a run and its judgements, as rows of the index whose texts are read when a step needs them.

A query of MS MARCO documents has a hundred candidates of seven kilobytes: their texts would fill 242 GB for
all 367,013 queries, their rows fill 0.2 GB.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, NamedTuple, cast

import pyarrow as pa

from linkseek.indexer.index import Level, OpenIndex
from linkseek.reranker.candidates import Candidates, RunCandidates
from linkseek.reranker.pair_texts import AFTER_TITLE, PairFormat, UrlPlace
from linkseek.reranker.training.config import GroupSettings
from linkseek.retriever.mining.pairs import Pair, PairContext
from linkseek.retriever.queries import read_queries
from linkseek.retriever.search.runs import check_questions, read_qrels, read_run
from linkseek.retriever.training.samples.sample_table import SampleTable

ADDRESS_SEPARATOR = " "
"""The text between a document's address and its title."""


@dataclass(frozen=True)
class CandidateTexts:
    """Candidates as training reads them."""

    candidates: Candidates
    url: UrlPlace

    def __call__(self, row: int) -> PairContext:
        """The text of a row."""
        candidate = self.candidates.read(row)
        form = PairFormat(
            url_separator=ADDRESS_SEPARATOR if self.url else "", url_after_title=self.url == AFTER_TITLE
        )
        return PairContext(form.heading(candidate), candidate.text, self.candidates.id(row))


@dataclass(frozen=True)
class _LazyContexts(Sequence[PairContext]):
    """The texts of some rows, each read when it is asked for."""

    rows: Sequence[int]
    read: CandidateTexts

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: Any) -> Any:
        return self.read(self.rows[place])


class RowGroup(NamedTuple):
    """A group as rows, of documents or of passages."""

    query: str
    positive: int
    hard_negatives: tuple[int, ...]


class RunGroupTable(SampleTable[Any]):
    """Stored groups, which are read as pairs."""

    record = RowGroup
    fields = "query", "positive", "hard_negatives"
    columns: ClassVar[Mapping[str, pa.DataType]] = {
        **dict.fromkeys(("place", "query"), pa.string()),
        "documents": pa.bool_(),
    }
    read: CandidateTexts

    def read_from(self, index: OpenIndex, url: UrlPlace) -> None:
        """Say where texts are. url: as `CandidateTexts` has it."""
        level: Level = "documents" if len(self) and self._table.value("documents", 0) else "passages"
        self.read = CandidateTexts(Candidates(index, level), url)

    def _read(self, values: Any) -> Pair:
        negatives = cast(tuple[PairContext, ...], _LazyContexts(values["hard_negatives"], self.read))
        return Pair(values["query"], self.read(values["positive"]), hard_negatives=negatives)


def run_groups(
    data: GroupSettings, index: OpenIndex
) -> tuple[CandidateTexts, Iterator[tuple[str, int, Sequence[int], str]]]:
    """How rows are read; and of each group query, relevant row, other rows, place for messages."""
    assert data.run and data.queries and data.qrels
    run, qrels = read_run(data.run), read_qrels(data.qrels)
    text_of = {query.id: query.text for query in read_queries(data.queries)}
    check_questions(run, text_of, str(data.run))
    queries = [query for query in run if query in text_of]
    ids = list(dict.fromkeys(id_ for query in queries for id_ in (*run[query], *qrels.get(query, {}))))
    candidates = RunCandidates(index, ids, str(data.run))
    row_of = {id_: int(row) for id_, row in zip(ids, candidates.rows, strict=True) if row >= 0}

    def groups() -> Iterator[tuple[str, int, Sequence[int], str]]:
        for query in queries:
            place = f"{data.run.name if data.run else ''}, query {query}"
            for relevant, others in judged_groups(run[query], qrels.get(query, {}), data.depth):
                if relevant in row_of:
                    rows = [row_of[id_] for id_ in others if id_ in row_of]
                    yield text_of[query], row_of[relevant], rows, place

    return CandidateTexts(Candidates(index, candidates.level), False), groups()


def judged_groups(
    results: Iterable[str], judged: Mapping[str, int], depth: int
) -> Iterator[tuple[str, list[str]]]:
    """Each relevant id of a query with the results that are not relevant, higher relevance first.

    Results that are not judged are not relevant.
    """
    others = [id_ for id_ in islice(results, depth) if judged.get(id_, 0) <= 0]
    for id_ in sorted((id_ for id_, value in judged.items() if value > 0), key=lambda id_: -judged[id_]):
        yield id_, others
