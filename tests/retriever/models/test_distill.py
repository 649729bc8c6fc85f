"""Static encoders from another encoder's token vectors, by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import UsageError
from linkseek.retriever.commands.distill import main, random_vectors, rotated, token_shares
from linkseek.retriever.models.biencoder import open_biencoder
from tests.support.tiny.corpus import write_jsonl
from tests.support.tiny.models import WORDS, save_tiny


@pytest.fixture
def tiny(tmp_path):
    return save_tiny(tmp_path / "tiny")


def test_a_text_is_the_mean_of_weighted_rotated_token_vectors(tiny, tmp_path):
    main([str(tiny), "--output", str(tmp_path / "static"), "--smoothing", "0.01"])
    source, static = SentenceTransformer(str(tiny), device="cpu"), open_biencoder(str(tmp_path / "static"))
    words = source.tokenizer.convert_ids_to_tokens(range(len(source.tokenizer)))
    first, last = source.tokenizer("")["input_ids"]
    ids = torch.tensor([[first, number, last] for number in range(len(words))])
    transformer, pooling, _ = source  # to length 1
    with torch.inference_mode():
        alone = pooling(transformer({"input_ids": ids, "attention_mask": torch.ones_like(ids)}))
    of_texts = [n for n, word in enumerate(words) if not word.startswith("[")]
    shares = 1 / np.arange(2, len(of_texts) + 2)
    weights = 0.01 / (0.01 + shares / shares.sum())
    vectors = rotated(alone["sentence_embedding"].numpy()[of_texts], 32) * weights[:, None]
    [found] = static.encode_queries([" ".join(words[n] for n in of_texts[:3])])
    expected = vectors[:3].mean(axis=0)
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
    shares = token_shares(encoder, OpenIndex.open(index_path))
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
    shares = 1 / np.arange(2, len(a) + 2 - sum(word.startswith("[") for word in WORDS))
    weights = 0.01 / (0.01 + shares / shares.sum())
    lengths = np.linalg.norm(random_vectors(2_000, 64, 1), axis=1)
    assert lengths.mean() == pytest.approx(1, abs=0.05)
    np.testing.assert_allclose(a[-1], random_vectors(*a.shape, 1)[-1] * weights[-1], rtol=1e-5)
    assert "Random vectors (seed 2)" in (tmp_path / "c" / "README.md").read_text()


@pytest.fixture
def unigram(tmp_path):
    """An encoder with a tokenizer as SentencePiece's, and a name that suggests prompts."""
    folder = save_tiny(tmp_path / "e5-small")
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    pieces = [
        *special,
        *"▁abcdefghijklmnopqrstuvwxyzäö",
        "▁s",
        "▁l",
        "▁sea",
        "▁law",
        "aw",
        "ea",
        "▁see",
        "▁lä",
    ]
    pieces += ["▁x" + "y" * n for n in range(1, len(WORDS) - len(pieces) + 1)]
    settings = json.loads((folder / "tokenizer.json").read_text())
    ends = {
        piece: {"id": piece, "ids": [pieces.index(piece)], "tokens": [piece]} for piece in ("<s>", "</s>")
    }
    form = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    form.append({"SpecialToken": {"id": "</s>", "type_id": 0}})
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False) | {"special": True}
    settings |= {
        "normalizer": {"type": "NFKC"},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        "decoder": None,
        "post_processor": {"type": "TemplateProcessing", "single": form, "pair": form,
                           "special_tokens": ends},
        "added_tokens": [{"id": n, "content": piece} | flags for n, piece in enumerate(special)],
        "model": {"type": "Unigram", "unk_id": 3, "byte_fallback": False,
                  "vocab": [[piece, -8.0 / len(piece)] for piece in pieces]},
    }  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(settings))
    names = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}
    names |= {"unk_token": "<unk>", "pad_token": "<pad>", "cls_token": "<s>", "sep_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(names))
    return folder


@pytest.mark.parametrize(
    ("option", "much_larger", "is_whole"),
    [("auto", 4, True), ("auto", 1, False), ("corpus", 4, False), ("all", 1, True)],
)
def test_the_tokens_of_a_corpus_are_enough_for_its_passages(
    unigram, tmp_path, build, index_path, monkeypatch, option, much_larger, is_whole
):
    monkeypatch.setattr("linkseek.retriever.commands.distill._MUCH_LARGER", much_larger)
    texts = ["sea sea law", "see ö lä ?"]
    rows = [{"id": str(n), "text": text, "links": []} for n, text in enumerate(texts)]
    build(corpus=write_jsonl(tmp_path / "c.jsonl", rows))
    out = tmp_path / "e5-small-static"
    main([str(unigram), "--index", str(index_path), "--vocabulary", option, "--output", str(out)])
    source, static = open_biencoder(str(unigram)), open_biencoder(str(out))
    count = static.tokenizer.get_vocab_size()
    assert (count == source.tokenizer.get_vocab_size()) == is_whole
    whole = [source.tokenizer.encode(text, add_special_tokens=False).tokens for text in [*texts, "abcd"]]
    assert [static.tokenizer.encode(text).tokens for text in [*texts, "abcd"]] == whole
    assert static.text_format.query_prompt == static.text_format.passage_prompt == ""
    library = SentenceTransformer(str(out), device="cpu")
    np.testing.assert_allclose(static.encode_queries(texts), library.encode(texts), atol=1e-6)
    assert len(library[0].embedding.weight) == count


@pytest.mark.parametrize("fault", ["--vocabulary corpus needs a corpus", "--dimension 999: the", "is static"])
def test_what_cannot_be_distilled(tiny, tmp_path, fault):
    options = ["linkseek-static"] if fault == "is static" else [str(tiny), *fault.split()[:2]]
    with pytest.raises(UsageError, match=fault):
        main([*[word.strip(":") for word in options], "--output", str(tmp_path / "none")])
