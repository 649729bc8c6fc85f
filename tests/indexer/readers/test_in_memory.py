"""Documents in memory: the same index as from a file of them."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

from linkseek.indexer.building.builder import build_index
from linkseek.indexer.building.plan import BuildPlan, Built
from linkseek.indexer.documents import Document, Link, Section
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.readers.choices import Choices
from linkseek.indexer.readers.in_memory import IN_MEMORY, Documents
from tests.support.tiny.corpus import linked_rows
from tests.support.tiny.encoder import FakeEncoder

LINKED = Document(
    "a", "A", "See b.", (Link(4, 5, "b"),), (Section(0, "Top", 2),), "http://a.example", {"key": "value"}
)


def index_of(index: Path, reader: Documents, **plan: object) -> Built:
    plan = {"passage_words": 10, "bm25": False, "encoders": ["fake"], **plan}
    return build_index(
        index, BuildPlan(reader.path, **plan), lambda name, title: FakeEncoder(name, title=title), reader
    )


def test_rows_in_memory_make_the_index_of_their_file(build, tmp_path: Path) -> None:
    from_file = build()
    built = index_of(tmp_path / "memory", Documents(iter(linked_rows())))
    assert built.manifest.counts == from_file.manifest.counts
    ours, files = OpenIndex.open(tmp_path / "memory"), OpenIndex.open(tmp_path / "index")
    assert list(ours.documents) == list(files.documents) and list(ours.passages) == list(files.passages)
    for part in ("documents", "passages", "links"):
        hashes = [
            {name: file.sha256 for name, file in index.parts[part].files.items()} for index in (ours, files)
        ]
        hashes = [{name: sha for name, sha in each.items() if name != "progress.json"} for each in hashes]
        assert hashes[0] == hashes[1]
    assert built.manifest.corpus.file == str(IN_MEMORY)


def test_records_are_kept_with_all_their_fields() -> None:
    assert list(Documents([LINKED]).documents()) == [LINKED]
    rows = {
        "id": "a",
        "text": "See b.",
        "links": [Link(4, 5, "b"), {"start": np.int64(0), "end": 3, "target": "c"}],
    }
    (document,) = Documents([MappingProxyType(rows)]).documents()
    assert document.links == (Link(0, 3, "c"), Link(4, 5, "b"))


def test_the_same_documents_are_reused_and_others_are_not(tmp_path: Path) -> None:
    assert index_of(tmp_path / "i", Documents(linked_rows())).reused == []
    again = index_of(tmp_path / "i", Documents(linked_rows()))
    assert set(again.reused) == {"documents", "passages", "links", "dense/fake"}
    assert "documents" not in index_of(tmp_path / "i", Documents(linked_rows(seed=1))).reused


def test_a_build_in_memory_resumes_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="number 41: duplicate id 'd0'"):
        index_of(tmp_path / "i", Documents([*linked_rows(), linked_rows()[0]]))
    built = index_of(
        tmp_path / "i", Documents([*linked_rows(), linked_rows()[0]]), reading=Choices(on_error="skip")
    )
    assert built.manifest.skipped["duplicate id"].count == 1


@pytest.mark.parametrize(
    ("documents", "told"),
    [
        ([], "documents in memory: no document was given"),
        (["Mars"], "number 1: str, expected a Document or a dictionary"),
        ({"id": "a", "text": "b"}, "number 1: str, expected a Document or a dictionary"),
        ([{"id": "a", "text": "b"}, {"id": "b"}], 'number 2: the field "text" is missing'),
        ([{"id": "a", "text": {1, 2}}], "number 1: not JSON"),
        ([{"id": "a", "text": "\ud800"}], "number 1: not JSON"),
        ([{1: "a", "text": "b"}], "number 1: not JSON"),
        (
            [{"id": "a", "text": "b", "links": [{"start": 0, "end": 2, "target": "c"}]}],
            r"\[0, 2\) is outside",
        ),
        ([Document("a", "A", "b", (Link(0, 2, "c"),))], r"\[0, 2\) is outside the text \(0 to 1\)"),
        ([Document("a", "A", "b", sections=(Section(7, "s", 2),))], "section at 7 is outside"),
        ([Document("a", "A", 7)], None),
        ([Document("", "A", "text")], "the id '' is empty"),
        ([Document("a", "A", "x" * (1 << 25))], "33,554,513 bytes, expected fewer"),
    ],
)
def test_a_bad_document_is_named(documents, told, tmp_path: Path) -> None:
    if told is None:  # whole numbers are text, as in a file
        assert next(iter(Documents(documents).documents())).text == "7"
        return
    with pytest.raises(InputError, match=told):
        index_of(tmp_path / "i", Documents(documents), encoders=())


def test_an_index_may_lie_above_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no file that could be inside of it."""
    (tmp_path / "i").mkdir()
    monkeypatch.chdir(tmp_path / "i")
    index_of(tmp_path / "i", Documents([LINKED]), encoders=())
    assert len(OpenIndex.open(tmp_path / "i").documents) == 1
