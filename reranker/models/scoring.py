"""Re-rankers by name: cross-encoders, bi-encoders and neural baselines, which score (query, text) pairs."""

from __future__ import annotations

from pathlib import Path

from reranker.baselines import is_baseline
from reranker.models.bases import CROSS_ENCODER
from reranker.models.bi_encoder import BI_ENCODER_PREFIX, BiEncoderScorer
from reranker.models.cross_encoder import Scorer, bi_encoder_error, load_cross_encoder
from retriever.models.biencoder import open_biencoder
from retriever.models.engine import open_engine
from retriever.models.folders import model_sha256
from retriever.models.locations import (
    BI_ENCODER,
    DEFAULT_ENCODER,
    Kind,
    Precision,
    find_model,
    is_here,
    shipped_models,
)

PairScorer = Scorer | BiEncoderScorer
"""Both have `identity`, `text_format`, `score` and `windows`."""


def open_scorer(
    name: str, *, device: str = "auto", precision: Precision = "auto", threads: int | None = None
) -> PairScorer:
    """Load a cross-encoder by path or name, or a bi-encoder by "bi-encoder:" and its path or name.

    device: see `indexer.base.devices`. precision: of a cross-encoder, "auto" is float32 on a CPU and bfloat16
    on a GPU that has it. threads: of the CPU, default all cores. Raises `InputError` if the model cannot be
    located or read or gives no single score, `UsageError` for a missing device.
    """
    kind, model = _kind(name)
    if kind is BI_ENCODER:
        return BiEncoderScorer(open_biencoder(model, device=device, precision=precision, threads=threads))
    if not is_here(model, CROSS_ENCODER) and model in (DEFAULT_ENCODER, *shipped_models(BI_ENCODER)):
        raise bi_encoder_error(model)
    if is_baseline(Path(model)):
        from reranker.baselines.folders import open_baseline

        return Scorer(open_baseline(model, device))
    return Scorer(open_engine(CROSS_ENCODER, load_cross_encoder, model, device, precision, threads))


def scorer_is_here(name: str) -> bool:
    """Whether `open_scorer` finds a model without a network."""
    kind, model = _kind(name)
    return is_here(model, kind)


def scorer_sha256(name: str) -> str:
    """The hash in a scorer's `identity`, without opening it. Raises `InputError` if it cannot be located."""
    kind, model = _kind(name)
    return model_sha256(find_model(model, kind))


def _kind(name: str) -> tuple[Kind, str]:
    is_bi_encoder = name.startswith(BI_ENCODER_PREFIX)
    return BI_ENCODER if is_bi_encoder else CROSS_ENCODER, name.removeprefix(BI_ENCODER_PREFIX)
