"""Does a passage hold an answer? DPR's rules for open-domain questions (Karpukhin et al. 2020).

tokens: text and answer are brought to Unicode's NFD and cut into tokens: runs of letters, digits and
marks, and any other single character that is neither a separator nor a control. Tokens are
lower-cased; those of the answer must stand side by side among those of the text. Articles and
punctuation count, the title is no part of the text. An answer without any token matches nothing (in
DPR it matches everything).

regex (CuratedTREC): an answer is a regular expression that is searched for in the text, both in NFD,
without regard to case. One that is none, is blank, matches even an empty text or takes too long
matches nothing.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
import regex  # type: ignore[import-untyped]
from numpy.typing import NDArray

AnswerKind = Literal["tokens", "regex"]

PATTERN_SECONDS = 1.0
"""How long one regular expression may search one text."""

_TOKEN = regex.compile(r"[\p{L}\p{N}\p{M}]+|[^\p{Z}\p{C}]")


def find_answers(
    answers: Sequence[Sequence[str]],
    rows: NDArray[np.int64],
    text_of: Callable[[int], str],
    kind: AnswerKind = "tokens",
    on_note: Callable[[str], None] = lambda note: None,
) -> NDArray[np.bool_]:
    """Which of the retrieved passages hold an answer to their question.

    answers: the answers of Q questions. rows: int64 [Q, k], passage rows, -1 for nothing.
    text_of: a passage's text, without its title, by row; called once for every passage, and again
    only after a regular expression has taken too long. on_note is told which ones match nothing.
    Returns bool [Q, k].
    """
    matchers: list[AnswerMatcher] | list[PatternMatcher]
    if kind == "tokens":
        matchers = [AnswerMatcher(texts) for texts in answers]
        return _find(matchers, rows, text_of)
    matchers = [PatternMatcher(patterns) for patterns in answers]
    found = _find(matchers, rows, text_of)
    gave_up = [matcher.has_given_up() for matcher in matchers]
    while any(gave_up):  # without that pattern, so that the order of the passages does not matter
        found[gave_up] = _find(matchers, np.where(np.array(gave_up)[:, None], rows, -1), text_of)[gave_up]
        gave_up = [matcher.has_given_up() for matcher in matchers]
    useless: dict[str, list[str]] = {}
    for matcher in matchers:
        for answer, reason in matcher.useless.items():
            useless.setdefault(reason, []).append(answer)
    for reason, patterns in useless.items():
        on_note(f"answers that {reason} match nothing: {len(patterns):,}, such as {patterns[0][:60]!r}")
    return found


def _find(
    matchers: Sequence[AnswerMatcher | PatternMatcher],
    rows: NDArray[np.int64],
    text_of: Callable[[int], str],
) -> NDArray[np.bool_]:
    # By passage instead of by question: each text is read, folded and cut into tokens once, in the
    # order in which the passages lie on the disk, and only one is in memory. Several pipelines' results
    # side by side hold the same passage for the same question; it is looked at once.
    there = rows >= 0  # [Q, k]
    pairs = rows * len(rows) + np.arange(len(rows))[:, None]  # [Q, k]: passage and question as one number
    wanted, place = np.unique(pairs[there], return_inverse=True)  # [n], [m]
    holds = np.zeros(len(wanted), np.bool_)  # [n]
    last, text = -1, _Text("")
    for number, pair in enumerate(wanted.tolist()):
        row, query = divmod(pair, len(rows))
        if row != last:
            last, text = row, _Text(text_of(row))
        holds[number] = matchers[query].matches(text)
    found = np.zeros(rows.shape, np.bool_)  # [Q, k]
    found[there] = holds[place]
    return found


def answer_spans(text: str, answers: Iterable[str]) -> list[tuple[int, int]]:
    """Where answers stand in a text: [start, end) in characters of the text as given.

    Sorted; spans that overlap are joined. A character that NFD takes apart is marked whole, even if
    the answer is only one of its parts.
    """
    normalised, origin = _nfd_with_origin(text)
    tokens = [(m.group().lower(), m.start(), m.end()) for m in _TOKEN.finditer(normalised)]
    spans: set[tuple[int, int]] = set()
    for wanted in {tuple(_tokens(answer)) for answer in answers} - {()}:
        for first in range(len(tokens) - len(wanted) + 1):
            part = tokens[first : first + len(wanted)]
            if all(token == want for (token, _, _), want in zip(part, wanted, strict=True)):
                covered = origin[part[0][1] : part[-1][2]]
                spans.add((min(covered), max(covered) + 1))
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


class AnswerMatcher:
    """The answers to one question, prepared for many texts."""

    def __init__(self, answers: Iterable[str]) -> None:
        tokens = sorted({tuple(_tokens(answer)) for answer in answers} - {()}, key=len)
        # (a token of the answer as it must occur in the folded text, the whole answer)
        self._answers: list[tuple[str, str]] = []
        for answer in tokens:
            whole = _joined(answer)
            # "Civilian helicopter" says no more than "helicopter"
            if not any(shorter in whole for _, shorter in self._answers):
                self._answers.append((_fold(max(answer, key=len)), whole))

    def matches(self, text: str | _Text) -> bool:
        """Whether one of the answers stands in the text."""
        if not isinstance(text, _Text):
            text = _Text(text)
        return any(part in text.folded and whole in text.tokens for part, whole in self._answers)


class PatternMatcher:
    """The answers to one question as regular expressions.

    useless: answers that match nothing, and why.
    """

    def __init__(self, answers: Iterable[str]) -> None:
        self.useless: dict[str, str] = {}
        self._patterns: dict[str, Any] = {}
        self._gave_up = False
        for answer in dict.fromkeys(answers):
            if not answer.strip():
                continue
            try:
                pattern = regex.compile(unicodedata.normalize("NFD", answer), _FLAGS)
                if pattern.search("", timeout=PATTERN_SECONDS):
                    self.useless[answer] = "match even an empty text"
                else:
                    self._patterns[answer] = pattern
            except (TimeoutError, MemoryError):
                self.useless[answer] = _TOO_SLOW
            except (regex.error, RecursionError, OverflowError, ValueError):
                self.useless[answer] = "are no regular expressions"

    def matches(self, text: str | _Text) -> bool:
        """Whether one of the answers stands in the text."""
        if not isinstance(text, _Text):
            text = _Text(text)
        for answer, pattern in list(self._patterns.items()):
            try:
                if pattern.search(text.normalised, timeout=PATTERN_SECONDS):
                    return True
            except (TimeoutError, MemoryError):
                del self._patterns[answer]
                self.useless[answer] = _TOO_SLOW
                self._gave_up = True
        return False

    def has_given_up(self) -> bool:
        """Whether an answer was given up since this was last asked: what it matched no longer counts."""
        gave_up, self._gave_up = self._gave_up, False
        return gave_up


_FLAGS = regex.IGNORECASE | regex.UNICODE | regex.MULTILINE  # as DPR searches
_TOO_SLOW = f"need more than {PATTERN_SECONDS:g} s for a passage"


class _Text:
    """A text in NFD, as a folded string for a quick look, and as its tokens; made when needed."""

    def __init__(self, text: str) -> None:
        self.normalised = unicodedata.normalize("NFD", text)

    @cached_property
    def folded(self) -> str:
        """In lower case, and alike for all forms of a letter."""
        return _fold(self.normalised.lower())

    @cached_property
    def tokens(self) -> str:
        """Every token between two spaces: an answer matches where its own such string occurs."""
        return _joined(token.lower() for token in _TOKEN.findall(self.normalised))


def _tokens(text: str) -> list[str]:
    return [token.lower() for token in _TOKEN.findall(unicodedata.normalize("NFD", text))]


def _joined(tokens: Iterable[str]) -> str:
    return f" {' '.join(tokens)} "


def _fold(lowered: str) -> str:
    # The one letter whose lower case depends on its neighbours: a capital sigma ends a word in
    # another form, and where a word ends is decided by token for tokens, by text for texts.
    return lowered.replace("ς", "σ")


def _nfd_with_origin(text: str) -> tuple[str, list[int]]:
    """NFD, and for each of its characters the position in `text` of the one it comes from.

    Canonical ordering (Unicode Standard, section 3.11): each run of characters of a combining class
    other than 0 is sorted by class, stably.
    """
    if text.isascii():
        return text, list(range(len(text)))
    characters = [
        (part, position)
        for position, character in enumerate(text)
        for part in unicodedata.normalize("NFD", character)
    ]
    start = 0
    for end in range(1, len(characters) + 1):
        if end == len(characters) or not unicodedata.combining(characters[end][0]):
            marks = [pair for pair in characters[start:end] if unicodedata.combining(pair[0])]
            if len(marks) > 1:
                marks.sort(key=lambda pair: unicodedata.combining(pair[0]))
                characters[end - len(marks) : end] = marks
            start = end
    return "".join(part for part, _ in characters), [position for _, position in characters]
