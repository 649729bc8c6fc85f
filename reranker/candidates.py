"""Candidates of a re-ranker: passages or documents of an index, or of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from linkseek.indexer.index import Level, OpenIndex
from linkseek.indexer.program.errors import InputError
from linkseek.reranker.pair_texts import Candidate
from linkseek.retriever.queries import read_queries
from linkseek.retriever.ranking import Query, Ranking
from linkseek.retriever.search.runs import check_questions, read_run, resolve_columns, run_ranking


class Candidates:
    """The passages of an index, or its documents, by their rows."""

    def __init__(self, index: OpenIndex, level: Level = "passages") -> None:
        self.level = level
        self._index = index
        self._are_documents = index.parts.passages.words == 0  # each passage is a whole document

    def index_row(self, row: int) -> int:
        """The row of the index, of a passage or a document, that a row stands for."""
        return row

    def read(self, row: int) -> Candidate:
        """The candidate of a row; with its address if it is a whole document."""
        row = self.index_row(row)
        if self.level == "documents":
            table = self._index.documents.table
            return Candidate(*(str(table.value(name, row)) for name in ("title", "text", "url")))
        passage = self._index.passages[row]
        return Candidate(
            passage.title, passage.text, self._index.document_url(row) if self._are_documents else ""
        )

    def id(self, row: int) -> str:
        """The id of a row."""
        if self.level == "documents":
            return str(self._index.documents.table.value("id", row))
        return self._index.passages[row].id


class RunCandidates(Candidates):
    """Passages, or documents if more of a run's ids are ids of documents. Rows are places in the list of ids.

    rows: int [n], of the passages or documents of the index. known: bool [n], whether the index contains an
    id; the others cannot be read.
    """

    def __init__(self, index: OpenIndex, ids: Sequence[str], name: str) -> None:
        """ids: the ids of the run; two may belong to one document. name: the run's name, for errors.

        Raises `InputError` if the index contains none of the ids.
        """
        resolved = resolve_columns(index, ids)
        super().__init__(index, resolved.level)
        self._ids, self.rows = ids, resolved.rows  # [n]
        self.known = self.rows >= 0
        if not self.known.any():
            raise InputError(
                f"{name}: none of its ids (such as {ids[0]!r}) is a passage or a document of the index",
                "Use the index that the run was made with.",
            )

    def index_row(self, row: int) -> int:
        """The row of an id."""
        return int(self.rows[row])

    def id(self, row: int) -> str:
        """The id as in the run."""
        return self._ids[row]


def read_candidates(
    run_path: Path, index: OpenIndex, queries_path: Path
) -> tuple[list[Query], Ranking, RunCandidates, list[str]]:
    """A run's questions, its candidates as a `Ranking` of rows of `RunCandidates`, and notes on skipped ones.

    Raises the errors of the readers, and `InputError` if the run has other questions or belongs to another
    index.
    """
    run = read_run(run_path)
    query_of = {query.id: query for query in read_queries(queries_path)}
    check_questions(run, query_of, str(run_path))
    queries = [query_of[query_id] for query_id in run if query_id in query_of]
    ids = list(dict.fromkeys(id_ for query in queries for id_ in run[query.id]))
    candidates = RunCandidates(index, ids, str(run_path))
    row_of = {id_: row for row, id_ in enumerate(ids) if candidates.known[row]}
    known = {
        query.id: {id_: score for id_, score in run[query.id].items() if id_ in row_of} for query in queries
    }
    ranking = run_ranking(known, list(known), lambda ids: np.array([row_of[id_] for id_ in ids], np.int64))
    notes = []
    if skipped := len(run) - len(queries):
        notes.append(f"{skipped:,} questions of the run are not in {queries_path}; skipped")
    if unknown := sum(len(run[query.id]) - len(known[query.id]) for query in queries):
        notes.append(f"{unknown:,} candidates of the run are not in the index; skipped")
    if empty := sum(not results for results in known.values()):
        notes.append(f"{empty:,} questions have no candidate in the index and get no results")
    return queries, ranking, candidates, notes
