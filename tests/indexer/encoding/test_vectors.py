"""Vector shards: float16, checksummed, there whole or not at all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from linkseek.indexer.encoding.shards import open_shards, read_shard, write_shard
from linkseek.indexer.files.hashes import file_sha256
from linkseek.indexer.program.errors import DamagedIndexError, InputError
from linkseek.indexer.store.artifacts import read_json, write_json

HALVES = arrays.arrays(
    np.float16,
    st.tuples(st.integers(1, 5), st.integers(1, 4)),
    elements=st.floats(width=16, allow_nan=False, allow_infinity=False),
)


@given(HALVES, st.integers(0, 2**40))
@settings(max_examples=50, deadline=None)
def test_halves_come_back_bit_by_bit_and_numpy_alone_reads_them(tmp_path_factory, halves, first_row):
    folder = tmp_path_factory.mktemp("shards")
    written = write_shard(folder, 3, first_row, halves.astype(np.float32))
    shard = read_shard(folder, 3)
    assert shard == written
    assert (shard.first_row, shard.rows) == (first_row, len(halves))
    assert shard.open().tobytes() == halves.tobytes()
    assert np.load(folder / "00003.npy").dtype == np.float16
    assert read_json(folder / "00003.json") == {
        "first_row": first_row,
        "rows": len(halves),
        "dimension": halves.shape[1],
        "sha256": file_sha256(folder / "00003.npy"),
    }


def test_blocks_are_the_shard_in_pieces(tmp_path):
    vectors = np.arange(20).reshape(10, 2)
    shard = write_shard(tmp_path, 0, 0, vectors)
    blocks = list(shard.blocks(4))
    assert [len(block) for block in blocks] == [4, 4, 2]
    assert np.concatenate(blocks).tolist() == vectors.tolist()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 65_520.0])
def test_what_is_not_finite_as_float16_is_refused_with_its_row(tmp_path, value):
    vectors = np.zeros((4, 3), np.float32)
    vectors[2, 1] = value
    with pytest.raises(InputError, match="vector of passage 1,002 is not finite"):
        write_shard(tmp_path, 1, 1000, vectors)
    assert list(tmp_path.iterdir()) == []


def test_the_largest_half_is_accepted(tmp_path):
    assert write_shard(tmp_path, 0, 0, np.full((1, 2), 65_504.0)).open().max() == 65_504


@pytest.mark.parametrize("damage", ["flipped", "cut", "no file", "no note", "cut note", "nonsense", "list"])
def test_a_damaged_shard_is_none(tmp_path, damage):
    write_shard(tmp_path, 0, 0, np.ones((4, 3)))
    vectors, note = tmp_path / "00000.npy", tmp_path / "00000.json"
    content = vectors.read_bytes()
    match damage:
        case "flipped":
            vectors.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        case "cut":
            vectors.write_bytes(content[:-1])
        case "no file":
            vectors.unlink()
        case "no note":
            note.unlink()
        case "cut note":
            note.write_bytes(note.read_bytes()[:20])
        case "nonsense":
            note.write_text('{"rows": 4}')
        case "list":
            note.write_text("[]")
    assert read_shard(tmp_path, 0) is None


def test_without_verifying_the_hash_is_not_read(tmp_path):
    shard = write_shard(tmp_path, 0, 0, np.ones((4, 3)))
    shard.path.write_bytes(b"other")
    assert read_shard(tmp_path, 0) is None
    assert read_shard(tmp_path, 0, verify=False) == shard
    with pytest.raises(DamagedIndexError, match=r"00000\.npy"):
        shard.open()


def test_all_shards_are_opened_in_order_or_the_missing_one_is_named(tmp_path):
    shards = [write_shard(tmp_path, n, 3 * n, np.full((3, 2), n)) for n in range(4)]
    assert open_shards(tmp_path, 12) == shards
    with pytest.raises(DamagedIndexError, match=r"00004\.npy: .*rows from 12 on"):
        open_shards(tmp_path, 13)
    shards[2].path.with_suffix(".json").unlink()
    with pytest.raises(DamagedIndexError, match=r"00002\.npy"):
        open_shards(tmp_path, 12)
    assert open_shards(tmp_path, 0) == []


@pytest.mark.parametrize("note", [{"first_row": 4}, {"rows": 0}])
def test_shards_that_do_not_follow_each_other_are_refused(tmp_path, note):
    for n in range(2):
        write_shard(tmp_path, n, 3 * n, np.ones((3, 2)))
    write_json(tmp_path / "00001.json", read_json(tmp_path / "00001.json") | note)
    with pytest.raises(DamagedIndexError, match=r"00001\.npy"):
        open_shards(tmp_path, 6)
