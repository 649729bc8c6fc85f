"""Which words of a passage a question asks for, for marking them on a page or in a terminal.

Words are compared without case and accents, and in singular and plural alike, by the S stemmer
(Harman 1991, "How effective is suffixing?", table 1); Lucene's stemmer goes further, so BM25 can have
matched a word that is not marked. Words of no content are not marked.
"""

from __future__ import annotations

import re
import unicodedata

Span = tuple[int, int]

_WORD = re.compile(r"\w+")

# Lucene's English stop words, and those that make a sentence a question.
_STOP_WORDS = frozenset(
    """a an and are as at be but by for if in into is it no not of on or such that the their then there
    these they this to was will with
    who whom whose what when where which why how did do does has have had were been can could would
    from its his her""".split()
)


def term(word: str) -> str:
    """What a word is compared by; empty for a stop word."""
    decomposed = unicodedata.normalize("NFKD", word.casefold())
    plain = "".join(c for c in decomposed if not unicodedata.combining(c))
    if plain in _STOP_WORDS:
        return ""
    if plain.endswith("ies") and not plain.endswith(("eies", "aies")):
        return plain[:-3] + "y"
    if plain.endswith("es") and not plain.endswith(("aes", "ees", "oes")):
        return plain[:-1]
    if plain.endswith("s") and not plain.endswith(("us", "ss")):
        return plain[:-1]
    return plain


def matched_spans(question: str, text: str) -> list[Span]:
    """The words of `text` that the question asks for: [start, end) in characters, in order."""
    wanted = {term(word) for word in _WORD.findall(question)} - {""}
    return [match.span() for match in _WORD.finditer(text) if term(match.group()) in wanted]
