"""Smaller static encoders: the same vectors cut short, the same tokens, nearly the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from tokenizers.models import BPE, Unigram
from tokenizers.pre_tokenizers import Metaspace

from experiments.shrink import kept_tokens, main
from linkseek.indexer.program.errors import UsageError
from linkseek.retriever.models.biencoder import open_biencoder
from linkseek.retriever.models.saving import needed_tokens, with_tokens
from tests.support.tiny.training import WORDS, save_normalized, save_static

TEXTS = [" ".join(WORDS[n : n + 4]) for n in range(0, 40, 4)]


@pytest.fixture
def export(tmp_path):
    save_static(tmp_path / "static")

    def run(*options: str, base: str = "static") -> SentenceTransformer:
        out = tmp_path / "-".join(["out", *options])
        main([str(tmp_path / base), "--output", str(out), *options])
        model = SentenceTransformer(str(out), device="cpu")
        np.testing.assert_allclose(
            open_biencoder(str(out)).encode_queries(TEXTS), model.encode(TEXTS), atol=1e-6
        )
        return model

    return run


def test_the_same_again_is_no_error_and_another_is(export, tmp_path):
    export("--dimension", "8")
    out, inode = tmp_path / "out---dimension-8", (tmp_path / "out---dimension-8").stat().st_ino
    export("--dimension", "8")  # such as of a command that was killed after its last step
    assert out.stat().st_ino == inode and sorted(p.name for p in tmp_path.glob("out*")) == [out.name]
    changes = {"notes.txt": "mine", "modules.json": "[]"}
    for name, text in changes.items():
        (out / name).write_text(text)
        with pytest.raises(UsageError, match="exists already"):
            main([str(tmp_path / "static"), "--output", str(out), "--dimension", "8"])
    assert {name: (out / name).read_text() for name in changes} == changes


def test_the_first_numbers_scaled_to_length_1(export, tmp_path):
    whole = SentenceTransformer(str(tmp_path / "static"), device="cpu")
    expected = whole.encode(TEXTS, truncate_dim=8, normalize_embeddings=True)
    np.testing.assert_allclose(export("--dimension", "8").encode(TEXTS), expected, atol=1e-6)


@pytest.mark.parametrize(("stored", "error"), [("float16", 1e-3), ("int8", 1e-2)])
def test_fewer_bits_on_the_disk(export, tmp_path, stored, error):
    whole = SentenceTransformer(str(tmp_path / "static"), device="cpu")
    small = export("--stored", stored)
    assert small[0].embedding.weight.dtype == torch.float32
    np.testing.assert_allclose(small.encode(TEXTS), whole.encode(TEXTS), atol=error)
    weights = load_file(tmp_path / f"out---stored-{stored}" / "model.safetensors")
    assert weights["embeddings"].dtype == stored


def test_texts_of_frequent_tokens_are_read_as_before(export, tmp_path):
    whole = SentenceTransformer(str(tmp_path / "static"), device="cpu")
    small = export("--vocabulary", "130")
    assert len(small[0].embedding.weight) == 130 == small.tokenizer.get_vocab_size()
    np.testing.assert_allclose(small.encode(TEXTS[:8]), whole.encode(TEXTS[:8]), atol=1e-6)
    [rare] = small.tokenizer.encode_batch([WORDS[-1]], add_special_tokens=False)
    assert len(rare.ids) == len(WORDS[-1]) and "[UNK]" not in rare.tokens


def test_the_tokens_that_stay_are_the_most_frequent(tmp_path):
    tokenizer = SentenceTransformer(str(save_static(tmp_path / "static")), device="cpu").tokenizer
    shares = np.zeros(tokenizer.get_vocab_size())
    frequent = tokenizer.token_to_id(WORDS[-1])
    shares[frequent] = 1.0
    fewest = len(kept_tokens(tokenizer, shares, 1))
    kept = kept_tokens(tokenizer, shares, fewest + 1)
    assert len(kept) == fewest + 1 and frequent in kept and kept == sorted(kept)
    assert tokenizer.token_to_id("[SEP]") in kept and tokenizer.token_to_id("##a") in kept


@pytest.mark.parametrize("byte_fallback", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_unigram_reads_a_corpus_as_before_with_its_own_pieces(seed, byte_fallback):
    draw = np.random.default_rng(seed)
    letters = list("abcd")
    pieces = {"".join(draw.choice(letters, draw.integers(2, 5))) for _ in range(60)}
    pieces |= {"▁" + piece for piece in sorted(pieces)[::3]}
    vocabulary = [("<unk>", 0.0), ("▁", -3.0), *((letter, -4.0) for letter in letters[:-1])]
    vocabulary += [(f"<0x{number:02X}>", -9.0) for number in range(256 * byte_fallback)]
    vocabulary += [(piece, -float(draw.integers(1, 12))) for piece in sorted(pieces)]  # with many ties
    tokenizer = Tokenizer(Unigram(vocabulary, 0, byte_fallback))
    tokenizer.pre_tokenizer = Metaspace()
    tokenizer.add_special_tokens(["<unk>", "<end>"])
    words = ["".join(draw.choice([*letters, "é"], draw.integers(1, 12))) for _ in range(80)]
    corpus = [" ".join(words[n : n + 4]) for n in range(0, len(words), 4)]
    before = [encoding.tokens for encoding in tokenizer.encode_batch(corpus)]
    used = {number for encoding in tokenizer.encode_batch(corpus) for number in encoding.ids}
    kept = sorted(used | needed_tokens(tokenizer))
    smaller = with_tokens(tokenizer, kept)
    after = smaller.encode_batch(corpus)
    assert [encoding.tokens for encoding in after] == before and len(kept) < tokenizer.get_vocab_size()
    assert [[kept[number] for number in encoding.ids] for encoding in after] == [
        encoding.ids for encoding in tokenizer.encode_batch(corpus)
    ]
    assert smaller.get_vocab_size() == len(kept)
    assert smaller.token_to_id("<unk>") == 0 and smaller.token_to_id("<end>") == len(kept) - 1
    spelled = smaller.encode("abcabcabc").tokens
    assert "<unk>" not in spelled and "".join(spelled) == "▁abcabcabc"


def test_what_does_not_fit_is_refused(export, tmp_path):
    save_normalized(tmp_path / "normalized")
    with pytest.raises(UsageError, match="is not a static encoder"):
        export("--dimension", "8", base="normalized")
    with pytest.raises(UsageError, match="--dimension 99: there are 32 numbers"):
        export("--dimension", "99")
    with pytest.raises(UsageError, match="--vocabulary 9,999: there are"):
        export("--vocabulary", "9999")
    with pytest.raises(UsageError, match="its tokenizer is BPE"):
        with_tokens(Tokenizer(BPE()), [])
