"""Models whose tokens see a window around them: equal to the library's own, whatever stands in a batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Normalize, Pooling, Transformer
from tokenizers import Tokenizer, models, pre_tokenizers

from linkseek.indexer.encoding.batches import encode_texts, token_batches
from linkseek.indexer.machine.devices import usable_cores
from linkseek.retriever.models.biencoder import BiEncoder, open_biencoder
from linkseek.retriever.models.torch_modes import SeeingRows, seeing
from tests.support.tiny.models import save

WIDTH = 64
KINDS = {
    "ModernBert": {"global_attn_every_n_layers": 2},
    "Qwen3": {"use_sliding_window": True, "max_window_layers": 1, "num_key_value_heads": 2, "head_dim": 16},
}
WINDOWS = {"ModernBert": "local_attention", "Qwen3": "sliding_window"}
"""Further types are those of test_families.py."""
LENGTHS = (1, 3, 200, 9, 40, 150)
TEXTS = [" ".join(f"w{(i * j * 7 + j) % 60}" for j in range(length)) for i, length in enumerate(LENGTHS)]


def save_model(folder: Path, kind: str, window: int) -> Path:
    """A transformer of two layers with random weights, and a tokenizer of words."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=64, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        pad_token_id=0, bos_token_id=1, eos_token_id=1, cls_token_id=1, sep_token_id=1,
        **{WINDOWS[kind]: window}, **KINDS[kind],
    )  # fmt: skip
    model = getattr(transformers, f"{kind}Model")(config)
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if name.endswith("weight") and "norm" not in name:
                weights.mul_(8)  # so that it matters what a token looks at
    model.save_pretrained(folder)
    words = {word: n for n, word in enumerate(["<pad>", "<unk>", *(f"w{i}" for i in range(60))])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", unk_token="<unk>", model_max_length=256,
        model_input_names=["input_ids", "attention_mask"],
    ).save_pretrained(folder)  # fmt: skip
    return folder


def save_encoder(folder: Path, kind: str, window: int, pooling: str = "mean") -> Path:
    transformer = Transformer(str(save_model(folder / "transformer", kind, window)))
    modules = [transformer, Pooling(WIDTH, pooling_mode=pooling), Normalize()]
    save(SentenceTransformer(modules=modules, device="cpu"), folder / "encoder")
    return folder / "encoder"


def expected_vectors(folder: Path) -> np.ndarray:
    """Of each text by itself, which no other pads."""
    model = SentenceTransformer(str(folder), device="cpu")
    return np.stack([model.encode(text) for text in TEXTS])


def passages(encoder: BiEncoder) -> np.ndarray:
    tokens = encoder.tokenize_passages([""] * len(TEXTS), TEXTS)
    assert len(list(token_batches([len(t) for t in tokens], encoder.token_budget))) == 1
    return encode_texts(encoder, tokens)


@pytest.mark.parametrize(
    ("kind", "window"), [("ModernBert", 8), ("ModernBert", 32), ("ModernBert", 128), ("Qwen3", 16)]
)
def test_short_texts_next_to_long_ones(tmp_path, kind, window):
    folder = save_encoder(tmp_path, kind, window)
    expected = expected_vectors(folder)
    for precision in ("float32", "auto"):
        encoder = open_biencoder(str(folder), device="cpu", precision=precision)
        for found in (passages(encoder), encoder.encode_queries(TEXTS)):
            assert (1 - (found * expected).sum(axis=1)).max() < (1e-5 if precision == "float32" else 1e-3)


@pytest.mark.parametrize("pooling", ["cls", "lasttoken", "max", "mean_sqrt_len_tokens", "weightedmean"])
def test_every_pooling(tmp_path, pooling):
    folder = save_encoder(tmp_path, "ModernBert", 16, pooling)
    found = passages(open_biencoder(str(folder), device="cpu", precision="float32"))
    np.testing.assert_allclose(found, expected_vectors(folder), atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2])
def test_llama_like_layers_have_two_threads_or_float32(tmp_path, threads):
    folder = save_encoder(tmp_path, "Qwen3", 16)
    encoder = open_biencoder(str(folder), device="cpu", precision="bfloat16", threads=threads)
    assert encoder.execution["streams"] == encoder.parallel.batches == 1
    assert encoder.execution["precision"] == ("float32" if min(threads, usable_cores()) == 1 else "bfloat16")
    assert (1 - (passages(encoder) * expected_vectors(folder)).sum(axis=1)).max() < 1e-3


def test_a_mask_in_which_every_token_sees_one():
    mask = torch.tensor([[True, False], [False, False]])
    assert seeing(mask).tolist() == [[True, False], [True, True]]
    lowest = torch.finfo(torch.float32).min
    added = torch.tensor([[0.5, lowest], [lowest, lowest]])
    assert seeing(added).tolist() == [[0.5, lowest], [0, 0]]


@pytest.mark.parametrize("by_name", [True, False])
def test_attention_is_the_same_where_a_token_sees_something(by_name):
    query, key, value = torch.randn(3, 1, 2, 4, 8).unbind()
    mask = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 1, 1]]).bool()
    attend = torch.nn.functional.scaled_dot_product_attention
    expected = attend(query, key, value, mask)
    with SeeingRows():
        found = attend(query, key, value, attn_mask=mask) if by_name else attend(query, key, value, mask)
        assert torch.equal(attend(query, key, value), attend(query, key, value, None))
    rows = [0, 1, 3]
    torch.testing.assert_close(found[:, :, rows], expected[:, :, rows])
    torch.testing.assert_close(found[:, :, 2], attend(query, key, value)[:, :, 2])
