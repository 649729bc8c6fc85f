"""The bi-encoder: any sentence-transformers model, for passages and queries.

A vector differs from `SentenceTransformer.encode` in float32 by precision alone (1 - cosine below 1e-3).
`retriever.models.engine` decides where and how the model runs; batching is up to the caller
(`indexer.encoding.batches`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from linkseek.indexer.encoding.batches import Tokens, encode_texts
from linkseek.indexer.language.codes import ENGLISH
from linkseek.indexer.machine.devices import Precision, cuda_devices
from linkseek.indexer.machine.once import shared_property
from linkseek.indexer.program.defaults import DEFAULT_ENCODER, MULTILINGUAL
from linkseek.indexer.program.errors import InputError, log_line
from linkseek.retriever.models.backends.conversions import library_probe
from linkseek.retriever.models.bases import has_two_towers, one_tower
from linkseek.retriever.models.engine import Engine, Opened, open_engine
from linkseek.retriever.models.facts import ModelFacts, reading, token_ids, unpooled_tokens
from linkseek.retriever.models.folders import is_cross_encoder, makes_vectors
from linkseek.retriever.models.locations import (
    BI_ENCODER,
    PASSAGES,
    QUERIES,
    QUERY_TOWER,
    STATIC_ENCODER,
    ModelKind,
    find_model,
    is_here,
    shipped_models,
)
from linkseek.retriever.models.prompts import check_prompts, prompts_for
from linkseek.retriever.models.words import WordTokenizer

if TYPE_CHECKING:
    from linkseek.indexer.encoding.encode import OnRows
    from linkseek.indexer.store.manifests import Reading
    from linkseek.retriever.models.backends.torch_engine import ModuleChain


@dataclass(frozen=True)
class TextFormat:
    """How a title and a text become the one text that the model reads.

    Prompts and the separator are the model's own (`config_sentence_transformers.json`), such as E5's
    "query: " and DPR's " [SEP] ".
    """

    title: bool = True
    passage_prompt: str = ""
    query_prompt: str = ""
    title_separator: str = " "

    def passage(self, title: str, text: str) -> str:
        """The text of a passage; a passage without a title is its text alone."""
        head = title + self.title_separator if self.title and title else ""
        return self.passage_prompt + head + text

    def query(self, text: str) -> str:
        """The text of a query; a typographic apostrophe becomes a plain one, as in DPR and HLP."""
        return self.query_prompt + text.replace("\u2019", "'")


@dataclass(frozen=True)
class PassageTokenizer:
    """(titles, texts) -> token ids of passages. Can be sent to another process."""

    tokenizer: Tokenizer | WordTokenizer
    text_format: TextFormat
    unpooled: int = 0
    """how many first tokens of each text are read, but not pooled"""

    def __call__(self, titles: Sequence[str], texts: Sequence[str]) -> Sequence[Tokens]:
        """Special tokens included, at most as many as the model reads."""
        both = [self.text_format.passage(*pair) for pair in zip(titles, texts, strict=True)]
        if isinstance(self.tokenizer, WordTokenizer):
            return self.tokenizer(both)
        return token_ids(self.tokenizer, both, self.unpooled)


class PassageEncoder(Engine):
    """An encoder of passages and queries of any kind."""

    kind: ModelKind = BI_ENCODER

    def __init__(
        self, opened: Opened, title: bool, query_prompt: str | None = None, passage_prompt: str | None = None
    ) -> None:
        """title: whether passages are read with their title.

        query_prompt, passage_prompt: instead of the model's own. Raises as `check_prompts`.
        """
        super().__init__(opened)
        facts = opened.facts
        family = self.name if facts.family_prompts else ""
        prompts = prompts_for(family, facts.query_prompt, facts.passage_prompt, query_prompt, passage_prompt)
        check_prompts(prompts.query, prompts.passage, facts.title_separator)
        self.text_format = TextFormat(title, prompts.passage, prompts.query, facts.title_separator)
        self.note = prompts.note
        """For people, at the start of a build: settings that its folder does not name."""
        self.identity: dict[str, Any] = {
            "name": self.name,
            "sha256": opened.sha256,
            "dimension": self.dimension,
            "max_tokens": self.max_tokens,
        } | asdict(self.text_format)

    def reading(self, texts: Sequence[str]) -> Reading:
        """Facts about how it reads texts."""
        return reading(self.tokenizer, find_model(self.location, self.kind), texts)


class BiEncoder(PassageEncoder):
    """An encoder for passages and queries. Make one with `open_biencoder`."""

    def __init__(
        self,
        opened: Opened,
        title: bool = True,
        open_queries: Callable[[], Engine] | None = None,
        **prompts: str | None,
    ) -> None:
        """As `PassageEncoder`. open_queries: opens the tower of queries, if it is another, for the first."""
        super().__init__(opened, title, **prompts)
        facts = opened.facts
        self._open_queries = open_queries
        if not (facts.similarity or facts.is_unit):
            self.note = "; ".join(filter(None, [self.note, _NO_SIMILARITY]))
        tokenizer = WordTokenizer(self.tokenizer) if WordTokenizer.fits(self.tokenizer) else self.tokenizer
        unpooled = unpooled_tokens(self.tokenizer, facts, self.text_format.passage_prompt)
        self.tokenize_passages = PassageTokenizer(tokenizer, self.text_format, unpooled)
        if self.scales:
            self.identity["similarity"] = facts.similarity
        if facts.truncation_side != "right":
            self.identity["truncation_side"] = facts.truncation_side
        if facts.excludes_prompt:
            self.identity["include_prompt"] = False

    @shared_property
    def queries(self) -> Engine:
        """The encoder of queries: this one, or the other of two towers."""
        queries = self._open_queries() if self._open_queries else self
        if queries.dimension != self.dimension:
            raise InputError(
                f"encoder {self.name}: vectors of questions have {queries.dimension:,} numbers, "
                f"vectors of passages {self.dimension:,}",
                "Train or save it with two towers of one dimension.",
            )
        return queries

    def encode_rows(
        self, tokens: Sequence[Tokens], on_rows: OnRows, first_passage: int
    ) -> NDArray[np.float32]:
        """As of `indexer.encoding.encode.Encoder`."""
        return self.comparable(encode_texts(self, tokens, on_rows, first_passage))

    def tokenize_queries(self, texts: Sequence[str], prompt: str | None = None) -> list[Tokens]:
        """Token ids of queries. prompt: before each, instead of this encoder's."""
        form = self.text_format if prompt is None else replace(self.text_format, query_prompt=prompt)
        tokenizer = self.queries.tokenizer
        unpooled = unpooled_tokens(tokenizer, self.queries.facts, form.query_prompt)
        return token_ids(tokenizer, [form.query(text) for text in texts], unpooled)

    def encode_queries(self, texts: Sequence[str], prompt: str | None = None) -> NDArray[np.float32]:
        """Vectors of queries as the model makes them, float32 [Q, d].

        prompt: such as the prompt of an index's vectors.
        """
        return encode_texts(self.queries, self.tokenize_queries(texts, prompt))

    def search_vectors(self, texts: Sequence[str], prompt: str | None = None) -> NDArray[np.float32]:
        """Vectors of queries whose inner products with an index's are the model's similarity."""
        return self.queries.comparable(self.encode_queries(texts, prompt))


_NO_SIMILARITY = (
    "its vectors are compared by inner product, because its folder names no other way "
    "(similarity_fn_name in config_sentence_transformers.json)"
)


def open_biencoder(
    name: str,
    *,
    title: bool = True,
    device: str = "auto",
    precision: Precision = "auto",
    threads: int | None = None,
    streams: int | None = None,
    query_prompt: str | None = None,
    passage_prompt: str | None = None,
) -> BiEncoder:
    """Load a sentence-transformers model by path or name.

    title: whether passages are read with their title. device: see `indexer.machine.devices`. threads: the
    number of CPU threads, by default all cores. streams: batches at the same time on a CPU, default one for
    each thread; with 1, a single question is answered soonest. query_prompt, passage_prompt: the text before
    each text, by default the model's own (`prompts_for`). Raises `InputError` if the model cannot be located
    or read, `UsageError` for a missing device.
    """

    def open_queries() -> Engine:
        load = partial(load_tower, route=QUERIES)
        return Engine(open_engine(QUERY_TOWER, load, name, device, precision, threads, streams))

    opened = open_engine(BI_ENCODER, load_tower, name, device, precision, threads, streams)
    towers = open_queries if opened.facts.two_towers else None
    return BiEncoder(opened, title, towers, query_prompt=query_prompt, passage_prompt=passage_prompt)


def check_encoders(names: Sequence[str], device: str, faiss: str) -> None:
    """Locate the models of a build, and check its device and FAISS type, before the first document is read.

    A FAISS factory string must fit the dimension of the vectors: for it, the models are opened. Raises as
    `open_biencoder` and `empty_index`.
    """
    from linkseek.indexer.search.compact import COMPACT  # an encoder alone needs no FAISS
    from linkseek.indexer.search.faiss_index import AUTO, FLAT, empty_index

    if device != "auto":
        cuda_devices(device)
    for name in (DEFAULT_ENCODER if name == "auto" else name for name in names):
        _check_makes_vectors(find_model(name), name)
        if faiss not in (AUTO, FLAT, COMPACT):
            empty_index(faiss, open_biencoder(name, title=True, device=device).dimension, rows=sys.maxsize)


def _check_makes_vectors(folder: Path, name: str) -> None:
    if is_cross_encoder(folder) and not makes_vectors(folder):
        raise InputError(
            f"encoder {name}: it is a cross-encoder, which scores pairs instead of making vectors",
            "It can re-rank the results of another pipeline: see docs/reference/pipelines.md.",
        )


def load_tower(folder: Path, name: str, route: str = PASSAGES) -> tuple[ModuleChain, ModelFacts]:
    """A bi-encoder from token ids to vectors; of two towers, the tower of passages or queries.

    Raises `InputError` if it cannot be read.
    """
    from linkseek.retriever.models.backends.poolings import PromptFreePooling
    from linkseek.retriever.models.backends.torch_engine import ModuleChain
    from linkseek.retriever.models.bases import load_sentence_transformer
    from linkseek.retriever.models.library import SAVE_AGAIN, compares_by, last_is_norm, model_facts, usable

    _check_makes_vectors(folder, name)
    model = load_sentence_transformer(folder, name)
    two_towers = has_two_towers(model)
    if two_towers:
        model = one_tower(model, route, name)
    is_unit = last_is_norm(model) and model.truncate_dim is None
    similarity = compares_by(folder, name, is_unit=is_unit)
    facts = replace(model_facts(model, name), two_towers=two_towers, similarity=similarity, is_unit=is_unit)
    model.max_seq_length = facts.max_tokens  # above its positions, the library fails
    with usable(f"encoder {name}: the library cannot encode with it", SAVE_AGAIN):
        probe = library_probe(model, facts)
    modules = [PromptFreePooling(m) if hasattr(m, "include_prompt") else m for m in model]
    steps = modules if facts.excludes_prompt else list(model)
    return ModuleChain(steps, "sentence_embedding", width=model.truncate_dim, probe=probe), facts


_RATES = {DEFAULT_ENCODER: 54, MULTILINGUAL: 27}
"""Passages a second and core (docs/how-to/large-corpora.md)."""
_LIMIT = 3_600  # seconds


def encoder_for(passages: int, language: str, device: str = "auto") -> str:
    """The encoder of `--encoder auto`: the default one, or the multilingual one for other languages.

    The latter if it is on this machine; the static one where that would take more than an hour without a GPU.

    The time is computed from a recorded rate, not measured: with the same corpus, the same machine always
    chooses the same. The choice is logged. Raises `UsageError` for a missing device.
    """
    cores = os.cpu_count() or 1
    chosen = MULTILINGUAL if language != ENGLISH and is_here(MULTILINGUAL) else DEFAULT_ENCODER
    seconds = passages / (_RATES[chosen] * cores)
    if seconds <= _LIMIT or STATIC_ENCODER not in shipped_models() or cuda_devices(device):
        log_line(f"encoder: {chosen}")
        return chosen
    log_line(
        f"encoder: {STATIC_ENCODER}, since {chosen} would take about {seconds / 3_600:,.1f} hours for "
        f"{passages:,} passages on {cores} cores without a GPU; --encoder {chosen} takes it anyway"
    )
    return STATIC_ENCODER
