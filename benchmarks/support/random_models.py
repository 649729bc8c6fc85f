"""Models with random weights and texts of random words, for machines without models or corpora.

A model's speed does not depend on its weights. The texts are as long as Wikipedia's passages: below is the
distribution of tokens in titles and 100 words over 20,000 passages of wikispeedia's articles.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.support.ceilings import encoder_operations
from benchmarks.support.harness import made_up_words
from linkseek.retriever.models.library import from_folder, quiet


@dataclass(frozen=True)
class ModelShape:
    """The sizes that decide how much work a transformer is."""

    name: str
    layers: int
    width: int
    heads: int
    inner: int
    tokens: int = 256

    def operations(self, lengths: Sequence[int]) -> float:
        """Floating point operations for sequences of these lengths."""
        return encoder_operations(self.layers, self.width, self.inner, list(lengths))


BERT_BASE = ModelShape("BERT-base", 12, 768, 12, 3072)
MINILM = ModelShape("MiniLM-L6", 6, 384, 12, 1536)
TINY = ModelShape("tiny", 2, 32, 2, 64)


@dataclass(frozen=True)
class Made:
    """Texts that are there already. Here, since other processes do not import the program."""

    texts: list[str]
    titles: list[str] | None = None

    def __len__(self) -> int:
        return len(self.texts)

    def read(self, start: int, stop: int) -> tuple[list[str], list[str]]:
        """(titles, texts) of rows [start, stop); without titles, empty ones."""
        texts = self.texts[start:stop]
        return self.titles[start:stop] if self.titles else [""] * len(texts), texts


_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
_WORDS = 30_522

# Of 1,000 passages, those with 0-7, 8-15, ... tokens; the last ones were cut at 256.
_LENGTHS = (0, 2, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 4, 52, 215, 279, 189, 102, 50, 28, 17, 12, 9, 6, 4, 3, 2, 2, 1, 1, 4)  # fmt: skip # noqa: E501


def wikipedia_lengths(count: int, seed: int = 0) -> list[int]:
    """Lengths in tokens, special ones included, drawn from the distribution of Wikipedia's passages."""
    draw = np.random.default_rng(seed)
    bins = draw.choice(len(_LENGTHS), count, p=np.array(_LENGTHS) / sum(_LENGTHS))
    lengths = bins * 8 + draw.integers(0, 8, count)
    lengths[bins == len(_LENGTHS) - 1] = 256
    return [int(length) for length in lengths]


def made_up_texts(lengths: Sequence[int], seed: int = 0) -> list[str]:
    """Texts of these lengths in tokens, two of them special, for `write_encoder`; words by Zipf's law."""
    draw = np.random.default_rng(seed)
    words = np.array(_vocabulary()[len(_SPECIAL) :], object)
    ranks = (len(words) ** draw.random(sum(lengths))).astype(np.int64) - 1  # [all words]
    ends = np.cumsum(lengths)
    return [" ".join(words[ranks[end - length : end - 2]]) for length, end in zip(lengths, ends, strict=True)]


def written(write: Callable[[Path, ModelShape], Path], tiny: bool) -> Iterator[tuple[ModelShape, Path]]:
    """MiniLM and BERT-base, or a tiny model, each with its folder while the next is not asked for."""
    for shape in [TINY] if tiny else [MINILM, BERT_BASE]:
        with tempfile.TemporaryDirectory() as scratch:
            yield shape, write(Path(scratch) / "model", shape)


def write_encoder(folder: Path, shape: ModelShape) -> Path:
    """A bi-encoder as sentence-transformers saves it: mean pooling, unit vectors."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
    from transformers import BertModel

    bert = _write_bert(folder, shape, BertModel)
    modules = [
        from_folder(Transformer, bert, "random", "", max_seq_length=shape.tokens),
        Pooling(shape.width),
        Normalize(),
    ]
    SentenceTransformer(modules=modules, device="cpu").save_pretrained(str(folder))
    return folder


def write_reranker(folder: Path, shape: ModelShape) -> Path:
    """A cross-encoder as sentence-transformers saves it, with weights so large that its scores differ."""
    from sentence_transformers import CrossEncoder
    from transformers import BertForSequenceClassification

    bert = _write_bert(folder, shape, BertForSequenceClassification, num_labels=1, initializer_range=0.2)
    from_folder(CrossEncoder, bert, "random", "", device="cpu", max_length=shape.tokens).save_pretrained(
        str(folder)
    )
    return folder


def _write_bert(folder: Path, shape: ModelShape, kind: Any, **options: Any) -> Path:
    """A transformer and its tokenizer next to a model's folder."""
    import torch
    from transformers import BertConfig, BertTokenizerFast

    torch.manual_seed(0)
    bert = folder.with_name(folder.name + "-bert")
    bert.mkdir(parents=True)
    (bert / "vocab.txt").write_text("\n".join(_vocabulary()))
    BertTokenizerFast(str(bert / "vocab.txt"), model_max_length=512).save_pretrained(bert)
    config = BertConfig(
        vocab_size=_WORDS, hidden_size=shape.width, num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads, intermediate_size=shape.inner, **options,
    )  # fmt: skip
    with quiet():
        kind(config).save_pretrained(bert)
    return bert


def _vocabulary() -> list[str]:
    """As many words as BERT's vocabulary has tokens: special ones, then one to four syllables."""
    return [*_SPECIAL, *made_up_words(_WORDS - len(_SPECIAL))]
