"""The result of a search from Python: `linkseek.Hits` and `linkseek.Hit`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from linkseek.indexer.passages import Passage
from linkseek.indexer.program.frames import data_frame
from linkseek.retriever.ranking import Query, Ranking
from linkseek.retriever.search.runs import write_run

if TYPE_CHECKING:
    from linkseek import Index


class Hit(NamedTuple):
    """A passage that a search returned, and its score: the higher, the better."""

    passage: Passage
    score: float


@dataclass(frozen=True, eq=False)
class Hits:
    """The best passages for one or many questions; iterates over every `Hit`, by question, best first."""

    index: Index
    queries: tuple[Query, ...]
    ranking: Ranking
    """Rows in `index.passages` and scores, as arrays [questions, k]."""
    pipeline: str

    def __repr__(self) -> str:
        return f"<{len(self)} hits of {self.pipeline} for {len(self.queries)} questions>"

    def __len__(self) -> int:
        return int((self.ranking.rows >= 0).sum())

    def __iter__(self) -> Iterator[Hit]:
        for number in range(len(self.queries)):
            for row, score in self.ranking.results(number):
                yield Hit(self.index.passages[row], score)

    def by_question(self) -> dict[str, Hits]:
        """The hits of each question, by its id."""
        parts = [(query, self.ranking.query(number)) for number, query in enumerate(self.queries)]
        return {query.id: replace(self, queries=(query,), ranking=ranking) for query, ranking in parts}

    def to_run(self, path: str | Path) -> None:
        """Write a TREC run. Raises `UsageError` for a file that Linkseek did not write."""
        write_run(Path(path), self.ranking, self.index.passages.ids, tag=self.pipeline)

    def to_frame(self) -> Any:
        """A pandas DataFrame with a row for each hit. Raises `MachineError` if pandas is not installed."""
        return data_frame(
            ["query_id", "question", "rank", "score", "passage_id", "title", "text"],
            [(id_, hits.queries[0].text, rank, score, passage.id, passage.title, passage.text)
             for id_, hits in self.by_question().items()
             for rank, (passage, score) in enumerate(hits, start=1)],
        )  # fmt: skip
