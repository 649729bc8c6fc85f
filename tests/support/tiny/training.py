"""Random bases of a few thousand weights, and pairs and contrasts to train them on."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Normalize,
    Pooling,
    StaticEmbedding,
    Transformer,
)
from transformers import BertConfig, BertModel, BertTokenizerFast

from linkseek.reranker.contrasts import Contrast, TextPair, contrast_line
from linkseek.retriever.mining.pairs import write_lines
from tests.support.tiny.corpus import write_jsonl
from tests.support.tiny.models import save

WORDS = [f"{a}{b}{c}" for a in "bdfgkl" for b in "aeiou" for c in "mnrst"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
_LETTERS = [*"abcdefghijklmnopqrstuvwxyz0123456789':.,"]
VOCABULARY = [*SPECIAL, *WORDS, *_LETTERS, *("##" + letter for letter in _LETTERS)]


def save_tokenizer(folder: Path) -> BertTokenizerFast:
    """A WordPiece tokenizer of 150 words, letters and digits."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY))
    tokenizer = BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=64)
    tokenizer.save_pretrained(folder)
    return tokenizer


def bert_config(**options: Any) -> BertConfig:
    """2 layers, 32 wide, without dropout."""
    sizes = {
        "vocab_size": len(VOCABULARY), "hidden_size": 32, "num_hidden_layers": 2,
        "num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 64,
        "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "initializer_range": 0.2,
    }  # fmt: skip
    return BertConfig(**(sizes | options))


def save_bert(folder: Path, seed: int = 0, **options: Any) -> Path:
    """A bare transformer's folder."""
    save_tokenizer(folder)
    torch.manual_seed(seed)
    BertModel(bert_config(**options)).save_pretrained(folder)
    return folder


def save_normalized(folder: Path, seed: int = 0, **options: Any) -> Path:
    """A sentence-transformers folder with mean pooling and vectors of length 1, as MiniLM has."""
    bare = save_bert(folder.with_name(folder.name + "-bare"), seed, **options)
    modules = [Transformer(str(bare), max_seq_length=48), Pooling(32, pooling_mode="mean"), Normalize()]
    save(SentenceTransformer(modules=modules, device="cpu"), folder)
    return folder


def save_static(folder: Path, seed: int = 0) -> Path:
    """A static encoder with random vectors, scaled to length 1."""
    tokenizer = save_tokenizer(folder.with_name(folder.name + "-tokenizer"))
    vectors = torch.randn(len(tokenizer), 32, generator=torch.Generator().manual_seed(seed))
    modules = [StaticEmbedding(tokenizer, vectors), Normalize()]
    save(SentenceTransformer(modules=modules, device="cpu"), folder)
    return folder


def pair_rows(
    count: int, seed: int = 0, objectives: tuple[str, ...] = (), negatives: int = 1, hard: int = 1
) -> list[dict[str, Any]]:
    """Pairs in which the query is made of words of its passage, as DPR's JSON."""
    draw = random.Random(seed)
    rows = []
    for n in range(count):
        words = draw.choices(WORDS, k=8)
        row: dict[str, Any] = {
            "question": " ".join(draw.sample(words, 3)),
            "positive_ctxs": [_context(n, words)],
            "negative_ctxs": [_context(1000 + n * 9 + k, draw.choices(WORDS, k=8)) for k in range(negatives)],
            "hard_negative_ctxs": [_context(5000 + n * 9 + k, draw.choices(WORDS, k=8)) for k in range(hard)],
        }
        if objectives:
            row["objective"] = objectives[n % len(objectives)]
        rows.append(row)
    return rows


def _context(document: int, words: list[str]) -> dict[str, str]:
    return {"title": f"t{document}", "text": " ".join(words), "passage_id": f"d{document}#0"}


write_pairs = write_jsonl


def tiny_contrasts(objective: str, count: int, seed: int = 0, most: int = 4) -> list[Contrast]:
    """Word sets of a document against others, or queries with an anchor against documents without it."""
    draw = random.Random(f"{objective} {seed}")
    found = []
    for n in range(count):
        words = draw.choices(WORDS, k=9)
        document, title = " ".join(words), f"t{n}"
        query = " ".join(draw.sample(words, 3))
        if objective.startswith(("prop", "harp")):
            others = " ".join(draw.choices(WORDS, k=3))
            better, worse = TextPair(query, document, title), [TextPair(others, document, title)]
        else:
            better = TextPair(query, document, title, ((0, query.index(" ")),))
            others = [" ".join(draw.choices(WORDS, k=9)) for _ in range(draw.randint(1, most))]
            worse = [TextPair(query, text, f"o{n}") for text in others]
        found.append(Contrast(better, tuple(worse), objective))
    return found


def write_tiny_contrasts(path: Path, objective: str, count: int, seed: int = 0, most: int = 4) -> Path:
    """The same as a file."""
    write_lines(path, map(contrast_line, tiny_contrasts(objective, count, seed, most)))
    return path
