"""Compact indexes against exact search, a scan of the codes in numpy, and raw FAISS."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import faiss
import numpy as np
import pytest

from linkseek.indexer.encoding.shards import ShardRows
from linkseek.indexer.program.errors import DamagedIndexError, UsageError
from linkseek.indexer.search import compact
from linkseek.indexer.search.compact import COMPACT
from linkseek.indexer.search.faiss_index import FLAT, FaissIndex, build_faiss, joined_codes, open_faiss
from linkseek.indexer.search.faiss_tools import recall
from linkseek.indexer.search.partitioned import PartitionedVectors
from tests.indexer.search.test_faiss import write_shards
from tests.support.tiny.manifests import vectors_part

ROWS, DIMENSION = 2010, 24
RANDOM = np.random.default_rng(3)
CENTRES = RANDOM.normal(size=(60, DIMENSION))
VECTORS = (CENTRES[RANDOM.integers(0, 60, ROWS)] + RANDOM.normal(size=(ROWS, DIMENSION)) * 0.3).astype("f")
QUERIES = (VECTORS[RANDOM.integers(0, ROWS, 40)] + RANDOM.normal(size=(40, DIMENSION)) * 0.3).astype("f")


def build(folder: Path, vectors: np.ndarray = VECTORS, factory: str = COMPACT) -> FaissIndex:
    shards = write_shards(folder / "vectors", vectors)
    done: list[float] = []
    built = build_faiss(folder, shards, factory, vectors.shape[1], map(str, range(len(vectors))), done.append)
    assert sum(done) == len(vectors)
    return open_faiss(folder, vectors_part(factory, **built), len(vectors))


def reopen(index: FaissIndex, rows: int = ROWS, **changes: object) -> FaissIndex:
    return open_faiss(index._folder, index.manifest.model_copy(update=changes), rows)


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> FaissIndex:
    return build(tmp_path_factory.mktemp("compact"))


@pytest.mark.parametrize("dimension", [DIMENSION, 22, 7])  # 22: 11 codes, padded to 12
def test_with_all_rows_as_candidates_it_is_the_exact_search(tmp_path, dimension):
    vectors = np.ascontiguousarray(VECTORS[:, :dimension])
    (tmp_path / "flat").mkdir()
    exact = build(tmp_path / "flat", vectors, FLAT)
    index = build(tmp_path, vectors)
    for k in (1, 20, ROWS):
        expected_rows, expected_scores = exact.search(QUERIES[:, :dimension], k)
        rows, scores = index.search(QUERIES[:, :dimension], k, candidates=ROWS)
        assert rows.dtype == np.int64 and scores.dtype == np.float32
        np.testing.assert_allclose(scores, expected_scores, rtol=1e-5, atol=1e-5)
        differ = rows != expected_rows  # only where scores are equal but for rounding
        assert differ.mean() < 0.02
    rows, scores = index.search(QUERIES[:, :dimension], ROWS + 3)
    assert (rows[:, ROWS:] == -1).all() and np.isneginf(scores[:, ROWS:]).all()


def test_candidates_are_those_of_a_scan_of_the_codes_and_of_raw_faiss(index):
    raw = faiss.read_index(str(index._folder / "index"))
    assert (type(raw), raw.ntotal, raw.d) == (faiss.IndexPreTransform, ROWS, DIMENSION)
    rotation = faiss.vector_to_array(faiss.downcast_VectorTransform(raw.chain.at(0)).A).reshape(DIMENSION, -1)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(DIMENSION), atol=1e-5)
    halves = VECTORS.astype(np.float16).astype(np.float32)
    centroids = faiss.vector_to_array(faiss.downcast_index(raw.index).pq.centroids).reshape(
        DIMENSION // 2, 16, 2
    )  # [m, c, 2]
    pieces = (halves @ rotation.T).reshape(ROWS, -1, 1, 2)  # [N, m, 1, 2]
    codes = np.square(pieces - centroids).sum(axis=3).argmin(axis=2)  # [N, m]
    tables = np.einsum(
        "mcd,qmd->qmc", centroids, (QUERIES @ rotation.T).reshape(len(QUERIES), -1, 2)
    )  # [Q, m, c]
    scores = np.stack([table[np.arange(DIMENSION // 2), codes].sum(axis=1) for table in tables])  # [Q, N]
    expected = np.argsort(-scores, axis=1)[:, :200]
    ours = index.index.candidates(QUERIES, 200)
    assert recall(ours, expected) > 0.98  # FAISS rounds the tables to 8 bits
    np.testing.assert_array_equal(np.sort(ours), np.sort(raw.search(QUERIES, 200)[1]))


def test_some_candidates_hold_nearly_all_of_the_best(index):
    halves = VECTORS.astype(np.float16).astype(np.float32)
    expected = np.argsort(-(QUERIES @ halves.T), axis=1)[:, :20]
    recalls = [recall(index.search(QUERIES, 20, candidates=n)[0], expected) for n in (20, 60, 200)]
    assert recalls == sorted(recalls) and recalls[0] > 0.6 and recalls[2] > 0.99
    np.testing.assert_array_equal(index.search(QUERIES, 20)[0], index.search(QUERIES, 20, candidates=1000)[0])
    assert reopen(index, search={"candidates": 60}).parameters() == {"candidates": 60}
    assert index.index.search(QUERIES, 1000, 100)[1].shape == (40, 1000)  # in proportion for a larger k


def test_rows_that_faiss_omits_are_missing_results(tmp_path):
    rows, scores = build(tmp_path, VECTORS[:, :1].copy()).search(QUERIES[:, :1], ROWS)
    assert (rows[:, 0] >= 0).all() and (rows < 0).any()
    np.testing.assert_array_equal(rows < 0, np.isneginf(scores))
    kept = np.where(rows < 0, 0, rows)
    expected = VECTORS[:, 0].astype(np.float16).astype("f")[kept] * QUERIES[:, :1]
    np.testing.assert_allclose(scores[rows >= 0], expected[rows >= 0], rtol=1e-6)


def test_unequal_variances_are_paired(tmp_path):
    """Static encoders have them: without the pairs, codes of small variance would waste their bits."""
    spread = VECTORS * np.geomspace(1, 0.01, DIMENSION, dtype="f")
    index = build(tmp_path, spread)
    variances = np.var(spread @ index.index.files[0].rotation.T, axis=0).reshape(-1, 2)  # [pairs, 2]
    assert (np.diff(variances[:, 0]) <= 0).all() and (np.diff(variances[:, 1]) >= 0).all()
    expected = np.argsort(-(QUERIES @ spread.T), axis=1)[:, :50]
    assert recall(index.search(QUERIES, 50, candidates=50)[0], expected) > 0.85


@pytest.mark.parametrize("parts", [2, 3])
def test_rows_cut_in_parts_have_the_same_results(index, monkeypatch, parts):
    monkeypatch.setattr(compact, "_MIN_ROWS", 1)
    monkeypatch.setattr(faiss, "omp_get_max_threads", lambda: parts)
    cut = reopen(index)
    assert len(cut.index._parts) == parts
    for found, expected in zip(cut.search(QUERIES, 50), index.search(QUERIES, 50), strict=True):
        np.testing.assert_array_equal(found, expected)
    everything = cut.index.candidates(QUERIES, ROWS)
    np.testing.assert_array_equal(np.sort(everything), np.tile(np.arange(ROWS), (40, 1)))


@pytest.fixture(scope="module")
def partitions(tmp_path_factory) -> list[FaissIndex]:
    folder = tmp_path_factory.mktemp("partitions")
    parts = [VECTORS[start:stop] for start, stop in pairwise((0, 500, 1210, ROWS))]
    for number in range(len(parts)):
        (folder / str(number)).mkdir()
    return [build(folder / str(number), vectors) for number, vectors in enumerate(parts)]


def test_partitions_share_their_candidates(partitions, monkeypatch):
    """The slow twin: raw FAISS scans each partition, and the best of all by code are scored again."""
    together = PartitionedVectors(partitions)
    scans = [faiss.read_index(str(part._folder / "index")).search(QUERIES, 60) for part in partitions]
    scores = np.concatenate([scores for scores, _ in scans], axis=1)
    rows = np.concatenate(
        [rows + start for (_, rows), start in zip(scans, (0, 500, 1210), strict=True)], axis=1
    )
    best = np.take_along_axis(rows, np.argsort(-scores, axis=1, kind="stable")[:, :60], axis=1)
    exact = np.einsum("qd,qcd->qc", QUERIES, VECTORS.astype(np.float16).astype("f")[best])
    expected = np.take_along_axis(best, np.argsort(-exact, axis=1)[:, :20], axis=1)
    read: list[int] = []
    take = ShardRows.take

    def counted(self: ShardRows, rows: np.ndarray) -> np.ndarray:
        read.append(len(rows))
        return take(self, rows)

    monkeypatch.setattr(ShardRows, "take", counted)
    found = [together.search(query[None], 20, candidates=60)[0][0] for query in QUERIES]
    assert read == [60] * len(QUERIES)
    assert recall(np.array(found), expected) > 0.995  # equal scores by code at the limit


def test_partitions_are_exact_with_all_rows_as_candidates(partitions, index):
    together = PartitionedVectors(partitions)
    assert len(together) == ROWS
    for k in (1, 20, ROWS + 3):
        expected_rows, expected_scores = index.search(QUERIES, k, candidates=ROWS)
        rows, scores = together.search(QUERIES, k, candidates=ROWS)
        np.testing.assert_allclose(scores, expected_scores, rtol=1e-6)
        assert (rows != expected_rows).mean() < 0.001


def test_partitions_have_the_most_candidates_of_any(partitions):
    tuned = [reopen(part, len(part), search={"candidates": 100 * n}) for n, part in enumerate(partitions, 1)]
    assert joined_codes(tuned).parameters() == {"candidates": 300}


def test_partitions_of_several_types_are_asked_one_by_one(partitions, tmp_path):
    flat = build(tmp_path, VECTORS, FLAT)
    assert joined_codes([*partitions, flat]) is None
    rows, _ = PartitionedVectors([*partitions, flat]).search(QUERIES, 4)
    assert (np.sort(rows % ROWS)[:, ::2] == np.sort(rows % ROWS)[:, 1::2]).mean() > 0.9  # each row twice


def test_partitions_of_other_dimensions_are_refused(partitions, tmp_path):
    other = build(tmp_path, np.ascontiguousarray(VECTORS[:, :8]))
    with pytest.raises(DamagedIndexError, match="partitions of different dimensions"):
        PartitionedVectors([*partitions, other])


def test_codes_are_mapped_and_not_copied(index):
    [(_, _, part)] = index.index._parts
    assert int(part.codes.get()) == index.index.files[0].codes.ctypes.data and not part.this.own()


def test_unknown_parameters_and_too_few_passages_are_refused(index, tmp_path):
    for name in ("nprobe", "nonsense"):
        with pytest.raises(UsageError, match=f"this compact index has no search parameter {name}"):
            index.search(QUERIES, 5, **{name: 3})
    with pytest.raises(UsageError, match="cannot put 15 vectors into it"):
        build(tmp_path, VECTORS[:15])


def test_what_was_altered_is_named(index, tmp_path):
    for codes_at in (0, 10, index.manifest.codes_at + 1, 1 << 60):
        with pytest.raises(DamagedIndexError, match="not a file of codes"):
            reopen(index, codes_at=codes_at)
    altered = build(tmp_path)
    path = tmp_path / "index"
    content = path.read_bytes()
    for damaged in (b"", content[:-1], b"x" * len(content), content + bytes(384)):
        path.write_bytes(damaged)
        with pytest.raises(DamagedIndexError, match="not a file of codes"):
            reopen(altered)
    path.write_bytes(content)
    with pytest.raises(DamagedIndexError, match=r"0000\d.npy: missing"):
        reopen(altered, ROWS + 1)
    np.save(tmp_path / "vectors" / "00001.npy", np.full((700, DIMENSION), np.nan, np.float16))
    with pytest.raises(DamagedIndexError, match="a shard was altered"):
        reopen(altered).search(QUERIES, 10)
    np.save(tmp_path / "vectors" / "00001.npy", VECTORS[:700])
    with pytest.raises(DamagedIndexError, match=r"00001.npy: not 700 x 24 numbers in float16"):
        reopen(altered).search(QUERIES, 10)


def test_rows_are_read_from_their_shards(tmp_path):
    rows = ShardRows(write_shards(tmp_path / "v", VECTORS), DIMENSION)
    for wanted in ([0], [699, 700, 1399, 1400, 2009], [3, 5, 1500]):
        np.testing.assert_array_equal(rows.take(np.array(wanted, int)), VECTORS[wanted].astype(np.float16))
