"""Whether a passage contains an answer, by DPR's rules for open-domain questions (Karpukhin et al. 2020).

tokens: text and answer are normalised to Unicode's NFD and split into tokens: sequences of letters, digits
and marks, and any other single character that is neither a separator nor a control. Tokens are lower-cased;
the answer's tokens must be consecutive tokens of the text. Articles and punctuation count, the title is not
part of the text. An answer without any token matches nothing (in DPR it matches everything). Chinese,
Japanese, Thai, Lao, Khmer, Burmese and Korean characters are a token each, since no blanks separate words, or
particles from words; in DPR an answer must be all that is between two blanks.

regex (CuratedTREC): an answer is a regular expression that is searched for in the text, both in NFD, ignoring
case. One that is invalid, is blank, matches even an empty text or takes too long matches nothing.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any, Literal

import numpy as np
import regex
from numpy.typing import NDArray

from linkseek.indexer.language.segments import JOINED

AnswerKind = Literal["tokens", "regex"]

PATTERN_SECONDS = 1.0
"""How long one regular expression may search one text."""

_SYLLABLE = r"[\u1100-\u115f][\u1160-\u11a7]*+[\u11a8-\u11ff]*+"  # of Korean, in NFD
_TOKEN = regex.compile(
    rf"(?V1)[{JOINED}]\p{{M}}*+|{_SYLLABLE}|[[\p{{L}}\p{{N}}\p{{M}}]--[{JOINED}\u1100-\u115f]]+|[^\p{{Z}}\p{{C}}]"
)
_FLAGS = regex.IGNORECASE | regex.UNICODE | regex.MULTILINE  # as DPR searches
_TOO_SLOW = f"need more than {PATTERN_SECONDS:g} s for a passage"


def find_answers(
    answers: Sequence[Sequence[str]],
    rows: NDArray[np.int64],
    text_of: Callable[[int], str],
    kind: AnswerKind = "tokens",
    on_note: Callable[[str], None] = lambda note: None,
) -> NDArray[np.bool_]:
    """Which of the retrieved passages contain an answer to their question, bool [Q, k].

    answers: of Q questions. rows: int64 [Q, k], passage rows, -1 for nothing. text_of: a passage's text,
    without its title, by row; called once for every passage, and again only after a regular expression has
    taken too long. on_note: gets a sentence on answers that match nothing.
    """
    if kind == "tokens":
        return _find([AnswerMatcher(texts) for texts in answers], rows, text_of)
    matchers = [PatternMatcher(patterns) for patterns in answers]
    matches = np.zeros(rows.shape, np.bool_)  # [Q, k]
    undecided = np.ones(len(matchers), np.bool_)  # [Q]
    while undecided.any():  # again without slow patterns, so that the order of the passages does not matter
        matches[undecided] = _find(matchers, np.where(undecided[:, None], rows, -1), text_of)[undecided]
        undecided = np.array([matcher.has_given_up() for matcher in matchers], np.bool_)
    useless: defaultdict[str, list[str]] = defaultdict(list)
    for matcher in matchers:
        for answer, reason in matcher.useless.items():
            useless[reason].append(answer)
    for reason, patterns in useless.items():
        on_note(f"answers that {reason} match nothing: {len(patterns):,}, such as {patterns[0][:60]!r}")
    return matches


def _find(
    matchers: Sequence[AnswerMatcher | PatternMatcher], rows: NDArray[np.int64], text_of: Callable[[int], str]
) -> NDArray[np.bool_]:
    # By passage instead of by question: each text is read, folded and split into tokens once, in the order on
    # the disk, and only one is in memory. A passage that several pipelines return for the same question is
    # matched once.
    mask = rows >= 0  # [Q, k]
    pairs = rows * len(rows) + np.arange(len(rows))[:, None]  # [Q, k]: passage and question as one number
    unique, place = np.unique(pairs[mask], return_inverse=True)  # [n], [m]
    matches = np.zeros(len(unique), np.bool_)  # [n]
    last, text = -1, _Text("")
    for number, pair in enumerate(unique.tolist()):
        row, query = divmod(pair, len(rows))
        if row != last:
            last, text = row, _Text(text_of(row))
        matches[number] = matchers[query].matches(text)
    row_matches = np.zeros(rows.shape, np.bool_)  # [Q, k]
    row_matches[mask] = matches[place]
    return row_matches


def answer_spans(text: str, answers: Iterable[str]) -> list[tuple[int, int]]:
    """The places of answers in a text: [start, end) in characters of the text as given.

    Sorted; spans that overlap are joined. A character that NFD decomposes is always part of a span as a
    whole, even if the answer is only one of its parts.
    """
    normalised, origin = _nfd_with_origin(text)
    tokens = [(m.group().lower(), m.start(), m.end()) for m in _TOKEN.finditer(normalised)]
    spans: set[tuple[int, int]] = set()
    for answer in {tuple(_tokens(answer)) for answer in answers} - {()}:
        for first in range(len(tokens) - len(answer) + 1):
            part = tokens[first : first + len(answer)]
            if tuple(token for token, _, _ in part) == answer:
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
        # (the longest token as it must occur in the folded text, the complete answer)
        self._answers: list[tuple[str, str]] = []
        for answer in tokens:
            joined = _joined(answer)
            # "Civilian helicopter" matches no text that "helicopter" does not
            if not any(shorter in joined for _, shorter in self._answers):
                self._answers.append((_fold(max(answer, key=len)), joined))

    def matches(self, text: str | _Text) -> bool:
        """Whether the text contains one of the answers."""
        if not isinstance(text, _Text):
            text = _Text(text)
        return any(part in text.folded and joined in text.tokens for part, joined in self._answers)


class PatternMatcher:
    """The answers to one question as regular expressions.

    useless: answers that match nothing, and why.
    """

    def __init__(self, answers: Iterable[str]) -> None:
        self.useless: dict[str, str] = {}
        self._patterns: dict[str, Any] = {}
        self._gave_up = False
        for answer in dict.fromkeys(filter(str.strip, answers)):
            try:
                pattern = regex.compile(unicodedata.normalize("NFD", answer), _FLAGS)
                if pattern.search("", timeout=PATTERN_SECONDS):
                    self.useless[answer] = "match even an empty text"
                else:
                    self._patterns[answer] = pattern
            except (TimeoutError, MemoryError):
                self.useless[answer] = _TOO_SLOW
            except (regex.error, RecursionError, OverflowError, ValueError):
                self.useless[answer] = "are not regular expressions"

    def matches(self, text: str | _Text) -> bool:
        """Whether one of the patterns matches in the text."""
        if not isinstance(text, _Text):
            text = _Text(text)
        for answer, pattern in list(self._patterns.items()):
            try:
                if pattern.search(text.normalised, timeout=PATTERN_SECONDS):
                    return True
            except (TimeoutError, MemoryError):
                self._patterns.pop(answer, None)  # another thread may have given it up
                self.useless[answer] = _TOO_SLOW
                self._gave_up = True
        return False

    def has_given_up(self) -> bool:
        """Whether a pattern was given up since the last call: its matches no longer count."""
        gave_up, self._gave_up = self._gave_up, False
        return gave_up


class _Text:
    """A text in NFD, as a folded string for a quick check, and as its tokens; made when needed."""

    def __init__(self, text: str) -> None:
        self.normalised = unicodedata.normalize("NFD", text)

    @cached_property
    def folded(self) -> str:
        """In lower case, with one form of each letter."""
        return _fold(self.normalised.lower())

    @cached_property
    def tokens(self) -> str:
        """All tokens, each between two spaces: an answer matches where its own string of this form occurs."""
        return _joined(token.lower() for token in _TOKEN.findall(self.normalised))


def _tokens(text: str) -> list[str]:
    return [token.lower() for token in _TOKEN.findall(unicodedata.normalize("NFD", text))]


def _joined(tokens: Iterable[str]) -> str:
    return f" {' '.join(tokens)} "


def _fold(lowered: str) -> str:
    # The one letter whose lower case depends on its neighbours: a capital sigma has another form at the end
    # of a word, and a word may end elsewhere in a token than in the text around it.
    return lowered.replace("ς", "σ")


def _nfd_with_origin(text: str) -> tuple[str, list[int]]:
    """NFD, and for each of its characters the position in `text` of the one it comes from.

    Canonical ordering (Unicode Standard, section 3.11): after a character of combining class 0,
    characters of other classes are sorted by class, stably.
    """
    if text.isascii():
        return text, list(range(len(text)))
    characters: list[tuple[int, int, str, int]] = []  # (run, combining class, part, position)
    run = 0
    for position, character in enumerate(text):
        for part in unicodedata.normalize("NFD", character):
            combining = unicodedata.combining(part)
            run += combining == 0
            characters.append((run, combining, part, position))
    characters.sort(key=itemgetter(0, 1))
    return "".join(part for _, _, part, _ in characters), [position for *_, position in characters]
