"""Tables and documents: what is written comes back, by row, by range, and through pyarrow alone."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkseek.indexer.documents import DOCUMENT_SCHEMA, Document, DocumentStore, Link, Section, document_row
from linkseek.indexer.program.errors import DamagedIndexError
from linkseek.indexer.store import tables
from linkseek.indexer.store.tables import Table, TableWriter

SCHEMA = pa.schema([("text", pa.string()), ("number", pa.int32())])
TEXTS = ["", "Über\u2028\u0085", "𝄞" * 3, "a\nb\tc\0d", "   "]


def write(path: Path, numbers: range) -> Path:
    with TableWriter(path, SCHEMA) as writer:
        for n in numbers:
            writer.write({"number": n, "text": TEXTS[n % len(TEXTS)]})
        assert writer.rows == len(numbers)
    return path


@pytest.fixture
def three_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """25 rows in segments of 10, 0 and 15 rows, in batches of 4."""
    monkeypatch.setattr(tables, "_BATCH_ROWS", 4)
    ranges = [range(10), range(0), range(10, 25)]
    return [write(tmp_path / f"{number}.arrow", numbers) for number, numbers in enumerate(ranges)]


EXPECTED = [{"text": TEXTS[n % len(TEXTS)], "number": n} for n in range(25)]


def test_rows_come_back_in_order_by_row_by_cell_and_as_a_whole(three_segments):
    table = Table(three_segments, SCHEMA)
    assert len(table) == 25
    assert list(table.rows()) == EXPECTED
    assert [table.row(n) for n in reversed(range(25))] == EXPECTED[::-1]
    assert [table.value("text", n) for n in range(25)] == [row["text"] for row in EXPECTED]
    assert len(list(table.batches(["number"]))) == 3 + 4


@pytest.mark.parametrize("rows", [[], [0], [24], [3, 4, 11], [9, 10], range(25), range(0, 25, 7)])
def test_chosen_rows_are_those_read_one_by_one(three_segments, rows):
    table = Table(three_segments, SCHEMA)
    assert list(table.chosen(np.array(rows, np.int64))) == [table.row(row) for row in rows]


@pytest.mark.parametrize("rows", [[-1, 3], [3, 25]])
def test_chosen_rows_that_the_table_does_not_have(three_segments, rows):
    with pytest.raises(IndexError, match="of a table of 25 rows"):
        list(Table(three_segments, SCHEMA).chosen(np.array(rows)))


def test_every_range_of_a_column_across_batches_and_segments(three_segments):
    table = Table(three_segments, SCHEMA)
    for start in range(27):
        for stop in [*range(start, 28), None]:
            assert list(table.column("number", start, stop)) == list(range(25))[start:stop]
            array = table.array("number", start, stop)
            assert array.tolist() == list(range(25))[start:stop] and array.dtype == np.int32


@pytest.mark.parametrize("row", [-1, 25, 1 << 40])
def test_a_row_outside_is_an_index_error(three_segments, row):
    table = Table(three_segments, SCHEMA)
    with pytest.raises(IndexError, match="25 rows"):
        table.row(row)
    with pytest.raises(IndexError, match="25 rows"):
        table.value("text", row)


def test_pyarrow_alone_reads_a_segment(three_segments):
    with pa.OSFile(str(three_segments[2])) as file:
        assert pa.ipc.open_file(file).read_all().to_pylist() == EXPECTED[10:]


def test_a_compressed_file_is_read(tmp_path):
    """We write none, but its buffers are not where the file is mapped."""
    path = tmp_path / "compressed.arrow"
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    rows = [{"text": "word " * 1000, "number": n} for n in range(50)]
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, SCHEMA, options=options) as writer:
        writer.write_table(pa.Table.from_pylist(rows, SCHEMA))
    table = Table([path], SCHEMA)
    assert list(table.rows()) == rows and table.row(7) == rows[7]
    assert list(table.column("number")) == list(range(50))


def test_a_batch_ends_by_size_too(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_BATCH_CHARACTERS", 100)
    with TableWriter(tmp_path / "t.arrow", SCHEMA) as writer:
        for n in range(6):
            writer.write({"text": "x" * 60, "number": n}, size=60)
    assert [len(numbers) for (numbers,) in Table([tmp_path / "t.arrow"], SCHEMA).batches(["number"])] == [
        2
    ] * 3


def test_a_table_of_no_files_or_no_rows_is_empty(tmp_path):
    for table in (Table([], SCHEMA), Table([write(tmp_path / "t.arrow", range(0))], SCHEMA)):
        assert len(table) == 0
        assert list(table.rows()) == list(table.column("text")) == []
        with pytest.raises(IndexError):
            table.row(0)


@pytest.mark.parametrize("fraction", [0, 0.01, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_named(tmp_path, fraction):
    path = write(tmp_path / "t.arrow", range(1000))
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * fraction)])
    with pytest.raises(DamagedIndexError, match=r"t\.arrow"):
        Table([path], SCHEMA)


def test_a_missing_file_and_other_columns_are_named(tmp_path):
    with pytest.raises(DamagedIndexError, match=r"none\.arrow"):
        Table([tmp_path / "none.arrow"], SCHEMA)
    path = write(tmp_path / "t.arrow", range(3))
    with pytest.raises(DamagedIndexError, match=r"expected .*'id'"):
        Table([path], DOCUMENT_SCHEMA)


def test_a_writer_left_by_an_exception_leaves_no_whole_file(tmp_path):
    with pytest.raises(RuntimeError), TableWriter(tmp_path / "t.arrow", SCHEMA) as writer:
        writer.write({"text": "a", "number": 1})
        raise RuntimeError
    with pytest.raises(DamagedIndexError):
        Table([tmp_path / "t.arrow"], SCHEMA)


# --- documents -----------------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
DOCUMENTS = st.builds(
    Document,
    id=TEXT,
    title=TEXT,
    text=TEXT,
    links=st.lists(
        st.builds(Link, st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1), TEXT), max_size=3
    ).map(tuple),
    sections=st.lists(
        st.builds(Section, st.integers(0, 2**31 - 1), TEXT, st.integers(0, 127)), max_size=3
    ).map(tuple),
    url=TEXT,
    metadata=st.dictionaries(TEXT, TEXT, max_size=3),
)


@given(st.lists(DOCUMENTS, min_size=1, max_size=8), st.lists(st.integers(0, 8), max_size=2))
@settings(max_examples=60, deadline=None)
def test_documents_round_trip_through_any_segments(tmp_path_factory, documents, cuts):
    folder = tmp_path_factory.mktemp("documents")
    bounds = [0, *sorted(cuts), len(documents)]
    paths = []
    for number, (start, stop) in enumerate(pairwise(bounds)):
        paths.append(folder / f"{number}.arrow")
        with TableWriter(paths[-1], DOCUMENT_SCHEMA) as writer:
            for document in documents[start:stop]:
                writer.write(document_row(document))
    store = DocumentStore(paths)
    assert len(store) == len(documents)
    assert list(store) == documents
    assert [store[row] for row in range(len(documents))] == documents


def test_a_row_to_be_written_and_the_row_that_is_read_hold_the_same(tmp_path):
    document = Document(
        "a", "b", "c", (Link(0, 1, "x"), Link(0, 1, "y")), (Section(1, "h", 2, "i"),), "u", {"k": "v"}
    )
    with TableWriter(tmp_path / "t.arrow", DOCUMENT_SCHEMA) as writer:
        writer.write(document_row(document))
    read = DocumentStore([tmp_path / "t.arrow"]).table.row(0)
    assert read["links"] == [{"start": 0, "end": 1, "target": target} for target in "xy"]
    assert read["sections"] == [{"start": 1, "heading": "h", "level": 2, "anchor": "i"}]
    as_dictionaries = document_row(document) | {"links": read["links"], "sections": read["sections"]}
    with TableWriter(tmp_path / "twin.arrow", DOCUMENT_SCHEMA) as writer:
        writer.write(as_dictionaries)
    assert (tmp_path / "twin.arrow").read_bytes() == (tmp_path / "t.arrow").read_bytes()


@pytest.mark.parametrize("value", [-1, 7, 1 << 30])
def test_a_row_whose_place_was_altered_is_named_and_the_others_are_read(tmp_path, value):
    """Arrow keeps the offsets of texts beside them, and follows them wherever they lead."""
    path = tmp_path / "t.arrow"
    with TableWriter(path, SCHEMA) as writer:
        for n, text in enumerate(["alpha", "beta", "gamma"]):
            writer.write({"text": text, "number": n})
    content = path.read_bytes()
    offsets = np.array([0, 5, 9, 14], np.int32).tobytes()
    assert content.count(offsets) == 1
    spoilt = np.array([0, 5, value, 14], np.int32).tobytes()
    path.write_bytes(content.replace(offsets, spoilt))
    table = Table([path], SCHEMA)
    assert table.row(0) == {"text": "alpha", "number": 0}
    if value == 7:  # still in order
        assert [table.value("text", row) for row in (1, 2)] == ["be", "tagamma"]
        return
    for row in (1, 2):
        with pytest.raises(DamagedIndexError, match=r"t\.arrow: altered"):
            table.row(row)


def test_a_text_that_is_no_utf8_any_more_is_named(tmp_path):
    path = write(tmp_path / "t.arrow", range(5))
    path.write_bytes(path.read_bytes().replace("Ü".encode(), b"\xff\xff"))
    table = Table([path], SCHEMA)
    assert table.value("text", 0) == ""
    with pytest.raises(DamagedIndexError, match=r"t\.arrow: altered .*UTF8"):
        table.value("text", 1)


@pytest.mark.parametrize("altered", ["offset", "text"])
@pytest.mark.parametrize("column", ["links", "sections", "metadata"])
def test_a_text_in_a_list_that_was_altered_is_named_and_the_other_rows_are_read(tmp_path, column, altered):
    path = tmp_path / "t.arrow"
    with TableWriter(path, DOCUMENT_SCHEMA) as writer:
        for row in range(3):
            texts = [f"row {row}, {name}" for name in ("target", "heading", "a value")]
            links, sections = (Link(0, 1, texts[0]),), (Section(0, texts[1], 1),)
            document = Document(f"d{row}", "t", "text", links, sections, metadata={"k": texts[2]})
            writer.write(document_row(document))
    name = {"links": "target", "sections": "heading", "metadata": "a value"}[column]
    size = len(f"row 1, {name}")
    content = path.read_bytes()
    offsets = np.arange(0, 4 * size, size, dtype=np.int32)
    if altered == "text":
        spoilt = content.replace(f"row 1, {name}".encode(), b"\xff" * size)
    else:
        wrong = np.array([0, size, -size, 3 * size], np.int32)
        spoilt = content.replace(offsets.tobytes(), wrong.tobytes())
    assert spoilt != content
    path.write_bytes(spoilt)
    table = Table([path], DOCUMENT_SCHEMA)
    assert f"row 0, {name}" in str(table.value(column, 0))
    with pytest.raises(DamagedIndexError, match=r"t\.arrow: altered"):
        table.row(1)
    with pytest.raises(DamagedIndexError, match=r"t\.arrow: altered"):
        list(table.column(column, 1, 3))


def test_a_file_that_is_cut_after_it_was_opened_is_named(tmp_path):
    path = write(tmp_path / "t.arrow", range(5))
    table = Table([path], SCHEMA)
    os.truncate(path, 100)
    with pytest.raises(DamagedIndexError, match=r"t\.arrow: altered .*are not in the file"):
        table.row(1)


def test_cells_that_may_be_null_are_read(tmp_path):
    path = tmp_path / "t.arrow"
    schema = pa.schema([("text", pa.string()), ("number", pa.int32()), ("other", pa.int64())])
    rows = [{"text": "a", "number": None, "other": 7}, {"text": None, "number": -3, "other": None}]
    with TableWriter(path, schema) as writer:
        for row in rows:
            writer.write(row)
    table = Table([path], schema)
    assert [table.row(0), table.row(1)] == rows == list(table.rows())
