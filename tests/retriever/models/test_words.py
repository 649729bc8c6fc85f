"""Tokenising by words against the tokenizer itself."""

from __future__ import annotations

import json
import pickle
import random

import pytest
from tokenizers import AddedToken, Tokenizer

from linkseek.retriever.models.backends.static_engine import without_special_tokens
from linkseek.retriever.models.words import WordTokenizer
from tests.support.tiny.training import VOCABULARY, save_tokenizer

TEXTS = [
    "",
    " \t\n\r ",
    "bam bem. Bim-bam!bem's",
    "bam\u00a0bem\u3000bim \u2028x",  # spaces beyond ASCII
    "b\u00e1m be\u0301m \u0301 !\u0301bam",  # accents, also of nothing and of punctuation
    "\u6771\u4eac bam\u6771bem \u201cbam\u201d\u2014bem \u00a1bam",
    "ba\x00m be\x0bm bi\x0cm bo\x1fm bu\x7fm",  # control characters that join
    "ba\u00adm be\u200bm \ufffd",
    "bam [SEP] bem [sep] [CLS]bam[MASK] [UNK",
    "\u0130stanbul \u03a3\u0391\u03a3 \ufb01 \u1e9e",
    "x" * 150 + " bam",
    "\ud7a3\u1100\u1161 \U0001f600 \u0e01\u0e33",
]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> Tokenizer:
    words = save_tokenizer(tmp_path_factory.mktemp("words"))
    return Tokenizer.from_str(without_special_tokens(words.backend_tokenizer))


def changed(tokenizer: Tokenizer, **options: bool | None) -> Tokenizer:
    settings = json.loads(tokenizer.to_str())
    settings["normalizer"] |= options
    return Tokenizer.from_str(json.dumps(settings))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"lowercase": False, "strip_accents": False},
        {"clean_text": False},
        {"handle_chinese_chars": False},
    ],
    ids=str,
)
def test_ids_are_those_of_the_tokenizer(tokenizer, options):
    draw = random.Random(1)
    characters = [*"  .,'-[]\t\n", *"".join(TEXTS), *VOCABULARY[5:60]]
    texts = TEXTS + ["".join(draw.choices(characters, k=40)) for _ in range(2_000)]
    tokenizer = changed(tokenizer, **options)
    words = WordTokenizer(tokenizer)
    for _ in range(2):  # also with words that it knows
        rows = words(texts)
        for text, row, encoding in zip(texts, rows, tokenizer.encode_batch(texts), strict=True):
            assert row.tolist() == encoding.ids, ascii(text)
    again = pickle.loads(pickle.dumps(words))
    assert [row.tolist() for row in again(texts[:5])] == [row.tolist() for row in rows[:5]]


def test_texts_are_cut_at_the_limit(tokenizer):
    short = Tokenizer.from_str(tokenizer.to_str())
    short.enable_truncation(3)
    assert [*map(len, WordTokenizer(short)(["bam bem", "bam bem bim bom", "[SEP] b b b"]))] == [2, 3, 3]


def test_other_tokenizers_do_not_fit(tokenizer, tmp_path):
    assert WordTokenizer.fits(tokenizer)
    assert not WordTokenizer.fits(save_tokenizer(tmp_path / "bert").backend_tokenizer)  # adds [CLS] and [SEP]
    settings = json.loads(tokenizer.to_str())
    settings["pre_tokenizer"] = {"type": "WhitespaceSplit"}
    assert not WordTokenizer.fits(Tokenizer.from_str(json.dumps(settings)))
    for token, fits in ((AddedToken("bim-bam"), False), (AddedToken("bim", normalized=True), True)):
        more = Tokenizer.from_str(tokenizer.to_str())
        more.add_tokens([token])
        assert WordTokenizer.fits(more) == fits


def test_no_text_at_all(tokenizer):
    assert WordTokenizer(tokenizer)([]) == []
