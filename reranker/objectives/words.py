"""Words of texts, and the stop words of languages.

The stop lists are Snowball's (https://snowballstem.org, BSD licence; in English 174 entries) as Lucene
carries them in Anserini's jar. PROP and HARP take INQUERY's list, which is longer (418) and only English.
"""

from __future__ import annotations

import zipfile
from functools import cache

import numpy as np

from linkseek.indexer.base.errors import UsageError
from linkseek.indexer.base.text import WORD
from linkseek.indexer.search.jvm import anserini_jar

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
    """The stop words of a language, an ISO 639-1 code, split by `words_of`: "isn't" is isn and t.

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


MEAN_WORDS = "mean number of words drawn for a query (Poisson's distribution)"
"""The meaning of the setting `mean_words`, of PROP and HARP."""


def draw_count(mean: float, generator: np.random.Generator) -> int:
    """The number of words of a query, by Poisson's distribution; 0 is drawn again.

    PROP's equation in section 3.1 and HARP's equation 4 lack the factorial; zero-truncated is what their
    "x = 1, 2, 3, ..." means.
    """
    while True:
        count = int(generator.poisson(mean))
        if count:
            return count
