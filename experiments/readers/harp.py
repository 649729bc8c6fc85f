"""HARP's corpus (Ma et al. 2021, section 3): sentences with anchors, and the passages they lead to.

    {"sentence": "Alaska was bought from Russia.", "tokenized_sentence": [...],
     "anchors": [[{"text": "Russia", "pos": [4, 4], "passage": "Russia is a country."}], [...]]}

One object a line; anchors are grouped, as in the published data, or not, as in its description.
Nothing has an id, so a document is known by the hash of its text: `s-...` for a sentence, `p-...` for
a passage. The passage that many anchors lead to is one document, at the first of them, and a sentence
in several lines is read once. There are no titles: the only names that passages have are
the anchors, and models that learn from anchors must not see them in the passages they lead to.

`pos` counts words of the sentence and is not always correct (the last word before the first, another
word), so an anchor is the occurrence of its text nearest to the word that `pos` names.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO, NamedTuple

import xxhash

from linkseek.indexer.documents import Document, Link
from linkseek.indexer.files.sources import read_lines
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.readers.jsonl import field_text, first_object_has, load_object
from linkseek.indexer.readers.reader import Ignored, Outcome, Reader, Record, damaged
from linkseek.indexer.store.ids import SeenIds


class HarpReader(Reader):
    """A sentence with its links, and each passage that is new."""

    name = "harp"
    description = "HARP's corpus: sentences with anchors and their passages; `python -m experiments build`"
    passage = "a sentence or a passage"
    passage_words = 0

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """The first line is an object with `sentence` and `anchors`."""
        return first_object_has(head, "sentence", "anchors")

    def read_records(self, stream: BinaryIO) -> Iterator[Record]:
        """One record a line: its bytes, and the ids of its documents that were in an earlier line.

        Memory: 8 bytes for each sentence and passage.
        """
        seen = SeenIds()
        for number, line in read_lines(stream):
            yield Record(f"line {number:,}", (line, _known(line, seen)))

    def parse(self, record: Record) -> Iterable[Outcome]:
        """The sentence and its new passages, or the reason why one is skipped."""
        line, known = record.payload
        sentence, anchors = _read(line)
        links: set[tuple[int, int, str]] = set()
        passages: dict[str, str] = {}
        places = _Sentence(sentence, anchors)
        for anchor in anchors:
            if not anchor.text or not anchor.passage.strip():
                yield Ignored("anchor without text or without passage")
                continue
            id_ = _id("p", anchor.passage)
            passages[id_] = anchor.passage
            start = places.find(anchor)
            if start >= 0:
                links.add((start, start + len(anchor.text), id_))
            else:
                yield Ignored("anchor that is not in its sentence")
        id_ = _id("s", sentence)
        if not sentence.strip():
            yield Ignored("empty sentence")
        elif id_ in known:
            yield Ignored("duplicate sentence")
        else:
            yield Document(id_, "", sentence, tuple(Link(*link) for link in sorted(links)))
        for id_, passage in passages.items():
            if id_ not in known:
                yield Document(id_, "", passage)


def _known(line: bytes, seen: SeenIds) -> frozenset[str]:
    try:
        sentence, anchors = _read(line)
    except InputError:  # which `parse` raises again
        return frozenset()
    ids = {_id("s", sentence), *(_id("p", anchor.passage) for anchor in anchors)}
    return frozenset(id_ for id_ in ids if not seen.add(id_))


def _id(kind: str, text: str) -> str:
    return f"{kind}-{xxhash.xxh3_64_hexdigest(text.encode())}"


class _Anchor(NamedTuple):
    text: str
    word: int  # the number of its first word
    passage: str


def _read(line: bytes) -> tuple[str, list[_Anchor]]:
    """The sentence and its anchors. Raises `InputError` if they are missing or of other types."""
    row = load_object(line)
    groups = row.get("anchors")
    if not isinstance(groups, list):
        raise damaged(f'"anchors" is {type(groups).__name__}, expected a list')
    anchors = []
    for group in groups:
        for anchor in group if isinstance(group, list) else [group]:
            pos = anchor.get("pos") if isinstance(anchor, dict) else None
            if not isinstance(pos, list) or not pos or not isinstance(pos[0], int):
                raise damaged(f"expected an anchor with text, pos and passage, found {anchor!r:.60}")
            text, passage = field_text(anchor, "text").strip(), field_text(anchor, "passage")
            anchors.append(_Anchor(text, pos[0], passage))
    return field_text(row, "sentence"), anchors


_MAX_COMPARISONS = 1 << 30  # characters of the sentence, for each text of an anchor: a second


class _Sentence:
    """Finds anchors. Each text is searched for once, however many anchors have it."""

    def __init__(self, text: str, anchors: Sequence[_Anchor]) -> None:
        """Raises `InputError` if a long sentence has too many anchors: finding them would take minutes."""
        self._text = text
        self._words = list(accumulate((len(word) + 1 for word in text.split(" ")), initial=0))
        self._places: dict[str, tuple[list[int], list[int]]] = {}
        if len({anchor.text for anchor in anchors}) * len(text) > _MAX_COMPARISONS:
            raise damaged(f"{len(anchors):,} anchors in a sentence of {len(text):,} characters", "record")

    def find(self, anchor: _Anchor) -> int:
        """Where the anchor begins, or -1: occurrences as whole words first, then the one nearest to `pos`."""
        if anchor.text not in self._places:
            self._places[anchor.text] = self._search(anchor.text)
        near = self._words[min(max(anchor.word, 0), len(self._words) - 1)]
        for places in self._places[anchor.text]:
            if places:
                at = bisect_left(places, near)
                return min(places[max(at - 1, 0) : at + 1], key=lambda place: abs(place - near))
        return -1

    def _search(self, text: str) -> tuple[list[int], list[int]]:
        """Where a text begins as a whole word, and where within others."""
        words, parts = list[int](), list[int]()
        for match in re.finditer(re.escape(text), self._text):
            around = (
                self._text[max(match.start() - 1, 0) : match.start()]
                + self._text[match.end() : match.end() + 1]
            )
            (parts if any(map(str.isalnum, around)) else words).append(match.start())
        return words, parts
