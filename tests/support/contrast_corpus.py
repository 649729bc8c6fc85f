"""A small linked corpus as an index, and the contrasts mined from it."""

from __future__ import annotations

from typing import Any

from linkseek.indexer.index import OpenIndex
from linkseek.reranker.contrasts import Contrast, read_contrasts
from linkseek.reranker.objectives.registry import CONTRASTS
from linkseek.retriever.mining.miner import Miner
from linkseek.retriever.mining.pairs import write_lines


def mined(
    index: OpenIndex, objective: str, contrasts: int | None = None, seed: int = 1, **settings: Any
) -> list[Contrast]:
    """Contrasts by way of a file."""
    path = index.path.parent / "contrasts.jsonl"
    write_lines(path, Miner(index, CONTRASTS.mix(objective, settings), seed=seed).lines(contrasts))
    return list(read_contrasts(path))
