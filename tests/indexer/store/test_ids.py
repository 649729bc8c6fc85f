"""Id tables against dictionaries, seen ids against sets."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from linkseek.indexer.store import ids
from linkseek.indexer.store.ids import IdTable, SeenIds, hash_ids

IDS = st.text(max_size=6)


@given(st.lists(st.tuples(IDS, st.integers(0, 2**31 - 1))), st.lists(IDS))
@settings(deadline=None)
def test_a_table_is_a_dictionary_in_which_the_first_of_equal_ids_stays(tmp_path_factory, pairs, others):
    expected: dict[str, int] = {}
    for id_, row in pairs:
        expected.setdefault(id_, row)
    rows = np.array([row for _, row in pairs], np.int64)
    table = IdTable.build(hash_ids(id_ for id_, _ in pairs), rows)
    asked = [*expected, *others]
    assert table.rows(hash_ids(asked)).tolist() == [expected.get(id_, -1) for id_ in asked]
    assert [table.row(id_) for id_ in asked] == [expected.get(id_, -1) for id_ in asked]

    folder = tmp_path_factory.mktemp("ids")
    table.save(folder)
    opened = IdTable.open(folder)
    assert isinstance(opened.hashes, np.memmap) or not len(expected)
    assert opened.rows(hash_ids(asked)).tolist() == [expected.get(id_, -1) for id_ in asked]
    assert np.load(folder / "id_rows.npy").dtype == np.int32  # numpy alone reads it


def test_ids_of_any_characters_have_hashes():
    hashes = hash_ids(["", "a", "\ud800", "東京", "a\0"])
    assert hashes.dtype == np.uint64 and len(set(hashes.tolist())) == 5
    assert hash_ids([]).shape == (0,)


@given(st.lists(st.one_of(IDS, st.lists(IDS, unique=True))))
@settings(deadline=None)
def test_seen_ids_are_a_set(steps):
    """A text is added alone, a list all at once, as after a resumption."""
    expected: set[str] = set()
    seen = SeenIds()
    for step in steps:
        if isinstance(step, str):
            assert seen.add(step) == (step not in expected)
            expected.add(step)
        else:
            new = [id_ for id_ in step if id_ not in expected]
            seen.add_all(new)
            expected.update(new)
    assert not any(seen.add(id_) for id_ in expected)


def test_runs_are_merged_as_they_grow(monkeypatch):
    monkeypatch.setattr(ids, "_RECENT", 8)
    seen = SeenIds()
    expected = [f"id {n}" for n in range(1000)]
    assert all(seen.add(id_) for id_ in expected)
    assert len(seen._runs) <= 10  # of 125 runs of 8
    assert sum(map(len, seen._runs)) + len(seen._recent) == 1000
    assert not any(seen.add(id_) for id_ in expected)
    assert seen.add("another")
