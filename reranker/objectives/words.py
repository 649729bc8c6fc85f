"""Words of texts, and the words of a language that say nothing of what a text is about.

The stop lists are Snowball's (https://snowballstem.org, BSD licence; in English 174 entries) as Lucene
carries them in Anserini's jar. PROP and HARP take INQUERY's list, which is longer (418) and English alone.
"""

from __future__ import annotations

import zipfile
from functools import cache

import numpy as np

from indexer.base.errors import UsageError
from indexer.base.text import WORD
from indexer.search.jvm import anserini_jar

_LISTS = {
    "da": "danish", "de": "german", "en": "english", "es": "spanish", "fi": "finnish", "fr": "french",
    "hu": "hungarian", "id": "indonesian", "it": "italian", "nl": "dutch", "no": "norwegian",
    "pt": "portuguese", "ru": "russian", "sv": "swedish",
}  # fmt: skip


def words_of(text: str) -> list[str]:
    """The words of a text in order, in lower case."""
    return WORD.findall(text.lower())  # type: ignore[no-any-return]


@cache
def stop_words(language: str) -> frozenset[str]:
    """The stop words of a language, an ISO 639-1 code; as `words_of` finds them, so "isn't" is isn and t.

    Raises `UsageError` for a language without a list.
    """
    if language not in _LISTS:
        raise UsageError(
            f"no stop list for the language {language!r}", f"There are lists for {', '.join(_LISTS)}."
        )
    with zipfile.ZipFile(anserini_jar()) as jar:
        text = jar.read(f"org/apache/lucene/analysis/snowball/{_LISTS[language]}_stop.txt").decode()
    # A vertical bar begins a comment.
    return frozenset(word for line in text.splitlines() for word in words_of(line.partition("|")[0]))


def draw_count(mean: float, generator: np.random.Generator) -> int:
    """How many words a query has: Poisson's, drawn again below 1.

    PROP's equation in section 3.1 and HARP's equation 4 lack the factorial; zero-truncated is what their
    "x = 1, 2, 3, ..." means.
    """
    while True:
        count = int(generator.poisson(mean))
        if count:
            return count
