"""What a re-ranker reads of a candidate.

A pair is (query, text), and the text of a candidate is its title, a separator, and the passage or body. What
stands between is said by the model's own folder, among the prompts in `config_sentence_transformers.json`,
which sentence-transformers keeps for cross-encoders too and applies to nothing:

    "title_separator"   between title and text, such as " [SEP] "; without it a space
    "url_separator"     the model reads the address of a whole document before its title, and this between the
                        two (URL, title and body: HARP, section 4.2; PHP); without it no address is read

A document that is longer than the model is cut at the model's length (FirstP), or read window by window, its
score being that of the best window (MaxP; Dai and Callan 2019, section 3). Every window has the title, is as
long as the model reads, and begins half a window after the one before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tokenizers import Tokenizer

from indexer.base.errors import InputError
from indexer.index import Index, resolve_ids
from indexer.store.artifacts import PASSAGES
from retriever.models.biencoder import TextFormat
from retriever.models.facts import ModelFacts

URL_SEPARATOR = "url_separator"
"""Among a model's prompts: what it reads between a document's address and its title."""

Spans = Sequence[tuple[int, int]]
"""Where the tokens of a text stand in it, from character to character."""


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

    def head(self, candidate: Candidate) -> str:
        """What stands before the candidate's text."""
        parts = [candidate.url if self.url_separator else "", candidate.title]
        return self.passage(self.url_separator.join(filter(None, parts)), "")


class Candidates(Protocol):
    """What is re-ranked, by the rows of a `Ranking`."""

    def read(self, row: int) -> Candidate:
        """The candidate of a row."""

    def id(self, row: int) -> str:
        """What people call it."""


class PassageCandidates:
    """The passages of an index, by their rows; with addresses where they are whole documents."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._whole = index.parts[PASSAGES].get("words") == 0

    def read(self, row: int) -> Candidate:
        """The passage of a row."""
        passage = self._index.passages[row]
        return Candidate(passage.title, passage.text, self._index.document_url(row) if self._whole else "")

    def id(self, row: int) -> str:
        """The passage's id."""
        return self._index.passages[row].id


class DocumentCandidates:
    """The documents of an index, by their rows."""

    def __init__(self, index: Index) -> None:
        self._table = index.documents.table

    def read(self, row: int) -> Candidate:
        """The document of a row, without its links."""
        return Candidate(*(str(self._table.value(name, row)) for name in ("title", "text", "url")))

    def id(self, row: int) -> str:
        """The document's id."""
        return str(self._table.value("id", row))


class RunCandidates:
    """What the ids of a run name: passages, or documents if more of the ids are such. Rows are places of ids.

    level: which of the two. known: bool [n], which ids the index holds; the others cannot be read.
    """

    def __init__(self, index: Index, ids: Sequence[str], name: str) -> None:
        """ids: as the run has them; two may name one document. name: of the run, for errors.

        Raises `InputError` if the index holds none of the ids.
        """
        resolved = resolve_ids(index, ids)
        self.level, self._rows = resolved.level, resolved.rows  # [n]
        self.known = self._rows >= 0
        if not self.known.any():
            raise InputError(
                f"{name}: none of its ids (such as {ids[0]!r}) is a passage or a document of the index",
                "Use the index that the run was made with.",
            )
        self._ids = ids
        self._candidates: Candidates = (
            DocumentCandidates if self.level == "documents" else PassageCandidates
        )(index)

    def read(self, row: int) -> Candidate:
        """The candidate that an id names."""
        return self._candidates.read(int(self._rows[row]))

    def id(self, row: int) -> str:
        """The id as the run has it."""
        return self._ids[row]


# --- documents that are longer than the model ------------------------------------------------------


def windows(head: str, text: str, spans: Spans, room: int) -> list[str]:
    """The text in windows of `room` tokens (1 or more), `head` before each; a text that fits is one window.

    spans: of the text's tokens. The last window ends with the text and is as long as the others.
    """
    if len(spans) <= room:
        return [head + text]
    starts = [*range(0, len(spans) - room, max(room // 2, 1)), len(spans) - room]
    return [head + text[spans[start][0] : spans[start + room - 1][1]] for start in starts]


class Readable:
    """How much of a text a model reads, by its own tokens."""

    def __init__(self, facts: ModelFacts) -> None:
        self._tokenizer = Tokenizer.from_str(facts.tokenizer)
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._tokens = facts.max_tokens
        self._words = re.compile(rf"(?:\s*+\S++){{0,{facts.max_tokens}}}+")

    def start(self, text: str, query: str = "") -> str:
        """As many words as the model reads tokens, which are no fewer: the rest need not be tokenised.

        All of it beside a query that may itself be longer than the model: which of the two is longer decides
        where they are cut.
        """
        found = self._words.match(text)
        return text if found is None or len(query.encode()) > self._tokens else found.group()

    def windows(self, head: str, text: str, query: str | None = None) -> list[str]:
        """`windows` of as many tokens as are read, beside a query where one is given.

        A query of more than half of the model's length is read to its half, as in any pair, and a head that
        would leave less than half of a window to the text is cut.
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
