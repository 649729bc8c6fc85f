"""What is small and would grow: decompressed, parsed, or nested. Each is refused, or read in linear time."""

from __future__ import annotations

import bz2
import gzip
import json
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from linkseek.indexer.building.corpus import write_documents
from linkseek.indexer.documents import Document
from linkseek.indexer.files import sources
from linkseek.indexer.files.sources import MAX_RECORD, open_source, read_head, read_lines
from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.indexer.program.settings import parse_toml, read_toml
from linkseek.indexer.readers.choices import Choices
from linkseek.indexer.readers.formats import all_readers, open_reader
from linkseek.indexer.readers.mediawiki.mediawiki_titles import Site, titles_of
from linkseek.indexer.readers.reader import Reader, Record, parse_at
from linkseek.indexer.wikitext import read_wikitext
from tests.support.tiny.corpus import write_jsonl

# --- decompression --------------------------------------------------------------------------------

PACK: dict[str, Callable[[bytes], bytes]] = {
    "bz2": bz2.compress,
    "gz": gzip.compress,
    "zst": zstandard.ZstdCompressor().compress,
}


@pytest.mark.parametrize("suffix", PACK)
def test_a_bomb_takes_little_memory(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"bomb.{suffix}"
    path.write_bytes(PACK[suffix](bytes(1 << 22).replace(b"\0", b"x")) * 25)  # 100 MB
    tracemalloc.start()
    assert len(read_head(path)) == 1 << 16
    head = tracemalloc.get_traced_memory()[1]
    with pytest.raises(InputError, match=rf"line 1: longer than {MAX_RECORD:,} bytes"):
        list(read_lines(open_source(path)[1]))
    lines = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert head < 64 << 20
    assert lines < 3 * MAX_RECORD


@pytest.mark.parametrize("suffix", PACK)
def test_a_file_that_grows_beyond_reason_is_refused(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(sources, "_FREE_GROWTH", 1 << 20)
    path = tmp_path / f"bomb.{suffix}"
    path.write_bytes(PACK[suffix](b"x\n" * (1 << 21)))
    problem = r"bomb\.\w+: [0-9,]+ compressed bytes grow to more than [0-9,]+ bytes"
    with pytest.raises(InputError, match=problem):
        list(read_lines(open_source(path)[1]))


def test_a_frame_to_be_skipped_comes_first_in_some_zstd_files(tmp_path: Path) -> None:
    path = tmp_path / "a.zst"
    skipped = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
    path.write_bytes(skipped + PACK["zst"](b"one\n") + skipped + PACK["zst"](b"two\n"))
    assert [line for _, line in read_lines(open_source(path)[1])] == [b"one", b"two"]


# --- records ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [ValueError("x" * 999), LookupError("a"), RecursionError(), RuntimeError("b")]
)
def test_whatever_a_parser_raises_is_an_error_of_its_record(tmp_path, error, monkeypatch):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"id": "{n}", "text": "x", "links": []}}\n' for n in range(3)))
    reader = all_readers()["jsonl"](path)
    parse = reader.parse

    def failing(record: Record) -> object:
        if record.place == "line 2":
            raise error
        return parse(record)

    monkeypatch.setattr(reader, "parse", failing)
    with pytest.raises(
        InputError, match=r"a\.jsonl, line 2: (cannot be parsed \(|nested too deep)"
    ) as caught:
        write_documents(reader, tmp_path)
    assert len(caught.value.message) < 400 and "--on-error skip" in caught.value.hint
    reader.choices = Choices(on_error="skip")
    written = write_documents(reader, tmp_path)
    assert (written["documents"], written["skipped"]["malformed"]["count"]) == (2, 1)


def test_an_id_that_no_index_can_hold_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    ids = ["x" * 32_756, "ü" * 20_000]
    write_jsonl(path, [{"id": id_, "text": "x", "links": []} for id_ in ids])
    with pytest.raises(InputError, match=r"a\.jsonl, line 2: the id '(ü{60})'\.\.\. is longer than 32,756"):
        write_documents(all_readers()["jsonl"](path), tmp_path)


def wiki(page: str, encoding: str = "utf-8") -> bytes:
    head = f'<?xml version="1.0" encoding="{encoding}"?>'
    return f"{head}<mediawiki><page><title>A</title>{page}</page></mediawiki>".encode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (wiki("<ns>--5</ns><id>1</id>"), r"page 1 \(A\): its namespace '--5' is not a number"),
        (wiki(f"<ns>{'5' * 5000}</ns>"), r"page without id \(A\): its namespace '5+' is not a number"),
        *[
            (wiki("", encoding), "before the first page: unsupported encoding")
            for encoding in ("utf-7", "big5", "rot13", "idna")
        ],
    ],
)
def test_bad_numbers_and_encodings_of_an_export_are_named(tmp_path, content, message):
    path = tmp_path / "a.xml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        write_documents(all_readers()["mediawiki"](path), tmp_path)


def test_a_namespace_key_that_is_no_number_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    names = '<siteinfo><namespaces><namespace key="--5">X</namespace></namespaces></siteinfo>'
    text = "<ns>0</ns><revision><text>x</text></revision>"
    path.write_bytes(wiki(text).replace(b"<mediawiki>", b"<mediawiki>" + names.encode()))
    assert write_documents(all_readers()["mediawiki"](path), tmp_path)["documents"] == 1


# --- parsers ----------------------------------------------------------------------------------------


def seconds(work: Callable[[], object]) -> float:
    """The best of two: a garbage collection of everything that the process holds may fall into one."""
    taken = []
    for _ in range(2):
        started = time.process_time()
        work()
        taken.append(time.process_time() - started)
    return min(taken)


def assert_linear(work: Callable[[int], Callable[[], object]], size: int) -> None:
    """Four times the input takes at most ten times as long (sixteen, if the time grew with its square)."""
    small, large = seconds(work(size)), seconds(work(4 * size))
    assert large < 10 * small + 0.2, (small, large)


WIKITEXT = [
    "[[[[File:a|",
    "'''{|\n",
    "}-{|\n",
    "[[[[:||",
    "{{{{nowrap|",
    "{{{nowrap|}}",
    "[[a|''[[",
    "}}{|\n[[",
]


@pytest.mark.parametrize("pattern", WIKITEXT)
def test_wikitext_takes_linear_time(pattern: str) -> None:
    resolve = titles_of(Site()).resolve
    assert_linear(lambda size: lambda: read_wikitext(pattern * (size // len(pattern)), resolve), 12_000)


def parse(format_name: str, content: str) -> Callable[[], object]:
    """A record of a format, to be parsed."""
    reader: Reader = all_readers()[format_name](Path("a"))
    raw: object = content.encode()
    record = Record("a", (raw, frozenset()) if format_name == "harp" else raw)
    return lambda: parse_at(reader, record)


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (f"<div {' '.join(f'a{n}' for n in range(80_000))}>x", "a tag has more than 1,000 attributes"),
        (f"<p {' '.join(f'a{n}' for n in range(80_000))}>x", "a tag has more than 1,000 attributes"),
        ("<a href='#'>x<marquee>" * 4000, "nested more than 1,000 deep"),
        ("<x>" * 20_000 + "</y>" * 20_000, "nested more than 1,000 deep"),
        *[
            (f"{tags * 100_000}x", "nested more than 1,000 deep")
            for tags in ("<div>", "<ul><li>", "<table><tr><td>", "<h1><b>", "<b><article>")
        ],
    ],
    ids="attributes attributes-of-p links unknown div li td b article".split(),
)
def test_a_page_that_would_take_far_more_than_its_size_is_refused_at_once(page: str, message: str) -> None:
    def refused() -> None:
        with pytest.raises(InputError, match=message) as caught:
            parse("html", page)()
        assert "--on-error skip" in caught.value.hint

    assert seconds(refused) < 2


def test_what_real_pages_leave_open_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        "<!-- </b> --><b>" * 300
        + "<a name=x>y<p title='<b>'>z<li>" * 3000
        + "<svg>" + "<path d=''/>" * 2000 + "</svg>"
        + "<code>x</code> <i>y</i> " * 3000
    )  # fmt: skip
    (document,) = open_reader(tmp_path).documents()
    assert isinstance(document, Document) and document.text.startswith("y\n\nz")


def test_formatting_that_is_left_open_is_read_in_linear_time() -> None:
    assert_linear(
        lambda count: parse("html", "<p>" + "".join(f"<b id={n}>" for n in range(count)) + "<p>x" * count),
        4000,
    )


def harp_line(count: int) -> str:
    words = [f"w{n}" for n in range(count)]
    anchors = [{"text": word, "pos": [n, n], "passage": f"p {n}"} for n, word in enumerate(words)]
    return json.dumps({"sentence": " ".join(words), "anchors": anchors})


def test_anchors_are_found_in_linear_time_or_refused() -> None:
    with pytest.raises(InputError, match="16,000 anchors in a sentence of "):
        parse("harp", harp_line(16_000))()
    anchors = [{"text": "a", "pos": [n, n], "passage": "p"} for n in range(4000)]
    line = json.dumps({"sentence": "a " * 4000, "anchors": anchors})
    assert seconds(parse("harp", line)) < 2


def hlp_entry(count: int) -> str:
    mentions = [f"m{n}" for n in range(count)]
    page = {"text": "<SOE> q <EOE> " * count, "mentions": mentions, "linkouts": mentions}
    return json.dumps({"A_0": page})


def test_mentions_are_looked_up_in_linear_time() -> None:
    assert_linear(lambda count: parse("hlp", hlp_entry(count)), 4000)


def test_an_hlp_page_of_too_many_passages_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.readers.hlp.MAX_RECORD", 1000)
    path = tmp_path / "wiki_00.json"
    rows = {f"A_{n}": {"text": "x" * 100, "mentions": [], "linkouts": []} for n in range(20)}
    path.write_text(json.dumps(rows))
    with pytest.raises(InputError, match=r"entry 1 \(A\): a page of more than 1,000 bytes"):
        list(open_reader(path).documents())


def test_lines_are_recognised_whose_first_text_is_long(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"id": "a", "title": "A", "text": "x " * 100_000, "links": []}) + "\n")
    assert open_reader(path).name == "jsonl"


@pytest.mark.parametrize("content", ["[" * (1 << 18), "{" * (1 << 18), '{"a":[' + "[]," * (1 << 18)])
def test_what_is_no_format_is_refused_in_little_time(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(content)

    def refused() -> None:
        with pytest.raises(InputError, match="unknown format"):
            open_reader(path)

    assert seconds(refused) < 5


def test_settings_have_a_largest_size(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text("a = 1\n" * 200_000)
    with pytest.raises(UsageError, match=r"a\.toml: more than 1,000,000 characters"):
        read_toml(path, "hint")


@pytest.mark.parametrize("text", ["[{}b]", "{}b = 1", "a = {{{}b = 1}}"])
def test_settings_with_a_key_of_many_parts_are_refused_at_once(text: str) -> None:
    def refused() -> None:
        with pytest.raises(UsageError, match=r"a\.toml: nested too deeply"):
            parse_toml(text.format("a." * 2_000), "a.toml")

    tracemalloc.start()
    assert seconds(refused) < 0.1
    assert tracemalloc.get_traced_memory()[1] < 1 << 20  # the parser would take 16 MB
    tracemalloc.stop()
