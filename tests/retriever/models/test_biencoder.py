"""The bi-encoder against sentence-transformers itself, and models that are no models."""

from __future__ import annotations

import json
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer

from linkseek.indexer.encoding.batches import encode_texts
from linkseek.indexer.program.defaults import DEFAULT_ENCODER
from linkseek.indexer.program.errors import InputError
from linkseek.retriever.models.bases import load_sentence_transformer, split_towers
from linkseek.retriever.models.biencoder import BiEncoder, TextFormat, open_biencoder
from linkseek.retriever.models.folders import base_folder, model_sha256
from linkseek.retriever.models.locations import (
    BI_ENCODER,
    PASSAGES,
    QUERIES,
    STATIC_ENCODER,
    find_model,
    is_here,
    shipped_models,
)
from linkseek.retriever.training.config import ModelSettings
from linkseek.retriever.training.pair_models import open_model
from tests.support.tiny.models import save_tiny
from tests.support.tiny.training import WORDS, save_normalized, save_static

LONG = "The river flows through the valley and reaches the sea. " * 80
TEXTS = [
    "", " ", "a", "東京 𝄞 naïve", LONG, "x" * 5000, "don't\u2019 — “quoted”\n\ttext\u0085",
    *(LONG[: 7 * n] for n in range(1, 30)),
    *(f"Sentence {n} about {'rivers kings iron birds music law sea'.split()[n % 7]}." for n in range(28)),
]  # fmt: skip


@pytest.fixture(scope="module")
def minilm() -> BiEncoder:
    return open_biencoder(DEFAULT_ENCODER)


@pytest.fixture(scope="module")
def reference() -> SentenceTransformer:
    return load_sentence_transformer(find_model(DEFAULT_ENCODER), DEFAULT_ENCODER)


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


def test_vectors_are_those_of_sentence_transformers(minilm, reference):
    assert len(TEXTS) >= 64
    ours = encode_texts(minilm, minilm.tokenize_passages([""] * len(TEXTS), TEXTS))
    theirs = reference.encode(TEXTS, normalize_embeddings=False)
    assert ours.shape == (len(TEXTS), 384) and ours.dtype == np.float32
    assert cosines(ours, theirs).min() >= 1 - 1e-3
    np.testing.assert_allclose(np.linalg.norm(ours, axis=1), 1, atol=1e-2)


def test_a_title_comes_before_the_text_with_a_space_unless_it_is_off(minilm, reference):
    [both] = minilm.tokenize_passages(["Mercury"], ["is a planet."])
    assert both == minilm.tokenize_passages([""], ["Mercury is a planet."])[0]
    assert both == reference.tokenizer("Mercury is a planet.")["input_ids"]
    assert TextFormat(title=False).passage("Mercury", "is a planet.") == "is a planet."
    assert TextFormat(passage_prompt="p: ", query_prompt="q: ").passage("T", "x") == "p: T x"
    assert TextFormat(passage_prompt="p: ").passage("", "x") == "p: x"
    assert TextFormat(query_prompt="q: ").query("what\u2019s x") == "q: what's x"
    assert TextFormat(title_separator=" [SEP] ").passage("T", "x") == "T [SEP] x"


def test_tokens_are_cut_to_the_models_length(minilm):
    lengths = [len(tokens) for tokens in minilm.tokenize_passages([""] * 3, ["", "a", LONG])]
    assert lengths == [2, 3, minilm.max_tokens]
    assert minilm.max_tokens == 256


def test_identity_and_execution_say_what_vectors_depend_on(minilm):
    identity = minilm.identity
    assert set(identity) == {
        "name", "sha256", "dimension", "max_tokens", "title",
        "passage_prompt", "query_prompt", "title_separator",
    }  # fmt: skip
    assert (identity["name"], identity["dimension"]) == (DEFAULT_ENCODER, 384)
    assert len(identity["sha256"]) == 64
    assert set(minilm.execution) == {"backend", "device", "precision", "threads", "streams"}
    assert minilm.location == DEFAULT_ENCODER
    json.dumps([identity, minilm.execution])


def test_a_model_gives_the_same_bits_when_it_is_converted_and_later(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = str(save_normalized(tmp_path / "tiny"))
    texts = [" ".join(WORDS[n : n + n % 20 + 1]) for n in range(60)]
    converted, later = (open_biencoder(folder).encode_queries(texts) for _ in range(2))
    assert list((tmp_path / "cache").rglob("model.xml"))
    assert np.array_equal(converted, later)


def test_the_same_batch_gives_the_same_bits_also_from_several_threads(minilm):
    tokens = minilm.tokenize_passages([""] * 16, TEXTS[7:23])
    once = minilm.encode_tokens(tokens)
    found: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda: found.append(minilm.encode_tokens(tokens))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [vectors.tobytes() for vectors in found] == [once.tobytes()] * 4


def test_one_stream_for_questions_and_many_for_passages_give_nearly_the_same(tiny):
    several, one = (open_biencoder(str(tiny), threads=2, streams=n) for n in (None, 1))
    assert (several.execution["streams"], one.execution["streams"]) == (2, 1)
    assert (several.parallel.batches, one.parallel.batches) == (2, 1)
    texts = ["which metal is liquid"] * 3
    assert cosines(several.encode_queries(texts), one.encode_queries(texts)).min() >= 1 - 1e-3
    assert open_biencoder(str(tiny), threads=1, streams=5).execution["streams"] == 1


def test_padding_changes_a_vector_by_rounding_alone(minilm):
    [short, long] = minilm.tokenize_passages(["", ""], ["a short text", LONG])
    alone = minilm.encode_tokens([short])
    beside = minilm.encode_tokens([short, long])[:1]
    assert cosines(alone, beside)[0] >= 1 - 1e-3


# --- a model of our own --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("models") / "tiny")


def test_a_model_by_path_has_its_own_pooling_and_length(tiny):
    encoder = open_biencoder(str(tiny), precision="float32", threads=1)
    assert (encoder.name, encoder.location) == ("tiny", str(tiny))
    assert (encoder.dimension, encoder.max_tokens) == (32, 48)
    assert encoder.execution["precision"] == "float32" and encoder.execution["threads"] == 1
    texts = ["abc def", "", "hello world " * 30]
    ours = encode_texts(encoder, encoder.tokenize_passages([""] * 3, texts))
    np.testing.assert_allclose(ours, SentenceTransformer(str(tiny), device="cpu").encode(texts), atol=1e-5)


def test_without_titles_the_vectors_are_those_of_the_text_alone(tiny):
    with_titles, without = (open_biencoder(str(tiny), title=t, precision="float32") for t in (True, False))
    assert without.identity | {"title": True} == with_titles.identity
    assert without.tokenize_passages(["title"], ["abc"]) == with_titles.tokenize_passages([""], ["abc"])


# --- models that are none ------------------------------------------------------------------------


def without(*names: str):
    def spoil(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return spoil


def holding(name: str, content: bytes):
    def spoil(folder: Path) -> None:
        (folder / name).write_bytes(content)

    return spoil


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (without("model.safetensors"), "no safetensors weights"),
        (without("modules.json"), r"not a sentence-transformers model \(modules.json is missing\)"),
        (without("config.json"), "cannot be loaded"),
        (without("tokenizer.json", "tokenizer_config.json"), "its tokenizer has no vocabulary"),
        (holding("model.safetensors", b"x" * 1000), "cannot be loaded"),
        (holding("modules.json", b"{"), "not JSON"),
        (holding("config.json", b"[]"), "cannot be loaded"),
        (holding("tokenizer.json", b"nonsense"), "not JSON"),
    ],
)
def test_a_broken_folder_is_named(tiny, tmp_path, spoil, message):
    folder = Path(shutil.copytree(tiny, tmp_path / "broken"))
    spoil(folder)
    with pytest.raises(InputError, match=message) as caught:
        open_biencoder(str(folder))
    assert str(folder) in caught.value.message
    assert caught.value.hint


# --- two towers, adapters --------------------------------------------------------------------------


def save_two_towers(folder: Path, query: Path, passage: Path) -> Path:
    towers = [SentenceTransformer(str(path), device="cpu") for path in (query, passage)]
    split_towers(*towers).save_pretrained(str(folder))
    return folder


def test_two_towers_read_queries_and_passages_each_with_its_own(tmp_path, tiny):
    other = save_tiny(tmp_path / "other", seed=1)
    folder = save_two_towers(tmp_path / "two", other, tiny)
    encoder = open_biencoder(str(folder), precision="float32", threads=1)
    reference = SentenceTransformer(str(folder), device="cpu")
    texts = ["abc def", "ghi", "jkl mno"]
    found = encode_texts(encoder, encoder.tokenize_passages([""] * 3, texts))
    np.testing.assert_allclose(found, reference.encode_document(texts), atol=1e-5)
    np.testing.assert_allclose(encoder.encode_queries(texts), reference.encode_query(texts), atol=1e-5)
    assert np.abs(found - encoder.encode_queries(texts)).max() > 0.1


def test_the_vectors_of_passages_stay_valid_when_the_tower_of_queries_changes(tmp_path, tiny):
    others = [save_tiny(tmp_path / name, seed) for name, seed in (("other", 1), ("third", 2))]
    before, after, swapped = (
        save_two_towers(tmp_path / name, query, passage)
        for name, query, passage in (
            ("before", others[0], tiny), ("after", others[1], tiny), ("swapped", others[0], others[1])
        )
    )  # fmt: skip
    assert model_sha256(before, PASSAGES) == model_sha256(after, PASSAGES) != model_sha256(swapped, PASSAGES)
    assert model_sha256(before, QUERIES) != model_sha256(after, QUERIES)
    assert model_sha256(before) != model_sha256(after)


@pytest.fixture
def adapters(tmp_path, tiny) -> Path:
    """Adapters on the tiny model, as training writes them."""
    torch.manual_seed(5)
    model = open_model(ModelSettings(base=str(tiny), train="lora", lora_rank=2), 32)
    for name, weights in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weights, std=0.5)
    model.save_pretrained(str(tmp_path / "adapted"))
    return tmp_path / "adapted"


def test_adapters_are_opened_as_they_are_merged_into_their_base(tiny, adapters):
    encoder = open_biencoder(str(adapters), precision="float32", threads=1)
    texts = ["abc def", "ghi", "jkl mno"]
    expected = SentenceTransformer(str(adapters), device="cpu").encode(texts)
    np.testing.assert_allclose(encoder.encode_queries(texts), expected, atol=1e-5)
    base = open_biencoder(str(tiny), precision="float32", threads=1)
    assert np.abs(encoder.encode_queries(texts) - base.encode_queries(texts)).max() > 1e-2
    assert len({encoder.identity["sha256"], base.identity["sha256"]}) == 2


def test_adapters_are_told_apart_by_their_base_too(tmp_path, adapters):
    before = model_sha256(adapters)
    base = save_tiny(tmp_path / "other", seed=1)
    settings = json.loads((adapters / "adapter_config.json").read_bytes())
    for changed in (str(base), str(tmp_path / "none")):
        text = json.dumps(settings | {"base_model_name_or_path": changed})
        (adapters / "adapter_config.json").write_text(text)
        if changed == str(base):
            assert model_sha256(adapters) != before
    with pytest.raises(InputError, match="none: no such folder"):
        open_biencoder(str(adapters))


def test_adapters_that_come_with_us_are_opened_by_name(adapters, monkeypatch):
    kind = replace(BI_ENCODER, shipped=adapters.parent)
    assert shipped_models(kind) == ["adapted"]
    assert find_model("adapted", kind) == adapters
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(InputError, match="not on this machine") as caught:
        find_model("adaptid", kind)
    assert "adapted" in caught.value.hint


def test_a_whole_model_that_comes_with_us_is_opened_by_name(adapters):
    kind = replace(BI_ENCODER, shipped=adapters.parent)
    whole = save_static(adapters.parent / STATIC_ENCODER)
    assert {"adapted", STATIC_ENCODER} <= {*shipped_models(kind)}
    assert find_model(STATIC_ENCODER, kind) == whole and is_here(STATIC_ENCODER, kind)


def test_every_model_that_ships_has_a_card_and_is_whole_or_adapters_of_the_default_encoder():
    for name in shipped_models():
        folder = find_model(name)
        card = (folder / "README.md").read_text()
        assert "license:" in card and "base_model:" in card
        bases = {
            find_model(DEFAULT_ENCODER),
            *(find_model(other) for other in shipped_models() if other != name),
        }
        is_whole = name == STATIC_ENCODER
        assert is_whole or base_folder(folder) in bases
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        assert size < (25 if is_whole else 5) << 20


def test_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    folder, name = save_tiny(tmp_path / "model"), "encoder.layer.1.output.dense.weight"
    weights = load_file(folder / "model.safetensors")
    for value in (np.nan, np.inf, -np.inf):
        weights[name][3, 5] = value
        save_file(weights, folder / "model.safetensors", {"format": "pt"})
        with pytest.raises(InputError, match=f"{name} are not all finite"):
            open_biencoder(str(folder))
