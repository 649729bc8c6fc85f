"""Corpora with the links of their editors, a fifth of whose pages is held out for questions.

    NAME/train.jsonl.zst            the other pages, with their sections and the links among them
    NAME/docs.jsonl.zst             all pages to search, without links, sections and headings
    NAME/queries.anchors.jsonl.gz   anchors of links to the pages held out; relevant: the pages they lead to
    NAME/queries.sections.jsonl.gz  headings of sections of the pages held out; relevant: that page
    NAME/queries.train.jsonl.gz     anchors between the other pages, for fine-tuning

with qrels.SPLIT.txt. So no pair or contrast that is mined from train.jsonl.zst contains an anchor and the
page that it leads to, or a heading and its page, of a question. An anchor that is the title of its page is no
question, nor is one of more than `MAX_PAGES` pages; a heading is one if it has two words or more, no other
page has it, and its section has `MIN_WORDS` words. Headings as questions: Dietz et al. 2017, TREC Complex
Answer Retrieval; anchors: Dang and Croft 2010, Query reformulation using anchor text.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import re
import shutil
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from experiments.packing.originals import Originals
from experiments.packing.rows import Files, Row, question_row
from linkseek.indexer.documents import Document, Link, Section
from linkseek.indexer.readers.html.html_pages import HtmlReader
from linkseek.indexer.readers.reader import parse_at
from linkseek.retriever.search.runs import encode_id

MAX_PAGES = 5
MIN_WORDS = 20
_SHARE = 5
_HEADING = re.compile(r"^== (.+?) ==\n*", re.MULTILINE)
_DEB_ENTRY = 60
"""Bytes of the head of an entry in a Debian package, which is an archive of `ar`."""
LIBREOFFICE = "libreoffice-help-en-us_7.4.7-1+deb12u14_all.deb"
MANUALS = {
    "libreoffice": (LIBREOFFICE, "help/en-US"),
    "postgresql": ("postgresql-doc-15_15.20-0+deb12u1_all.deb", "html"),
    "erlang": ("erlang-doc_25.2.3+dfsg-1+deb12u4_all.deb", "erlang-doc"),
    "rust": ("rust-doc_1.63.0+dfsg1-2_all.deb", "html"),
    "grass": ("grass-doc_8.2.1-1_all.deb", "html"),
}
"""Of each manual its package and the folder of its pages."""
_SKIPPED = "rust-doc/html/alloc", "rust-doc/html/core", "rust-doc/html/src"  # again in `std`; code


def archwiki_pages(originals: Originals) -> list[Document]:
    """The pages of ArchWiki, whose headings are lines `== HEADING ==` of its texts."""
    return [with_sections(row) for row in originals.json_lines("archwiki/docs.jsonl.zst")]


def libreoffice_pages(originals: Originals) -> list[Document]:
    """The pages of LibreOffice's help in English, from Debian's package."""
    return _packaged(originals, *MANUALS["libreoffice"])


def manuals(originals: Originals) -> list[Document]:
    """The pages of ArchWiki and of the manuals, with the names of these before their ids."""
    corpora = {name: _packaged(originals, *manual) for name, manual in MANUALS.items()}
    return [
        replace(
            page,
            id=f"{name}/{page.id}",
            links=tuple(replace(link, target=f"{name}/{link.target}") for link in page.links),
        )
        for name, pages in (corpora | {"archwiki": archwiki_pages(originals)}).items()
        for page in pages
    ]


def _packaged(originals: Originals, package: str, folder: str) -> list[Document]:
    with tempfile.TemporaryDirectory() as place:
        _unpack(originals.path(package).read_bytes(), Path(place))
        for name in _SKIPPED:
            shutil.rmtree(Path(place, "usr/share/doc", name), ignore_errors=True)
        reader = HtmlReader(next(Path(place).rglob(folder)))
        outcomes = [outcome for record in reader.records() for outcome in parse_at(reader, record)]
    return [page for page in outcomes if isinstance(page, Document)]


def held_out(name: str, pages: Sequence[Document]) -> Files:
    """The files of a corpus."""
    apart = {page.id for page in pages if is_held_out(page.id)}
    kept = [page for page in pages if page.id not in apart]
    titles = {page.id: page.title.casefold() for page in pages}
    asked = {
        "anchors": _anchors(pages, titles, apart),
        "sections": _headings(pages, apart),
    }
    tests = {text for judged in asked.values() for text in judged}
    taught = _anchors(kept, titles, titles.keys() - apart)
    asked["train"] = {text: ids for text, ids in taught.items() if text not in tests}
    files: Files = {
        f"{name}/docs.jsonl.zst": [row_of(replace(page, links=(), sections=())) for page in pages],
        f"{name}/train.jsonl.zst": [row_of(within(page, titles.keys() - apart)) for page in kept],
    }
    for split, judged in asked.items():
        ids = {text: f"{split}-{number}" for number, text in enumerate(judged)}
        files[f"{name}/queries.{split}.jsonl.gz"] = [question_row(id_, text) for text, id_ in ids.items()]
        files[f"{name}/qrels.{split}.txt"] = [
            f"{ids[text]} 0 {encode_id(page)} 1" for text, pages in judged.items() for page in pages
        ]
    return files


def is_held_out(page: str) -> bool:
    """Whether a page is in the fifth that no training reads, by its id alone."""
    return hashlib.sha256(page.encode()).digest()[0] % _SHARE == 0


def _anchors(
    pages: Iterable[Document], titles: dict[str, str], wanted: Iterable[str]
) -> dict[str, list[str]]:
    """Anchor, in lower case -> the pages that it leads to, of which one is wanted at least."""
    led: dict[str, dict[str, None]] = {}
    for page in pages:
        for link in page.links:
            text = " ".join(page.text[link.start : link.end].casefold().split())
            if link.target in titles and link.target != page.id and any(map(str.isalpha, text)):
                led.setdefault(text, {})[link.target] = None
    wanted = set(wanted)
    return {
        text: list(targets)
        for text, targets in led.items()
        if len(targets) <= MAX_PAGES
        and not wanted.isdisjoint(targets)
        and all(text != titles[target] for target in targets)
    }


def _headings(pages: Iterable[Document], apart: set[str]) -> dict[str, list[str]]:
    """Heading -> the page held out that has it."""
    counts: Counter[str] = Counter()
    headings: dict[str, list[str]] = {}
    for page in pages:
        counts.update({_folded(section.heading) for section in page.sections})
        starts = [*(section.start for section in page.sections), len(page.text)]
        for section, end in zip(page.sections, starts[1:], strict=True):
            heading = " ".join(section.heading.split()).rstrip(":")
            words = page.text[section.start : end].split()
            if page.id in apart and len(heading.split()) > 1 and len(words) >= MIN_WORDS:
                headings[heading] = [page.id]
    return {heading: ids for heading, ids in headings.items() if counts[_folded(heading)] == 1}


def _folded(heading: str) -> str:
    return " ".join(heading.casefold().split()).rstrip(":")


def within(page: Document, ids: Iterable[str]) -> Document:
    """A page with its links to some pages alone."""
    known = set(ids)
    return replace(page, links=tuple(link for link in page.links if link.target in known))


def row_of(page: Document) -> Row:
    """A page as a line of a corpus."""
    row: Row = {"id": page.id, "title": page.title, "text": page.text}
    row["links"] = [{"start": link.start, "end": link.end, "target": link.target} for link in page.links]
    if page.sections:
        row["sections"] = [
            {"start": each.start, "heading": each.heading, "level": each.level} for each in page.sections
        ]
    return row


def with_sections(row: Row) -> Document:
    """A document whose headings are moved from its text to its sections, and its links with the text."""
    text, sections, removed = row["text"], list[Section](), list[tuple[int, int]]()
    parts, place, length = list[str](), 0, 0
    for heading in _HEADING.finditer(text):
        parts.append(text[place : heading.start()])
        length += len(parts[-1])
        place = heading.end()
        sections.append(Section(length, heading[1], 2))
        removed.append(heading.span())
    links = []
    for link in row["links"]:
        if all(link["end"] <= start or link["start"] >= end for start, end in removed):
            moved = sum(end - start for start, end in removed if end <= link["start"])
            links.append(Link(link["start"] - moved, link["end"] - moved, link["target"]))
    joined = "".join([*parts, text[place:]])
    return Document(row["id"], row["title"], joined, tuple(links), tuple(sections))


def _unpack(package: bytes, folder: Path) -> None:
    """Write the English pages of a Debian package. Raises `ValueError` for any other file."""
    stream = io.BytesIO(package)
    if stream.read(8) != b"!<arch>\n":
        raise ValueError("no Debian package")
    try:
        for name, content in _entries(stream):
            if name.startswith("data.tar"):
                with tarfile.open(fileobj=io.BytesIO(lzma.decompress(content))) as archive:
                    archive.extractall(folder, filter="data")
    except (lzma.LZMAError, tarfile.TarError) as error:
        raise ValueError(f"a damaged Debian package ({error})") from None


def _entries(stream: io.BytesIO) -> Iterator[tuple[str, bytes]]:
    """The files of an archive of `ar`, after its first eight bytes."""
    while head := stream.read(_DEB_ENTRY):
        size = int(head[48:58])
        yield head[:16].decode().strip(), stream.read(size)
        stream.read(size % 2)
