"""Altered numbers of an index whose hashes are as they should be: the damaged file is named, always."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import DamagedIndexError
from linkseek.indexer.search.faiss_tools import import_faiss
from linkseek.retriever.links.source import LinkSource
from tests.support.accepted import accept
from tests.support.tiny.corpus import linked_rows
from tests.support.tiny.index import TINY, built

ARRAYS = [
    *(f"links/{name}.npy" for name in ("target", "passage", "start", "end", "offsets")),
    *(f"links/{name}.npy" for name in ("incoming", "incoming_offsets")),
    "passages/offsets.npy", "documents/id_rows.npy", "documents/id_hashes.npy",
]  # fmt: skip
HARMLESS = ("documents/id_hashes.npy", "links/start.npy", "links/end.npy")
"""Any hash is one of some id, and any place after a text's end is its end."""
CHANGES: dict[str, Callable[[np.ndarray], None]] = {
    "one huge": lambda array: array.__setitem__(len(array) // 2, np.iinfo(array.dtype).max),
    "negative": lambda array: array.__setitem__(len(array) // 2, array.dtype.type(0) - 1),
    "reversed": lambda array: array.__setitem__(slice(None), array[::-1].copy()),
    "zeros": lambda array: array.fill(0),
}  # fmt: skip


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return built(tmp_path / "index", linked_rows(12), **TINY, faiss="IVF2,Flat").path


def use(path: Path) -> None:
    """Everything that reads the arrays: look-ups, links in both directions, whole columns, and mining."""
    index = OpenIndex.open(path)
    rows = index.passages.rows_of([f"d{n}#0" for n in range(12)])
    articles = index.passages.document_rows(rows)
    assert all(index.document_url(int(row)) for row in rows if row >= 0)
    for row, article in zip(rows.tolist(), articles.tolist(), strict=True):
        for link in index.links.from_passage(row):
            assert index.documents[int(index.links.target[link])].id
        for link in index.links.to_document(article).tolist():
            assert index.passages[int(index.links.passage[link])].text
    source = LinkSource(index)
    assert [source.text(int(row)) for row in source.topology.links.passage]


@pytest.mark.parametrize("name", ARRAYS)
def test_numbers_that_fit_no_index_are_named(index: Path, name: str) -> None:
    file = index / name
    whole = file.read_bytes()
    use(index)
    named = 0
    for change in CHANGES.values():
        array = np.load(file)
        change(array)
        np.save(file, array)
        accept(file)
        try:
            use(index)
        except DamagedIndexError as error:
            assert str(index) in error.message and error.hint
            named += file.name in error.message
        file.write_bytes(whole)
        accept(file)
    assert named >= (1 if name in HARMLESS else 2)


@pytest.mark.parametrize("name", ARRAYS)
def test_a_small_file_is_compared_with_its_hash_when_the_index_is_opened(index: Path, name: str) -> None:
    content = (index / name).read_bytes()
    (index / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(DamagedIndexError, match=rf"{Path(name).name}: altered \(its hash differs\)"):
        OpenIndex.open(index)


def test_row_numbers_of_vectors_that_no_passage_has_are_named(index: Path) -> None:
    file = index / "dense" / "fake" / "index"
    faiss = import_faiss()
    vectors = faiss.read_index(str(file))
    for number in range(vectors.nlist):
        ids = faiss.rev_swig_ptr(vectors.invlists.get_ids(number), vectors.invlists.list_size(number))
        ids += 1_000_000
    faiss.write_index(vectors, str(file))
    accept(file)
    with pytest.raises(DamagedIndexError, match="index: its row numbers differ"):
        OpenIndex.open(index).dense().search(np.ones((1, 32), np.float32), 3, nprobe=2)
