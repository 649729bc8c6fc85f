"""The contract of model types: every allowed one, as bi-encoder and cross-encoder, against the library."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.models import Pooling, Transformer
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    CONFIG_MAPPING,
    AutoModel,
    AutoModelForSequenceClassification,
    PreTrainedTokenizerFast,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES as HEADED

from linkseek.indexer.encoding.batches import encode_texts
from linkseek.reranker.models.scoring import open_scorer
from linkseek.retriever.models.biencoder import open_biencoder
from linkseek.retriever.models.families import ALLOWED, Way, way_of

WORDS = 60
LENGTHS = (1, 50, 3, 30, 80)  # the last is longer than the model reads
TEXTS = [" ".join(f"w{(i * j * 7 + j) % WORDS}" for j in range(n)) for i, n in enumerate(LENGTHS)]
MAX_TOKENS = 62

SIZES = {
    **dict.fromkeys(("hidden_size", "d_model", "emb_dim", "n_embd", "dim", "embedding_dim"), 32),
    **dict.fromkeys(("intermediate_size", "d_ff", "d_inner", "hidden_dim", "ffn_dim"), 32),
    **dict.fromkeys(("embedding_size", "input_embedding_size", "output_embedding_size"), 32),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "num_key_value_heads"), 2),
    **dict.fromkeys(("head_dim", "d_head", "d_kv", "query_pre_attn_scalar"), 16),
    **dict.fromkeys(("max_position_embeddings", "n_positions"), 64),
    **dict.fromkeys(("sliding_window", "local_attention", "attention_window", "window_size"), 16),
    **dict.fromkeys(("pooler_hidden_size", "word_embed_proj_dim", "hidden_size_per_layer_input"), 32),
    **dict.fromkeys(("prediction_head_size", "true_hidden_size", "intra_bottleneck_size"), 32),
    **dict.fromkeys(("pad_token_id", "pad_index", "mem_len"), 0),
    **dict.fromkeys(("bos_token_id", "cls_token_id", "max_window_layers"), 1),
    **dict.fromkeys(("eos_token_id", "sep_token_id"), 2),
    **dict.fromkeys(("segment_means_seq_len", "original_max_position_embeddings"), 64),
    "vocab_size": WORDS + 4,
    "local_radius": 7,
    "num_hash": 8,
    "conv_kernel_size": 3,
}
OWN = {
    "squeezebert": {f"{part}_groups": 1 for part in "q k v intermediate output post_attention".split()},
    "funnel": {
        "block_sizes": [1, 1],
        "num_hidden_layers": None,
        "num_decoder_layers": 1,
        "architectures": ["FunnelModel"],
    },
    "t5": {"decoder_start_token_id": 0},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "longformer": {"attention_window": [16, 16]},
    "xmod": {"languages": ["en_XX"], "default_language": "en_XX"},
    "gemma3_text": {"use_bidirectional_attention": False},
}


OTHER_TOKENIZERS = ["qwen2"]
"""Types for which transformers reads every tokenizer.json as its own, which knows none of the words."""

OFTEN_USED = ["bert", "gpt2", "modernbert", "roberta"]
"""Tried in every run; the others take a minute or two together."""


def kinds(types: Iterable[str]) -> list:
    return [
        kind if kind in OFTEN_USED else pytest.param(kind, marks=pytest.mark.slow) for kind in sorted(types)
    ]


@cache
def tokenizer() -> PreTrainedTokenizerFast:
    words = ["<pad>", "<s>", "</s>", "<unk>", *(f"w{n}" for n in range(WORDS))]
    made = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", unk_token="<unk>", bos_token="<s>", eos_token="</s>",
        cls_token="<s>", sep_token="</s>", model_input_names=["input_ids", "attention_mask"],
        model_max_length=MAX_TOKENS,
    )  # fmt: skip


def save_transformer(folder: Path, kind: str, make, **options) -> Path:
    """A transformer of one type, tiny and random, next to a tokenizer of words."""
    known = CONFIG_MAPPING[kind]().to_dict()
    sizes = {name: size for name, size in SIZES.items() if name in known} | OWN.get(kind, {})
    sizes = {name: size for name, size in sizes.items() if size is not None}
    torch.manual_seed(0)
    config = CONFIG_MAPPING[kind](**sizes, **options)
    config.architectures = config.architectures or []
    model = make.from_config(config).eval()
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if name.endswith("weight") and "norm" not in name.lower() and weights.dim() > 1:
                weights.mul_(4)  # so that it matters what a token looks at
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def check_way(way: Way, execution: dict) -> None:
    assert execution["backend"].startswith("openvino" if way is Way.OPENVINO else "torch")
    assert (execution.get("attention") == "one text at a time") == (way is Way.ALONE)


@pytest.fixture(autouse=True)
def only_float32(tmp_path, monkeypatch):
    """Nothing is kept between tests. Precisions are tried elsewhere: each takes the time of another model."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("linkseek.retriever.models.openvino_engine.cpu_multiplies_bfloat16", lambda: False)


@pytest.mark.parametrize("kind", kinds(ALLOWED))
def test_bi_encoders(tmp_path, kind):
    bare = save_transformer(tmp_path / "bare", kind, AutoModel)
    modules = [Transformer(str(bare)), Pooling(32, pooling_mode="mean")]
    folder = str(tmp_path / "encoder")
    SentenceTransformer(modules=modules, device="cpu").save_pretrained(folder)
    library = SentenceTransformer(folder, device="cpu")
    expected = np.stack([library.encode(text) for text in TEXTS])
    encoder = open_biencoder(folder, device="cpu", precision="float32", threads=1)
    assert len(encoder.tokenize_queries(TEXTS)[-1]) == MAX_TOKENS or kind in OTHER_TOKENIZERS
    found = encode_texts(encoder, encoder.tokenize_passages([""] * len(TEXTS), TEXTS))
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(expected).max())
    check_way(way_of(kind, scores=False), encoder.execution)


@pytest.mark.parametrize("kind", kinds(ALLOWED & HEADED.keys()))
def test_cross_encoders(tmp_path, kind):
    make = AutoModelForSequenceClassification
    folder = str(save_transformer(tmp_path / "model", kind, make, num_labels=1))
    settings = json.loads((tmp_path / "model/config.json").read_text())
    library = CrossEncoder(folder, device="cpu")
    pairs = [("w1 w2 w3", text) for text in TEXTS]
    expected = np.array([library.predict([pair])[0] for pair in pairs])
    scorer = open_scorer(folder, "cpu", "float32")
    found = scorer.score([query for query, _ in pairs], [text for _, text in pairs])
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert settings["model_type"] == kind
    check_way(way_of(kind, scores=True), scorer.execution)
