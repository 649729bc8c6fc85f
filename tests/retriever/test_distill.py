"""Static encoders from another encoder's token vectors, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from tiny_corpus import write_jsonl
from tiny_models import save_tiny

from linkseek.indexer.base.errors import UsageError
from linkseek.indexer.index import Index
from linkseek.retriever.commands.distill import main, random_vectors, rotated, token_shares
from linkseek.retriever.models.biencoder import open_biencoder


@pytest.fixture
def tiny(tmp_path):
    return save_tiny(tmp_path / "tiny")


def test_a_text_is_the_mean_of_weighted_rotated_token_vectors(tiny, tmp_path):
    main([str(tiny), "--output", str(tmp_path / "static"), "--smoothing", "0.01"])
    source, static = SentenceTransformer(str(tiny), device="cpu"), open_biencoder(str(tmp_path / "static"))
    exact = open_biencoder(str(tiny), precision="float32")
    words = source.tokenizer.convert_ids_to_tokens(range(len(source.tokenizer)))
    alone = source.encode(words)
    for number, word in enumerate(words):  # words that the tokenizer takes apart are looked up by number
        if source.tokenizer.tokenize(word) != [word]:
            ids = [source.tokenizer.cls_token_id, number, source.tokenizer.sep_token_id]
            alone[number] = exact.encode_tokens([ids])[0]
    shares = 1 / np.arange(1, len(words) + 1)
    weights = 0.01 / (0.01 + shares / shares.sum())
    vectors = rotated(alone, alone.shape[1]) * weights[:, None]
    places = [n for n, word in enumerate(words) if source.tokenizer.tokenize(word) == [word]][-3:]
    expected = vectors[places].mean(axis=0)
    [found] = static.encode_queries([" ".join(words[n] for n in places)])
    np.testing.assert_allclose(found, expected / np.linalg.norm(expected), atol=1e-5)
    assert not static.encode_tokens([source.tokenizer.all_special_ids]).any()
    assert open_biencoder(str(tiny)).identity["sha256"] in (tmp_path / "static" / "README.md").read_text()


def test_a_rotation_keeps_angles_and_the_first_axes_hold_most(tmp_path):
    draw = np.random.default_rng(1)
    vectors = (draw.normal(size=(50, 6)) * [5, 1, 1, 1, 0.1, 0.1]).astype(np.float32)
    centred, whole = vectors - vectors.mean(axis=0), rotated(vectors, 6)
    np.testing.assert_allclose(whole @ whole.T, centred @ centred.T, atol=1e-3)
    np.testing.assert_array_equal(rotated(vectors, 2), whole[:, :2])
    assert whole[:, 0].var() > 10 * whole[:, 1].var()


def test_shares_are_those_of_the_passages(tiny, tmp_path, build, index_path):
    build(corpus=write_jsonl(tmp_path / "c.jsonl", [{"id": "a", "text": "sea sea law", "links": []}]))
    encoder = open_biencoder(str(tiny))
    shares = token_shares(encoder, Index.open(index_path))
    [tokens] = encoder.tokenize_passages([""], ["sea sea law"])
    assert shares.sum() == pytest.approx(1)
    assert {n: shares[n] for n in set(tokens)} == {n: tokens.count(n) / len(tokens) for n in set(tokens)}


def test_random_vectors_have_the_weights_of_their_tokens_and_a_seed(tiny, tmp_path):
    for name, seed in ("a", 1), ("b", 1), ("c", 2):
        main([str(tiny), "--output", str(tmp_path / name), "--smoothing", "0.01", "--random", str(seed)])
    folders = [str(tmp_path / name) for name in "abc"]
    models = [SentenceTransformer(path, device="cpu") for path in folders]
    a, b, c = (model[0].embedding.weight.detach().numpy() for model in models)
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)
    shares = 1 / np.arange(1, len(a) + 1)
    weights = 0.01 / (0.01 + shares / shares.sum())
    lengths = np.linalg.norm(random_vectors(2_000, 64, 1), axis=1)
    assert lengths.mean() == pytest.approx(1, abs=0.05)
    np.testing.assert_allclose(a[-1], random_vectors(*a.shape, 1)[-1] * weights[-1], rtol=1e-5)
    assert "Random vectors (seed 2)" in (tmp_path / "c" / "README.md").read_text()


def test_a_dimension_that_the_encoder_lacks(tiny, tmp_path):
    with pytest.raises(UsageError, match="--dimension 999"):
        main([str(tiny), "--output", str(tmp_path / "static"), "--dimension", "999"])
