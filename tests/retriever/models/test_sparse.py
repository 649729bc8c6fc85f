"""Learned sparse models: the same weights, scores and ranking as the library's own classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer, SparseEncoder
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.modules import Pooling, Router
from sentence_transformers.sparse_encoder.modules import (
    SparseAutoEncoder,
    SparseStaticEmbedding,
    SpladePooling,
)

from linkseek.indexer.encoding.impacts import impact_codes, terms_and_impacts
from linkseek.indexer.program.errors import InputError
from linkseek.retriever.models.sparse import open_sparse
from tests.support.tiny.models import save, save_masked

TEXTS = ["bam bem: bim", "bom bum bam 7", "bim", "abcd efgh " * 30]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def terms_of(folder: Path, **options) -> list[torch.nn.Module]:
    return [Transformer(str(folder), transformer_task="fill-mask"), SpladePooling(**options)]


def fixed(folder: Path, most: int = 64) -> SparseStaticEmbedding:
    """Weights of tokens in queries of at most so many."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(folder), model_max_length=most)
    return SparseStaticEmbedding(tokenizer, torch.rand(len(tokenizer.get_vocab())))


def save_sparse(folder: Path, kind: str) -> SparseEncoder:
    base = save_masked(folder / "base")
    if kind == "auto-encoder":
        modules = [Transformer(str(base)), Pooling(32), SparseAutoEncoder(32, 90, k=6, k_aux=8)]
    elif kind == "fixed weights":
        modules = [Router.for_query_document([fixed(base)], terms_of(base))]
    elif kind == "fixed weights, longer":
        modules = [Router.for_query_document([fixed(base, 200)], terms_of(base))]
    elif kind == "two towers":
        other = save_masked(folder / "other", 2)
        modules = [Router.for_query_document(terms_of(other), terms_of(base))]
    elif kind == "tokens":
        modules = [fixed(base)]
    else:
        pooling, _, activation = kind.partition(" ")
        modules = terms_of(base, pooling_strategy=pooling, activation_function=activation)
    library = SparseEncoder(modules=modules, device="cpu")
    save(library, folder / "model")
    return library


KINDS = ["max relu", "sum relu", "max log1p_relu", "fixed weights", "fixed weights, longer", "two towers"]
KINDS += ["auto-encoder", "tokens"]


@pytest.mark.parametrize("kind", KINDS)
def test_weights_scores_and_ranking_of_the_library(tmp_path, kind):
    save_sparse(tmp_path, kind)
    library = SparseEncoder(str(tmp_path / "model"), device="cpu").eval()
    encoder = open_sparse(str(tmp_path / "model"), device="cpu", precision="float32")
    tokens = encoder.tokenize_passages([""] * len(TEXTS), TEXTS)
    codes = encoder.encode_rows(tokens, lambda rows: None, 0)
    expected = library.encode_document(TEXTS, convert_to_sparse_tensor=False).numpy()
    found = np.zeros_like(expected)
    for row, own in enumerate(codes):
        terms, impacts = terms_and_impacts(own)
        found[row, terms] = impacts / encoder.scale
    np.testing.assert_allclose(found, expected, atol=0.51 / encoder.scale)
    assert len(encoder.facts.query_weights) == (kind == "fixed weights") * encoder.dimension
    assert found.max() * encoder.scale > 127
    asked = library.encode_query(TEXTS, convert_to_sparse_tensor=False).numpy()
    for own, row in zip(encoder.encode_queries(TEXTS), asked, strict=True):
        weights = np.zeros_like(row)
        weights[[*own]] = [*own.values()]
        np.testing.assert_allclose(weights * encoder.scale, row, atol=1e-4 * max(row.max(), 1))


def test_a_masked_language_model_is_read_as_splade(tmp_path):
    folder = str(save_masked(tmp_path / "base"))
    library, encoder = SparseEncoder(folder, device="cpu"), open_sparse(folder, device="cpu")
    [own] = encoder.encode_queries(["bim bam"])
    expected = library.encode_query("bim bam", convert_to_sparse_tensor=False).numpy()
    assert {term for term, weight in own.items() if weight * encoder.scale > 0.05} <= {
        *np.flatnonzero(expected)
    }
    assert encoder.term(7) == encoder.tokenizer.id_to_token(7)


def test_models_of_other_kinds_are_refused(tmp_path):
    base = save_masked(tmp_path / "base")
    SentenceTransformer(modules=[Transformer(str(base)), Pooling(32)]).save_pretrained(
        str(tmp_path / "dense")
    )
    with pytest.raises(InputError, match="no term weights"):
        open_sparse(str(tmp_path / "dense"), device="cpu")


def test_codes_by_hand():
    weights = np.array([[0, 0.5, 0, 2.0], [0.001, 0, 1e9, 0]], np.float32)
    first, second = impact_codes(weights, scale=100)
    assert first.tolist() == [[1, 0, 0, 50, 0], [3, 0, 0, 200, 0]]
    assert second.tolist() == [[2, 0, 0, 255, 255]]  # .001 x 100 rounds to 0, and 65,535 is the largest
    assert [own.tolist() for own in terms_and_impacts(first)] == [[1, 3], [50, 200]]
    assert [own.tolist() for own in terms_and_impacts(first, most=1)] == [[3], [200]]
