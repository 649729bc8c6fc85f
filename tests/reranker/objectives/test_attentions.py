"""Attention weights against what transformers itself returns, one text at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import StaticEmbedding

import linkseek.reranker.objectives.attentions
from linkseek.indexer.program.errors import InputError
from linkseek.reranker.objectives.attentions import Attended, Attentions
from tests.support.tiny.models import save_tiny, save_tiny_reranker

TEXTS = ["abc de f", "a", "the quick brown fox jumps over it", "x y"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("tiny") / "model")


def by_hand(folder: Path, text: str, first_tokens: list[int]) -> np.ndarray:
    """Mean over heads and rows of the last layer's weights, without [CLS] and [SEP]."""
    from transformers import AutoModel, AutoTokenizer

    bert = folder.with_name(folder.name + "-bert")
    model = AutoModel.from_pretrained(bert, attn_implementation="eager").eval()
    with torch.inference_mode():
        output = model(
            **AutoTokenizer.from_pretrained(bert)(text, return_tensors="pt"), output_attentions=True
        )
    heads = output.attentions[-1][0].numpy()  # [heads, L, L]
    return np.mean([[head[row] for row in first_tokens] for head in heads], axis=(0, 1))[1:-1]


def test_what_cls_looks_at(folder: Path) -> None:
    found = Attentions(str(folder)).of([(text, None) for text in TEXTS])
    for text, attended in zip(TEXTS, found, strict=True):
        assert attended is not None
        np.testing.assert_allclose(attended.weight, by_hand(folder, text, [0]), atol=2e-6)
        assert 0 < attended.weight.sum() < 1  # [CLS] and [SEP] are looked at too


def test_attentions_that_are_not_finite_name_the_text(folder: Path) -> None:
    attentions = Attentions(str(folder))
    with torch.no_grad():
        attentions._model.encoder.layer[-1].attention.self.query.weight.mul_(float("inf"))
    with pytest.raises(InputError, match="attentions are not finite, such as for 'a'"):
        attentions.of([(text, None) for text in TEXTS])


def test_what_an_anchor_looks_at(folder: Path) -> None:
    text = "the quick brown fox"  # a token a letter: quick is tokens 4 to 8, after [CLS] and the
    start = text.index("quick")
    (found,) = Attentions(str(folder)).of([(text, (start, start + 5))])
    assert found is not None
    np.testing.assert_allclose(found.weight, by_hand(folder, text, [4, 5, 6, 7, 8]), atol=2e-6)
    assert [text[s:e] for s, e in zip(found.start, found.end, strict=True)] == list("thequickbrownfox")


def test_batches_do_not_matter(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attentions = Attentions(str(folder))
    together = attentions.of([(text, None) for text in TEXTS])
    monkeypatch.setattr(linkseek.reranker.objectives.attentions, "_MAX_WEIGHTS", {"cpu": 1, "cuda": 1})
    for one, other in zip(together, attentions.of([(text, None) for text in TEXTS]), strict=True):
        assert one is not None and other is not None
        np.testing.assert_allclose(one.weight, other.weight, atol=2e-6)
    assert attentions.of([]) == []


def test_one_thread_reads_whatever_the_number_of_processes(folder, monkeypatch):
    attentions, before, threads = Attentions(str(folder)), torch.get_num_threads(), []
    weights = attentions._weights
    monkeypatch.setattr(
        attentions, "_weights", lambda *rows: threads.append(torch.get_num_threads()) or weights(*rows)
    )
    attentions.of([("a", None)])
    assert threads == [1]
    assert torch.get_num_threads() == before


def test_an_anchor_behind_what_is_read(folder: Path) -> None:
    text = "a " * 60 + "zed"
    (cut, whole) = Attentions(str(folder)).of([(text, (120, 123)), (text, None)])
    assert cut is None
    assert whole is not None and len(whole.weight) == 46  # 48 with [CLS] and [SEP]


def test_weights_of_a_span() -> None:
    attended = Attended(np.array([0, 2, 5]), np.array([2, 4, 9]), np.array([0.1, 0.2, 0.4]))
    assert attended.within(0, 2) == pytest.approx(0.1)
    assert attended.within(1, 3) == pytest.approx(0.3)
    assert attended.within(4, 5) == 0
    assert attended.within(3, 6) == pytest.approx(0.6)


def test_a_bare_transformer_is_an_encoder(tmp_path: Path) -> None:
    save_tiny_reranker(tmp_path / "r")
    (found,) = Attentions(str(tmp_path / "r-bert")).of([("abc", None)])
    assert found is not None and len(found.weight) == 3


def test_an_encoder_without_attentions(folder: Path, tmp_path: Path) -> None:
    tokenizer = SentenceTransformer(str(folder), device="cpu").tokenizer
    static = StaticEmbedding(tokenizer, embedding_dim=4)
    SentenceTransformer(modules=[static], device="cpu").save_pretrained(str(tmp_path / "static"))
    with pytest.raises(InputError, match="gives no attentions") as caught:
        Attentions(str(tmp_path / "static"))
    assert "self-attention" in caught.value.hint


def test_an_encoder_that_leaves_its_attentions_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attentions = Attentions(str(folder))
    monkeypatch.setattr(attentions._model, "forward", lambda **given: object())
    with pytest.raises(InputError, match="gives no attentions"):
        attentions.of([("a", None)])
