"""Bad corpora, through the command that builds: what is wrong, where, what to do, and the exit code.

Each kind of damage has its own test where it is found: in `tests/indexer`.
"""

from __future__ import annotations

import bz2
import json
import os
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.indexer.readers.jsonl import JsonlReader
from linkseek.indexer.readers.mediawiki import mediawiki_pages
from tests.support.damage import SAMPLE, SKIP, build, documents, here, kept, page, told, wiki
from tests.support.tiny.corpus import write_jsonl


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return tmp_path / "corpus"


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return tmp_path / "index"


def flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :]


def third(line: bytes) -> bytes:
    """A file whose third line is this one."""
    return b'{"id": "a", "text": "t", "links": []}\n{"id": "b", "text": "t"}\n%b\n' % line


WHOLE = SAMPLE.read_bytes()
BLOCKS = bz2.compress(bz2.decompress(WHOLE), compresslevel=1)  # of 100 kB
ENDLESS, DEEP = (
    wiki(page("A", "t")).replace("</mediawiki>", rest).encode()
    for rest in ("<!--" + "x" * 600_000, "<page>" * 100_000)
)
HUGE = wiki(page("A", "t"), page("Huge", "word [[A]] " * 10_000), page("B", "t")).encode()


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundredth of the usual ones: expat reads an open comment again with each piece of the file."""
    for name in ("MAX_PAGE_CHARACTERS", "_LONGEST"):
        monkeypatch.setattr(mediawiki_pages, name, getattr(mediawiki_pages, name) // 100)


@pytest.mark.parametrize(
    ("content", "words", "lost", "left"),
    [
        (BLOCKS[:-10], ["the file is cut off", "at byte"], "rest of a damaged file", 100),
        (flipped(BLOCKS, len(BLOCKS) // 2), ["damaged compressed data before byte"], "rest of a damaged", 10),
        (third(b'{"id": "x", "text": "\xff"}'), ["line 3", "UTF-8"], "malformed", 2),
        (third(b'{"id": "x", "text": '), ["line 3: not JSON"], "malformed", 2),
        (third(b'{"id": "a", "text": "again"}'), ["line 3: duplicate id 'a'"], "duplicate id", 2),
        (third(b'{"id": "x", "\\u001b[2J\\u202e": 1}'), ["line 3: ", "it has id,  [2J )"], "malformed", 2),
        (ENDLESS, ["after page 1 (A): a text, tag or comment of more"], "rest of a damaged file", 1),
        (DEEP, ["nested more than 100 deep"], "rest of a damaged file", 1),
        (HUGE, ["page 1 (Huge): the page has more than 100,000 characters"], "malformed", 2),
    ],
    ids="cut damaged utf-8 json twice control endless deep huge".split(),
)
def test_damage_is_named_and_what_is_whole_is_kept_where_asked(
    small_limits, corpus, index, content, words, lost, left
):
    corpus.write_bytes(content)
    options = ["--corpus", corpus, "--index", index]
    told(build(*options), InputError, str(corpus), *words)
    assert not index.exists()
    assert f"skipped: 1 {lost}" in kept(build(*options, *SKIP))
    assert left <= len(documents(index)) < 150


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["the file is empty"]),
        (b"\n\n", ["name it with --format"]),
        (b"\0\1\2\3" * 100, ["unknown format", "--format"]),
        (bz2.compress(b""), ["the file is empty"]),
        (flipped(WHOLE, 3000), ["damaged compressed data", "No part of the file can be read. Get it again."]),
        (b"<!-- a -->" * 5000 + b"<html>", ["unknown format"]),  # must not take 2 ** 5000 steps
        (b'{"id": "a", "text": "  ", "links": []}', ["none of its 1 documents has any text"]),
    ],
)
def test_an_empty_or_unknown_corpus(corpus, index, content, words):
    corpus.write_bytes(content)
    told(build("--corpus", corpus, "--index", index, *SKIP), InputError, str(corpus), *words)


def test_ids_with_blanks_and_slashes_go_through_runs_and_back(corpus, index, tmp_path):
    ids = ["a b/c", "../x", "50% of", "日本 語", "a%20b"]
    rows = [{"id": id_, "text": f"word{n} common", "links": []} for n, id_ in enumerate(ids)]
    write_jsonl(corpus, rows)
    kept(here("build", "--corpus", corpus, "--index", index, "--no-dense", "--processes", 1))
    queries = tmp_path / "queries.tsv"
    queries.write_text("".join(f"q {n}\tword{n}\n" for n in range(len(ids))))
    (tmp_path / "qrels").write_text(
        "".join(f"q%20{n} 0 {id_.replace('%', '%25').replace(' ', '%20')} 1\n" for n, id_ in enumerate(ids))
    )
    options = ["--index", index, "--queries", queries, "--qrels", tmp_path / "qrels", "--measure", "R@1"]
    kept(here("evaluate", *options, "--pipeline", "bm25", "--output", tmp_path / "o1", "--depth", 3))
    (tmp_path / "o1" / "runs" / "bm25.trec").rename(tmp_path / "again.trec")
    kept(here("evaluate", *options, "--run", tmp_path / "again.trec", "--output", tmp_path / "o2"))
    for folder, name in (("o1", "bm25"), ("o2", "again")):
        results = json.loads((tmp_path / folder / "results.json").read_text())
        assert results["pipelines"][name]["measures"]["R@1"]["mean"] == 1.0


# --- MediaWiki -----------------------------------------------------------------------------------


def test_titles_that_differ_in_case_or_normalisation(corpus, index):
    nfc, nfd = (unicodedata.normalize(form, "Café") for form in ("NFC", "NFD"))
    for titles, same in ((("Ab", "AB", "aB"), "AB"), ((nfc, nfd), "Café")):  # the first letter is a capital
        corpus.write_text(wiki(*(page(title, "t") for title in titles)))
        told(build("--corpus", corpus, "--index", index), InputError, f"duplicate id '{same}'")
    rows = [{"id": id_, "title": id_, "text": f"[{id_}]", "links": []} for id_ in ("ab", "AB", nfc, nfd)]
    write_jsonl(corpus, rows)
    kept(build("--corpus", corpus, "--index", index))
    assert documents(index) == ["ab", "AB", nfc, nfd]


@pytest.mark.timeout(60)
def test_entities_are_neither_expanded_nor_opened(corpus, index, tmp_path):
    """A billion laughs; and a pipe, which would never end if it were opened."""
    os.mkfifo(tmp_path / "pipe")
    laughs = '<!ENTITY a "ha">' + "".join(
        f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefghi", "bcdefghij", strict=True)
    )
    export = wiki(page("A", "x")).replace("x</text>", "&j;</text>")
    for declared in (laughs, f'<!ENTITY j SYSTEM "file://{tmp_path}/pipe">'):
        for doctype in (f"<!DOCTYPE mediawiki [{declared}]>", f'<!DOCTYPE m SYSTEM "{tmp_path}/pipe">'):
            corpus.write_text(doctype + export)
            for named in ([], ["--format", "mediawiki"]):
                done = build("--corpus", corpus, "--index", index, *named)
                told(done, InputError, str(corpus), "a document type is declared", "Remove the <!DOCTYPE")
    corpus.write_text(export)
    told(build("--corpus", corpus, "--index", index), InputError, "broken XML (undefined entity, line 2")


# --- files that are none -------------------------------------------------------------------------


@pytest.mark.timeout(60)
@pytest.mark.parametrize("format_name", ["jsonl", None])
def test_pipes_and_devices_are_refused(tmp_path, index, format_name):
    os.mkfifo(tmp_path / "pipe")
    named = ["--format", format_name] if format_name else []
    for path in (tmp_path / "pipe", "/dev/zero", "/dev/null"):
        done = build("--corpus", path, "--index", index, *named)
        told(done, InputError, f"{path}: a pipe or a device, not a file", "to a file first")


def test_folders_and_paths_that_are_no_text(tmp_path, index):
    folder = tmp_path / "folder"
    folder.mkdir()
    told(build("--corpus", folder, "--index", index), InputError, f"{folder}: the folder is empty")
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.jsonl")
    Path(odd).write_text('{"id": "a", "text": "t", "links": []}\n')
    told(build("--corpus", odd, "--index", index), UsageError, "--corpus", "\\udcff", "is not UTF-8")
    told(build("--corpus", SAMPLE, "--index", odd), UsageError, "--index", "is not UTF-8")


@pytest.fixture
def meddled(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """A corpus of two blocks, and a list of what happens to it when its first record is parsed."""
    rows = [{"id": f"d{n}", "text": "word " * 100, "links": []} for n in range(2000)]
    write_jsonl(corpus, rows)
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
    meddled.append(corpus.unlink)  # it has been read
    kept(build("--corpus", corpus, "--index", index))
    assert len(documents(index)) == 2000 and not corpus.exists()
