"""FAISS indexes against brute force in numpy, and through raw FAISS and Pyserini."""

from __future__ import annotations

import os
from pathlib import Path

import faiss
import numpy as np
import pytest

from linkseek.indexer.encoding.shards import Shard, write_shard
from linkseek.indexer.program.errors import DamagedIndexError, MachineError, UsageError
from linkseek.indexer.search.faiss_index import (
    FLAT,
    FaissIndex,
    build_faiss,
    empty_index,
    open_faiss,
    resolved_type,
    search_parameters,
)
from linkseek.indexer.search.faiss_tools import recall, training_sample
from tests.support.command import python, run_forked
from tests.support.tiny.manifests import vectors_part

ROWS, DIMENSION = 2000, 32
RANDOM = np.random.default_rng(0)
CENTRES = RANDOM.normal(size=(60, DIMENSION))
VECTORS = (CENTRES[RANDOM.integers(0, 60, ROWS)] + RANDOM.normal(size=(ROWS, DIMENSION)) * 0.3).astype("f")
faiss.omp_set_num_threads(1)
QUERIES = (VECTORS[RANDOM.integers(0, ROWS, 40)] + RANDOM.normal(size=(40, DIMENSION)) * 0.3).astype("f")
IDS = [f"d{row // 3} ü#{row % 3}" for row in range(ROWS)]


def build(folder: Path, factory: str, vectors: np.ndarray = VECTORS) -> FaissIndex:
    shards = write_shards(folder / "vectors", vectors)
    done: list[float] = []
    built = build_faiss(folder, shards, factory, vectors.shape[1], IDS[: len(vectors)], done.append)
    assert sum(done) == len(vectors)
    assert built == {"rows": len(vectors), "dimension": vectors.shape[1], "metric": "inner product"}
    return reopen(folder, factory, len(vectors))


def reopen(folder: Path, factory: str = FLAT, rows: int = ROWS) -> FaissIndex:
    return open_faiss(folder, vectors_part(factory, dimension=DIMENSION), rows)


def write_shards(folder: Path, vectors: np.ndarray) -> list[Shard]:
    folder.mkdir()
    starts = range(0, len(vectors), 700)  # no multiple of the 32 rows that FAISS interleaves
    return [write_shard(folder, n, start, vectors[start : start + 700]) for n, start in enumerate(starts)]


def brute_force(queries: np.ndarray, k: int, vectors: np.ndarray = VECTORS):
    """Inner products with what float16 keeps of the vectors, in float64."""
    scores = queries.astype(np.float64) @ vectors.astype(np.float16).astype(np.float64).T  # [Q, N]
    rows = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return rows, np.take_along_axis(scores, rows, axis=1)


@pytest.fixture(scope="module")
def flat(tmp_path_factory) -> tuple[Path, FaissIndex]:
    folder = tmp_path_factory.mktemp("flat")
    return folder, build(folder, FLAT)


def test_flat_is_brute_force_over_float16(flat):
    rows, scores = flat[1].search(QUERIES, 20)
    expected_rows, expected_scores = brute_force(QUERIES, 20)
    assert rows.dtype == np.int64 and scores.dtype == np.float32
    np.testing.assert_array_equal(rows, expected_rows)
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-5, atol=1e-5)


def test_results_do_not_depend_on_how_many_questions_are_asked_together(flat, monkeypatch):
    """Many questions are products of matrices, a few are scanned by FAISS."""
    monkeypatch.setattr("linkseek.indexer.search.faiss_tools._SCAN_ROWS", 300)
    monkeypatch.setattr("linkseek.indexer.search.faiss_tools._MANY", 32)
    for k in (1, 20, ROWS):
        together = flat[1].search(QUERIES, k)
        alone = [flat[1].search(query[None], k) for query in QUERIES]
        for both in zip(together, (np.concatenate(part) for part in zip(*alone, strict=True)), strict=True):
            np.testing.assert_array_equal(*both)


def test_equal_vectors_are_ranked_by_row(tmp_path):
    index = build(tmp_path, FLAT, np.tile(VECTORS[:50], (8, 1)))
    for queries in (QUERIES, QUERIES[:1]):
        rows = index.search(queries, 8)[0]
        assert (rows == rows[:, :1] + 50 * np.arange(8)).all()


def test_vectors_that_were_altered_to_be_no_numbers_are_no_results(tmp_path):
    build(tmp_path, FLAT, VECTORS[:60])
    content = (tmp_path / "index").read_bytes()
    for row in (3, 40):
        content = content.replace(
            VECTORS[row].astype("<f2").tobytes(), np.full(DIMENSION, np.nan, "<f2").tobytes()
        )
    (tmp_path / "index").write_bytes(content)
    index = reopen(tmp_path, rows=60)
    for queries in (QUERIES, QUERIES[:1]):
        rows, scores = index.search(queries, 60)
        assert (np.sort(rows)[:, 2:] == np.delete(np.arange(60), [3, 40])).all()
        assert (rows[:, 58:] == -1).all() and np.isneginf(scores[:, 58:]).all()


def test_another_type_of_index_under_the_name_of_flat_is_refused(tmp_path):
    """Its vectors are read where Flat has them."""
    for number, factory in enumerate(("SQ8", "HNSW8", "IVF4,SQfp16", "PQ4x4")):
        folder = tmp_path / str(number)
        folder.mkdir()
        build(folder, factory)
        with pytest.raises(DamagedIndexError, match="its header was altered"):
            reopen(folder)


@pytest.mark.parametrize("factory", [FLAT, "HNSW8", "IVF4,SQfp16"])
def test_a_file_that_ends_in_its_header_is_refused(tmp_path, factory):
    """FAISS's mapping of such a file ends the process."""
    build(tmp_path, factory)
    content = (tmp_path / "index").read_bytes()
    for size in (0, 3, 28, 31, 47, 79, 127):
        (tmp_path / "index").write_bytes(content[:size])
        with pytest.raises(DamagedIndexError, match="not a FAISS index"):
            reopen(tmp_path)


def test_raw_faiss_opens_it_and_ids_are_lines(flat):
    folder, index = flat
    raw = faiss.read_index(str(folder / "index"))
    assert (raw.ntotal, raw.d, raw.metric_type) == (ROWS, DIMENSION, faiss.METRIC_INNER_PRODUCT)
    np.testing.assert_array_equal(raw.search(QUERIES, 10)[1], index.search(QUERIES, 10)[0])
    np.testing.assert_array_equal(raw.reconstruct_n(5, 3), VECTORS[5:8].astype(np.float16))
    assert (folder / "docid").read_bytes().decode().split("\n") == [*IDS, ""]
    assert (folder / "index").stat().st_size < ROWS * DIMENSION * 2 + 1000  # stored once, as float16


def test_pyserini_opens_the_folder_and_finds_the_same(flat):
    folder, index = flat
    np.save(folder / "queries.npy", QUERIES[:5])
    script = f"""
import numpy as np
from linkseek.indexer.search.jvm import java_threads
java_threads()
from pyserini.search.faiss import FaissSearcher
print("IMPORTED")
searcher = FaissSearcher({str(folder)!r}, None)
for query in np.load({str(folder / "queries.npy")!r}):
    print("HITS\\t" + "\\t".join(hit.docid for hit in searcher.search(query[None], k=5)))
"""
    done = run_forked(["-c", script], env=os.environ | {"OPENAI_API_KEY": "x"})
    if "IMPORTED" not in done.stdout:
        pytest.skip(f"Pyserini cannot be imported here: {done.stderr[-300:]}")
    assert done.returncode == 0, done.stderr
    found = [line.split("\t")[1:] for line in done.stdout.splitlines() if line.startswith("HITS")]
    expected = [[IDS[row] for row in rows] for rows in index.search(QUERIES[:5], 5)[0]]
    assert found == expected


@pytest.mark.parametrize(
    ("factory", "bound"),
    [
        ("HNSW32", 0.99),
        ("IVF16,SQfp16", 0.5),
        ("IVF16,PQ8x4", 0.2),
        ("IVF16,PQ2", 0.2),
        ("IVF16,Flat", 0.5),
        ("SQ8", 0.9),
    ],
)
def test_approximate_indexes_find_most_of_what_brute_force_finds(tmp_path, factory, bound):
    index = build(tmp_path, factory)
    expected, _ = brute_force(QUERIES, 10)
    rows, scores = index.search(QUERIES, 10)
    assert recall(rows, expected) >= bound
    assert (np.diff(scores, axis=1) <= 0).all()
    if "IVF" in factory:  # all lists: as good as the codes are
        assert recall(index.search(QUERIES, 10, nprobe=16)[0], expected) > recall(rows, expected) - 0.01
    assert index.search(QUERIES, 10)[0].tolist() == rows.tolist()  # parameters of one search do not stay


def test_search_parameters_matter_and_unknown_ones_are_refused(tmp_path):
    assert search_parameters("IVF1024,SQfp16") == {"nprobe": 64}
    assert search_parameters("IVF4,Flat") == {"nprobe": 1}
    assert search_parameters("HNSW32") == {"efSearch": 128}
    assert search_parameters(FLAT) == {}
    index = build(tmp_path, "IVF64,SQfp16")
    expected, _ = brute_force(QUERIES, 10)
    recalls = [recall(index.search(QUERIES, 10, nprobe=nprobe)[0], expected) for nprobe in (1, 8, 64)]
    assert recalls == sorted(recalls) and recalls[0] < 0.95 and recalls[2] > 0.999
    for name in ("efSearch", "nonsense"):
        with pytest.raises(UsageError, match=f"no search parameter {name}"):
            index.search(QUERIES, 10, **{name: 3})


@pytest.mark.parametrize("factory", [FLAT, "HNSW8", "IVF2,SQfp16"])
def test_beyond_the_corpus_there_is_nothing(tmp_path, factory):
    index = build(tmp_path, factory, VECTORS[:5])
    rows, scores = index.search(QUERIES[:3], 9, **({"nprobe": 2} if "IVF" in factory else {}))
    assert rows.shape == scores.shape == (3, 9)
    assert sorted(rows[0, :5].tolist()) == [0, 1, 2, 3, 4]
    assert (rows[:, 5:] == -1).all() and np.isneginf(scores[:, 5:]).all()
    assert np.isfinite(scores[:, :5]).all()


def test_what_an_inverted_list_lacks_is_nothing(tmp_path):
    rows, scores = build(tmp_path, "IVF16,SQfp16", VECTORS[:64]).search(QUERIES[:3], 60, nprobe=1)
    assert (rows == -1).any() and (rows[:, 0] >= 0).all()
    assert (np.isneginf(scores) == (rows == -1)).all()


def test_queries_of_another_dimension_are_refused(flat):
    with pytest.raises(ValueError, match="16 dimensions, the index has 32"):
        flat[1].search(QUERIES[:, :16], 5)


def test_auto_is_flat_while_that_fits(monkeypatch):
    assert resolved_type("HNSW32", 10**9, 384)[0] == "HNSW32"
    assert resolved_type("auto", 582, 384) == (FLAT, "exact search of 447.0 kB of vectors, up to 536.9 MB")
    assert resolved_type("auto", 21_015_324, 384) == (
        "compact",
        "codes of 2.0 GB for 16.1 GB of vectors, over 536.9 MB",
    )
    monkeypatch.setattr("linkseek.indexer.search.faiss_index.memory_bytes", lambda: 1 << 30)
    assert [resolved_type("auto", rows, 384)[0] for rows in (349_525, 349_526)] == [FLAT, "compact"]


# --- options that do not fit ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "factory",
    ["", "nonsense", "flat", "Flat ", "LSH", "PQ7", "IVF4,PQ0", "IVF-1,Flat", "IVF99999999999,Flat",
     "IVF0,Flat", "HNSW0", "HNSW1", "HNSW1,Flat", "NSG1", "PCA0,Flat", "OPQ0,Flat", "IVF00,Flat", "BIVF4"],
)  # fmt: skip
def test_a_string_that_faiss_cannot_use_is_refused_with_examples(factory):
    with pytest.raises(UsageError) as caught:
        empty_index(factory, DIMENSION, 10_000)
    assert caught.value.message.startswith(f"--faiss {factory}: FAISS cannot make it for 32 dim")
    assert "Examples: auto, Flat, compact, HNSW32" in caught.value.hint
    assert "/project/" not in caught.value.message


@pytest.mark.parametrize(
    "factory", ["IVF1,Flat", "IVF10,SQfp16", "IVF100,PQ16", "HNSW10", "HNSW16,SQ8", "PCA10,Flat"]
)
def test_numbers_that_end_or_begin_with_0_or_1_are_fine(factory):
    assert empty_index(factory, DIMENSION, 10_000).metric_type == faiss.METRIC_INNER_PRODUCT


@pytest.mark.parametrize(("rows", "hint"), [(100, "IVF40"), (2, "IVF2"), (1, "IVF1")])
def test_more_centroids_than_passages_are_refused(rows, hint):
    with pytest.raises(UsageError, match=f"101 centroids for {rows} passages") as caught:
        empty_index("IVF101,Flat", DIMENSION, rows)
    assert f"at most {hint}," in caught.value.hint
    assert empty_index(f"{hint},Flat", DIMENSION, rows) is not None


@pytest.mark.parametrize("factory", ["IVF4,PQ8", "PQ8", "IDMap,Flat"])
def test_too_few_passages_for_a_type_are_a_usage_error(tmp_path, factory):
    with pytest.raises(UsageError, match="cannot put 200 vectors into it"):
        build(tmp_path, factory, VECTORS[:200])


def test_training_reads_a_sample_spread_over_all_shards(tmp_path, monkeypatch):
    shards = write_shards(tmp_path / "v", VECTORS)
    assert len(shards) == 3
    np.testing.assert_array_equal(training_sample(shards, ROWS), VECTORS.astype(np.float16))
    sample = training_sample(shards, 500)
    rows = [int(np.argmax((VECTORS.astype(np.float16) == row).all(axis=1))) for row in sample]
    assert len(set(rows)) == 500 and {row // 700 for row in rows} == {0, 1, 2}
    np.testing.assert_array_equal(training_sample(shards, 500), sample)
    monkeypatch.setattr("linkseek.indexer.search.faiss_tools._TRAIN_BYTES", 4 * DIMENSION * 100)
    assert training_sample(shards, ROWS).shape == (100, DIMENSION)


def test_a_file_that_cannot_be_written_is_the_machines_fault(tmp_path):
    (tmp_path / "index").mkdir()
    with pytest.raises(MachineError, match="FAISS cannot write it"):
        build(tmp_path, FLAT)


# --- damage --------------------------------------------------------------------------------------


@pytest.mark.parametrize("factory", [FLAT, "HNSW8", "IVF16,SQfp16"])
def test_a_truncated_file_is_named_and_never_ends_the_process(tmp_path, factory):
    build(tmp_path, factory)
    script = f"""
from pathlib import Path
import numpy as np
from linkseek.indexer.program.errors import DamagedIndexError
from linkseek.indexer.search.faiss_index import open_faiss
from linkseek.indexer.store.manifests import VectorsPart
manifest = VectorsPart(**{vectors_part(factory, dimension=DIMENSION).to_json()!r})
path = Path({str(tmp_path)!r}, "index")
content = path.read_bytes()
for size in [0, 1, 4, 10, 50, 100, 200, len(content) // 2, len(content) - 4096, len(content) - 1]:
    path.write_bytes(content[:size])
    try:
        index = open_faiss(path.parent, manifest, {ROWS})
        index.search(np.ones((1, {DIMENSION}), np.float32), {ROWS})
        print("opened")
    except DamagedIndexError as error:
        print("refused" if str(path) in error.message else error.message)
"""
    done = python("-c", script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:9] == ["refused"] * 9  # a byte may be missing in what is mapped


@pytest.mark.parametrize("content", [b"nonsense" * 100, b"IxFI" + b"\xff" * 200, b"IxSQ" + b"\0" * 200])
def test_what_is_no_faiss_index_is_named(tmp_path, content):
    (tmp_path / "index").write_bytes(content)
    with pytest.raises(DamagedIndexError, match="index: ") as caught:
        reopen(tmp_path)
    assert "build the index again" in caught.value.hint


def test_another_number_of_vectors_and_another_metric_are_refused(flat, tmp_path):
    with pytest.raises(DamagedIndexError, match="2,000 vectors, expected 1,999"):
        reopen(flat[0], rows=1999)
    faiss.write_index(faiss.IndexFlatL2(DIMENSION), str(tmp_path / "index"))
    with pytest.raises(DamagedIndexError, match="expected 0 by inner product"):
        reopen(tmp_path, rows=0)
    with pytest.raises(DamagedIndexError, match="index: not a FAISS index"):
        reopen(tmp_path / "nowhere")
