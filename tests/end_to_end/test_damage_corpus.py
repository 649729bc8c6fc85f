"""Bad corpora, through the command that builds: what is wrong, where, what to do, and the exit code."""

from __future__ import annotations

import bz2
import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.indexer.readers.jsonl import JsonlReader
from tests.support.damage import (
    EXPORT,
    SAMPLE,
    SKIP,
    WITHOUT_SEARCH,
    build,
    documents,
    here,
    kept,
    measured,
    told,
)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return tmp_path / "corpus"


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return tmp_path / "index"


# --- compressed files ----------------------------------------------------------------------------


@pytest.mark.parametrize("fraction", [0.001, 0.3, 0.99])
def test_a_truncated_bz2(corpus, index, fraction):
    content = SAMPLE.read_bytes()
    corpus.write_bytes(content[: int(len(content) * fraction)])
    options = ["--corpus", corpus, "--index", index, "--format", "mediawiki"]
    told(build(*options), InputError, f"{corpus}: the file is cut off", "at byte", "--on-error skip")
    assert not index.exists()


def streams() -> list[bytes]:
    """The sample in three streams, one after another."""
    pages = bz2.decompress(SAMPLE.read_bytes())
    third = len(pages) // 3
    return [bz2.compress(pages[at : at + third + 3]) for at in range(0, len(pages), third + 3)]


def test_a_truncated_bz2_of_several_streams_is_kept_as_far_as_it_is_whole(corpus, index):
    whole = b"".join(streams())
    corpus.write_bytes(whole[:-10])
    told(build("--corpus", corpus, "--index", index), InputError, "the file is cut off")
    out = kept(build("--corpus", corpus, "--index", index, *SKIP))
    assert "skipped: 1 rest of a damaged file" in out and "cut off" in out
    assert 10 < len(documents(index)) < 150


def flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :]


def test_a_damaged_block_in_the_middle(corpus, index):
    """What stands before is kept, behind it nothing is looked for: of one stream, and of several."""
    pages = bz2.decompress(SAMPLE.read_bytes())
    one = bz2.compress(pages, compresslevel=1)  # blocks of 100 kB
    first, second, third = streams()
    counts = []
    for content in (
        flipped(one, len(one) // 2),
        first + flipped(second, len(second) // 2) + third,
    ):
        corpus.write_bytes(content)
        told(
            build("--corpus", corpus, "--index", index),
            InputError,
            f"{corpus}: damaged compressed data before byte",
            "--on-error skip",
        )
        out = kept(build("--corpus", corpus, "--index", index, *SKIP))
        assert "skipped: 1 rest of a damaged file" in out and "before byte" in out
        counts.append(len(documents(index)))
    corpus.write_bytes(first)
    kept(build("--corpus", corpus, "--index", index, *SKIP))
    assert counts[1] == len(documents(index)) and all(10 < count < 120 for count in counts)


def test_a_file_of_which_nothing_can_be_read(corpus, index):
    corpus.write_bytes(flipped(SAMPLE.read_bytes(), 3000))
    told(
        build("--corpus", corpus, "--index", index, *SKIP),
        InputError,
        "damaged compressed data",
        "No part of the file can be read. Get it again.",
    )


def test_a_gzip_bomb_takes_little_memory(corpus, index):
    """A gigabyte in a megabyte: one tag without an end."""
    start = gzip.compress(EXPORT.encode() + b"<page><title ")
    corpus.write_bytes(start + gzip.compress(b"x" * (64 << 20)) * 16)
    options = ["--corpus", corpus, "--index", index, "--format", "mediawiki"]
    found = measured("indexer/build.py", *WITHOUT_SEARCH, *options)
    told(found.done, InputError, str(corpus), " bytes")
    assert found.megabytes < 700 and found.seconds < 60


# --- records -------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", [b"\xff", b"\xc3", b"\xed\xa0\x80"])
def test_invalid_utf8(corpus, index, damage):
    corpus.write_bytes(b'{"id": "a", "text": "t"}\n{"id": "b", "text": "x%b"}\n' % damage)
    options = ["--corpus", corpus, "--index", index]
    told(build(*options), InputError, f"{corpus}, line 2", "UTF-8")
    assert "skipped: 1 " in kept(build(*options, *SKIP))
    assert len(documents(index)) == 1


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"id": "x", "text": ', ["line 3: not JSON"]),
        ('{"id": "x", "title": "T"}', ["line 3: ", 'the field "text" is missing', "id, title"]),
        ('{"id": "a", "text": "again"}', ["line 3: duplicate id 'a'", "keep the first"]),
        ("[" * 100_000, ["line 3: not JSON"]),
        ('{"id": "x", "\\u001b[2J\\u202e": 1}', ["line 3: ", "it has id,  [2J )"]),
    ],
)
def test_a_bad_record_is_named_by_file_and_line(corpus, index, line, words):
    corpus.write_text(f'{{"id": "a", "text": "t", "links": []}}\n{{"id": "b", "text": "t"}}\n{line}\n')
    options = ["--corpus", corpus, "--index", index]
    told(build(*options), InputError, str(corpus), *words, "--on-error skip")
    assert "skipped: 1 " in kept(build(*options, *SKIP))
    assert len(documents(index)) == 2


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["the file is empty"]),
        (b"\n\n", ["name it with --format"]),
        (b"\0\1\2\3" * 100, ["unknown format", "--format"]),
        (bz2.compress(b""), ["the file is empty"]),
        (b"<!-- a -->" * 5000 + b"<html>", ["unknown format"]),  # must not take 2 ** 5000 steps
        (
            b'{"id": "a", "text": "  ", "links": []}',
            ["none of its 1 documents has any text", "nothing to search"],
        ),
    ],
)
def test_an_empty_or_unknown_corpus(corpus, index, content, words):
    corpus.write_bytes(content)
    told(build("--corpus", corpus, "--index", index), InputError, str(corpus), *words)


def test_ids_with_blanks_and_slashes_go_through_runs_and_back(corpus, index, tmp_path):
    ids = ["a b/c", "../x", "50% of", "日本 語", "a%20b"]
    rows = [{"id": id_, "text": f"word{n} common", "links": []} for n, id_ in enumerate(ids)]
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows))
    kept(here("build", "--corpus", corpus, "--index", index, "--no-dense", "--processes", 1))
    queries = tmp_path / "queries.tsv"
    queries.write_text("".join(f"q {n}\tword{n}\n" for n in range(len(ids))))
    (tmp_path / "qrels").write_text(
        "".join(f"q%20{n} 0 {id_.replace('%', '%25').replace(' ', '%20')} 1\n" for n, id_ in enumerate(ids))
    )
    options = ["--index", index, "--queries", queries, "--qrels", tmp_path / "qrels", "--measure", "R@1"]
    first = here("evaluate", *options, "--pipeline", "bm25", "--output", tmp_path / "o1", "--depth", 3)
    kept(first)
    (tmp_path / "o1" / "runs" / "bm25.trec").rename(tmp_path / "again.trec")
    again = here("evaluate", *options, "--run", tmp_path / "again.trec", "--output", tmp_path / "o2")
    kept(again)
    for folder, name in (("o1", "bm25"), ("o2", "again")):
        results = json.loads((tmp_path / folder / "results.json").read_text())
        assert results["pipelines"][name]["measures"]["R@1"]["mean"] == 1.0


# --- files that are none -------------------------------------------------------------------------


@pytest.mark.timeout(60)
@pytest.mark.parametrize("format_name", ["jsonl", None])
def test_pipes_and_devices_are_refused(tmp_path, index, format_name):
    os.mkfifo(tmp_path / "pipe")
    named = ["--format", format_name] if format_name else []
    for path in (tmp_path / "pipe", "/dev/zero", "/dev/null"):
        done = build("--corpus", path, "--index", index, *named)
        told(done, InputError, f"{path}: a pipe or a device, not a file", "into a file first")


def test_folders_and_paths_that_are_no_text(tmp_path, index):
    (tmp_path / "folder").mkdir()
    told(
        build("--corpus", tmp_path / "folder", "--index", index),
        InputError,
        f"{tmp_path / 'folder'}: the folder is empty",
    )
    told(build("--corpus", tmp_path / "none", "--index", index), InputError, "no such file", "Check the path")
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.jsonl")
    Path(odd).write_text('{"id": "a", "text": "t", "links": []}\n')
    told(build("--corpus", odd, "--index", index), UsageError, "--corpus", "\\udcff", "is not UTF-8")
    told(build("--corpus", SAMPLE, "--index", odd), UsageError, "--index", "is not UTF-8")


@pytest.fixture
def meddled(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """A corpus of two blocks, and a list of what happens to it when its first record is parsed."""
    rows = [{"id": f"d{n}", "text": "word " * 100, "links": []} for n in range(2000)]
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert corpus.stat().st_size > 2 << 18
    happens: list[object] = []
    parse = JsonlReader.parse

    def meddling(self, record):
        while happens:
            happens.pop()()
        return parse(self, record)

    monkeypatch.setattr(JsonlReader, "parse", meddling)
    return happens


def test_a_corpus_that_changes_while_it_is_read(meddled, corpus, index):
    line = '{"id": "new", "text": "t"}\n'
    whole = corpus.read_bytes()
    for change in (
        lambda: corpus.open("a").write(line),
        lambda: os.truncate(corpus, corpus.stat().st_size - 3000),
        lambda: os.utime(corpus, ns=(1, 1)),
    ):
        corpus.write_bytes(whole)
        meddled.append(change)
        done = build("--corpus", corpus, "--index", index, "--fresh")
        told(done, InputError, str(corpus), "the file has changed while it was read", "run the same command")
        assert not index.exists()
    corpus.write_bytes(whole)
    kept(build("--corpus", corpus, "--index", index))
    assert len(documents(index)) == 2000


def test_a_corpus_that_vanishes_while_it_is_read_has_been_read(meddled, corpus, index):
    meddled.append(corpus.unlink)
    kept(build("--corpus", corpus, "--index", index))
    assert len(documents(index)) == 2000 and not corpus.exists()
