"""Where vectors are searched: by FAISS on GPUs, by torch, or on the CPU, which plays torch's GPUs here."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import faiss
import numpy as np
import pytest

from linkseek.indexer.encoding.shards import write_shard
from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.search.exact import ExactSearch
from linkseek.indexer.search.faiss_index import FLAT, FaissIndex, build_faiss, open_faiss
from linkseek.indexer.search.gpu_index import on_device
from linkseek.indexer.search.partitioned import PartitionedVectors
from tests.indexer.search.test_faiss import brute_force
from tests.support.tiny.manifests import vectors_part

ROWS, DIMENSION = 500, 16
RANDOM = np.random.default_rng(0)
VECTORS = RANDOM.normal(size=(ROWS, DIMENSION)).astype(np.float16)
QUERIES = RANDOM.normal(size=(9, DIMENSION)).astype(np.float32)


def build(folder: Path, factory: str = FLAT, vectors: np.ndarray = VECTORS) -> FaissIndex:
    (folder / "vectors").mkdir(parents=True)
    middle = len(vectors) // 3
    shards = [write_shard(folder / "vectors", 0, 0, vectors[:middle])]
    shards += [write_shard(folder / "vectors", 1, middle, vectors[middle:])]
    built = build_faiss(folder, shards, factory, DIMENSION, map(str, range(len(vectors))))
    return open_faiss(folder, vectors_part(factory, **built), len(vectors))


@pytest.fixture
def flat(tmp_path) -> FaissIndex:
    return build(tmp_path / "flat")


@pytest.fixture
def gpus(monkeypatch):
    """Two GPUs for torch that hold any vectors, and none that FAISS is built for."""
    monkeypatch.setattr("linkseek.indexer.search.gpu_index.cuda_devices", lambda device: ["cuda:0", "cuda:1"])
    monkeypatch.setattr("linkseek.indexer.search.exact._free_bytes", lambda device: 1 << 40)
    monkeypatch.setattr(
        "linkseek.indexer.search.exact.ExactSearch",
        lambda vectors, devices, **options: ExactSearch(vectors, ["cpu" for _ in devices], **options),
    )


def assert_same(found, expected) -> None:
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_allclose(found[1], expected[1], atol=1e-3)


def test_on_the_cpu_it_is_the_index_itself(flat):
    assert on_device(flat, "cpu") is flat
    with pytest.raises(UsageError, match="device cuda:7"):
        on_device(flat, "cuda:7")


def test_the_vectors_of_a_flat_index_are_mapped_as_they_are(flat, tmp_path):
    vectors = flat.flat_vectors()
    assert vectors.dtype == np.float16
    np.testing.assert_array_equal(vectors, VECTORS)
    with pytest.raises(UsageError, match="HNSW8 index does not store its vectors"):
        build(tmp_path / "other", "HNSW8").flat_vectors()


def test_vectors_keep_their_index_open(tmp_path):
    index = build(tmp_path / "dense", "Flat")
    vectors, alive = index.flat_vectors()[3:], weakref.ref(index)
    del index
    gc.collect()
    assert alive() is not None
    np.testing.assert_array_equal(vectors, VECTORS[3:])
    del vectors
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_without_a_faiss_for_gpus_torch_searches_a_flat_index(flat, gpus, device):
    elsewhere = on_device(flat, device)
    assert elsewhere is not flat
    assert len(elsewhere) == ROWS and elsewhere.encoder["name"] == "fake"
    for k in (1, 20, ROWS + 3):
        assert_same(elsewhere.search(QUERIES, k), flat.search(QUERIES, k))
    with pytest.raises(UsageError, match="no search parameter nprobe"):
        elsewhere.search(QUERIES, 3, nprobe=1)


def test_vectors_that_the_gpus_do_not_hold_stay_on_the_cpu_unless_they_are_asked_for(
    flat, gpus, monkeypatch, capsys
):
    monkeypatch.setattr("linkseek.indexer.search.exact._free_bytes", lambda device: 3 << 20)
    assert on_device(flat, "auto") is flat
    assert "searching vectors on the CPU (cpu has 3.1 MB of free memory" in capsys.readouterr().err
    elsewhere = on_device(flat, "cuda")
    assert "each search copies all vectors to the GPU" in capsys.readouterr().err
    assert_same(elsewhere.search(QUERIES, 20), flat.search(QUERIES, 20))


# --- compact indexes ------------------------------------------------------------------------------


def parts_of(folder: Path) -> PartitionedVectors:
    halves = VECTORS[:200], VECTORS[200:]
    return PartitionedVectors([build(folder / str(n), "compact", half) for n, half in enumerate(halves)])


@pytest.mark.parametrize("partitioned", [False, True])
def test_the_cpu_scans_the_codes_of_a_compact_index(tmp_path, gpus, monkeypatch, capsys, partitioned):
    monkeypatch.setattr("linkseek.indexer.search.exact._free_bytes", lambda device: 3 << 20)
    index = parts_of(tmp_path) if partitioned else build(tmp_path / "i", "compact")
    assert on_device(index, "auto") is index
    assert capsys.readouterr().err.count("searching vectors on the CPU (cpu has 3.1 MB") == 1
    assert_same(index.search(QUERIES, 20), brute_force(QUERIES, 20, VECTORS))


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_a_gpu_that_holds_the_vectors_of_a_compact_index_searches_them(
    tmp_path, gpus, capsys, partitioned, device
):
    index = parts_of(tmp_path) if partitioned else build(tmp_path / "i", "compact")
    elsewhere = on_device(index, device)
    assert ("exactly on the GPU" in capsys.readouterr().err) == (device == "auto")
    assert elsewhere is not index and len(elsewhere) == ROWS and elsewhere.encoder["name"] == "fake"
    for k in (1, 20):
        assert_same(elsewhere.search(QUERIES, k), brute_force(QUERIES, k, VECTORS))
    assert_same(elsewhere.search(QUERIES, 20, candidates=1), brute_force(QUERIES, 20, VECTORS))
    assert (elsewhere.search(QUERIES, ROWS + 3)[0][:, ROWS:] == -1).all()
    with pytest.raises(UsageError, match="compact index has no search parameter nprobe"):
        elsewhere.search(QUERIES, 3, nprobe=1)


@pytest.mark.parametrize("partitioned", [False, True])
def test_a_gpu_that_holds_too_little_says_what_to_do(tmp_path, gpus, monkeypatch, partitioned):
    monkeypatch.setattr("linkseek.indexer.search.exact._free_bytes", lambda device: 3 << 20)
    index = parts_of(tmp_path) if partitioned else build(tmp_path / "i", "compact")
    with pytest.raises(
        UsageError, match=r"this compact index cannot .* has 3\.\d MB .* need 2\.\d GB"
    ) as caught:
        on_device(index, "cuda")
    assert 'device = "cpu"' in caught.value.hint


# --- what the GPU refuses -------------------------------------------------------------------------


@pytest.mark.parametrize("factory", [FLAT, "compact", "HNSW8", "IVF8,SQfp16"])
def test_questions_that_are_no_numbers_are_refused(tmp_path, gpus, factory):
    """Their rows would mean nothing, or an intact index would be called damaged."""
    index, queries = build(tmp_path / "i", factory), QUERIES.copy()
    queries[4, 2] = np.nan
    for place in (index, on_device(index, "auto")):
        with pytest.raises(ValueError, match="not finite"):
            place.search(queries, 3)


# --- a FAISS that is built for GPUs, on a machine that need not have any ----------------------------


@pytest.mark.skipif(
    not hasattr(faiss, "GpuIndex"), reason="this build of FAISS lacks GPU support: install the extra [gpu]"
)
@pytest.mark.parametrize("gpus_there", [["cuda:0"], ["cuda:0", "cuda:1"]], ids=["one", "two"])
@pytest.mark.parametrize("factory", [FLAT, "compact", "SQ8", "HNSW8", "IVF8,SQfp16"])
def test_the_real_one_finds_what_the_cpu_finds(tmp_path, gpus, monkeypatch, factory, gpus_there):
    """Wherever it searches. Without a GPU, FAISS refuses to clone, or clones to the CPU."""
    monkeypatch.setattr("linkseek.indexer.search.gpu_index.cuda_devices", lambda device: gpus_there)
    index = build(tmp_path / "i", factory)
    elsewhere = on_device(index, "auto")
    for k, options in (
        (20, {}),
        (ROWS + 3, {}),
        *([(20, {"nprobe": 8}), (20, {})] * factory.startswith("IVF")),
    ):
        assert_same(elsewhere.search(QUERIES, k, **options), index.search(QUERIES, k, **options))
    assert (type(elsewhere).__name__ == "_ExactOnGpus") == (factory == FLAT)
    if factory in ("SQ8", "HNSW8"):
        assert elsewhere is index
        with pytest.raises(UsageError, match=f"this {factory} index cannot be searched on a GPU"):
            on_device(index, "cuda")
