"""Candidates of a re-ranker, and the texts that it reads of them.

A pair is (query, text), and the text of a candidate is its title, a separator, and the passage or body. The
separators come from the model's own folder, from the prompts in `config_sentence_transformers.json`, which
sentence-transformers stores for cross-encoders too but does not use:

    title             "no" for a model that was trained without titles; by default they are read
    title_separator   between title and text, such as " [SEP] "; by default a space
    url_separator     between a whole document's address and its title; by default no address is read
    url_place         "after title" for title, URL and body (HARP, section 4.3.3); by default the address
                      comes first (PHP, section 4.3.3)

A document that is longer than the model is truncated at the model's length (FirstP), or read window by
window, with the score of the best window (MaxP; Dai and Callan 2019, section 3). Every window has the title,
is as long as the model reads, and begins half a window after the one before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from tokenizers import Tokenizer

from indexer.base.errors import InputError
from indexer.index import Index, Level, resolve_ids
from indexer.store.artifacts import PASSAGES
from retriever.models.biencoder import TextFormat
from retriever.models.facts import ModelFacts
from retriever.queries import read_queries
from retriever.ranking import Query, Ranking
from retriever.search.runs import check_questions, read_run, run_ranking

TITLE = "title"
"""Among a model's prompts: "no" if it reads no titles."""

URL_SEPARATOR = "url_separator"
"""Among a model's prompts: the text between a document's address and its title."""

URL_PLACE = "url_place"
"""Among a model's prompts: `AFTER_TITLE`, if addresses do not come first."""

AFTER_TITLE: Literal["after title"] = "after title"

UrlPlace = bool | Literal["after title"]
"""Whether a document's address is read (True: before its title) or not."""

Spans = Sequence[tuple[int, int]]
"""The places of tokens in their text, [start, end) in characters."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage, or a whole document with its address."""

    title: str
    text: str
    url: str = ""


@dataclass(frozen=True)
class PairFormat(TextFormat):
    """How a query and a candidate become the two texts that a model reads."""

    url_separator: str = ""
    url_after_title: bool = False

    def heading(self, candidate: Candidate) -> str:
        """Address and title."""
        parts = [candidate.url if self.url_separator else "", candidate.title]
        return self.url_separator.join(filter(None, reversed(parts) if self.url_after_title else parts))

    def head(self, candidate: Candidate) -> str:
        """The text before the candidate's own: address and title with their separators."""
        return self.passage(self.heading(candidate), "")


class Candidates:
    """The passages of an index, or its documents, by their rows."""

    def __init__(self, index: Index, level: Level = "passages") -> None:
        self.level = level
        self._index = index
        self._are_documents = index.parts[PASSAGES].get("words") == 0  # each passage is a whole document

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

    rows: int [n], of the passages or documents of the index. known: bool [n], whether the index holds an id;
    the others cannot be read.
    """

    def __init__(self, index: Index, ids: Sequence[str], name: str) -> None:
        """ids: of the run; two may belong to one document. name: of the run, for errors.

        Raises `InputError` if the index holds none of the ids.
        """
        resolved = resolve_ids(index, ids)
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
    run_path: Path, index: Index, queries_path: Path
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


def windows(head: str, text: str, spans: Spans, room: int) -> list[str]:
    """The text in windows of `room` tokens (1 or more), `head` before each; one window if it fits.

    spans: of the text's tokens. The last window ends with the text and is as long as the others.
    """
    if len(spans) <= room:
        return [head + text]
    starts = [*range(0, len(spans) - room, max(room // 2, 1)), len(spans) - room]
    return [head + text[spans[start][0] : spans[start + room - 1][1]] for start in starts]


class Readable:
    """Truncates texts to the length that a model reads, by its own tokens."""

    def __init__(self, facts: ModelFacts) -> None:
        self._tokenizer = Tokenizer.from_str(facts.tokenizer)
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._tokens = facts.max_tokens
        self._words = re.compile(rf"(?:\s*+\S++){{0,{facts.max_tokens}}}+")

    def start(self, text: str, query: str = "") -> str:
        """As many words as the model reads tokens: as a word has at least one, the rest is not needed.

        The complete text if the query may itself be longer than the model: then their lengths decide which of
        the two is truncated.
        """
        match = self._words.match(text)
        return text if match is None or len(query.encode()) > self._tokens else match.group()

    def windows(self, head: str, text: str, query: str | None = None) -> list[str]:
        """`windows` of as many tokens as the model reads, next to a query if one is given.

        A query of more than half of the model's length is truncated to half, as in any pair, and so is a head
        that would leave less than half of a window to the text.
        """
        room = self._tokens - self._tokenizer.num_special_tokens_to_add(query is not None)
        if query is not None:
            room = max(room - len(self._spans(query)), room // 2, 1)
        before, spans = self._spans(head), self._spans(text)
        if len(before) + len(spans) > room and len(before) > room // 2:
            before = before[: room // 2]
            head = head[: before[-1][1]] + " "
        return windows(head, text, spans, room - len(before))

    def _spans(self, text: str) -> Spans:
        spans: Spans = self._tokenizer.encode(text, add_special_tokens=False).offsets
        return spans
