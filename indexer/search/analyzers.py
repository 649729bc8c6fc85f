"""The analysis of texts by language: from a text to the terms that Lucene indexes.

English is Anserini's default. Other languages have Lucene's own analyzer, or other filters of Lucene: German
verbs get stems too (Caumanns 1999), and accents are dropped after the stemmer where people search without
them. All other languages, and texts in several, have words by Unicode's rules (UAX 29) without case, and
pairs of neighbouring Chinese, Japanese and Korean characters. These words are indexed with and without
accents. In a query, each of the two forms has half of a word's weight: words without accents count as much as
others, and the same accents count more than different ones.

Before that, texts are composed (NFC), ligatures become letters, marks that writers use now and then are
dropped (stress in Cyrillic, breathings in Greek, points in Hebrew, short vowels in Arabic), and Thai, Lao,
Khmer and Burmese are segmented, since Lucene's Thai analyzer needs a part of Java that is not installed, and
Lucene has none for the others.

Lucene carries lists of stop words in Anserini's jar; those of `_SNOWBALL_LISTS` are Snowball's
(https://snowballstem.org, BSD licence; in English 174 entries).
"""

from __future__ import annotations

import unicodedata
import zipfile
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import regex

from linkseek.indexer.encoding.impacts import IMPACTS
from linkseek.indexer.language.codes import ENGLISH
from linkseek.indexer.language.segments import spaced
from linkseek.indexer.program.text import WORD
from linkseek.indexer.search.jvm import anserini_jar, java_class

_PACKAGE = "org.apache.lucene.analysis"
_SNOWBALL = "stop words=org/apache/lucene/analysis/snowball/{}_stop.txt format=snowball"
_STOP = "stop words=org/apache/lucene/analysis/{}/stopwords.txt"

_ELISION = (
    "patternReplace replace=first replacement= pattern=^(?i:[cdjlmnst]|qu|jusqu|lorsqu|puisqu|quoiqu|un|gl|"
    "quest|quell|sant|bell|(?:d|n|s|c)?[aeou]ll)['’](?=\\p{L})"
)
"""Articles and other words that lose their vowel: l'eau, dell'acqua, d'aigua."""

_ANALYZERS = {
    "ar": "ar.Arabic", "bg": "bg.Bulgarian", "bn": "bn.Bengali", "ckb": "ckb.Sorani", "da": "da.Danish",
    "el": "el.Greek", "et": "et.Estonian", "eu": "eu.Basque", "fa": "fa.Persian", "fi": "fi.Finnish",
    "ga": "ga.Irish", "hi": "hi.Hindi", "hy": "hy.Armenian", "id": "id.Indonesian", "ja": "ja.Japanese",
    "ko": "cjk.CJK", "ne": "ne.Nepali", "nl": "nl.Dutch",
    "no": "no.Norwegian", "ru": "ru.Russian", "sr": "sr.Serbian", "sv": "sv.Swedish", "ta": "ta.Tamil",
    "te": "te.Telugu", "tr": "tr.Turkish", "uk": "uk.UkrainianMorfologik", "zh": "cjk.CJK",
}  # fmt: skip
"""Lucene's own analyzers, by language."""

_FILTERS = {
    "ca": [_ELISION, "lowercase", _STOP.format("ca"), "snowballPorter language=Catalan"],
    "cs": ["lowercase", _STOP.format("cz"), "czechStem"],
    "de": ["lowercase", _SNOWBALL.format("german"), "germanNormalization", "germanStem"],
    "es": ["lowercase", _SNOWBALL.format("spanish"), "spanishLightStem"],
    "fr": [_ELISION, "lowercase", _SNOWBALL.format("french"), "frenchLightStem"],
    "gl": ["lowercase", _STOP.format("gl"), "galicianStem"],
    "hu": ["lowercase", _SNOWBALL.format("hungarian"), "hungarianLightStem"],
    "it": [_ELISION, "lowercase", _SNOWBALL.format("italian"), "italianLightStem"],
    "lt": ["lowercase", _STOP.format("lt"), "snowballPorter language=Lithuanian"],
    "lv": ["lowercase", _STOP.format("lv"), "latvianStem"],
    "pl": ["morfologik", "lowercase"],
    "pt": ["lowercase", _SNOWBALL.format("portuguese"), "portugueseLightStem"],
    "ro": ["lowercase", _STOP.format("ro"), "snowballPorter language=Romanian"],
}  # fmt: skip
"""The filters after the tokenizer by language; `_FOLDED` follows."""

_OTHERS = ["cjkWidth", "greekLowercase", "cjkBigram", "decimalDigit"]

_MARKS = r"patternReplace replace=all replacement= pattern=(?<=[a-z0-9])\p{Mn}+"
"""Drops marks that no letter of Unicode includes, such as the tone of Yoruba's ọ̀, next to plain letters."""
_FOLDED = ["asciiFolding", _MARKS]
_BOTH = ["asciiFolding preserveOriginal=true", _MARKS, "removeDuplicates"]


def has_pairs(language: str) -> bool:
    """Whether pairs of neighbouring Chinese, Japanese and Korean characters are the terms of a language."""
    known = {ENGLISH, *_ANALYZERS, *_FILTERS}
    return _ANALYZERS.get(language) == "cjk.CJK" or language not in known


class Analysis(NamedTuple):
    """How texts of a language are analysed: steps in Python, and Lucene's analyzers, which are Java objects.

    analyzer: of passages. forms: of queries, one for each form of a word in the index. The last form is the
    same with and without accents.
    """

    prepare: Callable[[str], str]
    analyzer: Any
    forms: tuple[Any, ...]


def analysis(language: str) -> Analysis:
    """The analysis of a language, for indexing and for queries. Call it in one of `java_threads`."""
    if language == IMPACTS:
        impacts = _chain(["delimitedTermFrequency"], "whitespace")
        return Analysis(str, impacts, (impacts,))
    if language == ENGLISH:
        # `IndexCollection`'s default; loading that class would start Log4j (0.4 s).
        english = java_class("io.anserini.analysis.DefaultEnglishAnalyzer").newDefaultInstance()
        return Analysis(str, english, (english,))
    if name := _ANALYZERS.get(language):
        lucene = java_class(f"{_PACKAGE}.{name}Analyzer")()
        return Analysis(prepared, lucene, (lucene,))
    if filters := _FILTERS.get(language):
        folding = _chain([*filters, *_FOLDED])
        return Analysis(prepared, folding, (folding,))
    both, exact, folded = (_chain([*_OTHERS, *more]) for more in (_BOTH, [_MARKS], _FOLDED))
    return Analysis(prepared, both, (exact, folded))


_OFTEN_OMITTED = regex.compile(
    r"(?<=\p{Cyrillic})[\u0300\u0301]|[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u0652\u0670]"
)
_LIGATURES = regex.compile(r"[ĲĳŒœ\ufb00-\ufb06\ufb50-\ufdfb\ufe70-\ufefc]")
"""Latin ones, and Arabic letters in the forms of a font."""
_POLYTONIC = regex.compile(r"[\u1f00-\u1fff]")
_OFTEN_REPLACED = str.maketrans("ёЁ", "еЕ")


def prepared(text: str) -> str:
    """The text as Lucene gets it, of all languages but English."""
    composed = unicodedata.normalize("NFC", text).translate(_OFTEN_REPLACED)
    composed = _LIGATURES.sub(_letters, composed)
    composed = _POLYTONIC.sub(lambda match: unicodedata.normalize("NFD", match[0])[0], composed)
    return spaced(_OFTEN_OMITTED.sub("", composed))


def _letters(ligature: regex.Match[str]) -> str:
    return {"œ": "oe", "Œ": "Oe"}.get(ligature[0]) or unicodedata.normalize("NFKC", ligature[0])


def _chain(filters: list[str], tokenizer: str = "standard") -> Any:
    """Words by Unicode's rules through filters: the name of each in Lucene, and its arguments."""
    builder = java_class(f"{_PACKAGE}.custom.CustomAnalyzer").builder()
    builder = builder.withTokenizer(tokenizer, java_class("java.util.HashMap")())
    for written in filters:
        name, *pairs = written.split()
        arguments = java_class("java.util.HashMap")()
        for pair in pairs:
            arguments.put(*pair.split("=", 1))
        builder = builder.addTokenFilter(name, arguments)
    return builder.build()


_SNOWBALL_LISTS = {
    "da": "danish", "de": "german", "en": "english", "es": "spanish", "fi": "finnish", "fr": "french",
    "hu": "hungarian", "id": "indonesian", "it": "italian", "nl": "dutch", "no": "norwegian",
    "pt": "portuguese", "ru": "russian", "sv": "swedish",
}  # fmt: skip
_OWN_LISTS = [
    "ar", "bg", "bn", "ca", "ckb", "cs", "el", "et", "eu", "fa", "ga", "gl", "hi", "hy", "ja", "lt", "lv",
    "ne", "ro", "sr", "ta", "te", "th", "tr", "uk",
]  # fmt: skip
LISTS = sorted([*_SNOWBALL_LISTS, *_OWN_LISTS])
"""The languages with a list of stop words."""


@cache
def stop_words(language: str) -> frozenset[str]:
    """The stop words of a language, each split at non-letters: "isn't" is isn and t.

    Raises `KeyError` for one that is not in `LISTS`.
    """
    if language not in LISTS:
        raise KeyError(language)
    snowball, folder = _SNOWBALL_LISTS.get(language), {"cs": "cz"}.get(language, language)
    name = f"snowball/{snowball}_stop" if snowball else f"{folder}/stopwords"
    with zipfile.ZipFile(anserini_jar()) as jar:
        text = jar.read(f"org/apache/lucene/analysis/{name}.txt").decode()
    comment = "|" if snowball else "#"
    lines = (line.partition(comment)[0].lower() for line in text.splitlines())
    return frozenset(word for line in lines for word in WORD.findall(line))
