"""How a query and a candidate become the two texts that a model reads.

A pair is (query, text), and the text of a candidate is its title, a separator, and the passage or body. The
separators come from the model's own folder, from the prompts in `config_sentence_transformers.json`, which
sentence-transformers stores for cross-encoders too but does not use:

    title             "no" for a model that was trained without titles; by default they are read
    title_separator   between title and text, such as " [SEP] "; by default a space
    url_separator     between a whole document's address and its title; by default no address is read
    url_place         "after title" for title, URL and body (HARP, section 4.3.3); by default the address
                      comes first (PHP, section 4.3.3)

A document that is longer than the model is read window by window, with the score of the best window (MaxP;
Dai and Callan 2019, section 3), or truncated at the model's length (FirstP). Every window has the title, is
as long as the model reads, and begins half a window after the one before. At most `MAX_WINDOWS` windows of a
document are read, which bounds the pairs of a question.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tokenizers import Tokenizer

from linkseek.retriever.models.biencoder import TextFormat
from linkseek.retriever.models.checks.tokenizer_costs import panics_refused
from linkseek.retriever.models.facts import ModelFacts

TITLE = "title"
"""Among a model's prompts: "no" if it reads no titles."""

URL_SEPARATOR = "url_separator"
"""Among a model's prompts: the text between a document's address and its title."""

URL_PLACE = "url_place"
"""Among a model's prompts: `AFTER_TITLE`, if addresses do not come first."""

AFTER_TITLE: Literal["after title"] = "after title"

UrlPlace = bool | Literal["after title"]
"""Whether a document's address is read (True: before its title) or not."""

MAX_WINDOWS = 30
"""of a text; 256 tokens long, they contain some 3,000 words"""

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


def windows(head: str, text: str, spans: Spans, room: int) -> list[str]:
    """The text in windows of `room` tokens (1 or more), `head` before each; one window if it fits.

    spans: the spans of the text's tokens. The last window ends with the text and is as long as the others. At
    most `MAX_WINDOWS` are kept, evenly spaced, with the first and the last.
    """
    if len(spans) <= room:
        return [head + text]
    starts = [*range(0, len(spans) - room, max(room // 2, 1)), len(spans) - room]
    if len(starts) > MAX_WINDOWS:
        starts = [starts[n * (len(starts) - 1) // (MAX_WINDOWS - 1)] for n in range(MAX_WINDOWS)]
    return [head + text[spans[start][0] : spans[start + room - 1][1]] for start in starts]


class Readable:
    """Truncates texts to the length that a model reads, by its own tokens."""

    def __init__(self, facts: ModelFacts) -> None:
        self._tokenizer = Tokenizer.from_str(facts.tokenizer)
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._tokens = facts.max_tokens
        self._is_cut_left = facts.truncation_side == "left"
        self._words = re.compile(rf"(?:\s*+\S++){{0,{facts.max_tokens}}}+")

    def start(self, text: str, query: str = "") -> str:
        """As many words as the model reads tokens: as a word has at least one, the rest is not needed.

        The complete text if the query may itself be longer than the model: then their lengths decide which of
        the two is truncated. So it is if texts lose their beginning.
        """
        if self._is_cut_left:
            return text
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
        with panics_refused("the tokenizer of the re-ranker"):
            spans: Spans = self._tokenizer.encode(text, add_special_tokens=False).offsets
        return spans
