"""Static encoders against sentence-transformers itself."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, StaticEmbedding
from tokenizers import Tokenizer

from linkseek.indexer.encoding.batches import encode_texts
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError
from linkseek.retriever.models.biencoder import open_biencoder
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.searchers import Dense as DenseSearch
from tests.support.command import python
from tests.support.tiny.corpus import write_jsonl
from tests.support.tiny.models import save, save_model2vec, save_tiny

TEXTS = ["", " ", "a b", "The sea. " * 400, "东京 naïve", *(f"tower {n} " * n for n in range(20))]


def save_static(folder: Path, *more: torch.nn.Module, seed: int = 0) -> Path:
    """A static encoder with random vectors and BERT's tokenizer, which knows [CLS] and [SEP]."""
    tiny = save_tiny(folder.with_name(f"{folder.name}-tokenizer"))
    tokenizer = Tokenizer.from_file(str(tiny / "tokenizer.json"))
    vectors = torch.randn(tokenizer.get_vocab_size(), 16, generator=torch.Generator().manual_seed(seed))
    save(SentenceTransformer(modules=[StaticEmbedding(tokenizer, vectors), *more]), folder)
    return folder


@pytest.mark.parametrize("normalized", [False, True])
def test_vectors_are_those_of_sentence_transformers(tmp_path, normalized):
    folder = save_static(tmp_path / "static", *[Normalize()] * normalized)
    encoder = open_biencoder(str(folder))
    model = SentenceTransformer(str(folder), device="cpu")
    tokens = encoder.tokenize_passages([""] * len(TEXTS), TEXTS)
    np.testing.assert_allclose(encode_texts(encoder, tokens), model.encode(TEXTS), atol=1e-6)
    np.testing.assert_allclose(encoder.encode_queries(TEXTS), model.encode(TEXTS), atol=1e-6)
    assert len(tokens[3]) > 1_000  # no limit of a transformer's positions
    assert not encode_texts(encoder, tokens)[0].any()


def test_the_mean_of_token_vectors_by_hand(tmp_path):
    encoder = open_biencoder(str(save_static(tmp_path / "static")))
    weights = SentenceTransformer(str(tmp_path / "static"), device="cpu")[0].embedding.weight.detach().numpy()
    rows = encoder.encode_tokens([[5, 7, 7], [9]])
    np.testing.assert_allclose(rows, [(weights[5] + 2 * weights[7]) / 3, weights[9]], atol=1e-6)


def test_a_model_that_was_opened_before_needs_no_library(tmp_path, monkeypatch):
    folder = save_static(tmp_path / "static")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rows = open_biencoder(str(folder)).encode_queries(["the sea"])
    asks = (
        "import sys; from linkseek.retriever.models.biencoder import open_biencoder; "
        f"rows = open_biencoder({str(folder)!r}).encode_queries(['the sea']); "
        "print(rows.tobytes().hex(), 'torch' in sys.modules, 'sentence_transformers' in sys.modules)"
    )
    told = python("-c", asks).stdout
    assert told.split() == [rows.tobytes().hex(), "False", "False"]


@pytest.mark.parametrize("damage", ["facts.json", "vectors.npy"])
def test_a_damaged_copy_is_made_again(tmp_path, monkeypatch, damage):
    folder = save_static(tmp_path / "static")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rows = open_biencoder(str(folder)).encode_queries(["the sea"])
    [copy] = (tmp_path / "cache").rglob(damage)
    data = copy.read_bytes()
    copy.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    np.testing.assert_array_equal(open_biencoder(str(folder)).encode_queries(["the sea"]), rows)
    assert copy.read_bytes() == data


def test_conversions_that_nobody_opens_any_more_go_with_the_next_one(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache = tmp_path / "linkseek"
    old, used, left = (
        f"{'0' * 32}-CrossEncoder-4-openvino-2020.1.0",
        f"{'1' * 32}-SentenceTransformer-2-static",
        "tmpab_12cde",
    )
    for name in (old, used, left, "notes"):
        (cache / name).mkdir(parents=True)
        os.utime(cache / name, None if name == used else (0, 0))
    open_biencoder(str(save_static(tmp_path / "static")))
    names = {path.name for path in cache.iterdir()}
    assert {used, "notes"} <= names and not {old, left} & names and len(names) == 3


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize(
    "arrays",
    [
        {},
        {"weights": np.linspace(0.1, 3, 10)},
        {"embeddings": np.random.default_rng(1).normal(size=(3, 12)), "mapping": np.arange(10) % 3},
        {
            "embeddings": np.eye(4, 12, dtype=np.float16), "mapping": np.arange(10, dtype=np.int32) % 4,
            "weights": np.linspace(2, 0.5, 10, dtype=np.float32),
        },
    ],
)  # fmt: skip
def test_the_arithmetic_of_model2vec(tmp_path, arrays, normalized):
    """The mean of weight times embedding of a word's number, or of the row that it is mapped to."""
    folder = save_model2vec(tmp_path / "model", normalized, **arrays)
    stored = load_file(folder / "model.safetensors")
    encoder = open_biencoder(str(folder))
    texts = ["a", "b a h h", "c d e f g"]
    words = ["[UNK]", "[PAD]", *"abcdefgh"]
    for text, found in zip(texts, encoder.encode_queries(texts), strict=True):
        numbers = np.array([words.index(word) for word in text.split()])  # [L]
        rows = stored["embeddings"][stored.get("mapping", np.arange(10))[numbers]].astype(np.float64)
        expected = (rows * stored.get("weights", np.ones(10))[numbers][:, None]).mean(axis=0)  # [d]
        expected /= np.linalg.norm(expected) if normalized else 1
        np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_whole_numbers_are_no_vectors(tmp_path, kind):
    folder = save_model2vec(tmp_path / "model", embeddings=np.ones((10, 12), kind))
    with pytest.raises(InputError, match="its vectors are integers") as caught:
        open_biencoder(str(folder))
    assert "float" in caught.value.hint


def test_other_modules_are_refused(tmp_path):
    folder = save_static(tmp_path / "static", Dense(16, 8))
    with pytest.raises(InputError, match="StaticEmbedding, Dense"):
        open_biencoder(str(folder))


def test_an_index_of_a_static_encoder(tmp_path, build, index_path):
    rows = [{"id": f"d{n}", "title": f"T{n}", "text": f"words {n} of the sea", "links": []} for n in range(9)]
    folder = save_static(tmp_path / "static", Normalize())
    encoder = open_biencoder(str(folder))
    corpus = write_jsonl(tmp_path / "c.jsonl", rows)
    build(corpus=corpus, encoders=["static"], open_encoder=lambda name, title: encoder)
    index = OpenIndex.open(index_path)
    model = SentenceTransformer(str(folder), device="cpu")
    passages = model.encode([f"{row['title']} {row['text']}" for row in rows])
    [query] = model.encode(["the sea 4"])
    ranking = DenseSearch(index, encoder, "static")([Query("q", "the sea 4")], 9)
    assert ranking.rows[0].tolist() == np.argsort(-(passages @ query), kind="stable").tolist()


def test_a_tokenizer_with_more_words_than_vectors_is_refused(tmp_path):
    folder = save_static(tmp_path / "static")
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    tokenizer["model"]["vocab"]["one more"] = 10_000
    path.write_text(json.dumps(tokenizer))
    with pytest.raises(InputError, match="has 10,001 words, the model has vectors for"):
        open_biencoder(str(folder))
