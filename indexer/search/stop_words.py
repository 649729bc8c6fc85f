"""The stop words of languages, as Lucene carries them in Anserini's jar.

The lists of `_SNOWBALL` are Snowball's (https://snowballstem.org, BSD licence; in English 174 entries).
"""

from __future__ import annotations

import zipfile
from functools import cache

from linkseek.indexer.program.text import WORD
from linkseek.indexer.search.jvm import anserini_jar

_SNOWBALL = {
    "da": "danish", "de": "german", "en": "english", "es": "spanish", "fi": "finnish", "fr": "french",
    "hu": "hungarian", "id": "indonesian", "it": "italian", "nl": "dutch", "no": "norwegian",
    "pt": "portuguese", "ru": "russian", "sv": "swedish",
}  # fmt: skip
_OWN = [
    "ar", "bg", "bn", "ca", "ckb", "cs", "el", "et", "eu", "fa", "ga", "gl", "hi", "hy", "ja", "lt", "lv",
    "ne", "ro", "sr", "ta", "te", "th", "tr", "uk",
]  # fmt: skip
LISTS = sorted([*_SNOWBALL, *_OWN])
"""The languages that have a list."""


@cache
def stop_words(language: str) -> frozenset[str]:
    """The stop words of a language, each split at what is no letter: "isn't" is isn and t.

    Raises `KeyError` for one that is not in `LISTS`.
    """
    if language not in LISTS:
        raise KeyError(language)
    folder = {"cs": "cz"}.get(language, language)
    name = f"snowball/{_SNOWBALL[language]}_stop" if language in _SNOWBALL else f"{folder}/stopwords"
    with zipfile.ZipFile(anserini_jar()) as jar:
        text = jar.read(f"org/apache/lucene/analysis/{name}.txt").decode()
    comment = "|" if language in _SNOWBALL else "#"
    lines = (line.partition(comment)[0].lower() for line in text.splitlines())
    return frozenset(word for line in lines for word in WORD.findall(line))
