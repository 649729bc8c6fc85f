"""The Porter stemmer: words that differ in their endings get one stem (`recovered`, `recover`).

Source: M. F. Porter, "An algorithm for suffix stripping", Program 14 (3), 1980, with the two later
departures of its author (`-bli`, `-logi`), which is what Lucene has: what it makes equal, BM25 matches.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

_Rule = tuple[str, str]  # ending, what replaces it

_STEP_2: Sequence[_Rule] = [
    *[("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize")],
    *[("bli", "ble"), ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous")],
    *[("ization", "ize"), ("ation", "ate"), ("ator", "ate"), ("alism", "al"), ("iveness", "ive")],
    *[("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"), ("iviti", "ive"), ("biliti", "ble")],
    ("logi", "log"),
]
_STEP_3: Sequence[_Rule] = [
    *[("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", "")],
    ("ness", ""),
]
_STEP_4 = (
    "al ance ence er ic able ible ant ement ment ent sion tion ou ism ate iti ous ive ize".split()
)  # of -sion and -tion only -ion is taken away


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """The stem of a word in lower case. Words of one or two letters stay as they are."""
    if len(word) < 3:
        return word
    word = _step_1(word)
    word = _replace(word, _STEP_2)
    word = _replace(word, _STEP_3)
    for ending in _STEP_4:
        if word.endswith(ending):
            cut = "ion" if ending.endswith("ion") else ending
            if _measure(word.removesuffix(cut)) > 1:
                word = word.removesuffix(cut)
            break
    return _step_5(word)


def _step_1(word: str) -> str:
    """Plurals, -ed and -ing, and y at the end."""
    if word.endswith(("sses", "ies")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    if word.endswith("eed"):
        if _measure(word[:-3]) > 0:
            word = word[:-1]
    else:
        for ending in ("ed", "ing"):
            if word.endswith(ending):
                if _has_vowel(word.removesuffix(ending)):
                    word = _restored(word.removesuffix(ending))
                break
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    return word


def _restored(word: str) -> str:
    """What stands before -ed or -ing, as the word that it comes from is written: hop, hope, fall."""
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if _ends_double(word) and not word.endswith(("l", "s", "z")):
        return word[:-1]
    return word + "e" if _measure(word) == 1 and _ends_short(word) else word


def _step_5(word: str) -> str:
    """An e or a second l at the end of a long word."""
    if word.endswith("e"):
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _ends_short(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word


def _replace(word: str, rules: Sequence[_Rule]) -> str:
    """Apply the first rule whose ending fits, if what stands before it holds a vowel and a consonant."""
    for ending, replacement in rules:
        if word.endswith(ending):
            before = word.removesuffix(ending)
            return before + replacement if _measure(before) > 0 else word
    return word


_SEQUENCE = re.compile("v+c+")


def _shape(word: str) -> str:
    """v for a vowel, c for a consonant; y is a vowel behind a consonant."""
    shape = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and shape.endswith("c"))
        shape += "v" if vowel else "c"
    return shape


def _measure(word: str) -> int:
    """Porter's m: how often consonants follow vowels."""
    return len(_SEQUENCE.findall(_shape(word)))


def _has_vowel(word: str) -> bool:
    return "v" in _shape(word)


def _ends_double(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _shape(word)[-1] == "c"


def _ends_short(word: str) -> bool:
    """Consonant, vowel, consonant, the last one not w, x or y."""
    return _shape(word).endswith("cvc") and word[-1] not in "wxy"
