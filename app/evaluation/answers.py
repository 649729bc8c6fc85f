"""Does a passage hold an answer? DPR's rule for open-domain questions (Karpukhin et al. 2020).

Text and answer are brought to Unicode's NFD and cut into tokens: runs of letters, digits and marks,
and any other single character that is neither a separator nor a control. Tokens are lower-cased;
those of the answer must stand side by side among those of the text. Articles and punctuation count,
the title is no part of the text. An answer without any token matches nothing (in DPR it matches
everything). CuratedTREC's regular expressions as answers are left out.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import regex  # type: ignore[import-untyped]
from numpy.typing import NDArray

_TOKEN = regex.compile(r"[\p{L}\p{N}\p{M}]+|[^\p{Z}\p{C}]")


def find_answers(
    answers: Sequence[Sequence[str]],
    rows: NDArray[np.int64],
    text_of: Callable[[int], str],
) -> NDArray[np.bool_]:
    """Which of the retrieved passages hold an answer to their question.

    answers: the answers of Q questions. rows: int64 [Q, k], passage rows, -1 for nothing.
    text_of: a passage's text, without its title, by row; called once for every passage.
    Returns bool [Q, k].
    """
    matchers = [AnswerMatcher(texts) for texts in answers]
    found = np.zeros(rows.shape, np.bool_)
    queries, columns = np.nonzero(rows >= 0)  # [n], [n]
    wanted = rows[queries, columns]  # [n]
    # By passage instead of by question: each text is read, folded and cut into tokens once, in the
    # order in which the passages lie on the disk, and only one is in memory.
    order = np.argsort(wanted, kind="stable")
    last, text = -1, _Text("")
    for query, column, row in zip(
        queries[order].tolist(), columns[order].tolist(), wanted[order].tolist(), strict=True
    ):
        if row != last:
            last, text = row, _Text(text_of(row))
        found[query, column] = matchers[query].matches(text)
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


class _Text:
    """A text as a folded string, for a quick look, and as its tokens, made when they are needed."""

    def __init__(self, text: str) -> None:
        self._normalised = unicodedata.normalize("NFD", text)
        self.folded = _fold(self._normalised.lower())
        self._tokens = ""

    @property
    def tokens(self) -> str:
        """Every token between two spaces: an answer matches where its own such string occurs."""
        if not self._tokens:
            self._tokens = _joined(token.lower() for token in _TOKEN.findall(self._normalised))
        return self._tokens


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
