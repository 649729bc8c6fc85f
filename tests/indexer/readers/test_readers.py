"""What every reader promises (a new one gets these tests for free), and the byte streams below.

A reader needs an `Example` in EXAMPLES: how a small corpus of its format is written, and how a record
of it is broken. What else is promised of folders is in `test_folders.py`.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import itertools
import json
import lzma
import pickle
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import zstandard

from linkseek.indexer.documents import Document, Redirect
from linkseek.indexer.files.sources import open_source, read_head, read_lines
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.readers.formats import all_readers, formats_markdown, open_reader
from linkseek.indexer.readers.reader import Outcome, Reader
from linkseek.testing import check_reader
from tests.support.tiny.corpus import write_jsonl


@dataclass(frozen=True)
class Example:
    """A format's small file: before the records, record `n`, behind them; and a broken record.

    file: of a format whose corpus is a folder, the name of the file that is record `n`.
    """

    record: Callable[[int], str]
    broken: str
    before: str = ""
    after: str = ""
    file: Callable[[int], str] | None = None

    def records(self, count: int, broken_at: int | None = None) -> list[str]:
        return [self.broken if n == broken_at else self.record(n) for n in range(count)]

    def content(self, count: int, broken_at: int | None = None) -> bytes:
        return (self.before + "".join(self.records(count, broken_at)) + self.after).encode()

    def write(self, path: Path, count: int, broken_at: int | None = None) -> None:
        if self.file is None:
            path.write_bytes(self.content(count, broken_at))
            return
        path.mkdir()
        for n, record in enumerate(self.records(count, broken_at)):
            (path / self.file(n)).write_bytes(record.encode("utf-8", "surrogateescape"))


def jsonl_record(n: int) -> str:
    link = {"start": 0, "end": 5, "target": f"d{n + 1}"}
    section = {"start": 6, "heading": "B", "level": 2}
    row = {"id": f"d{n}", "title": f"T {n}", "text": "Über a\u2028b\u0085c"}
    return json.dumps(row | {"links": [link], "sections": [section]}, ensure_ascii=False) + "\n"


def mediawiki_record(n: int) -> str:
    redirect = '<redirect title="P 0" />' if n == 1 else ""
    return (
        f"<page><title>P {n}</title><ns>0</ns><id>{n}</id>{redirect}<revision><id>1</id>"
        f"<model>wikitext</model><text>Über [[P {n + 1}]]s.\n\n== B ==\nx [[y]]</text></revision>"
        "</page>\n"
    )


def hlp_record(n: int) -> str:
    """A page; the first one has a second passage."""
    page = {f"P {n}_0": {"text": "Über <SOE> x <EOE> .", "mentions": ["x"], "linkouts": [f"P {n + 1}"]}}
    if n == 0:
        page["P 0_1"] = {"text": "y", "mentions": [], "linkouts": []}
    return ",\n" * (n > 0) + json.dumps(page, ensure_ascii=False)[1:-1]


def harp_record(n: int) -> str:
    """The fifth line repeats the first: four sentences and the passage they share are five documents."""
    anchor = {"text": "Über", "pos": [1, 1], "passage": "Über x"}
    row = {"sentence": f"see Über {n % 4}", "anchors": [[anchor]]}
    return json.dumps(row, ensure_ascii=False) + "\n"


def html_page(n: int) -> str:
    head = f"<!DOCTYPE html><html><head><title>P {n}</title></head>"
    return f"{head}<body><p>Über <a href='{n + 1}.html'>x</a></p><h2>B</h2><p>y</p></body></html>\n"


def markdown_page(n: int) -> str:
    return f"# P {n}\n\nÜber [x]({n + 1}.md)\n\n## B\n\ny\n"


def hotpotqa_record(n: int) -> str:
    sentences = [f'Über <a href="p%20{n + 1}">x</a>.', " <b>y</b>"]
    row = {"id": n, "url": "", "title": f"P {n}", "text": ["Über x.", " <b>y</b>"], "charoffset": []}
    return json.dumps(row | {"text_with_links": sentences}, ensure_ascii=False) + "\n"


def two_wiki_record(n: int) -> str:
    mention = {"id": 0, "start": 5, "end": 6, "sent_idx": 1, "ref_url": f"p_{n + 1}", "ref_ids": None}
    row = {"id": str(n), "title": f"P {n}", "sentences": ["Zu.", "Über x."], "mentions": [mention]}
    return json.dumps(row, ensure_ascii=False) + "\n"


EXAMPLES = {
    "2wiki": Example(two_wiki_record, two_wiki_record(9).replace('"sent_idx": 1', '"sent_idx": 2')),
    "beir": Example(
        lambda n: f'{{"_id": "b{n}", "title": "T", "text": "Über x"}}\n', '{"_id": 1\n'
    ),
    "dpr": Example(lambda n: f'{n}\t"Über ""x"""\tT\n', "1\ttoo few\n", before="id\ttext\ttitle\n"),
    "harp": Example(harp_record, '{"sentence": "a", "anchors": [{"text": "a"}]}\n'),
    "hlp": Example(hlp_record, ',\n"P 2_0": {"text": 1}', before="{", after="}\n"),
    "hotpotqa": Example(hotpotqa_record, '{"title": "T", "text": "x", "charoffset": []}\n'),
    "html": Example(html_page, "<div>" * 1001, file="{}.html".format),
    "jsonl": Example(jsonl_record, '{"id": "x", "text": "a", "links": [{"start": 0, "end": 9}]}\n'),
    "kilt": Example(
        lambda n: f'{{"wikipedia_id": {n}, "wikipedia_title": "T {n}", "text": ["T {n}", "Über x"]}}\n',
        '{"wikipedia_id": 1, "text": "x"}\n',
    ),
    "markdown": Example(markdown_page, "\udcff is no UTF-8", file="{}.md".format),
    "mediawiki": Example(
        mediawiki_record,
        "<page><title>B</title><ns>0</ns><id>9</id><revision><text><b></text></revision></page>\n",
        before='<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11">\n',
        after="</mediawiki>\n",
    ),
    "msmarco-documents": Example(
        lambda n: f'D{n}\thttps://a.b/{n}\t.\tÜber "x\n', "D1\thttps://a.b\ttoo few\n"
    ),
    "msmarco-v2": Example(lambda n: f'{{"docid": "D{n}", "body": "Über x"}}\n', '{"body": 1}\n'),
    "msmarco-passages": Example(lambda n: f"{n}\tÜber {'x ' * 99}\n", "1\ttoo\tmany\n"),
    "pages": Example(
        lambda n: html_page(n) if n % 2 else markdown_page(n),
        "\udcff is no UTF-8",
        file=lambda n: f"{n}.html" if n % 2 else f"{n}.md",
    ),
    "pyserini": Example(
        lambda n: f'{{"id": {n}, "contents": "\\"T\\"\\nÜber x"}}\n', '{"id": 1}\n'
    ),
    "wikiextractor": Example(
        lambda n: f'{{"id": {n}, "url": "u", "title": "T {n}", "text": "Über <a href=\\"T\\">x</a>"}}\n',
        '{"id": 1\n',
    ),
}  # fmt: skip
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.ZstdCompressor().compress,
    ".xz": lzma.compress,
}
COUNT = 5


FOLDERS = [name for name, example in EXAMPLES.items() if example.file]
FILES = [name for name in EXAMPLES if name not in FOLDERS]


@pytest.fixture(params=list(all_readers()))
def name(request: pytest.FixtureRequest) -> str:
    if request.param not in EXAMPLES:
        pytest.fail(
            f"indexer/readers has a reader {request.param!r} without an example: add an Example to "
            f"EXAMPLES in {Path(__file__).name}, and it is checked like the others"
        )
    return str(request.param)


@pytest.fixture
def example(name: str) -> Example:
    return EXAMPLES[name]


def make_corpus(name: str, path: Path, count: int = COUNT, broken_at: int | None = None) -> Reader:
    EXAMPLES[name].write(path, count, broken_at)
    return all_readers()[name](path)


def make_reader(name: str, folder: Path, content: bytes, file: str = "corpus") -> Reader:
    path = folder / file
    path.write_bytes(content)
    return all_readers()[name](path)


def read(reader: Reader) -> list[Outcome]:
    return list(reader.documents())


def test_recognised_by_its_reader_alone(name: str, example: Example, tmp_path: Path) -> None:
    path = make_corpus(name, tmp_path / "corpus").path
    head = b"" if example.file else read_head(path)
    assert [r.name for r in all_readers().values() if r.recognises(path, head)] == [name]
    assert type(open_reader(path)) is type(open_reader(path, name)) is all_readers()[name]
    for suffix, compress in COMPRESS.items() if name in FILES else ():
        packed = make_reader(name, tmp_path, compress(example.content(COUNT)), "x" + suffix).path
        assert type(open_reader(packed)) is all_readers()[name]


def test_class_attributes(name: str) -> None:
    reader = all_readers()[name]
    assert reader.name == name
    assert formats_markdown().count(f"| `{name}` | {reader.description} | {reader.passage} |\n") == 1


def test_documents(name: str, tmp_path: Path) -> None:
    reader = make_corpus(name, tmp_path / "corpus")
    assert all("Über" in document.text for document in check_reader(reader))
    ids = [outcome.id for outcome in read(reader) if isinstance(outcome, Document | Redirect)]
    assert len([id_ for id_ in ids if not id_.startswith("title:")]) == COUNT


def test_a_pickled_reader_reads_the_same(name: str, tmp_path: Path) -> None:
    reader = make_corpus(name, tmp_path / "corpus")
    assert read(reader) == read(pickle.loads(pickle.dumps(reader)))
    records = list(reader.records())
    assert pickle.loads(pickle.dumps(records)) == records
    assert len(pickle.dumps(reader)) < 1000  # it goes along with every chunk of records


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("suffix", COMPRESS)
def test_compressed_files_read_the_same(name: str, example: Example, suffix: str, tmp_path: Path) -> None:
    content = example.content(COUNT)
    plain = read(make_reader(name, tmp_path, content))
    assert read(make_reader(name, tmp_path, COMPRESS[suffix](content), "x" + suffix)) == plain


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_truncated_file_is_named(name: str, example: Example, suffix: str, tmp_path: Path) -> None:
    packed = COMPRESS[suffix](example.content(500))
    for length in (len(packed) - 3, len(packed) // 2):
        reader = make_reader(name, tmp_path, packed[:length], "x" + suffix)
        with pytest.raises(InputError) as caught:
            read(reader)
        assert str(reader.path) in caught.value.message
        assert caught.value.hint


@pytest.mark.parametrize("name", FILES)
def test_records_are_read_lazily(name: str, example: Example, tmp_path: Path) -> None:
    count = min(60_000, (4 << 20) * 1_000 // len(example.content(1_000)))
    content = example.content(count)
    size, reader = len(content), make_reader(name, tmp_path, content)
    del content
    opened = []
    tracemalloc.start()
    try:
        records = reader.records(opened.append)
        assert len(list(itertools.islice(records, 3))) == 3
        assert opened[0].position <= 1 << 20 < size
        assert sum(1 for _ in records) >= count - 3
        assert tracemalloc.get_traced_memory()[1] < 3 << 20
    finally:
        tracemalloc.stop()
    assert opened[0].position == opened[0].size == size


@pytest.mark.parametrize("name", FOLDERS)
def test_files_are_read_one_after_another(name: str, tmp_path: Path) -> None:
    reader = make_corpus(name, tmp_path / "corpus", 200)
    sizes = [path.stat().st_size for path in sorted(reader.path.iterdir())]
    opened = []
    records = reader.records(opened.append)
    assert len(list(itertools.islice(records, 3))) == 3
    assert sum(sizes[:3]) <= opened[0].position <= sum(sizes[:4])
    assert sum(1 for _ in records) == 197
    assert opened[0].position == opened[0].size == sum(sizes)


def test_a_broken_record_is_named_with_its_place(name: str, tmp_path: Path) -> None:
    reader = make_corpus(name, tmp_path / "corpus", broken_at=2)
    with pytest.raises(InputError) as caught:
        read(reader)
    before = list(make_corpus(name, tmp_path / "whole").records())
    header = len(before) - COUNT
    near = {before[2 + header].place, before[1 + header].place}  # at it, or "after" the one before
    assert str(reader.path) in caught.value.message
    assert any(place in caught.value.message for place in near)
    assert caught.value.hint


@pytest.mark.parametrize("damage", [b"\xff\xfe", b"\x00", b"\xed\xa0\x80"])
@pytest.mark.parametrize("where", ["start", "middle", "end"])
def test_damaged_bytes_never_end_in_another_error(
    name: str, example: Example, damage: bytes, where: str, tmp_path: Path
) -> None:
    content = example.record(2).encode() if example.file else example.content(COUNT)
    at = {
        "start": 0,
        "middle": content.index("Über".encode(), 0 if example.file else len(content) // 2),
        "end": len(content),
    }
    damaged = content[: at[where]] + damage + content[at[where] :]
    if example.file:
        reader = make_corpus(name, tmp_path / "corpus")
        (reader.path / example.file(2)).write_bytes(damaged)
    else:
        reader = make_reader(name, tmp_path, damaged)
    try:
        outcomes = read(reader)
    except InputError as error:
        assert str(reader.path) in error.message
    else:  # taken as text: it must be storable
        for outcome in outcomes:
            if isinstance(outcome, Document):
                outcome.text.encode()


# --- byte streams ---


def contents(path: Path) -> bytes:
    _, stream = open_source(path)
    with stream:
        return stream.read()


@pytest.mark.parametrize("suffix", COMPRESS)
def test_streams_one_after_another_are_one_file(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    pieces = [b"a" * 1000, b"", b"bc\n", bytes(range(256)) * 2000]
    path.write_bytes(b"".join(COMPRESS[suffix](piece) for piece in pieces))
    assert contents(path) == b"".join(pieces)


@pytest.mark.parametrize("suffix", COMPRESS)
def test_padding_behind_a_stream_is_passed_over(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(COMPRESS[suffix](b"abc") + bytes(512) + COMPRESS[suffix](b"d") + bytes(4))
    assert contents(path) == b"abcd"


@pytest.mark.parametrize("suffix", COMPRESS)
def test_cut_off_and_damaged_streams(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    data = COMPRESS[suffix](b"".join(hashlib.sha256(bytes([n])).digest() for n in range(256)) * 40)
    for length in range(5, len(data), max(1, len(data) // 50)):
        path.write_bytes(data[:length])
        with pytest.raises(InputError, match="cut off") as caught:
            contents(path)
        assert f"{length:,}" in caught.value.message
    path.write_bytes(data + b"garbage")
    with pytest.raises(InputError, match="damaged"):
        contents(path)


def test_position_size_and_hash(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(bz2.compress(b"abc" * 100_000))
    source, stream = open_source(path)
    with stream:
        assert stream.read() == b"abc" * 100_000
    assert source.position == source.size == path.stat().st_size
    assert source.sha256() == hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_head_of_a_damaged_file_is_what_there_is(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"abc" * 10)
    assert read_head(path, 4) == b"abca"
    path.write_bytes(b"")
    assert read_head(path) == b""
    with pytest.raises(InputError, match="a folder, not a file"):
        read_head(tmp_path)


def test_lines_end_at_line_feeds_alone(tmp_path: Path) -> None:
    path = tmp_path / "x"
    lines = ["a\u0085b", "", "c\u2028d\x0b\x0ce\x1cf", "  ", "g\r"]
    path.write_text("\n".join(lines), encoding="utf-8", newline="")
    _, stream = open_source(path)
    with stream:
        found = [(number, line.decode()) for number, line in read_lines(stream)]
    assert found == [(1, "a\u0085b"), (3, "c\u2028d\x0b\x0ce\x1cf"), (5, "g")]


def test_a_list_in_the_metadata_is_text_with_commas(tmp_path):
    row = {"id": "1", "text": "a", "metadata": {"tags": ["red", 7, None], "year": 2020, "none": []}}
    [document] = open_reader(write_jsonl(tmp_path / "c.jsonl", [row]), "jsonl").documents()
    assert document.metadata == {"tags": "red, 7", "year": "2020", "none": ""}


@pytest.mark.parametrize("format_", ["jsonl", "beir", "pyserini"])
def test_null_is_missing(format_, tmp_path):
    text = {"contents" if format_ == "pyserini" else "text": "a"}
    row = {"_id" if format_ == "beir" else "id": 1, "title": None, **text, "url": None, "links": None}
    row |= {"sections": None, "metadata": {"url": None}}
    path = write_jsonl(tmp_path / "c.jsonl", [row])
    [document] = open_reader(path, format_).documents()
    assert document == Document(id="1", title="", text="a")
    path = write_jsonl(tmp_path / "c.jsonl", [row | {"_id": None, "id": None}])
    with pytest.raises(InputError, match=r'"_?id" is null'):
        list(open_reader(path, format_).documents())


def test_json_as_python_writes_it(tmp_path):
    """`json.dumps` writes NaN, and half of a surrogate pair, neither of which JSON has."""
    row = {"_id": "1", "title": float("nan"), "text": "half \ud83d of it", "metadata": {"url": float("nan")}}
    (tmp_path / "c.jsonl").write_text(json.dumps(row) + "\n")
    assert list(open_reader(tmp_path / "c.jsonl").documents()) == [Document("1", "", "half ? of it")]


def test_json_too_deep_for_python_is_refused(tmp_path):
    (tmp_path / "c.jsonl").write_text('{"id": "1", "text": "a", "more": ' + "[" * 9_000 + "]" * 9_000 + "}\n")
    with pytest.raises(InputError, match="not JSON"):
        list(open_reader(tmp_path / "c.jsonl", "jsonl").documents())
