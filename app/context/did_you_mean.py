"""Did you mean: a question with its unknown words replaced by the nearest ones of the index.

The index contains stems; the word that is proposed is the commonest one of that stem in a passage.
"""

from __future__ import annotations

import re
from collections import Counter

from linkseek.indexer.index import OpenIndex
from linkseek.retriever.search.query_words import matched_spans

MAX_WORDS = 32
"""Of a question, which are looked up; each unknown one takes some milliseconds."""
_WORD = re.compile(r"[^\W\d_]{3,}")


def did_you_mean(index: OpenIndex, question: str) -> tuple[str, list[str]] | None:
    """The question with other words, and these; None if all are known, or none is near.

    Only words whose passage also contains another word of the question, if it has others: a small index lacks
    many words that are spelt correctly. Raises `DamagedIndexError` if the index cannot be read.
    """
    if not index.has_lucene:
        return None
    words = list(dict.fromkeys(_WORD.findall(question)))[:MAX_WORDS]
    better: dict[str, str] = {}
    passages: dict[str, str] = {}
    for word, near in zip(words, index.local_lucene.near(words), strict=True):
        if near is not None:
            better[word] = _like(word, _spelt(index, near.passage_id, near.term))
            passages[word] = near.passage_id
    better = {
        word: other for word, other in better.items() if _fits(index, words, better, word, passages[word])
    }
    if not better:
        return None
    return _WORD.sub(lambda found: better.get(found[0], found[0]), question), [*better.values()]


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
    counts = Counter(_WORD.findall(f"{passage.title} {passage.text}"))
    words: list[str] = [word for word, _ in counts.most_common()]
    for word, terms in zip(words, index.local_lucene.terms(words), strict=True):
        if terms == [term]:
            return word
    return term


def _like(word: str, other: str) -> str:
    """Another word in small letters, unless this one has a capital."""
    return other if word[:1].isupper() else other.lower()
