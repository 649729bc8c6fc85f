"""What an encoder can read: measured by its tokenizer on given texts, and as the card of its model states it.

A tokenizer leaves most words whole, or cuts them into long pieces, in the languages that it was made from.
In other languages it cuts words almost into letters. In LibreOffice's help and MediaWiki's messages, in some
forty languages, the share of such words is below .19 where a model has seen the language, and above .22 where
it has not; in program text with English names it is .15 at most.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

import regex
import yaml
from tokenizers import Tokenizer

from linkseek.indexer.language.codes import language_code
from linkseek.indexer.language.segments import Span, units
from linkseek.indexer.program.text import WORD
from linkseek.indexer.store.manifests import Reading
from linkseek.retriever.models.checks.tokenizer_costs import panics_refused
from linkseek.retriever.models.facts import special_ids

_CHARACTERS = 1_000  # of a text
_SHORT = {True: 3, False: 2}
"""Letters; a piece of fewer is short in Latin script, and in others. Vowels may be marks, which count too."""
_CARD = 1 << 16  # characters that are read
_LETTER, _LATIN = regex.compile(r"\p{L}"), regex.compile(r"\p{Latin}")
_FRONT_MATTER = regex.compile(r"---\s*\n(.*?)\n---\s*(?:\n|\Z)", regex.DOTALL)


def reading(tokenizer: Tokenizer, folder: Path, texts: Sequence[str]) -> Reading:
    """How the model of a folder reads texts. tokenizer: the model's, whose limit of tokens is kept."""
    starts = [text[:_CHARACTERS] for text in texts]
    with panics_refused("the tokenizer of the model"):
        encodings = tokenizer.encode_batch(starts, add_special_tokens=False)
    special = special_ids(tokenizer)
    is_unread = [
        unread
        for text, encoding in zip(starts, encodings, strict=True)
        for unread in _unread(text, zip(encoding.offsets, encoding.ids, strict=True), special)
    ]
    share = sum(is_unread) / max(len(is_unread), 1)
    return Reading(unread=round(share, 3), languages=card_languages(folder))


def _unread(text: str, tokens: Iterator[tuple[Span, int]], special: set[int]) -> Iterator[bool]:
    """Of each word with letters: whether it is unknown, or cut into short pieces."""
    pieces = [(start, end, number) for (start, end), number in tokens if text[start:end].strip()]
    first = 0
    for begin, stop in units(text):
        for word in WORD.finditer(text, begin, stop):
            while first < len(pieces) and pieces[first][1] <= word.start():
                first += 1
            count, unknown = 0, False
            while first + count < len(pieces) and pieces[first + count][0] < word.end():
                unknown |= pieces[first + count][2] in special
                count += 1
            if count and _LETTER.search(word[0]):  # the end may be beyond the model's tokens
                letters = len(unicodedata.normalize("NFD", word[0]))
                is_latin = _LATIN.search(word[0]) is not None
                yield unknown or (count > 1 and letters < count * _SHORT[is_latin])


def card_languages(folder: Path) -> tuple[str, ...]:
    """The codes of the languages that a model's card names in its front matter; () if it names none.

    A card that calls its model multilingual, and lists no or some languages, names none.
    """
    try:
        with (folder / "README.md").open(encoding="utf-8", errors="replace") as file:
            card = _FRONT_MATTER.match(file.read(_CARD))
        named = yaml.safe_load(card[1])["language"] if card else ()
    except (OSError, yaml.YAMLError, ValueError, LookupError, TypeError, RecursionError):
        return ()  # a card decides no number
    written = [str(name) for name in (named if isinstance(named, list) else [named])]
    codes = dict.fromkeys(filter(None, map(language_code, written)))
    return () if {"multilingual", "mul"} & {*map(str.lower, written)} else tuple(codes)
