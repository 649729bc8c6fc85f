"""linkseek distill: a static encoder from the token vectors of any encoder, untrained.

Each entry of the vocabulary goes through the encoder alone, its vector is rotated to the axes of largest
variance (PCA), of which `--dimension` stay, and weighted by a / (a + p), p being the share of the token among
the tokens of a corpus and a being `--smoothing` (Arora et al. 2017). An encoder's last step, which scales its
vectors to length 1, is left out. A text is the mean of its tokens, scaled to length 1: the folder is a
sentence-transformers `StaticEmbedding`, as model2vec makes it. Without an index, p is Zipf's law of the
token's place in the vocabulary, which tokenizers order by frequency.

From a vocabulary much larger than a corpus needs, such as a multilingual encoder's, only the tokens of the
corpus are encoded and kept. Its passages are read as before (`retriever.models.saving.with_tokens`); a word
of a question that they lack is spelled by shorter tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from tokenizers import Tokenizer

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.machine.devices import cuda_devices
from linkseek.indexer.program.defaults import DEFAULT_ENCODER
from linkseek.indexer.program.errors import UsageError, log_line
from linkseek.indexer.program.options import Options, Positional, parse_options
from linkseek.indexer.program.progress import progress
from linkseek.retriever.models.biencoder import BiEncoder, PassageTokenizer, load_tower, open_biencoder
from linkseek.retriever.models.facts import padded, special_ids
from linkseek.retriever.models.folders import is_static
from linkseek.retriever.models.library import last_is_norm
from linkseek.retriever.models.locations import find_model
from linkseek.retriever.models.saving import can_lose_tokens, needed_tokens, with_tokens
from linkseek.retriever.models.words import WordTokenizer

PROGRAM = "linkseek distill"

_SAMPLE = 100_000  # passages whose tokens are counted
_BLOCK, _BATCH = 8_192, 256
_MUCH_LARGER = 4
"""A vocabulary this many times as large as the corpus's is not kept whole."""


class DistillOptions(Options):
    """Make a static encoder, which reads thousands of passages a second on a CPU, from any encoder.

    For a corpus in any language, or in several, give its index and a multilingual encoder, which knows some
    hundred languages: only the tokens of the corpus are encoded, in a minute or two, and kept.
    linkseek distill multilingual-e5-small --index index/de --output models/static-de
    """

    encoder: Positional[str] = DEFAULT_ENCODER
    """the encoder that provides the token vectors: a folder or a name"""
    output: Path
    """the folder of the static encoder, which `linkseek build --encoder FOLDER` takes"""
    index: Path | None = None
    """an index whose passages give the frequencies of tokens; by default they follow from the order of the
    vocabulary
    """
    dimension: Annotated[int, Field(ge=1)] | None = None
    """the dimension of a vector; by default the encoder's"""
    random: Annotated[int, Field(ge=0)] | None = None
    """use random vectors with this seed instead of token vectors, with the same weights: a start to compare
    with
    """
    vocabulary: Literal["auto", "corpus", "all"] = "auto"
    """corpus: only the tokens of the passages of --index, and single characters and special tokens, with
    which other words are spelled; auto: corpus if the encoder knows at least four times as many tokens, else
    all
    """
    smoothing: Annotated[float, Field(gt=0)] = 1e-4
    """the frequency of a token, as a share of all, at which its weight is a half; smaller values weaken
    frequent words
    """


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    options = parse_options(DistillOptions, argv, PROGRAM)
    index = OpenIndex.open(options.index) if options.index else None
    if options.vocabulary == "corpus" and index is None:
        raise UsageError("--vocabulary corpus needs a corpus", "Name its index: --index INDEX.")
    encoder = open_biencoder(options.encoder, precision="float32")
    if is_static(find_model(options.encoder)):
        raise UsageError(f"{options.encoder} is static already", "Name another encoder.")
    dimension = options.dimension or encoder.dimension
    if dimension > encoder.dimension:
        raise UsageError(
            f"--dimension {dimension}: the vectors of {encoder.name} have {encoder.dimension} numbers",
            f"Give {encoder.dimension} or less.",
        )
    shares = token_shares(encoder, index)
    kept = _kept(encoder, index, shares, options.vocabulary)  # [V]
    of_texts = ~np.isin(kept, special_tokens(encoder))
    if options.random is None:
        vectors = np.zeros((len(kept), dimension), np.float32)
        vectors[of_texts] = rotated(token_vectors(encoder, kept[of_texts]), dimension)
    else:
        vectors = random_vectors(len(kept), dimension, options.random)
    vectors *= (options.smoothing / (options.smoothing + shares[kept]))[:, None].astype(np.float32)
    vectors[~of_texts] = 0
    _save(encoder, kept, vectors, options)
    log_line(f"{options.output}: {len(vectors):,} tokens, {dimension} numbers each")


def token_vectors(encoder: BiEncoder, kept: NDArray[np.int64]) -> NDArray[np.float32]:
    """The vectors of tokens, each as a text of its own, before they are scaled to length 1: float32 [V, d].

    kept: their ids, [V].
    """
    from linkseek.retriever.models.backends.torch_engine import TorchForward

    chain, facts = load_tower(find_model(encoder.location), encoder.name)
    while last_is_norm(chain.steps):
        del chain.steps[-1]
    device = next(iter(cuda_devices("auto")), "cpu")
    forward = TorchForward(chain, device, "float32", None)
    ids = encoder.tokenizer.encode("").ids  # such as [CLS] [SEP]
    middle = len(ids) // 2
    rows = []
    with progress("token vectors", len(kept), "tokens") as advance:
        for start in range(0, len(kept), _BATCH):
            block = kept[start : start + _BATCH]
            tokens = [[*ids[:middle], int(token), *ids[middle:]] for token in block]
            rows.append(forward(padded(tokens, facts)))
            advance(len(block))
    return np.concatenate(rows)


def rotated(vectors: NDArray[np.float32], dimension: int) -> NDArray[np.float32]:
    """Vectors [V, d] less their mean, in the axes of largest variance: float32 [V, dimension]."""
    centred = vectors - vectors.mean(axis=0)
    _, axes = np.linalg.eigh(centred.T.astype(np.float64) @ centred)  # ascending
    return np.asarray(centred @ axes[:, ::-1][:, :dimension], np.float32)


def random_vectors(count: int, dimension: int, seed: int) -> NDArray[np.float32]:
    """Normally distributed vectors of expected squared length 1, float32 [count, dimension]."""
    drawn = np.random.default_rng(seed).standard_normal((count, dimension), np.float32)
    return drawn / np.float32(dimension**0.5)


def token_shares(encoder: BiEncoder, index: OpenIndex | None) -> NDArray[np.float64]:
    """Each token's share of the tokens of an index's passages, or by Zipf's law, float64 [V].

    For a large index, from a sample of its passages. Without one, tokens that stand for no text have no
    place in the order, and share 0.
    """
    if index is None:
        shares = np.ones(encoder.tokenizer.get_vocab_size())
        shares[special_tokens(encoder)] = 0
        places = np.cumsum(shares) + 1  # 2, 3, ...
        return np.asarray(shares / places / (shares / places).sum())
    counts = token_counts(encoder, index, _SAMPLE)
    return np.asarray(counts / counts.sum())


def token_counts(encoder: BiEncoder, index: OpenIndex, limit: int) -> NDArray[np.int64]:
    """How often each token occurs in `limit` passages of an index, evenly drawn, int64 [V].

    Passages are read as a static encoder reads them: whole, and without a prompt.
    """
    tokenizer = _whole_texts(encoder)
    read = PassageTokenizer(
        WordTokenizer(tokenizer) if WordTokenizer.fits(tokenizer) else tokenizer,
        replace(encoder.text_format, passage_prompt=""),
    )
    texts = index.passages
    counts = np.zeros(tokenizer.get_vocab_size(), np.int64)
    rows = np.unique(np.linspace(0, len(texts) - 1, min(limit, len(texts))).astype(np.int64))
    with progress("counting tokens", len(rows), "passages") as advance:
        for start in range(0, len(rows), _BLOCK):
            block = [texts[int(row)] for row in rows[start : start + _BLOCK]]
            tokens = read([p.title for p in block], [p.text for p in block])
            counts += np.bincount(
                np.concatenate([np.asarray(t, np.int64) for t in tokens]), minlength=len(counts)
            )
            advance(len(block))
    return counts


def _kept(
    encoder: BiEncoder, index: OpenIndex | None, shares: NDArray[np.float64], vocabulary: str
) -> NDArray[np.int64]:
    """The ids of the tokens that get a vector, int64 [V], ascending. shares: the tokens' shares in a sample
    of the index.
    """
    whole = np.arange(len(shares))
    if vocabulary == "all" or index is None or not can_lose_tokens(encoder.tokenizer):
        if vocabulary == "corpus":
            with_tokens(encoder.tokenizer, [])  # raises the error
        return whole
    needed = needed_tokens(encoder.tokenizer)
    kept = np.union1d(np.flatnonzero(shares), [*needed])
    if vocabulary == "auto" and len(kept) * _MUCH_LARGER > len(whole):
        return whole
    if len(index.passages) > _SAMPLE:
        every = token_counts(encoder, index, len(index.passages))
        kept = np.union1d(np.flatnonzero(every), [*needed])
    log_line(f"{encoder.name}: {len(kept):,} of {len(whole):,} tokens are kept, those of {index.path}")
    return kept


def special_tokens(encoder: BiEncoder) -> list[int]:
    """The ids of tokens that stand for no text, such as [CLS] and [unused7]."""
    vocabulary = encoder.tokenizer.get_vocab()
    unused = {number for word, number in vocabulary.items() if word.startswith("[unused")}
    return sorted(special_ids(encoder.tokenizer) | unused)


def _whole_texts(encoder: BiEncoder) -> Tokenizer:
    """The tokenizer of an encoder without a limit."""
    tokenizer = Tokenizer.from_str(encoder.tokenizer.to_str())
    tokenizer.no_truncation()
    return tokenizer


def _save(
    encoder: BiEncoder, kept: NDArray[np.int64], vectors: NDArray[np.float32], options: DistillOptions
) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding

    from linkseek.retriever.models.saving import save_model

    tokenizer = _whole_texts(encoder)
    if len(kept) < tokenizer.get_vocab_size():
        tokenizer = with_tokens(tokenizer, kept.tolist())
    model = SentenceTransformer(modules=[StaticEmbedding(tokenizer, vectors), Normalize()], device="cpu")
    frequencies = "the passages of an index" if options.index else "the order of the vocabulary"
    if options.random is None:
        vectors_are = "The vector of each token alone, rotated by PCA and"
    else:
        vectors_are = f"Random vectors (seed {options.random}) of the tokens,"
    card = (
        f"# A static encoder from {encoder.name}\n\n{vectors_are} "
        f"weighted by {options.smoothing:g} / ({options.smoothing:g} + share), with the shares from "
        f"{frequencies}; not trained. Of {len(kept):,} tokens; a text is the mean of its tokens.\n\n"
        f"| | |\n|---|---|\n"
        f"| SHA-256 of {encoder.name} | `{encoder.identity['sha256']}` |\n"
    )
    save_model(model, options.output, text=card)
