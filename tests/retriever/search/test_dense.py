"""Dense search: the vectors of an index, with the encoder that made them and no other."""

from __future__ import annotations

import json

import numpy as np
import pytest

from linkseek.indexer.encoding.batches import encode_texts
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import DamagedIndexError, MismatchError, UsageError
from linkseek.retriever.ranking import Query, Ranking
from linkseek.retriever.search.searchers import Dense
from tests.support.accepted import manifest_bytes
from tests.support.tiny.encoder import FakeEncoder

QUERIES = [Query("a", "word3 word7"), Query("b", "Title 9"), Query("c", "")]


@pytest.fixture
def index(build, index_path) -> OpenIndex:
    build()
    return OpenIndex.open(index_path)


def brute_force(index: OpenIndex, encoder: FakeEncoder, k: int) -> Ranking:
    passages = list(index.passages)
    tokens = encoder.tokenize_passages([p.title for p in passages], [p.text for p in passages])
    vectors = encode_texts(encoder, tokens).astype(np.float16).astype(np.float32)
    scores = encoder.encode_queries([query.text for query in QUERIES]) @ vectors.T
    rows = np.tile(np.arange(len(passages)), (len(QUERIES), 1))
    return Ranking.of([query.id for query in QUERIES], rows, scores, k)


def test_it_finds_what_brute_force_finds(index):
    encoder = FakeEncoder("fake")
    found = Dense(index, encoder)(QUERIES, 20)
    expected = brute_force(index, encoder, 20)
    assert found.query_ids == ("a", "b", "c")
    np.testing.assert_array_equal(found.rows, expected.rows)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)
    passage = index.passages[17]
    found = Dense(index, encoder)([Query("d", f"{passage.title} {passage.text}")], 1)
    assert found.rows.tolist() == [[17]]


def test_many_queries_equal_one_by_one_and_none_give_none(index):
    searcher = Dense(index, FakeEncoder("fake"))
    together = searcher(QUERIES, 5)
    for number, query in enumerate(QUERIES):
        assert searcher([query], 5).results(0) == together.results(number)
    assert searcher([], 5).rows.shape == (0, 5)


@pytest.mark.parametrize("other", [FakeEncoder("fake", seed=1), FakeEncoder("another")])
def test_another_encoder_is_refused_with_both_names(index, other):
    with pytest.raises(MismatchError) as caught:
        Dense(index, other)
    hashes = [FakeEncoder("fake").identity["sha256"][:12], other.identity["sha256"][:12]]
    assert f"the encoder fake ({hashes[0]})" in caught.value.message
    assert f"encoder of the queries is {other.name} ({hashes[1]})" in caught.value.message
    assert "--encoder" in caught.value.hint


def test_of_two_encoders_each_searches_its_own_vectors(build, index_path):
    build(encoders=["fake", "other"])
    index = OpenIndex.open(index_path)
    for name in ("fake", "other"):
        encoder = FakeEncoder(name)
        assert (
            Dense(index, encoder, name)(QUERIES, 3).rows.tolist()
            == brute_force(index, encoder, 3).rows.tolist()
        )
    with pytest.raises(MismatchError, match="made by the encoder other"):
        Dense(index, FakeEncoder("fake"), "other")
    with pytest.raises(UsageError, match="no vectors of the encoder none"):
        Dense(index, FakeEncoder("fake"), "none")


def test_parameters_reach_the_search(build, index_path):
    build(faiss="IVF8,SQfp16")
    index, encoder = OpenIndex.open(index_path), FakeEncoder("fake")
    everything = Dense(index, encoder, nprobe=8)(QUERIES, 10)
    np.testing.assert_array_equal(everything.rows, brute_force(index, encoder, 10).rows)
    little = Dense(index, encoder, nprobe=1)(QUERIES, 10)
    assert little.rows.tolist() != everything.rows.tolist()
    with pytest.raises(UsageError, match="no search parameter nprobes"):
        Dense(index, encoder, nprobes=8)(QUERIES, 10)


@pytest.mark.parametrize("location", [5, None, ["x"], {"a": 1}, ...])
def test_vectors_whose_encoder_is_not_named_are_damaged(build, index_path, location):
    build()
    path = index_path / "dense" / "fake" / "manifest.json"
    manifest = json.loads(path.read_bytes())
    manifest["encoder"] |= {} if location is ... else {"location": location}
    if location is ...:
        del manifest["encoder"]["name"]
    path.write_bytes(manifest_bytes(manifest))
    with pytest.raises(DamagedIndexError, match='"encoder" is missing or damaged'):
        OpenIndex.open(index_path).dense()
