"""Words of texts, and the stop words of languages.

PROP and HARP take INQUERY's stop list, which is longer (418) than Lucene's (174) and only English.
"""

from __future__ import annotations

import numpy as np

from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.program.text import WORD
from linkseek.indexer.search.analyzers import LISTS
from linkseek.indexer.search.analyzers import stop_words as language_stop_words


def words_of(text: str) -> list[str]:
    """The words of a text in order, in lower case."""
    return WORD.findall(text.lower())  # type: ignore[no-any-return]


def stop_words(language: str) -> frozenset[str]:
    """The stop words of a language, split by `words_of`. Raises `UsageError` for one without a list."""
    try:
        return language_stop_words(language)
    except KeyError:
        raise UsageError(
            f"no stop list for the language {language!r}", f"There are lists for {', '.join(LISTS)}."
        ) from None


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
