"""Re-rankers by name, which score (query, text) pairs: cross-encoders, bi-encoders, kinds of plug-ins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.encoding.batches import TokenRows, encode_texts
from linkseek.indexer.encoding.encode import OnRows
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.machine.devices import Precision
from linkseek.indexer.program.defaults import DEFAULT_ENCODER
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.store.artifacts import LATE, LATE_PREFIX, encoder_of, vector_part
from linkseek.reranker.candidates import Candidates
from linkseek.reranker.kinds import kind_of_folder
from linkseek.reranker.models.bases import CROSS_ENCODER
from linkseek.reranker.models.cross_encoder import BLOCK_PAIRS, Scorer, bi_encoder_error, load_cross_encoder
from linkseek.reranker.pair_texts import PairFormat, Readable
from linkseek.retriever.models.biencoder import BiEncoder, open_biencoder
from linkseek.retriever.models.engine import Engine, open_engine
from linkseek.retriever.models.facts import card_languages, token_ids, unpooled_tokens
from linkseek.retriever.models.folders import model_sha256
from linkseek.retriever.models.late import LateEncoder
from linkseek.retriever.models.library import LIBRARIES
from linkseek.retriever.models.locations import BI_ENCODER, ModelKind, find_model, is_here, shipped_models
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.explanation import Part
from linkseek.retriever.search.late_interaction import LateInteraction

BI_ENCODER_PREFIX = "bi-encoder:"
"""Marks the name of an encoder whose dot products are the scores."""


class BiEncoderScorer:
    """A bi-encoder as a re-ranker: a score is the dot product of the vectors of query and text.

    It ranks candidates as a search over the vectors of all passages would, without storing vectors: the
    baseline of re-rankers that read query and text together, and a way to re-rank any run with any encoder.
    """

    def __init__(self, encoder: BiEncoder) -> None:
        self.text_format = PairFormat(**asdict(encoder.text_format))
        self.identity = encoder.identity | {"name": BI_ENCODER_PREFIX + encoder.name}
        self._encoder = encoder
        self._readable = Readable(encoder.facts)

    def score(
        self, queries: Iterable[str], texts: Iterable[str], on_rows: OnRows = lambda rows: None
    ) -> NDArray[np.float32]:
        """As a cross-encoder's (`Scorer`). Each query of a block is encoded once."""
        pairs = zip(queries, map(self._readable.start, texts), strict=True)
        scores = [np.empty(0, np.float32)]
        while block := list(islice(pairs, BLOCK_PAIRS)):
            place = {query: n for n, query in enumerate(dict.fromkeys(query for query, _ in block))}
            distinct = self._encode(self._encoder.queries, [*place], self.text_format.query_prompt)  # [Q, d]
            query_vectors = distinct[[place[query] for query, _ in block]]  # [b, d]
            texts, prompt = [text for _, text in block], self.text_format.passage_prompt
            passages = self._encode(self._encoder, texts, prompt, on_rows)  # [b, d]
            scores.append(np.einsum("bd,bd->b", query_vectors, passages))
        return np.concatenate(scores)

    def windows(self, query: str, head: str, text: str) -> list[str]:
        """As a cross-encoder's (`Scorer`); the query takes no space of the text."""
        return self._readable.windows(head, text)

    def _encode(
        self, tower: Engine, texts: list[str], prompt: str, on_rows: OnRows = lambda rows: None
    ) -> NDArray[np.float32]:
        """Vectors [n, d] of texts that begin with a prompt, as they are compared."""
        unpooled = unpooled_tokens(tower.tokenizer, tower.facts, prompt)
        tokens = TokenRows.of(token_ids(tower.tokenizer, texts, unpooled))
        return tower.comparable(encode_texts(tower, tokens, on_rows))


PairScorer = Scorer | BiEncoderScorer
"""Both have `identity`, `text_format`, `score` and `windows`."""


def open_scorer(name: str, device: str = "auto", precision: Precision = "auto") -> PairScorer:
    """Load a cross-encoder by path or name, or a bi-encoder by "bi-encoder:" and its path or name.

    device: see `indexer.machine.devices`. precision: "auto" is bfloat16 where the CPU or GPU multiplies
    it: nearly twice as fast, and scores are off by up to a twentieth of their spread. Raises `InputError` if
    the model cannot be located or read or gives no single score, `UsageError` for a missing device.
    """
    kind, model = _kind(name)
    if kind is BI_ENCODER:
        return BiEncoderScorer(open_biencoder(model, device=device, precision=precision))
    if not is_here(model, CROSS_ENCODER) and model in (DEFAULT_ENCODER, *shipped_models(BI_ENCODER)):
        raise bi_encoder_error(model)
    if plugged_in := kind_of_folder(Path(model)):
        with LIBRARIES:
            return Scorer(plugged_in.open(model, device))
    return Scorer(open_engine(CROSS_ENCODER, load_cross_encoder, model, device, precision))


def scorer_is_here(name: str) -> bool:
    """Whether `open_scorer` finds a model without a network."""
    kind, model = _kind(name)
    return is_here(model, kind)


def scorer_languages(name: str) -> tuple[str, ...]:
    """The codes of the languages that the card of a scorer names. Raises `InputError` as `scorer_sha256`."""
    kind, model = _kind(name)
    return card_languages(find_model(model, kind))


def scorer_sha256(name: str) -> str:
    """The hash in a scorer's `identity`, without opening it. Raises `InputError` if it cannot be located."""
    kind, model = _kind(name)
    return model_sha256(find_model(model, kind))


def _kind(name: str) -> tuple[ModelKind, str]:
    is_bi_encoder = name.startswith(BI_ENCODER_PREFIX)
    return BI_ENCODER if is_bi_encoder else CROSS_ENCODER, name.removeprefix(BI_ENCODER_PREFIX)


def index_scorer(index: OpenIndex, name: str, open_encoder: Callable[..., LateEncoder]) -> IndexScorer | None:
    """A re-ranker of the index's own token vectors; None for the name of a model.

    Raises `UsageError` if the index lacks them.
    """
    if name == LATE or name.startswith(LATE_PREFIX):
        return LateScorer(index, late_name(index, name) or name.removeprefix(LATE_PREFIX), open_encoder)
    return None


def late_name(index: OpenIndex, name: str) -> str | None:
    """The encoder that `late` or `late:NAME` means in an index; None for other names, or if it has none."""
    names = index.parts.late
    if name == LATE:
        return next(iter(names), None)
    is_late = name.startswith(LATE_PREFIX)
    return encoder_of(vector_part(name)) if is_late and vector_part(name) in index.parts else None


class IndexScorer(ABC):
    """A re-ranker that looks passages up in the index, by their rows, in place of reading their texts."""

    identity: dict[str, Any]
    """everything that its scores depend on but for the index; "name" is for people"""

    def scores(
        self, queries: Sequence[Query], candidates: Candidates, rows: NDArray[np.int64], on_pairs: OnRows
    ) -> NDArray[np.float32]:
        """Scores [Q, D] of candidates by their rows [Q, D], where -1 is an empty place, which gets 0.

        on_pairs: gets the number of pairs that were scored since its last call. Raises `InputError` for
        documents of an index of passages, which has no scores of them.
        """
        if candidates.level == "documents":
            raise InputError(
                f"{self.identity['name']} scores passages of the index; the candidates are whole documents",
                "Build an index with --passage-words 0, whose passages are the documents.",
            )
        own = np.array(
            [[candidates.index_row(row) if row >= 0 else -1 for row in few] for few in rows.tolist()]
        )
        return self._scores(queries, own.reshape(rows.shape).astype(np.int64), on_pairs)

    @abstractmethod
    def _scores(
        self, queries: Sequence[Query], rows: NDArray[np.int64], on_pairs: OnRows
    ) -> NDArray[np.float32]:
        """The same of rows of the index [Q, D]."""

    def explain(self, query: Query, row: int) -> Sequence[Part]:
        """The parts of the score of a passage of the index by its row; none by default."""
        return ()


class LateScorer(IndexScorer):
    """Late interaction: MaxSim of a question's token vectors with the stored codes of a passage's."""

    def __init__(self, index: OpenIndex, name: str, open_encoder: Callable[..., LateEncoder]) -> None:
        """As `LateInteraction`."""
        self._late = LateInteraction(index, name, open_encoder)
        self.identity = self._late.identity

    def _scores(
        self, queries: Sequence[Query], rows: NDArray[np.int64], on_pairs: OnRows
    ) -> NDArray[np.float32]:
        scores = np.zeros(rows.shape, np.float32)  # [Q, D]
        for number, own in enumerate(self._late.scores(queries, rows)):
            scores[number] = own
            on_pairs(int((rows[number] >= 0).sum()))
        return scores

    def explain(self, query: Query, row: int) -> Sequence[Part]:
        """Each word of the query, with the word of the passage that is nearest to it."""
        return self._late.parts(query, row)
