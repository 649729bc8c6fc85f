"""Did you mean: a question with its unknown words replaced by the nearest ones of the index.

The index contains stems; the word that is proposed is the commonest one of that stem in a passage.
"""

from __future__ import annotations

import re
from collections import Counter

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.language.codes import ENGLISH
from linkseek.retriever.search.query_words import matched_spans, word_spans

MAX_WORDS = 32
"""Of a question, which are looked up; each unknown one takes some milliseconds."""


def did_you_mean(index: OpenIndex, question: str) -> tuple[str, list[str]] | None:
    """The question with other words, and these; None if all are known, or none is near.

    Only words whose passage also contains another word of the question, if it has others: a small index lacks
    many words that are spelt correctly. Raises `DamagedIndexError` if the index cannot be read.
    """
    if not index.has_lucene:
        return None
    words = list(dict.fromkeys(_words(question, index.language)))[:MAX_WORDS]
    better: dict[str, str] = {}
    passages: dict[str, str] = {}
    for word, near in zip(words, index.local_lucene.near(words), strict=True):
        if near is None:
            continue
        other = _spelt(index, near.passage_id, near.term)
        other = other if word[:1].isupper() else other.lower()
        if index.language == ENGLISH or not _is_inflected(word, other):
            better[word], passages[word] = other, near.passage_id
    better = {
        word: other for word, other in better.items() if _fits(index, words, better, word, passages[word])
    }
    if not better:
        return None
    pieces, at = list[str](), 0
    for start, end in word_spans(question, index.language):
        word = question[start:end]
        pieces += [question[at:start], better.get(word, word)]
        at = end
    return "".join([*pieces, question[at:]]), [*better.values()]


def _is_inflected(word: str, other: str) -> bool:
    """Whether words differ in their endings alone, as in most languages forms of one word do."""
    stem = max(4, min(len(word), len(other)) - 3)
    return word.casefold()[:stem] == other.casefold()[:stem]


def _words(text: str, language: str) -> list[str]:
    """The words of at least three letters, without those in which a digit is."""
    words = (text[start:end] for start, end in word_spans(text, language))
    return [word for word in words if len(word) >= 3 and not re.search(r"[\d_]", word)]


def _fits(index: OpenIndex, words: list[str], better: dict[str, str], word: str, passage_id: str) -> bool:
    """Whether the passage of a proposed word has another word of the question; true without any other."""
    others = " ".join(better.get(other, other) for other in words if other != word)
    if not any(index.local_lucene.terms([others])):
        return True
    passage = index.passages[int(index.passages.rows_of([passage_id])[0])]
    return bool(matched_spans(others, f"{passage.title} {passage.text}", index.language))


def _spelt(index: OpenIndex, passage_id: str, term: str) -> str:
    """The commonest word of a passage that is indexed as this term; the term itself where none is."""
    passage = index.passages[int(index.passages.rows_of([passage_id])[0])]
    counts = Counter(_words(f"{passage.title} {passage.text}", index.language))
    words: list[str] = [word for word, _ in counts.most_common()]
    for word, terms in zip(words, index.local_lucene.terms(words), strict=True):
        if terms == [term]:
            return word
    return term
