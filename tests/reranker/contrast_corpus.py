"""A small linked corpus as an index, and the contrasts mined from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tiny_corpus import write_jsonl

from indexer.building.builder import build_index
from indexer.building.plan import Plan
from indexer.index import Index
from reranker.contrasts import Contrast, read_contrasts, write_contrasts
from reranker.mining.miner import ContrastMiner
from reranker.mining.mix import make_mix


def make_index(folder: Path, rows: list[dict[str, Any]], words: int = 100) -> Index:
    corpus = write_jsonl(folder / "corpus.jsonl", rows)
    build_index(
        folder / "index",
        Plan(corpus, format="jsonl", bm25=False, passage_words=words, processes=1),
        lambda name, title: pytest.fail("no encoder is needed"),
    )
    return Index.open(folder / "index")


def document(id_: str, marked: str, **more: Any) -> dict[str, Any]:
    """A document from a text with links as [anchor|target]."""
    text, links, rest = "", [], marked
    while "[" in rest:
        before, _, rest = rest.partition("[")
        anchor, _, rest = rest.partition("]")
        anchor, _, target = anchor.partition("|")
        text += before
        links.append({"start": len(text), "end": len(text) + len(anchor), "target": target or anchor})
        text += anchor
    return {"id": id_, "title": id_, "text": text + rest, "links": links, **more}


def mined(
    index: Index, objective: str, contrasts: int | None = None, seed: int = 1, **settings: Any
) -> list[Contrast]:
    """Contrasts by way of a file."""
    path = index.path.parent / "contrasts.jsonl"
    write_contrasts(path, ContrastMiner(index, make_mix(objective, settings), seed=seed).lines(contrasts))
    return list(read_contrasts(path))
