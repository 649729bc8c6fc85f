"""Where vectors are searched: by FAISS on GPUs, by torch, or on the CPU, which plays the GPUs here."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import faiss
import numpy as np
import pytest

from linkseek.indexer.base.errors import UsageError
from linkseek.indexer.encoding.shards import write_shard
from linkseek.indexer.search.exact import ExactSearch
from linkseek.indexer.search.faiss_index import FLAT, FaissIndex, build_faiss, open_faiss
from linkseek.indexer.search.gpu_index import on_device

ROWS, DIMENSION = 500, 16
RANDOM = np.random.default_rng(0)
VECTORS = RANDOM.normal(size=(ROWS, DIMENSION)).astype(np.float16)
QUERIES = RANDOM.normal(size=(9, DIMENSION)).astype(np.float32)


def build(folder: Path, factory: str = FLAT) -> FaissIndex:
    folder.mkdir()
    shards = [write_shard(folder, 0, 0, VECTORS)]
    built = build_faiss(folder, shards, factory, DIMENSION, map(str, range(ROWS)))
    return open_faiss(folder, {**built, "factory": factory, "encoder": {"name": "fake"}}, ROWS)


@pytest.fixture
def flat(tmp_path) -> FaissIndex:
    return build(tmp_path / "flat")


@pytest.fixture
def gpus(monkeypatch):
    """Two GPUs for torch, and none that FAISS is built for."""
    monkeypatch.setattr("linkseek.indexer.search.gpu_index.cuda_devices", lambda device: ["cuda:0", "cuda:1"])
    monkeypatch.setattr(
        "linkseek.indexer.search.exact.ExactSearch",
        lambda vectors, devices: ExactSearch(vectors, [d.replace(d, "cpu") for d in devices]),
    )


@pytest.fixture
def faiss_gpus(gpus, monkeypatch):
    """Two GPUs, and a FAISS that is built for them; what it was asked for."""
    asked: list[tuple] = []

    class Options:
        useFloat16 = shard = False  # noqa: N815

    def clone(index, options, numbers):
        if isinstance(index, faiss.IndexHNSW):
            raise RuntimeError("Error in clone at x.cpp:1: this type is not implemented")
        asked.append((options.useFloat16, options.shard, numbers))
        return faiss.clone_index(index)

    monkeypatch.setattr(faiss, "StandardGpuResources", object, raising=False)
    monkeypatch.setattr(faiss, "GpuMultipleClonerOptions", Options, raising=False)
    monkeypatch.setattr(faiss, "index_cpu_to_gpus_list", clone, raising=False)
    monkeypatch.setattr(faiss, "GpuParameterSpace", faiss.ParameterSpace, raising=False)
    return asked


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
    with pytest.raises(UsageError, match="HNSW8 index does not hold its vectors"):
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
    assert elsewhere is not flat and elsewhere is on_device(flat, device)
    assert len(elsewhere) == ROWS and elsewhere.encoder == {"name": "fake"}
    for k in (1, 20, ROWS + 3):
        assert_same(elsewhere.search(QUERIES, k), flat.search(QUERIES, k))
    with pytest.raises(UsageError, match="no search parameter nprobe"):
        elsewhere.search(QUERIES, 3, nprobe=1)


@pytest.mark.parametrize("factory", [FLAT, "IVF8,SQfp16"])
def test_a_faiss_for_gpus_searches_over_all_of_them(tmp_path, faiss_gpus, factory):
    index = build(tmp_path / "i", factory)
    elsewhere = on_device(index, "cuda")
    assert faiss_gpus == [(True, True, [0, 1])]
    assert_same(elsewhere.search(QUERIES, 20), index.search(QUERIES, 20))
    assert_same(elsewhere.search(QUERIES, ROWS + 3), index.search(QUERIES, ROWS + 3))
    if factory != FLAT:
        few, many = (elsewhere.search(QUERIES, 20, nprobe=n)[0] for n in (1, 8))
        assert (few == -1).any() or few.tolist() != many.tolist()
        assert_same(elsewhere.search(QUERIES, 20, nprobe=8), index.search(QUERIES, 20, nprobe=8))
        assert_same(elsewhere.search(QUERIES, 20), index.search(QUERIES, 20))  # no parameter stays


def test_deeper_than_a_gpu_goes_the_cpu_searches(flat, faiss_gpus, monkeypatch):
    monkeypatch.setattr("linkseek.indexer.search.gpu_index._FAISS_MAX_DEPTH", 10)
    elsewhere = on_device(flat, "cuda")
    monkeypatch.setattr(elsewhere._index, "search", lambda *_: pytest.fail("too deep"))
    assert_same(elsewhere.search(QUERIES, 11), flat.search(QUERIES, 11))


def test_a_type_that_has_no_gpu_version_stays_unless_one_is_asked_for(tmp_path, faiss_gpus, capsys):
    index = build(tmp_path / "i", "HNSW8")
    assert on_device(index, "auto") is index
    said = capsys.readouterr().err
    assert "searching vectors on the CPU" in said and "not implemented" in said
    with pytest.raises(UsageError, match="this HNSW8 index cannot be searched on a GPU") as caught:
        on_device(index, "cuda")
    assert caught.value.message.count("does not hold its vectors") == 1
    assert "--faiss Flat" in caught.value.hint
