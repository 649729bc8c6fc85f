"""The language of a corpus: the language that its documents declare, else the one detected in their texts.

Texts are classified by py3langid (Lui and Baldwin 2012), which needs some hundred characters to be right;
the texts of a small corpus are classified together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Annotated, Any

from pydantic import AfterValidator

from linkseek.indexer.language.codes import ENGLISH, SEVERAL, TWO_LETTERS, language_code

METADATA = "language"
"""The key of a document's metadata that contains the language it is in, as its source names it."""

SAMPLE = 200
"""The number of documents that are looked at."""

_CHARACTERS = 1_000  # of a document
_MIN_BYTES = 500  # of all, in UTF-8; fewer are classified together
_MIN_TOGETHER = 100  # fewer show nothing
_MAJORITY = 0.8  # of the bytes; below, an index is one of several languages
_MIN_PROBABILITY = 0.95
_ALIKE = ({"id", "ms"}, {"da", "no"}, {"hr", "bs", "sr"})
"""Languages whose shares in the probability are added: the larger one names both."""


def language_of(texts: Sequence[str], said: Iterable[str] = ()) -> tuple[str, str]:
    """The code of a corpus' language and how it was decided, in words.

    texts: the texts of a sample of its documents. said: the languages that documents name, "" for one that
    names none.
    """
    named = Counter(filter(None, map(language_code, said)))
    if named.total() > len(texts) / 2:
        return _majority(named), "its documents say so"
    starts = [text[:_CHARACTERS] for text in texts]
    counts: Counter[str] = Counter()
    for start in starts:
        counts[detected(start)] += _size(start)
    total = counts.total()
    del counts[""]
    if counts.total() < _MIN_BYTES:
        together = _detected_together(starts) if total >= _MIN_TOGETHER else ""
        if not together:
            return ENGLISH, "assumed, as there is too little text to detect it"
        if len(counts) <= 1:
            counts = Counter({together: total})
    return _majority(counts), "detected; --language CODE names another"


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _majority(counts: Counter[str]) -> str:
    language, count = counts.most_common(1)[0]
    return language if count >= _MAJORITY * counts.total() else SEVERAL


def detected(text: str) -> str:
    """The code of the language of a text; empty where none is probable."""
    language, probability = _ranked(text).most_common(1)[0]
    return language if probability >= _MIN_PROBABILITY else ""


def _detected_together(texts: Sequence[str]) -> str:
    """As `detected`, of texts that are too short alone."""
    probabilities = _ranked(" ".join(texts))
    language, probability = probabilities.most_common(1)[0]
    alike = next((others for others in _ALIKE if language in others), {language})
    probability = sum(probabilities[other] for other in alike)
    return language if probability >= _MIN_PROBABILITY else ""


def _ranked(text: str) -> Counter[str]:
    probabilities: Counter[str] = Counter()
    for label, probability in _classifier().rank(" ".join(text.split())):
        probabilities[language_code(label)] += probability  # variants of Chinese, Norwegian, ... are one
    return probabilities


@cache
def _classifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def checked_language(written: str) -> str:
    """The code of a language as `language_code` returns it, or "auto". Raises `ValueError` for others."""
    code = language_code(written)
    if (not code or (len(code) == 2 and code not in TWO_LETTERS)) and written != "auto":
        raise ValueError(
            "not a code of a language; give one of ISO 639, such as de, ja or pt, or mul for several"
        )
    return code or written


Language = Annotated[str, AfterValidator(checked_language)]
"""An option that names a language."""
