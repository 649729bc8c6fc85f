"""Models of random weights, 32 numbers wide, as sentence-transformers saves them."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import save_file
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.models import Normalize, Pooling, Transformer
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.nn import functional
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertModel,
    BertTokenizerFast,
)

from linkseek.retriever.models.backends.layers import back_to_back

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz0123456789:"]
WORDS += ["##" + letter for letter in WORDS[5:]]


def save(model: SentenceTransformer | CrossEncoder, folder: Path) -> None:
    """Without its card, which takes longer than all else."""
    model.save_pretrained(str(folder), create_model_card=False)


def save_tiny(folder: Path, seed: int = 0, **options) -> Path:
    """A bi-encoder of two layers: [CLS], unit vectors."""
    bert = _save_bert(folder, BertModel, seed)
    modules = [Transformer(str(bert), max_seq_length=48), Pooling(32, pooling_mode="cls"), Normalize()]
    save(SentenceTransformer(modules=modules, device="cpu", **options), folder)
    return folder


def save_tiny_reranker(folder: Path, seed: int = 0, labels: int = 1, **options) -> Path:
    """A cross-encoder of two layers. Its scores are spread by a larger last layer."""
    bert = _save_bert(folder, BertForSequenceClassification, seed, num_labels=labels)
    save(CrossEncoder(str(bert), device="cpu", max_length=48, **options), folder)
    return folder


def save_masked(folder: Path, seed: int = 1) -> Path:
    """A model of masked words, which `SparseEncoder` reads as SPLADE."""
    return _save_bert(folder, BertForMaskedLM, seed).rename(folder)


def save_model2vec(folder: Path, normalized: bool = True, **arrays: NDArray[Any]) -> Path:
    """A static encoder as model2vec's save_pretrained writes it, of the words a to h.

    arrays: in the place of random embeddings [V, 12]; also "mapping" [V] and "weights" [V].
    """
    folder.mkdir(parents=True)
    words = {word: number for number, word in enumerate(["[UNK]", "[PAD]", *"abcdefgh"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    embeddings = np.random.default_rng(0).normal(size=(len(words), 12)).astype(np.float32)
    save_file({"embeddings": embeddings} | arrays, folder / "model.safetensors")
    settings = {"model_type": "model2vec", "architectures": ["StaticModel"], "normalize": normalized}
    (folder / "config.json").write_text(json.dumps(settings | {"hidden_dim": 12, "apply_zipf": None}))
    kinds = ["StaticEmbedding", "Normalize"][: 1 + normalized]
    modules = [
        {
            "idx": number, "name": str(number), "path": f"{number}_{kind}" if number else ".",
            "type": f"sentence_transformers.models.{kind}",
        }
        for number, kind in enumerate(kinds)
    ]  # fmt: skip
    (folder / "modules.json").write_text(json.dumps(modules))
    return folder


def _save_bert(folder: Path, model: type, seed: int, **options) -> Path:
    torch.manual_seed(seed)
    bert = folder.with_name(folder.name + "-bert")
    bert.mkdir(parents=True)
    (bert / "vocab.txt").write_text("\n".join(WORDS))
    BertTokenizerFast(str(bert / "vocab.txt"), model_max_length=64).save_pretrained(bert)
    config = BertConfig(
        vocab_size=len(WORDS), hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=64, **options,
    )  # fmt: skip
    made = model(config)
    with torch.no_grad():
        for name, weights in made.named_parameters():
            if name.endswith("weight") and "LayerNorm" not in name:
                weights.mul_(8)  # so that it matters what a token looks at, and in which order they stand
    made.save_pretrained(bert)
    return bert


def attend_alone(query, key, value, packing, scale, dropout):
    """Attention of packed sequences, one at a time: the twin of what runs on GPUs."""
    pieces = zip(
        *(x.tensor_split(packing.bounds[1:-1].cpu().long()) for x in (query, key, value)), strict=True
    )
    heads = ([x.transpose(0, 1) for x in piece] for piece in pieces)
    options = {"scale": scale, "dropout_p": dropout}
    results = (functional.scaled_dot_product_attention(*own, **options) for own in heads)
    return torch.cat([result.transpose(0, 1) for result in results])


BACK_TO_BACK = partial(back_to_back, attend=attend_alone)
"""The packing of sequences of any length, for a CPU."""
