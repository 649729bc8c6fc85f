"""From a file to stored documents: bad records, segments, resumption, several processes."""

from __future__ import annotations

import bz2
import json
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkseek.indexer.building import corpus as corpus_module
from linkseek.indexer.building.corpus import write_documents
from linkseek.indexer.building.skipped import Skipped
from linkseek.indexer.documents import REDIRECT_SCHEMA, DocumentStore
from linkseek.indexer.program.errors import InputError, MachineError
from linkseek.indexer.readers.formats import open_reader
from linkseek.indexer.readers.jsonl import JsonlReader
from linkseek.indexer.readers.reader import Ignored, Reader, Record
from linkseek.indexer.store.artifacts import segment_paths
from linkseek.indexer.store.ids import IdTable
from linkseek.indexer.store.tables import Table
from tests.support.tiny.corpus import linked_rows, write_jsonl

SAMPLE = Path(__file__).parents[3] / "samples" / "linkseek-sample.xml.bz2"


class Killed(BaseException):
    """Stands for a process that ends in the middle."""


def write(source: Path | Reader, folder: Path, **options: Any) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    reader = source if isinstance(source, Reader) else open_reader(source)
    names = options.keys() & {"limit", "min_title", "on_error"}
    reader.choices = replace(reader.choices, **{name: options.pop(name) for name in names})
    return write_documents(reader, folder, **options)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def stored_ids(folder: Path) -> list[str]:
    return [document.id for document in DocumentStore(segment_paths(folder))]


def spoilt(path: Path) -> Path:
    """24 lines: broken JSON in 3 and 20, no text in 7, the id of line 1 again in 11, bad ids in 13 and 14."""
    lines = [json.dumps(row) for row in linked_rows(24)]
    lines[2] = lines[2][:-4]
    lines[19] = "[]"
    lines[6] = '{"id": "d6", "title": "", "links": []}'
    lines[10] = lines[0]
    lines[12] = lines[12].replace('"d12"', '""', 1)
    lines[13] = lines[13].replace('"d13"', r'"a\tb"', 1)
    path.write_text("\n".join(lines) + "\n")
    return path


# --- what is written -----------------------------------------------------------------------------


def test_documents_come_back_with_their_counts_and_hashes(corpus, tmp_path):
    written = write(corpus, tmp_path / "documents")
    expected = list(open_reader(corpus).documents())
    assert list(DocumentStore(segment_paths(tmp_path / "documents"))) == expected
    assert (written["documents"], written["records"], written["redirects"]) == (40, 40, 0)
    assert written["source_sha256"] == sha256(corpus.read_bytes()).hexdigest()
    assert written["skipped"] == {}
    ids = IdTable.open(tmp_path / "documents")
    assert [ids.row(document.id) for document in expected] == list(range(40))


def test_redirects_are_stored_beside(tmp_path):
    written = write(SAMPLE, tmp_path / "documents")
    redirects = Table(segment_paths(tmp_path / "documents", "redirects-"), REDIRECT_SCHEMA)
    found = [o for o in open_reader(SAMPLE).documents() if type(o).__name__ == "Redirect"]
    assert list(redirects.rows()) == [{"id": r.id, "target": r.target} for r in found]
    assert written["redirects"] == len(redirects) > 5


def test_a_limit_ends_it_and_the_file_has_no_hash(corpus, tmp_path):
    written = write(corpus, tmp_path / "documents", limit=7)
    assert stored_ids(tmp_path / "documents") == [f"d{n}" for n in range(7)]
    assert written["documents"] == 7
    assert written["source_sha256"] is None
    assert write(corpus, tmp_path / "more", limit=1000)["documents"] == 40


# --- bad records ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": "x", "text": "a"', "line 41: not JSON"),
        ('{"id": "x", "title": "a", "links": []}', 'line 41: the field "text" is missing'),
        ('{"text": "x", "links": []}', 'line 41: the field "id" is missing'),
        ('{"id": "d3", "text": "x"}', "line 41: duplicate id 'd3'"),
        ('{"id": "", "text": "x"}', "line 41: the id '' is empty or contains"),
        (r'{"id": "a\u0000", "text": "x"}', r"line 41: the id 'a\x00' is empty or contains"),
        (r'{"id": "a\nb", "text": "x"}', r"line 41: the id 'a\nb' is empty or contains"),
    ],
)
def test_a_bad_record_stops_with_file_and_line(corpus, tmp_path, line, message):
    corpus.write_text(f"{corpus.read_text()}{line}\n")
    with pytest.raises(InputError) as caught:
        write(corpus, tmp_path / "documents")
    assert caught.value.message.startswith(f"{corpus}, {message}")
    assert "--on-error skip" in caught.value.hint
    written = write(corpus, tmp_path / "again", on_error="skip")
    assert written["documents"] == 40 and written["records"] == 41


def test_skipping_counts_reasons_and_keeps_examples(tmp_path):
    path = spoilt(tmp_path / "spoilt.jsonl")
    written = write(path, tmp_path / "documents", on_error="skip")
    assert stored_ids(tmp_path / "documents") == [
        f"d{n}" for n in range(24) if n not in (2, 6, 10, 12, 13, 19)
    ]
    skipped = written["skipped"]
    assert {reason: entry["count"] for reason, entry in skipped.items()} == {
        "malformed": 5,
        "duplicate id": 1,
    }
    assert [example.partition(": ")[0] for example in skipped["malformed"]["examples"]] == [
        f"{path}, line {n}" for n in (3, 7, 13, 14, 20)
    ]


def test_examples_are_few_and_survive_json():
    skipped = Skipped()
    for n in range(30):
        skipped.add("many", f"example {n}")
    skipped.add("one")
    again = Skipped.from_json(orjson.loads(orjson.dumps(skipped.to_json())))
    assert again == skipped
    assert again.to_json() == {
        "many": {"count": 30, "examples": [f"example {n}" for n in range(20)]},
        "one": {"count": 1, "examples": []},
    }


PLAIN = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False)
JSON = st.recursive(
    PLAIN | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
FIELDS = ["id", "title", "text", "links", "sections", "url", "metadata"]
SPANS = st.fixed_dictionaries(
    {}, optional={name: JSON | st.integers(0, 5) for name in ("start", "end", "target", "heading", "level")}
)


@given(
    st.fixed_dictionaries(
        {"id": st.text(max_size=4), "text": st.text(max_size=9)},
        optional={
            "links": JSON | st.lists(SPANS, max_size=2),
            "sections": JSON | st.lists(SPANS, max_size=2),
            **dict.fromkeys(["title", "url", "metadata"], JSON),
        },
    )
    | st.dictionaries(st.sampled_from(FIELDS), JSON)
    | JSON
)
@settings(max_examples=300, deadline=None)
def test_any_json_is_a_document_or_an_input_error(tmp_path_factory, value):
    folder = tmp_path_factory.mktemp("fuzz")
    lines = [b'{"id": "first", "text": "a"}', json.dumps(value).encode(), b'{"id": "last", "text": "a"}']
    (folder / "c.jsonl").write_bytes(b"\n".join(lines))
    try:
        write(JsonlReader(folder / "c.jsonl"), folder / "stop")
    except InputError as error:
        assert "line 2" in error.message
    written = write(JsonlReader(folder / "c.jsonl"), folder / "skip", on_error="skip")
    assert written["records"] == 3 and written["documents"] >= 2
    assert len(stored_ids(folder / "skip")) == written["documents"]


def test_a_corpus_without_documents_is_refused(tmp_path):
    (tmp_path / "c.jsonl").write_text("{}\nnonsense\n")
    with pytest.raises(InputError, match=r"no documents in it \(2 malformed\)"):
        write(JsonlReader(tmp_path / "c.jsonl"), tmp_path / "documents", on_error="skip")
    (tmp_path / "blank.jsonl").write_text("\n\n")
    with pytest.raises(InputError, match="no documents in it"):
        write(JsonlReader(tmp_path / "blank.jsonl"), tmp_path / "blank")


def redirects_only(path: Path) -> Path:
    page = '<page><title>A</title><ns>0</ns><id>1</id><redirect title="B"/><revision><id>1</id>'
    text = "<text>#REDIRECT [[B]]</text></revision></page></mediawiki>"
    root = '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11">'
    path.write_text(root + page + text)
    return path


def test_a_corpus_of_redirects_only_is_refused_each_time(tmp_path):
    source = redirects_only(tmp_path / "r.xml")
    for _ in range(2):  # the second time it finds what the first one noted
        with pytest.raises(InputError, match=r"r\.xml: no documents in it"):
            write(source, tmp_path / "documents")


@pytest.mark.parametrize("processes", [1, 2])
def test_the_rest_of_a_truncated_file_is_one_reason(tmp_path, processes):
    pages = bz2.decompress(SAMPLE.read_bytes())
    path = tmp_path / "cut.xml"
    path.write_bytes(pages[: len(pages) // 2])
    with pytest.raises(InputError, match="after page"):
        write(path, tmp_path / "stop", processes=processes)
    written = write(path, tmp_path / "skip", on_error="skip", processes=processes)
    assert 10 < written["documents"] < 150
    assert written["skipped"]["rest of a damaged file"]["count"] == 1


# --- segments and resumption ---------------------------------------------------------------------


def interrupted(source: Path | Reader, folder: Path, after: int, **options: Any) -> None:
    """Write until `after` records are done, then end as if killed."""
    done = 0

    def on_record(_: int) -> None:
        nonlocal done
        done += 1
        if done == after:
            raise Killed

    with pytest.raises(Killed):
        write(source, folder, on_record=on_record, **options)


@pytest.mark.parametrize("after", [1, 4, 5, 9, 10, 11, 18, 24])
def test_a_resumed_run_ends_with_the_same_bytes(tmp_path, after):
    path = spoilt(tmp_path / "spoilt.jsonl")
    options = {"segment_records": 5, "on_error": "skip"}
    whole = write(path, tmp_path / "whole", **options)
    assert len(segment_paths(tmp_path / "whole")) == 5
    interrupted(path, tmp_path / "resumed", after, **options)
    started: list[int] = []
    assert write(path, tmp_path / "resumed", on_start=started.append, **options) == whole
    assert started == [(after - 1) // 5 * 5]
    assert contents(tmp_path / "resumed") == contents(tmp_path / "whole")
    assert whole == write(path, tmp_path / "x", **options)


def test_a_run_that_was_killed_behind_its_last_segment_is_finished(corpus, tmp_path, monkeypatch):
    whole = write(corpus, tmp_path / "whole", segment_records=7)

    def killed(ids: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(corpus_module, "hash_ids", killed)
        with pytest.raises(Killed):
            write(corpus, tmp_path / "resumed", segment_records=7)
    assert write(corpus, tmp_path / "resumed", segment_records=7) == whole
    assert contents(tmp_path / "resumed") == contents(tmp_path / "whole")


def test_a_resumed_run_passes_over_finished_records_without_parsing(corpus, tmp_path):
    parsed: list[str] = []

    class Counting(JsonlReader):
        name = "counting"

        def parse(self, record: Record) -> Iterable[Any]:
            parsed.append(record.place)
            return super().parse(record)

    interrupted(Counting(corpus), tmp_path / "documents", 25, segment_records=10)
    parsed.clear()
    write(Counting(corpus), tmp_path / "documents", segment_records=10)
    assert parsed == [f"line {n}" for n in range(21, 41)]


def test_a_duplicate_of_a_record_before_the_interruption_is_found(tmp_path):
    rows = linked_rows(20)
    path = write_jsonl(tmp_path / "c.jsonl", [*rows, rows[2]])
    interrupted(path, tmp_path / "documents", 12, segment_records=5)
    with pytest.raises(InputError, match="line 21: duplicate id 'd2'"):
        write(path, tmp_path / "documents", segment_records=5)


@pytest.mark.parametrize("damage", ["segment", "redirects", "missing", "note", "nonsense"])
def test_damaged_leftovers_are_written_again(tmp_path, damage):
    whole = write(SAMPLE, tmp_path / "whole", segment_records=20)
    interrupted(SAMPLE, tmp_path / "resumed", 50, segment_records=20)
    note = tmp_path / "resumed" / "progress.json"
    segment = tmp_path / "resumed" / "00001.arrow"
    match damage:
        case "segment":
            segment.write_bytes(segment.read_bytes()[:-1])
        case "redirects":
            (tmp_path / "resumed" / "redirects-00000.arrow").write_bytes(b"")
        case "missing":
            segment.unlink()
        case "note":
            note.write_bytes(note.read_bytes()[:50])
        case "nonsense":
            note.write_text('{"segments": 1, "skipped": []}')
    assert write(SAMPLE, tmp_path / "resumed", segment_records=20) == whole
    assert contents(tmp_path / "resumed") == contents(tmp_path / "whole")


@pytest.fixture(autouse=True)
def processes_at_once(monkeypatch):
    monkeypatch.setattr(corpus_module, "_START", 0)


@pytest.mark.parametrize("options", [{"segment_records": 40}, {"limit": 13}])
def test_several_processes_write_the_same_as_one(tmp_path, options):
    one = write(SAMPLE, tmp_path / "one", processes=1, **options)
    assert write(SAMPLE, tmp_path / "two", processes=2, **options) == one
    assert contents(tmp_path / "two") == contents(tmp_path / "one")


class Deadly(JsonlReader):
    """Ends the process that parses it, as the system does where memory runs out."""

    name = "deadly"
    costly = True

    def parse(self, record: Record) -> Iterable[Any]:
        if record.place == "line 150":
            os._exit(9)
        return super().parse(record)


@pytest.mark.parametrize("count", [160, 1000])
def test_a_parsing_process_that_is_ended_is_told(tmp_path, count):
    source = write_jsonl(tmp_path / "c.jsonl", linked_rows(count))
    with pytest.raises(MachineError, match="a parsing process died at line") as caught:
        write(Deadly(source), tmp_path / "documents", processes=2)
    assert "fewer --processes" in caught.value.hint


class Here(JsonlReader):
    """Is parsed in this process."""

    costly = True

    def parse(self, record: Record) -> Iterable[Any]:
        assert multiprocessing.parent_process() is None
        return super().parse(record)


def test_processes_are_started_when_parsing_has_taken_a_second(tmp_path, monkeypatch):
    source = write_jsonl(tmp_path / "c.jsonl", linked_rows(60))
    with pytest.raises(InputError, match="AssertionError"):
        write(Here(source), tmp_path / "late", processes=2)
    monkeypatch.setattr(corpus_module, "_START", 60)
    assert write(Here(source), tmp_path / "soon", processes=2)["documents"] == 60


@pytest.mark.parametrize("processes", [1, 2])
def test_after_an_error_the_file_is_closed_although_the_error_is_kept(tmp_path, processes):
    """A file left to the collector of garbage is closed at any moment, in any thread."""
    sources: list[Any] = []

    def records(on_open: Callable[[Any], None]) -> Iterator[Record]:
        return open_reader(SAMPLE).records(lambda source: (sources.append(source), on_open(source))[1])

    def fail(_: int) -> None:
        raise OSError("no space left")

    with pytest.raises(OSError) as kept:
        write(SAMPLE, tmp_path / "d", processes=processes, records=records, on_record=fail)
    assert kept.tb and [source.closed for source in sources] == [True]


def test_damage_read_ahead_by_several_processes_is_counted_once_after_resuming(tmp_path):
    pages = bz2.decompress(SAMPLE.read_bytes())
    path = tmp_path / "cut.xml"
    path.write_bytes(pages[: len(pages) // 2])
    options = {"segment_records": 8, "processes": 2, "on_error": "skip"}
    whole = write(path, tmp_path / "whole", **options)
    interrupted(path, tmp_path / "resumed", 12, **options)
    assert write(path, tmp_path / "resumed", **options) == whole
    assert whole["skipped"]["rest of a damaged file"]["count"] == 1


def test_what_was_dropped_of_documents_is_counted_by_name() -> None:
    skipped = Skipped()
    for name, count in (("Datum", 3), ("Einheit", 5), ("Datum", 4)):
        skipped.count(Ignored("templates", count, name), "page 1")
    skipped.count(Ignored("links", 4), "page 1")
    skipped.count(Ignored("links", 2), "page 2")
    assert skipped.to_json() == {
        "templates": {"count": 12, "examples": ["Datum (7)", "Einheit (5)"]},
        "links": {"count": 6, "examples": ["page 1", "page 2"]},
    }
