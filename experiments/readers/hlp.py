"""HLP's Wikipedia graph (Zhou et al. 2022, section 3): passages whose mentions are linked to pages.

A file is one object, and a folder of files `wiki_**.json` contains the whole graph (22,334,994 passages):

    {"Anarchism_0": {"text": "Anarchism is a <SOE> political philosophy <EOE> and ...",
                     "mentions": ["political philosophy", ...],
                     "linkouts": ["Political philosophy", ...]}, "Anarchism_1": {...}, ...}

A page becomes one document, since links lead to pages: its passages follow each other in one file and
are joined by blanks, and the index cuts the text again. Id and title are the page's title; underscores
in titles, of pages and of link targets, are spaces, as everywhere in MediaWiki.

The marks are removed with the blanks that came with them: `forms of <SOE> hierarchy <EOE> .` is
`forms of hierarchy.`, and `( <SOE> state <EOE> )` is `(state)`. The text between two marks has
its target at the same place as in the mentions; a mention that the lists do not have in this order stays in
the text without a link and is counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import orjson

from linkseek.indexer.documents import Document, Link
from linkseek.indexer.files.json_stream import BLANK, read_entries
from linkseek.indexer.files.sources import AGAIN, MAX_RECORD
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.readers.folder.folders import FolderReader
from linkseek.indexer.readers.jsonl import load_object
from linkseek.indexer.readers.reader import Ignored, Outcome, Record, damaged

_KEY = re.compile(rb'\s*("(?:[^"\\]++|\\.)*+")\s*:')
_FIRST_KEY = re.compile(rb'\{\s*"(?:[^"\\\n]|\\.)*_[0-9]+"\s*:\s*\{')


class HlpReader(FolderReader):
    """One document a page, with the links of all its passages."""

    name = "hlp"
    description = "HLP's Wikipedia graph, `wiki_**.json`, a file or a folder; `python -m experiments build`"
    suffixes = (".json", ".json.gz", ".json.bz2", ".json.zst")

    @classmethod
    def recognises_file(cls, head: bytes) -> bool:
        """The first key is a title with a number, and its object has `linkouts`."""
        return _FIRST_KEY.match(head.lstrip(BLANK)) is not None and b'"linkouts"' in head

    def read_file(self, name: str, stream: BinaryIO) -> Iterator[Record]:
        """One record a page: the entries of its passages, as an object again."""
        place, entries = "", list[bytes]()
        title, part, size = "", -1, 0
        for number, entry in enumerate(read_entries(stream, self.path_of(name)), start=1):
            before, last = title, part
            title, part = _key_of(entry)
            if entries and (title != before or part <= last):
                yield Record(place, b"{%b}" % b",".join(entries))
                entries, size = [], 0
            size += len(entry)
            if size > MAX_RECORD:
                problem = f"{place}: a page of more than {MAX_RECORD:,} bytes"
                raise InputError(f"{self.path_of(name)}, {problem}", AGAIN)
            if not entries:
                place = f"entry {number:,}" + f" ({title:.255})" * bool(title)
            entries.append(entry)
        if entries:
            yield Record(place, b"{%b}" % b",".join(entries))

    def parse(self, record: Record) -> Iterable[Outcome]:
        """One document, and the reason for each mention without a link."""
        title, texts, links = "", list[str](), list[Link]()
        length = lost = 0
        for key, row in (load_object(record.payload) or {"": {}}).items():
            title, _ = _split_key(key)
            if not title:
                raise damaged(f'the key "{key}" is not a title with a number, as in "Anarchism_0"', "entry")
            text, spans, unlinked = _unwrap(*_passage(key, row))
            links += [Link(length + start, length + end, target) for start, end, target in spans]
            texts.append(text)
            length += len(text) + 1
            lost += unlinked
        yield Document(id=title, title=title, text=" ".join(texts), links=tuple(links))
        yield from [Ignored("mention without a target")] * lost


def _key_of(entry: bytes) -> tuple[str, int]:
    key = _KEY.match(entry)
    try:
        return _split_key(orjson.loads(key[1])) if key else ("", -1)
    except orjson.JSONDecodeError:
        return "", -1


def _split_key(key: str) -> tuple[str, int]:
    """(title, number of the passage) of "Anarchism_0"; ("", -1) for another key."""
    title, _, number = key.rpartition("_")
    title = _spaced(title)
    if not title or not re.fullmatch("[0-9]{1,9}", number):
        return "", -1
    return title, int(number)


def _spaced(title: str) -> str:
    return title.replace("_", " ").strip()


def _passage(key: str, row: Any) -> tuple[str, list[Any], list[Any]]:
    """(text, mentions, linkouts). Raises `InputError` if they are missing or of other types."""
    fields = row if isinstance(row, dict) else {}
    text, mentions, linkouts = (fields.get(name) for name in ("text", "mentions", "linkouts"))
    if not (isinstance(text, str) and isinstance(mentions, list) and isinstance(linkouts, list)):
        raise damaged(f'{key}: expected "text", and the lists "mentions" and "linkouts"', "entry")
    if len(mentions) != len(linkouts):
        problem = f"{len(mentions)} mentions, but {len(linkouts)} linkouts, so no target is certain"
        raise damaged(f"{key}: {problem}", "entry")
    return text, mentions, linkouts


_MENTION = re.compile(r"<SOE>\s*+([^<]*+(?:<(?![SE]OE>)[^<]*+)*+)<EOE>")
_MARK = re.compile(r"<[SE]OE>\s?")
_BLANK_BEFORE_CLOSING = re.compile(r"""\s(?=[.,;:!?)\]}…”’»%]|'s\b|["'](?:[\s.,;:!?)]|\Z)|-\w)""")
_BLANK_AFTER_OPENING = re.compile(r"""(?:[(\[{“‘«]|(?<=[\s(\[])["']|\w-)\s\Z""")


def _unwrap(
    text: str, mentions: list[Any], linkouts: list[Any]
) -> tuple[str, list[tuple[int, int, str]], int]:
    """(text without marks, (start, end, target) of its links, mentions without a target)."""
    places: dict[str, list[int]] = {}  # of each mention, the last one first
    for place in reversed(range(len(mentions))):
        places.setdefault(_one_line(str(mentions[place])), []).append(place)
    links: list[tuple[int, int, str]] = []
    plain, lost, following = "", 0, 0
    pieces = _MENTION.split(text.strip())  # text, mention, text, mention, ..., text
    for number, piece in enumerate(pieces):
        if number % 2 == 0:
            piece, strays = _MARK.subn("", piece)
            lost += strays
            if number > 0 and _BLANK_BEFORE_CLOSING.match(piece):
                piece = piece[1:]
            if number + 1 < len(pieces) and _BLANK_AFTER_OPENING.search(piece[-4:]):
                piece = piece[:-1]
        else:
            piece = piece.rstrip()
            name, target = _one_line(piece), None
            ahead = places.get(name, [])
            while ahead and ahead[-1] < following:
                ahead.pop()
            if ahead:
                target = linkouts[ahead[-1]]
                following = ahead.pop() + 1
            if name and isinstance(target, str) and _spaced(target):
                links.append((len(plain), len(plain) + len(piece), _spaced(target)))
            else:
                lost += 1
        plain += piece
    return plain, links, lost


def _one_line(text: str) -> str:
    return " ".join(text.split())
