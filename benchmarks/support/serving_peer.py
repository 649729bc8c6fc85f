"""python -m benchmarks.support.serving_peer INDEX: a server as Search-R1's reference is.

For benchmarks/serving.py: a flat FAISS index in memory, questions encoded by sentence-transformers, one
request at a time.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import faiss
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from linkseek.indexer.index import OpenIndex
from linkseek.retriever.models.bases import load_sentence_transformer
from linkseek.retriever.models.locations import find_model


class Request(BaseModel):
    """The reference's request."""

    queries: list[str]
    topk: int | None = None
    return_scores: bool = False


def create(folder: Path) -> FastAPI:
    """The application over the default encoder's vectors of an index."""
    index = OpenIndex.open(folder)
    name = index.encoder_name()
    flat = faiss.read_index(str(folder / "dense" / name / "index"))
    location = index.parts.dense[name].encoder["location"]
    model = load_sentence_transformer(find_model(location), name).to("cpu")
    passages = [(passage.id, f'"{passage.title}"\n{passage.text}') for passage in index.passages]
    api = FastAPI()

    @api.post("/retrieve")
    async def retrieve(request: Request) -> Any:
        """As the reference, whose work blocks the event loop: one request at a time."""
        vectors = model.encode(request.queries, convert_to_numpy=True, show_progress_bar=False)
        scores, rows = flat.search(vectors, request.topk or 3)
        return {
            "result": [
                [
                    {
                        "document": {"id": passages[row][0], "contents": passages[row][1]},
                        "score": float(score),
                    }
                    for row, score in zip(*pair, strict=True)
                ]
                for pair in zip(rows, scores, strict=True)
            ]
        }

    return api


if __name__ == "__main__":
    uvicorn.run(create(Path(sys.argv[1])), port=int(os.environ["PEER_PORT"]), log_level="warning")
