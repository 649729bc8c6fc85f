"""Scores of pairs against sentence-transformers' CrossEncoder, and models that give no score."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from string import ascii_lowercase

import numpy as np
import pytest
import torch
from peft import LoraConfig
from sentence_transformers import CrossEncoder

from linkseek.indexer.encoding.batches import Parallel
from linkseek.indexer.program.errors import InputError
from linkseek.reranker.models import cross_encoder
from linkseek.reranker.models.bases import CROSS_ENCODER
from linkseek.reranker.models.cross_encoder import Scorer, load_cross_encoder
from linkseek.reranker.models.scoring import open_scorer
from linkseek.retriever.models.backends import openvino_engine
from linkseek.retriever.models.engine import Opened, torch_forward
from linkseek.retriever.models.locations import find_model
from tests.support.tiny.models import save_tiny_reranker

DRAW = random.Random(0)


def text(words: int) -> str:
    return " ".join(DRAW.choices(ascii_lowercase, k=words))


# Of 45 tokens beside the special ones: none too long, the text, the query, both, each by a little.
LENGTHS = [(5, 60), (22, 60), (23, 60), (24, 23), (60, 60), (60, 1), (44, 2), (0, 0), (1, 0), (0, 60)]
LENGTHS += [(DRAW.randint(0, 9), DRAW.randint(0, 60)) for _ in range(90)]
PAIRS = [(text(first), text(second)) for first, second in LENGTHS]
QUERIES, TEXTS = map(list, zip(*PAIRS, strict=True))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    return save_tiny_reranker(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def expected(tiny) -> np.ndarray:
    return CrossEncoder(str(tiny), device="cpu").predict(PAIRS)


@pytest.fixture(scope="module")
def scorer(tiny) -> Scorer:
    return open_scorer(str(tiny), device="cpu", precision="float32")


def open_in_torch(folder: Path, precision: str) -> Scorer:
    chain, facts = load_cross_encoder(folder, folder.name)
    return Scorer(
        Opened(str(folder), "0" * 64, facts, torch_forward(chain, facts, "cpu", precision), Parallel())
    )


def test_in_float32_scores_are_those_of_the_cross_encoder(scorer, expected):
    found = scorer.score(QUERIES, TEXTS)
    assert found.dtype == np.float32 and found.shape == (len(PAIRS),)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert expected.std() > 1e-2  # there is something to tell apart
    assert (expected > 0).all() and (expected < 1).all()  # a sigmoid


def test_in_bfloat16_scores_are_near_and_still_differ(tiny, expected):
    scorer = open_scorer(str(tiny), device="cpu", precision="bfloat16")
    found = scorer.score(QUERIES, TEXTS)
    np.testing.assert_allclose(found, expected, atol=1e-2)
    assert len(set(found.tolist())) == len(set(expected.tolist()))


@pytest.mark.parametrize("has_bfloat16", [False, True])
def test_on_a_cpu_it_is_bfloat16_where_that_is_fast(tiny, monkeypatch, has_bfloat16):
    monkeypatch.setattr(openvino_engine, "cpu_multiplies_bfloat16", lambda: has_bfloat16)
    expected = "bfloat16" if has_bfloat16 else "float32"
    assert open_scorer(str(tiny), device="cpu").execution["precision"] == expected


@pytest.mark.parametrize("count", [1, 2, 7])
def test_any_number_of_pairs_is_scored(scorer, expected, count):
    np.testing.assert_allclose(scorer.score(QUERIES[:count], TEXTS[:count]), expected[:count], atol=1e-5)


def test_of_the_last_layer_the_first_token_alone_is_computed(tiny):
    chain, _ = load_cross_encoder(tiny, "tiny")
    sizes = []
    feed_forward = chain.steps[0].model.bert.encoder.layer[-1].layer.intermediate
    feed_forward.register_forward_hook(lambda module, inputs, output: sizes.append(output.shape))
    chain.eval()(torch.tensor([[2, 5, 6, 3], [2, 7, 3, 0]]), torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]]))
    assert [tuple(shape[:2]) for shape in sizes] == [(2, 1)]


@pytest.mark.parametrize(("precision", "bound"), [("float32", 1e-5), ("bfloat16", 1e-2)])
def test_without_padding_in_torch_they_are_the_same(tiny, expected, precision, bound):
    scorer = open_in_torch(tiny, precision)
    assert scorer.execution["attention"] == "blocks, packed"
    np.testing.assert_allclose(scorer.score(QUERIES, TEXTS), expected, atol=bound)


def test_which_text_is_the_second_matters(tiny):
    """Not vacuous: the embeddings of the two texts reach the score."""
    scorer = open_scorer(str(tiny), precision="float32")
    tokens = scorer.tokenize_pairs([("a b", "c d e")])[0]
    assert (tokens < 0).tolist() == [False] * 4 + [True] * 4
    [[as_pair]] = scorer.encode_tokens([tokens])
    [[as_one]] = scorer.encode_tokens([np.where(tokens < 0, ~tokens, tokens)])
    assert abs(as_pair - as_one) > 1e-3


def test_raw_scores_where_the_model_says_so(tmp_path):
    folder = save_tiny_reranker(tmp_path / "raw", seed=1, activation_fn=torch.nn.Identity())
    expected = CrossEncoder(str(folder), device="cpu").predict(PAIRS)
    assert expected.min() < 0 or expected.max() > 1
    found = open_scorer(str(folder), precision="float32").score(QUERIES, TEXTS)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_adapters_as_sentence_transformers_saves_them(tiny, tmp_path):
    """Without a config.json: it is that of the base."""
    model = CrossEncoder(str(tiny), device="cpu")
    model.add_adapter(LoraConfig(r=2, task_type="SEQ_CLS", modules_to_save=["classifier"]))
    for name, weights in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weights, std=0.5)
    model.save_pretrained(str(tmp_path / "adapters"))
    found = open_scorer(str(tmp_path / "adapters"), precision="float32").score(QUERIES, TEXTS)
    np.testing.assert_allclose(found, model.predict(PAIRS), atol=1e-4)


def test_a_query_of_less_than_half_the_length_is_never_cut(scorer):
    query, long = text(22), text(200)
    tokens = scorer.tokenize_pairs([(query, long)])[0]
    assert len(tokens) == 48
    first = tokens[tokens >= 0]
    assert len(first) == 24
    assert first.tolist() == scorer.tokenizer.encode(query).ids


def test_pairs_are_a_stream_of_which_only_blocks_are_held(scorer, expected, monkeypatch):
    monkeypatch.setattr(cross_encoder, "BLOCK_PAIRS", 16)
    drawn, told = 0, []

    def texts() -> Iterator[str]:
        nonlocal drawn
        for text in TEXTS:
            drawn += 1
            yield text

    def on_rows(rows: float) -> None:
        told.append(rows)
        assert drawn <= 16 * (sum(told) // 16 + 3)

    found = scorer.score(iter(QUERIES), texts(), on_rows)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert sum(told) == len(PAIRS)
    assert scorer.score([], []).shape == (0,)


def test_more_queries_than_texts_are_an_error(scorer):
    with pytest.raises(ValueError, match="zip"):
        scorer.score(QUERIES, TEXTS[:-1])


def test_identity_names_the_model(tiny, scorer):
    assert scorer.identity["name"] == "tiny" and len(scorer.identity["sha256"]) == 64
    assert scorer.location == str(tiny) and scorer.max_tokens == 48


# --- models that give no score -------------------------------------------------------------------


def test_a_model_of_two_labels_is_refused(tmp_path):
    folder = save_tiny_reranker(tmp_path / "two", labels=2)
    with pytest.raises(InputError, match="2 numbers of Transformer; expected one score"):
        open_scorer(str(folder))


def test_a_model_with_a_prompt_of_its_own_is_refused(tiny, tmp_path):
    folder = Path(shutil.copytree(tiny, tmp_path / "prompted"))
    path = folder / "config_sentence_transformers.json"
    settings = json.loads(path.read_text()) | {"prompts": {"q": "find: "}, "default_prompt_name": "q"}
    path.write_text(json.dumps(settings))
    with pytest.raises(InputError, match="it needs the prompt 'q'"):
        open_scorer(str(folder))


def test_what_is_missing_is_named(tiny, tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"cross-encoder \./none: no such folder"):
        open_scorer("./none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"\(config.json is missing\)") as caught:
        open_scorer(str(tmp_path / "empty"))
    assert "CrossEncoder(...).save_pretrained" in caught.value.hint
    broken = Path(shutil.copytree(tiny, tmp_path / "broken"))
    (broken / "model.safetensors").write_bytes(b"x" * 1000)
    with pytest.raises(InputError, match=r"cross-encoder .* cannot be loaded"):
        open_scorer(str(broken))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(InputError, match="Hub cannot be reached") as caught:
        find_model("no-such-model", CROSS_ENCODER)
    assert "all-MiniLM" not in caught.value.hint
