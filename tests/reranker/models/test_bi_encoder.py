"""Dot products of a bi-encoder as scores, and models that are given as what they are not."""

from __future__ import annotations

import random
from pathlib import Path
from string import ascii_lowercase

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from linkseek.indexer.program.errors import InputError
from linkseek.reranker.models import scoring
from linkseek.reranker.models.bases import CROSS_ENCODER
from linkseek.reranker.models.scoring import open_scorer, scorer_is_here, scorer_sha256
from linkseek.reranker.pair_texts import Candidate
from linkseek.retriever.models.biencoder import open_biencoder
from tests.support.tiny.models import save_tiny, save_tiny_reranker

DRAW = random.Random(0)
QUERIES = ["a b", "c d e", "a b", "z"]
TEXTS = [" ".join(DRAW.choices(ascii_lowercase, k=DRAW.choice([1, 9, 40, 70]))) for _ in range(23)]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    return save_tiny(folder, prompts={"query": "q: ", "document": "p: ", "title_separator": " : "})


def pairs() -> tuple[list[str], list[str]]:
    return [QUERIES[n % 4] for n in range(len(TEXTS))], TEXTS


def test_scores_are_dot_products(tiny, monkeypatch):
    monkeypatch.setattr(scoring, "BLOCK_PAIRS", 5)
    scorer = open_scorer(f"bi-encoder:{tiny}", device="cpu", precision="float32")
    peer = SentenceTransformer(str(tiny), device="cpu")
    queries, texts = pairs()
    told: list[float] = []
    found = scorer.score(
        map(scorer.text_format.query, queries), ("p: T : " + text for text in texts), told.append
    )
    expected = np.einsum(
        "nd,nd->n",
        peer.encode(queries, prompt="q: "),
        peer.encode([f"T : {text}" for text in texts], prompt="p: "),
    )
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert found.dtype == np.float32 and sum(told) == len(texts) and expected.std() > 1e-2
    assert scorer.text_format.head(Candidate("T", "x", "http://u")) == "p: T : "
    assert scorer.score([], []).shape == (0,)
    with pytest.raises(ValueError, match="zip"):
        scorer.score(queries, texts[1:])


def test_each_query_of_a_block_is_encoded_once(tiny):
    scorer = open_scorer(f"bi-encoder:{tiny}", device="cpu", precision="float32")
    encoded: list[int] = []
    forward = scorer._encoder._forward

    class Counting:
        execution = forward.execution

        def __call__(self, features):
            encoded.append(len(features["input_ids"]))
            return forward(features)

    scorer._encoder._forward = Counting()
    scorer.score(*pairs())
    assert sum(encoded) == len(TEXTS) + len(set(QUERIES))


def test_windows_have_the_room_that_passages_have(tiny):
    """Of 48 tokens 2 are special and 2 the prompt's; the query takes none."""
    scorer = open_scorer(f"bi-encoder:{tiny}")
    text = " ".join("a" * 44)
    assert scorer.windows("q " * 99, "p: ", text) == ["p: " + text]
    assert len(scorer.windows("q", "p: ", text + " a")) == 2


def test_identity_tells_it_from_a_cross_encoder(tiny):
    scorer = open_scorer(f"bi-encoder:{tiny}")
    assert scorer.identity["name"] == "bi-encoder:tiny"
    assert scorer.identity["sha256"] == scorer_sha256(f"bi-encoder:{tiny}")


# --- models that are not what they are given as ---------------------------------------------------


def test_a_bi_encoder_is_no_cross_encoder(tiny):
    for name in (str(tiny), "all-MiniLM-L6-v2"):
        with pytest.raises(InputError, match="it is a bi-encoder") as caught:
            open_scorer(name)
        assert f"bi-encoder:{name}" in caught.value.hint


def test_a_cross_encoder_is_no_bi_encoder(tmp_path):
    """Neither adapters nor a full folder, to which sentence-transformers would add a pooling of its own."""
    adapters, full = CROSS_ENCODER.shipped / "php", save_tiny_reranker(tmp_path / "full")
    for folder in (adapters, full):
        for open_it in (lambda name: open_scorer(f"bi-encoder:{name}"), open_biencoder):
            with pytest.raises(InputError, match="it is a cross-encoder") as caught:
                open_it(str(folder))
            assert "re-rank" in caught.value.hint


def test_a_transformer_without_a_head_is_none_either(tiny):
    """sentence-transformers would open it, with a last layer of random weights."""
    with pytest.raises(InputError) as caught:
        open_scorer(str(tiny.with_name("tiny-bert")))
    assert "scores" in caught.value.message and "linkseek finetune" in caught.value.hint


def test_what_is_here(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("linkseek.retriever.models.locations._from_cache", lambda repository: None)
    for name in (str(tiny), f"bi-encoder:{tiny}", "bi-encoder:all-MiniLM-L6-v2"):
        assert scorer_is_here(name)
    for name in ("no-such-model", "bi-encoder:no/such", str(tmp_path / "none"), "all-MiniLM-L6-v2"):
        assert not scorer_is_here(name)
    monkeypatch.setattr(
        "linkseek.retriever.models.locations._from_cache", lambda repository: repository == "cross-encoder/m"
    )
    assert scorer_is_here("m") and not scorer_is_here("bi-encoder:m")
