"""What a tokenizer.json may cost; what would take for ever is refused before it is read."""

from __future__ import annotations

import base64
import json

import pytest
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from linkseek.indexer.program.errors import InputError
from linkseek.retriever.models.checks.only_data import check_only_data
from linkseek.retriever.models.checks.tokenizer_costs import repeats_repeated, tokenized
from linkseek.retriever.models.facts import ModelFacts, open_tokenizer, padded


def replace(pattern, content):
    return {"type": "Replace", "pattern": pattern, "content": content}


def sequence(*steps):
    return {"type": "Sequence", "normalizers": list(steps)}


def table(*texts: bytes) -> str:
    return base64.b64encode((4).to_bytes(4, "little") + b"trie" + b"\0".join(texts)).decode()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"normalizer": sequence(*[replace({"String": "a"}, "aa")] * 40)}, "64 times as long"),
        ({"normalizer": replace({"Regex": "a*?"}, "b" * 99)}, "64 times as long"),
        ({"normalizer": {"type": "Prepend", "prepend": "a" * 2000}}, "64 times as long"),
        ({"normalizer": replace({"Regex": "(a+)+$"}, "")}, "a repetition within a repetition"),
        ({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(?:x|a*b){2,}"}}}, "may take forever"),
        ({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "a" * 5000}}}, "5,000 characters"),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": table(b"x" * 999)}}, "999 bytes"),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": 10**9}}, "damaged"),
        ({"model": {"type": "WordPiece", "max_input_chars_per_word": 10**9}}, "max_input_chars_per_word"),
        ({"model": {"type": "BPE", "dropout": 0.5}}, "dropout"),
        (
            {"post_processor": {"single": [{"SpecialToken": {"id": "x", "type_id": 0}}] * 65}},
            "special tokens",
        ),
    ],
)
def test_what_costs_more_than_any_model_is_refused(tmp_path, settings, message):
    (tmp_path / "tokenizer.json").write_text(json.dumps(settings))
    with pytest.raises(InputError, match=r"tokenizer\.json") as caught:
        check_only_data(tmp_path)
    assert message in caught.value.message and caught.value.hint


def test_what_models_have_is_allowed(tmp_path):
    settings = {
        "normalizer": sequence(
            {"type": "Precompiled", "precompiled_charsmap": table(b"fi", b"\xc3\xa9")},
            replace({"Regex": " {2,}"}, " "),
            replace({"String": " "}, "\u2581"),
            {"type": "Prepend", "prepend": "\u2581"},
        ),
        "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581"},
        "model": {"type": "WordPiece", "max_input_chars_per_word": 100, "dropout": None},
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(settings))
    check_only_data(tmp_path)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        r"(?<=\d)(?=(\d{3})+(?!\d))",
        r"[(a+)+]",
        r"\((a+)\)+",
        r"(a|b)+",
        r"(\d+)?",
    ],
)
def test_patterns_of_models(pattern):
    assert not repeats_repeated(pattern)


@pytest.mark.parametrize("pattern", ["(a+)+", "(?:a*)*", "((a+)b){2,}", "(((a{3}){3}){3}){3}", "(x|(y|a+))*"])
def test_patterns_whose_time_doubles(pattern):
    assert repeats_repeated(pattern)


def test_a_panic_is_a_refusal():
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("(a+)+$"), "isolated")
    with pytest.raises(InputError, match="cannot read a text"):
        tokenized(tokenizer, ["a" * 40 + "!"])


def test_a_token_without_a_vector_is_refused_where_a_text_holds_it():
    facts = ModelFacts(1, 8, 0, Tokenizer(models.WordLevel({"a": 0, "b": 9}, "a")).to_str(), words=9)
    assert padded([[0, 8]], facts)["input_ids"].max() == 8
    with pytest.raises(InputError, match="a token of number 9, the model has vectors of 9"):
        padded([tokenized(open_tokenizer(facts), ["b"])[0].ids], facts)
