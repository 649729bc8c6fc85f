"""Token sequences in batches: cut by a budget, back in order, the same bits however many at a time."""

from __future__ import annotations

import pickle
import random
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkseek.indexer.encoding.batches import Parallel, TokenRows, encode_texts, token_batches
from linkseek.indexer.program.errors import InputError
from tests.support.tiny.encoder import FakeEncoder


def test_vectors_come_back_in_the_order_of_the_texts():
    encoder = FakeEncoder()
    texts = [" ".join(f"w{n}-{i}" for i in range(random.Random(n).randint(0, 30))) for n in range(50)]
    tokens = encoder.tokenize_passages([""] * 50, texts)
    vectors = encode_texts(encoder, tokens)
    one_by_one = np.concatenate([encoder.encode_tokens([t]) for t in tokens])
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, one_by_one)
    assert encode_texts(encoder, []).shape == (0, encoder.dimension)


def test_a_zero_length_costs_nothing_and_too_long_a_text_is_alone():
    assert list(token_batches([9, 0, 3, 0], 9)) == [[1, 3, 2], [0]]
    assert list(token_batches(np.array([2, 2, 2]), 4)) == [[0, 1], [2]]


def slow_batches(lengths, token_budget):
    """The definition, a position at a time."""
    batch: list[int] = []
    for position in sorted(range(len(lengths)), key=lambda i: (lengths[i], i)):
        if batch and lengths[position] * (len(batch) + 1) > token_budget:
            yield batch
            batch = []
        batch.append(position)
    if batch:
        yield batch


@given(st.lists(st.integers(0, 40)), st.integers(1, 200))
def test_batches_are_those_of_the_definition(lengths, budget):
    assert list(token_batches(lengths, budget)) == list(slow_batches(lengths, budget))


@given(st.lists(st.lists(st.integers(-(2**31), 2**31 - 1))), st.integers(0, 9))
def test_packed_sequences_are_the_same_sequences(sequences, cut):
    packed = TokenRows.of(sequences)
    assert packed.ids.dtype == np.int32 and len(packed) == len(sequences)
    assert [tokens.tolist() for tokens in packed] == sequences
    assert packed.lengths.tolist() == [len(tokens) for tokens in sequences]
    assert [tokens.tolist() for tokens in packed[cut:]] == sequences[cut:]
    joined = TokenRows.joined(
        [TokenRows.of(sequences[:cut]), TokenRows.of([]), TokenRows.of(sequences[cut:])]
    )
    assert [tokens.tolist() for tokens in joined] == sequences
    assert [tokens.tolist() for tokens in pickle.loads(pickle.dumps(packed))] == sequences
    if sequences:
        assert packed[-1].tolist() == sequences[-1]
    with pytest.raises(IndexError):
        packed[len(sequences)]


# --- several at a time ---------------------------------------------------------------------------


class Slow(FakeEncoder):
    """Takes turns that differ, and notes how many batches it works on."""

    def __init__(self, batches: int) -> None:
        super().__init__(batch_noise=0.01, parallel=Parallel(batches=batches))
        self.at_work = self.most = 0
        self.lock = threading.Lock()

    def encode_tokens(self, batch):
        with self.lock:
            self.at_work += 1
            self.most = max(self.most, self.at_work)
        time.sleep(0.002 * (len(batch) % 3))
        vectors = super().encode_tokens(batch)
        with self.lock:
            self.at_work -= 1
        return vectors


def many_tokens(count=60):
    draw = random.Random(1)
    return [[draw.randrange(99) for _ in range(draw.randint(1, 30))] for _ in range(count)]


@pytest.mark.parametrize("batches", [2, 5])
def test_several_batches_at_a_time_give_the_same_bits_in_the_same_order(batches):
    told: tuple[list[float], list[float]] = ([], [])
    plain = encode_texts(Slow(1), many_tokens(), told[0].append)
    encoder = Slow(batches)
    together = encode_texts(encoder, TokenRows.of(many_tokens()), told[1].append)
    assert together.tobytes() == plain.tobytes()
    assert 1 < encoder.most <= batches
    assert told[0] == told[1] and sum(told[0]) == 60


def test_an_error_in_one_of_several_batches_reaches_the_caller_and_ends_the_others():
    class Failing(Slow):
        def encode_tokens(self, batch):
            if len(self.batches) > 3:
                raise RuntimeError("out of memory")
            return super().encode_tokens(batch)

    encoder = Failing(3)
    with pytest.raises(RuntimeError, match="out of memory"):
        encode_texts(encoder, many_tokens(400))
    assert len(encoder.batches) < 20


def test_what_is_told_can_end_the_work():
    def stop(rows):
        raise KeyboardInterrupt

    encoder = Slow(2)
    with pytest.raises(KeyboardInterrupt):
        encode_texts(encoder, many_tokens(400), stop)
    assert encoder.at_work == 0 and len(encoder.batches) < 20


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_counted_and_named(bad):
    class Broken(FakeEncoder):
        def encode_tokens(self, batch):
            vectors = super().encode_tokens(batch)
            vectors[[len(tokens) < 4 for tokens in batch], 3] = bad
            return vectors

    texts = ["a b c d e f g", "a b", "a b c d e", "c"]
    encoder = Broken("odd", token_budget=10)
    with pytest.raises(
        InputError, match="odd: its outputs for 2 of 4 texts are not finite; the first is '0 "
    ):
        encoder.encode_queries(texts)
    tokens = encoder.tokenize_passages([""] * 4, texts)
    with pytest.raises(InputError, match="the first is passage 1,001, '0 "):
        encode_texts(encoder, tokens, first_passage=1000)
