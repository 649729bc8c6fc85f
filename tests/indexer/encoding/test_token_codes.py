"""Codes of token vectors: next to a quantiser in loops, MaxSim by hand, and shards of them."""

from __future__ import annotations

import numpy as np
import pytest

from linkseek.indexer.encoding.shards import TokenShards, open_shards, read_shard, write_shard
from linkseek.indexer.encoding.token_codes import _LEVELS, Quantizer, TokenCodes
from linkseek.indexer.program.errors import DamagedIndexError


def unit(count: int, dimension: int, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float32)
    vectors[:, 0] += 2  # as real ones, they have a direction in common
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("bits", [2, 4])
@pytest.mark.parametrize("dimension", [8, 50, 128])
def test_each_number_has_the_nearest_level(bits, dimension):
    quantizer, vectors = Quantizer(dimension, bits, unit=True), unit(5, dimension)
    codes = quantizer.encode(vectors)
    numbers = quantizer.rotated(vectors).shape[1]
    assert codes.shape == (5, quantizer.width) == (5, numbers * bits // 8)
    distortion, positive = _LEVELS[bits]
    levels = sorted([*positive, *(-level for level in positive)])
    for code, row, decoded in zip(codes, quantizer.rotated(vectors), quantizer.decode(codes), strict=True):
        text = "".join(f"{byte:08b}" for byte in code)
        for place, number in enumerate(row):
            level = levels[int(text[place * bits : (place + 1) * bits], 2)]
            scaled = number * numbers**0.5
            assert abs(level - scaled) <= min(abs(other - scaled) for other in levels) + 1e-5
            assert decoded[place] == pytest.approx(level / (1 - distortion) / numbers**0.5, abs=1e-6)


def test_levels_are_those_that_lose_least():
    """Each level is the mean of a normal distribution between the borders of its neighbours (Max 1960)."""
    grid = np.linspace(-9, 9, 1_800_001)
    density = np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi) * (grid[1] - grid[0])
    for distortion, positive in _LEVELS.values():
        levels = np.array([*(-level for level in positive[::-1]), *positive])
        which = np.searchsorted((levels[1:] + levels[:-1]) / 2, grid)
        means = np.bincount(which, density * grid) / np.bincount(which, density)
        np.testing.assert_allclose(means, levels, atol=2e-3)
        assert float((density * (grid - levels[which]) ** 2).sum()) == pytest.approx(distortion, abs=2e-4)


def test_inner_products_stay_and_so_do_those_of_codes_on_average():
    quantizer, vectors, queries = Quantizer(96, 2, unit=True), unit(2_000, 96), unit(9, 96, seed=1)
    exact = queries @ vectors.T
    np.testing.assert_allclose(quantizer.rotated(queries) @ quantizer.rotated(vectors).T, exact, atol=1e-5)
    found = quantizer.rotated(queries) @ quantizer.decode(quantizer.encode(vectors)).T
    assert np.abs(found - exact).mean() < 0.04 and abs((found - exact).mean()) < 0.004


def test_lengths_are_kept_where_they_differ():
    quantizer, vectors = Quantizer(16, 4, unit=False), unit(6, 16) * np.arange(6, dtype=np.float32)[:, None]
    decoded = quantizer.decode(quantizer.encode(vectors))
    np.testing.assert_allclose((decoded * quantizer.rotated(vectors)).sum(1), np.arange(6) ** 2, rtol=0.1)
    assert not decoded[0].any()


@pytest.mark.parametrize("mean", [False, True])
def test_maxsim_is_the_best_of_each_token_of_the_question(mean):
    quantizer = Quantizer(8, 4, unit=True)
    vectors, query = unit(7, 8), unit(3, 8, seed=1)
    passages = TokenCodes(quantizer.encode(vectors), np.array([2, 2, 6, 7]))
    decoded, rotated = quantizer.decode(passages.codes), quantizer.rotated(query)
    expected = []
    for start, end in ((0, 2), (2, 2), (2, 6), (6, 7)):
        best = [max((float(q @ p) for p in decoded[start:end]), default=0.0) for q in rotated]
        expected.append(sum(best) / (len(best) if mean else 1))
    np.testing.assert_allclose(quantizer.scores([query], passages, mean=mean)[0], expected, atol=1e-5)


def codes(*lengths: int) -> TokenCodes:
    rng = np.random.default_rng(sum(lengths))
    return TokenCodes.of([rng.integers(0, 256, (n, 3)).astype(np.uint8) for n in lengths], 3)


def test_shards_give_the_codes_of_any_rows(tmp_path):
    first, second = codes(2, 0, 5), codes(1, 4)
    write_shard(tmp_path, 0, 0, first)
    write_shard(tmp_path, 1, 3, second)
    assert read_shard(tmp_path, 1).dimension == 3
    shards = TokenShards(open_shards(tmp_path, 5))
    taken = shards.take(np.array([4, 1, 2, 2]))
    assert [len(taken[row]) for row in range(len(taken))] == [4, 0, 5, 5]
    np.testing.assert_array_equal(taken[0], second[1])
    np.testing.assert_array_equal(taken[3], first[2])


@pytest.mark.parametrize("cut", [1, 3, 30])
def test_a_shard_that_does_not_fit_is_named(tmp_path, cut):
    shard = write_shard(tmp_path, 0, 0, codes(2, 5))
    array = np.load(shard.path)
    np.save(shard.path, array[:-cut])
    with pytest.raises(DamagedIndexError, match="not the codes of 2 passages"):
        TokenShards(open_shards(tmp_path, 2)).take(np.array([1]))
