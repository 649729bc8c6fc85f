"""Exact search in torch against brute force in float64 and against FAISS, on the CPU and as on a GPU."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from linkseek.indexer.search import exact
from linkseek.indexer.search.exact import ExactSearch, _Part

ROWS, DIMENSION = 3001, 24
RANDOM = np.random.default_rng(0)
VECTORS = RANDOM.normal(size=(ROWS, DIMENSION)).astype(np.float16)
QUERIES = RANDOM.normal(size=(37, DIMENSION)).astype(np.float32) * RANDOM.uniform(0.1, 9, (37, 1)).astype("f")


def brute_force(queries: np.ndarray, k: int, vectors: np.ndarray = VECTORS):
    """By (score, row), in float64."""
    scores = queries.astype(np.float64) @ vectors.astype(np.float64).T  # [Q, N]
    rows = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return rows, np.take_along_axis(scores, rows, axis=1)


def lower(monkeypatch: pytest.MonkeyPatch) -> None:
    """Step 1 in float16, as on a GPU."""
    begin = _Part.__init__

    def lowered(self, *arguments, **options):
        begin(self, *arguments, **options)
        self._type = torch.float16

    monkeypatch.setattr(_Part, "__init__", lowered)


@pytest.fixture(params=["float32", "float16"])
def precision(request, monkeypatch):
    """The precision of step 1: as on a CPU, and as on a GPU."""
    monkeypatch.setattr(exact, "_TILE", 40_000)  # several blocks, the last one not full
    monkeypatch.setattr(exact, "_BLOCK", {"cpu": 30_000})
    if request.param == "float16":
        lower(monkeypatch)
    return request.param


@pytest.mark.parametrize("devices", [1, 3])
@pytest.mark.parametrize("k", [1, 20])
def test_it_is_brute_force(precision, devices, k, tmp_path):
    np.save(tmp_path / "v.npy", VECTORS)
    mapped = np.load(tmp_path / "v.npy", mmap_mode="r")
    expected_rows, expected_scores = brute_force(QUERIES, k)
    for vectors in (VECTORS, mapped, torch.from_numpy(VECTORS)):
        search = ExactSearch(vectors, ["cpu"] * devices)
        rows, scores = search.search(QUERIES, k)
        assert rows.dtype == np.int64 and scores.dtype == np.float32 and len(search) == ROWS
        np.testing.assert_array_equal(rows, expected_rows)
        np.testing.assert_allclose(scores, expected_scores, rtol=1e-4, atol=1e-4)


def test_a_search_of_one_query_and_of_many_agree(precision, monkeypatch):
    search = ExactSearch(VECTORS, ["cpu"])
    together = search.search(QUERIES, 10)
    monkeypatch.setattr(exact, "_MAX_QUERIES", 8)
    in_parts = search.search(QUERIES, 10)
    alone = [search.search(query[None], 10) for query in QUERIES]
    for rows, scores in (in_parts, tuple(np.concatenate(x) for x in zip(*alone, strict=True))):
        np.testing.assert_array_equal(rows, together[0])
        np.testing.assert_allclose(scores, together[1], rtol=1e-5)


@pytest.mark.parametrize("devices", [1, 2])
def test_equal_scores_are_in_order_of_rows_however_many(precision, devices):
    """Whole numbers, so that scores are exactly equal; ties go far beyond k."""
    vectors = RANDOM.integers(-1, 2, (ROWS, 4)).astype(np.float16)
    queries = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]], np.float32)
    rows, scores = ExactSearch(vectors, ["cpu"] * devices).search(queries, 50)
    expected_rows, expected_scores = brute_force(queries, 50, vectors)
    np.testing.assert_array_equal(rows, expected_rows)
    np.testing.assert_array_equal(scores, expected_scores)


def test_what_low_precision_hides_is_found_by_looking_further(monkeypatch):
    """Not vacuous: the scores of 1,600 rows are one number in float16, and only the margin finds the best."""
    lower(monkeypatch)
    vectors = np.zeros((1600, 2), np.float16)
    vectors[:, 0] = 1
    vectors[:, 1] = RANDOM.permutation(1600) * 2e-7  # subnormal steps
    query = np.array([[1.0, 1.0]], np.float32)
    found = ExactSearch(vectors, ["cpu"]).search(query, 5)[0]
    np.testing.assert_array_equal(found, brute_force(query, 5, vectors)[0])
    monkeypatch.setattr(_Part, "_slack", lambda self, queries: torch.full((len(queries),), -1.0))
    missed = ExactSearch(vectors, ["cpu"]).search(query, 5)[0]
    assert missed.tolist() != found.tolist()


@pytest.mark.parametrize("rows", [1, 15, 16, 17, 40])
def test_beyond_the_last_row_there_is_nothing(rows):
    found, scores = ExactSearch(VECTORS[:rows], ["cpu", "cpu"]).search(QUERIES[:3], 45)
    assert found.shape == scores.shape == (3, 45)
    np.testing.assert_array_equal(found[:, :rows], brute_force(QUERIES[:3], rows, VECTORS[:rows])[0])
    assert (found[:, rows:] == -1).all() and np.isneginf(scores[:, rows:]).all()
    assert np.isfinite(scores[:, :rows]).all()


def fused(vectors: torch.Tensor, queries: torch.Tensor, group: int) -> torch.Tensor:
    scores = vectors.float() @ queries.float().T
    return torch.stack([rows.amax(0) for rows in scores.split(group)]).half()


def gathered(vectors: torch.Tensor, queries: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return (vectors.float() @ queries.T).T.gather(1, rows)


@pytest.mark.parametrize(
    ("maxima", "scores", "slower", "said"),
    [
        (fused, gathered, 0, ""),
        (fused, gathered, 9, "they are slower"),
        (lambda *given: fused(*given) + 1, gathered, 0, "they give other scores"),
        (fused, lambda *given: gathered(*given) * torch.nan, 0, "they give other scores"),
        (fused, None, 0, "'NoneType' object is not callable"),
    ],
)
def test_kernels_are_used_where_they_agree_and_are_faster(maxima, scores, slower, said, monkeypatch, capsys):
    kernels = SimpleNamespace(group_maxima=maxima, scores_of=scores)
    monkeypatch.setattr("linkseek.indexer.search.kernels", kernels, raising=False)
    lower(monkeypatch)
    clock = iter([0, 5, 0, 5, 0, 1, 0, 1 + slower])
    monkeypatch.setattr(exact, "perf_counter", lambda: next(clock))
    part = _Part(torch.from_numpy(VECTORS), 0, ROWS, torch.device("cpu"), must_hold=False)
    part._use_kernels()
    assert (part._kernels is None) == bool(said)
    assert said in capsys.readouterr().err
    queries = torch.from_numpy(QUERIES)
    rows, scores = part.best(queries, part.group_maxima(queries), 20)
    for found, expected in zip((rows, scores), brute_force(QUERIES, 20), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_no_queries_and_other_dimensions():
    search = ExactSearch(VECTORS, ["cpu"])
    rows, scores = search.search(QUERIES[:0], 4)
    assert rows.shape == scores.shape == (0, 4)
    with pytest.raises(ValueError, match="16 dimensions, the index has 24"):
        search.search(QUERIES[:, :16], 4)


def test_memory_is_that_of_blocks(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(exact, "_BLOCK", {"cpu": 1 << 16})
    sizes: list[int] = []
    block = _Part._block

    def noted(self, start, stop):
        found = block(self, start, stop)
        sizes.append(found.numel() * found.element_size())
        return found

    monkeypatch.setattr(_Part, "_block", noted)
    ExactSearch(VECTORS, ["cpu"]).search(QUERIES, 5)
    assert max(sizes) <= 1 << 16
