"""Files as other programs write them: UTF-16 and byte order marks, archives, and others' extractions of
Wikipedia."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import zipfile
from pathlib import Path
from typing import Any

import pytest

from linkseek.indexer.documents import Document, Redirect
from linkseek.indexer.files.sources import open_source
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.readers.formats import open_reader
from linkseek.indexer.readers.reader import Ignored

ROW = '{"id": "1", "title": "Ä", "text": "Über x", "links": []}\n'
LONG = "A passage of more than two hundred characters, which questions do not have. " * 3


def documents(path: Path, name: str | None = None) -> list[Document]:
    return [one for one in open_reader(path, name).documents() if isinstance(one, Document)]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    ("content", "ids"),
    [
        (ROW * 1, ["1"]),
        ("id\ttext\ttitle\n1\tx\tT\n2\ty\tT\n", ["1", "2"]),
        (f"0\t{LONG}\n1\t{LONG}\n", ["0", "1"]),
        (f"D1\thttp://a\tT\t{LONG}\n", ["D1"]),
        ('{"_id": "1", "title": null, "text": "x"}\n', ["1"]),
        ('[{"id": "1", "contents": "x"}]', ["1"]),
    ],
)  # fmt: skip
def test_encodings_of_lines(tmp_path: Path, content: str, ids: list[str], encoding: str) -> None:
    path = tmp_path / "corpus"
    path.write_bytes(content.encode(encoding))
    assert [one.id for one in documents(path)] == ids


def test_damaged_utf_16_is_named(tmp_path: Path) -> None:
    path = tmp_path / "corpus"
    path.write_bytes(ROW.encode("utf-16") + b"\xff")
    with pytest.raises(InputError, match="damaged utf-16-le"):
        documents(path)


def test_entities_of_an_extraction_are_characters(tmp_path: Path) -> None:
    path = tmp_path / "wiki_00"
    row = {
        "id": "1",
        "url": "https://a?curid=1",
        "title": "A &amp; B",
        "text": 'x &lt; y &amp; <a href="A%20%26%20B">z</a> &gt; w',
    }
    path.write_text(json.dumps(row) + "\n")
    (document,) = documents(path, "wikiextractor")
    assert (document.title, document.text) == ("A & B", "x < y & z > w")
    assert [(document.text[x.start : x.end], x.target) for x in document.links] == [("z", "title:A & B")]


def test_printed_rows(tmp_path: Path) -> None:
    path = tmp_path / "p.tsv"
    path.write_text('id\ttext\ttitle\n1\t"Pump" is a word.\tPump\n2\t"quoted ""so"""\tValve\n3\t"open\tX\n')
    assert [one.text for one in documents(path)] == ['"Pump" is a word.', 'quoted "so"', '"open']


# --- archives ---


def zipped(*members: tuple[str, str], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        lzma.compress(ROW.encode()), zipped(("c.jsonl", ROW)), zipped(("a/c.jsonl", ROW), ("__MACOSX/x",
        "y")),
        zipped(("scifact/corpus.jsonl", ROW), ("scifact/queries.jsonl", "{}"),
        ("scifact/qrels/test.tsv", "x")),
        zipped(("../../outside.jsonl", ROW)),
        zipped(("c.jsonl", ROW), ("README.md", "x"), ("LICENSE", "x"), ("md5sums.txt", "x")),
    ],
)  # fmt: skip
def test_xz_and_zip(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "in" / "c.zip"
    path.parent.mkdir()
    path.write_bytes(content)
    assert [one.id for one in documents(path)] == ["1"]
    assert sorted(tmp_path.rglob("*")) == [path.parent, path]  # nothing is written


@pytest.mark.parametrize(
    ("content", "problem", "hint"),
    [
        (b"7z\xbc\xaf\x27\x1c" + b"x" * 99, "a 7z archive", "7z x c.bin"),
        (b"\x04\x22\x4d\x18" + b"x" * 99, "an lz4 file", "lz4 -d c.bin"),
        (b"LZIP\x01" + b"x" * 99, "an lzip file", "lzip -d c.bin"),
        (b"\x1f\x9d\x90" + b"x" * 99, "a file of the program compress", "gzip -d c.bin"),
        (b"Rar!\x1a\x07\x00", "a RAR archive", "unrar"),
        (b"d/x" + bytes(254) + b"ustar\x0000" + bytes(600), "a tar archive", "tar -xf c.bin"),
        (gzip.compress(b"d/x" + bytes(254) + b"ustar\x0000" + bytes(600)), "a tar archive", "tar -xf"),
        (zipped(("a", "x"), ("b", "y")), "a zip archive of 2 files: a, b", "unzip c.bin"),
        (zipped(), "an empty zip archive", "unzip"),
        (zipped(("a", ROW), method=zipfile.ZIP_BZIP2), "a zip archive whose method", "7z x c.bin"),
        (zipped(("a", ROW), method=zipfile.ZIP_LZMA), "a zip archive whose method", "7z x c.bin"),
        (zipped(("a", ROW))[:-30], "damaged or encrypted zip archive", "again"),
    ],
    ids=["7z", "lz4", "lzip", "compress", "rar", "tar", "compressed tar", "zip of two", "empty zip",
         "zip of bzip2", "zip of lzma", "cut zip"],
)  # fmt: skip
def test_archives_are_named(tmp_path: Path, content: bytes, problem: str, hint: str) -> None:
    path = tmp_path / "c.bin"
    path.write_bytes(content)
    with pytest.raises(InputError, match=problem) as caught:
        documents(path)
    if "damaged" not in problem:
        assert hint in caught.value.hint


def test_a_zip_with_any_byte_changed_is_read_or_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive, archive.open("ä.jsonl", "w", force_zip64=True) as file:
        file.write(ROW.encode())
    path = tmp_path / "c.zip"
    refused = 0
    for at in range(4, len(content := buffer.getvalue())):
        path.write_bytes(content[:at] + b"\xff" + content[at + 1 :])
        _, stream = open_source(path)
        with stream:
            try:
                stream.read()
            except InputError:
                refused += 1
    assert 50 < refused < len(content)


@pytest.mark.parametrize("kind", ["xz", "zip"])
def test_bombs(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "c"
    zeros = b"0" * (90 << 20)
    path.write_bytes(lzma.compress(zeros, preset=0) if kind == "xz" else zipped(("c", zeros.decode())))
    _, stream = open_source(path)
    with stream, pytest.raises(InputError, match="grow to more than"):
        while stream.read(1 << 20):
            pass


# --- others' extractions ---


def write(path: Path, *rows: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows).encode()
    path.write_bytes(bz2.compress(content) if path.suffix == ".bz2" else content)
    return path


def read(
    path: Path, name: str | None = None
) -> tuple[list[tuple[str, str, list[tuple[str, str]]]], dict[str, str]]:
    """(id, text, links by their anchor) of each page, and the redirects."""
    outcomes = list(open_reader(path, name).documents())
    pages = [
        (one.id, one.text, [(one.text[link.start : link.end], link.target) for link in one.links])
        for one in outcomes
        if isinstance(one, Document)
    ]
    return pages, {one.id: one.target for one in outcomes if isinstance(one, Redirect)}


WATER = {"id": "13", "url": "u", "title": "Water", "text": "Wet."}


@pytest.mark.parametrize(
    "text",
    ['A pump moves <a href="Water">water</a>.', "A pump moves &lt;a href=\"water\"&gt;water&lt;/a&gt;.",
     'Pump\n\nA pump moves <a href="Water%23Uses">water</a>.'],
)  # fmt: skip
@pytest.mark.parametrize("name", [None, "jsonl"])
def test_wikiextractor(tmp_path: Path, text: str, name: str | None) -> None:
    row = {"id": "12", "revid": "3", "url": "u", "title": "Pump", "text": text}
    pages, redirects = read(write(tmp_path / "w.jsonl", row, WATER), name)
    assert pages == [("12", "A pump moves water.", [("water", "title:Water")]), ("13", "Wet.", [])]
    assert redirects == {"title:Pump": "12", "title:Water": "13"}


def test_wikiextractor_s_folders_and_docs(tmp_path: Path) -> None:
    doc = '<doc id="12" url="u" title="Pump">\nPump\n\nMoves <a href="Water">water</a>.\n</doc>'
    write(tmp_path / "w" / "AA" / "wiki_00", doc, '<doc id="13" url="u" title="Water">\nWet.\n</doc>')
    write(tmp_path / "w" / "AB" / "wiki_01.bz2", '<doc id="14" url="u" title="Air">\nDry.\n</doc>')
    pages, _ = read(tmp_path / "w")
    assert [(id_, text) for id_, text, _ in pages] == [("12", "Moves water."), ("13", "Wet."), ("14", "Dry.")]
    write(tmp_path / "x" / "wiki_00", '<doc id="12" url="u" title="Pump">\nopen')
    with pytest.raises(InputError, match="its </doc> is missing"):
        read(tmp_path / "x")


def test_marks_of_wikiextractor(tmp_path: Path) -> None:
    text = 'Moves.\nSection::::Parts.\nSection::::Parts.:Small.\nBULLET::::- A <a href="Valve">valve</a>.\n'
    row = WATER | {"url": "https://x.org/wiki?curid=13", "text": text + "BULLET::::- An inlet."}
    (document,) = documents(write(tmp_path / "w.jsonl", row))
    assert document.text == "Moves.\nA valve.\nAn inlet."
    assert [document.text[link.start : link.end] for link in document.links] == ["valve"]
    assert [(one.start, one.heading, one.level) for one in document.sections] == [
        (7, "Parts", 2),
        (7, "Small", 3),
    ]


def test_kilt(tmp_path: Path) -> None:
    paragraphs = ["Pump\n", "A pump moves water.\n", "Section::::Parts.\n", "BULLET::::- A valve.\n"]
    anchors = [
        {"paragraph_id": 1, "start": 13, "end": 18, "text": "water", "href": "Water", "wikipedia_id": "13"},
        {"paragraph_id": 3, "start": 14, "end": 19, "text": "valve", "href": "Check%20valve"},
        {"paragraph_id": 2, "start": 0, "end": 3, "text": "x", "href": "Lost"},
    ]
    row = {
        "_id": "12",
        "wikipedia_id": "12",
        "wikipedia_title": "Pump",
        "text": paragraphs,
        "anchors": anchors,
    }
    path = write(tmp_path / "k.jsonl", row)
    pages, redirects = read(path)
    links = [("water", "13"), ("valve", "title:Check valve")]
    assert pages == [("12", "A pump moves water.\n\nA valve.", links)]
    assert redirects == {"title:Pump": "12"}
    (document,) = documents(path)
    assert [(one.heading, document.text[one.start :]) for one in document.sections] == [("Parts", "A valve.")]
    assert any(
        isinstance(one, Ignored) and "not at their place" in one.reason
        for one in open_reader(path).documents()
    )
