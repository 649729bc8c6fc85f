"""Settings of a model's folder that decide its numbers: each as sentence-transformers has it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Dense, Normalize, Router, StaticEmbedding
from tokenizers import Tokenizer, models, pre_tokenizers

from linkseek.indexer.encoding.batches import encode_texts
from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.retriever.models.biencoder import open_biencoder
from linkseek.retriever.training.checkpoints import State
from linkseek.retriever.training.config import ModelSettings
from linkseek.retriever.training.loop import _check_gradient
from linkseek.retriever.training.pair_models import open_model
from tests.support.tiny.index import WordEncoder
from tests.support.tiny.models import save_tiny

TEXTS = ["a", "b c " * 40, "d e f g", "z y x 1 2 3 " * 9]


def edit(path, **settings):
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


def check(folder) -> None:
    library = SentenceTransformer(str(folder), device="cpu")
    encoder = open_biencoder(str(folder), device="cpu", precision="float32")
    passages = encode_texts(encoder, encoder.tokenize_passages([""] * len(TEXTS), TEXTS))
    for found, encode in (
        (passages, library.encode_document),
        (encoder.encode_queries(TEXTS), library.encode_query),
    ):
        np.testing.assert_allclose(found, np.stack([encode(text) for text in TEXTS]), atol=1e-5)


@pytest.mark.parametrize("mode", ["mean", "cls", "max", "weightedmean", "lasttoken"])
def test_prompts_that_are_not_pooled(tmp_path, mode):
    folder = save_tiny(tmp_path / "model", prompts={"query": "q u: ", "document": "p: "})
    edit(folder / "1_Pooling/config.json", include_prompt=False, pooling_mode=mode)
    check(folder)


def test_without_a_padding_token_the_hint_names_it(tmp_path):
    folder = save_tiny(tmp_path / "model")
    edit(folder / "tokenizer_config.json", pad_token=None, tokenizer_class="PreTrainedTokenizerFast")
    with pytest.raises(InputError, match="cannot encode") as caught:
        open_biencoder(str(folder))
    assert '"pad_token"' in caught.value.hint


def test_texts_are_cut_from_the_left(tmp_path):
    folder = save_tiny(tmp_path / "model")
    edit(folder / "tokenizer_config.json", truncation_side="left")
    check(folder)


def test_the_first_numbers_of_vectors(tmp_path):
    folder = save_tiny(tmp_path / "model", truncate_dim=8)
    check(folder)
    assert open_biencoder(str(folder)).dimension == 8


def static(direction: str = "right", width: int = 12) -> StaticEmbedding:
    words = {word: n for n, word in enumerate(["?", *"abcdefgxyz123"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.enable_truncation(7, direction=direction)
    vectors = np.random.default_rng(0).normal(size=(len(words), width)).astype(np.float32)
    return StaticEmbedding(tokenizer, vectors)


def save(folder, *modules, **options):
    SentenceTransformer(modules=[*modules], device="cpu", **options).save_pretrained(str(folder))
    return folder


@pytest.mark.parametrize("direction", ["left", "right"])
@pytest.mark.parametrize("width", [None, 5])
def test_static_encoders(tmp_path, direction, width):
    check(save(tmp_path / "model", static(direction), truncate_dim=width))


def tiny_modules(tmp_path):
    return list(SentenceTransformer(str(save_tiny(tmp_path / "tiny")), device="cpu").children())[:2]


@pytest.mark.parametrize("static_tower", ["query", "document"])
def test_towers_of_different_kinds_and_a_module_for_both(tmp_path, static_tower):
    """The layout that sentence-transformers documents for its Router."""
    towers = {"query": tiny_modules(tmp_path / "1"), "document": tiny_modules(tmp_path / "2")}
    towers[static_tower] = [static(width=32)]
    prompts = {"query": "a b ", "document": "c "}
    check(save(tmp_path / "model", Router(towers), Normalize(), prompts=prompts))
    with pytest.raises(UsageError, match="different kinds"):
        open_model(ModelSettings(base=str(tmp_path / "model"), towers="two"), 16)


def test_towers_that_part_after_the_transformer(tmp_path):
    last = Router({"query": [Dense(32, 8)], "document": [Dense(32, 8)]}, default_route="document")
    check(save(tmp_path / "model", *tiny_modules(tmp_path), last))
    with pytest.raises(UsageError, match="begin with the same module"):
        open_model(ModelSettings(base=str(tmp_path / "model"), towers="two"), 16)


def test_towers_of_two_dimensions_are_refused(tmp_path):
    folder = save(tmp_path / "model", Router({"query": [static()], "document": [static(width=8)]}))
    with pytest.raises(InputError, match="questions have 12 numbers, vectors of passages 8"):
        open_biencoder(str(folder)).encode_queries(TEXTS)


def test_towers_of_other_names_are_refused(tmp_path):
    router = Router({"query": tiny_modules(tmp_path / "1"), "doc": tiny_modules(tmp_path / "2")})
    with pytest.raises(InputError, match="has the routes query, doc"):
        open_biencoder(str(save(tmp_path / "model", router)))


CHAT = {"method": "forward", "method_output_name": "last_hidden_state"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"query_length": 8}, r"their own length \(query_length"),
        ({"query_expansion": {"strategy": "fixed", "length": 16}}, "their own length"),
        ({"modality_config": {"message": CHAT}}, "chat template"),
    ],
)
def test_texts_that_the_library_changes_are_refused(tmp_path, settings, message):
    folder = save_tiny(tmp_path / "model")
    edit(folder / "sentence_bert_config.json", **settings)
    with pytest.raises(InputError, match=message):
        open_biencoder(str(folder))


def test_vectors_are_compared_as_the_folder_says(tmp_path):
    folder = save_tiny(tmp_path / "model", truncate_dim=8)
    settings = folder / "config_sentence_transformers.json"
    lengths = {}
    for name in ("cosine", "dot"):
        edit(settings, similarity_fn_name=name)
        lengths[name] = np.linalg.norm(open_biencoder(str(folder)).search_vectors(TEXTS), axis=1)
    np.testing.assert_allclose(lengths["cosine"], 1, atol=1e-3)
    assert lengths["dot"].max() < 0.9
    edit(settings, similarity_fn_name="euclidean")
    with pytest.raises(InputError, match="'euclidean'"):
        open_biencoder(str(folder))
    edit(settings, similarity_fn_name=None)
    assert "inner product" in open_biencoder(str(folder)).note


def test_vectors_of_zeros_are_counted(capsys):
    class Zero(WordEncoder):
        name = "zero"

        def encode_tokens(self, batch):
            return super().encode_tokens(batch) * np.array(
                [[len(tokens) > 1] for tokens in batch], np.float32
            )

    tokens = [[1], [2, 3], [4]]
    assert not encode_texts(Zero(), tokens)[[0, 2]].any()
    assert (
        "the vectors of 2 of 3 texts are 0, so they match nothing; the first is '1'"
        in capsys.readouterr().err
    )
    encode_texts(WordEncoder(), tokens)
    assert "are 0" not in capsys.readouterr().err


def test_a_training_without_any_gradient_is_stopped():
    means = {"loss": 0.0, "grad_norm": 0.0}
    _check_gradient(means, State(step=3), enough=4, steps=9)
    _check_gradient(means, State(step=4, has_gradient=True), enough=4, steps=9)
    for step, enough in ((4, 4), (9, 50)):
        with pytest.raises(InputError, match=f"was exactly 0 in all of {step} steps"):
            _check_gradient(means, State(step=step), enough=enough, steps=9)
