"""Any pipeline as a search model of MTEB (version 2's `SearchProtocol`, mteb/models/models_protocols.py).

    import mteb
    from mteb_search import MtebSearch
    model = MtebSearch("index/mteb", "hybrid", encoders="all-MiniLM-L6-v2")
    mteb.evaluate(model, mteb.get_tasks(["NFCorpus"]))

Each corpus of a task becomes an index below the folder. Only `mteb_model_meta` needs MTEB.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import linkseek

Row = Mapping[str, Any]

_PASSAGES = 10
"""Passages searched for per requested document, where documents are split."""


class MtebSearch:
    """Builds an index of a task's corpus, and answers its queries by a pipeline."""

    def __init__(
        self, folder: str | Path, pipeline: str = "bm25", encoders: str | Sequence[str] = (), **options: Any
    ) -> None:
        """folder: for the indexes. encoders, options: as for `linkseek.build`.

        Documents are not split unless `passage_words` asks for it; then the best passage counts.
        """
        self.pipeline = pipeline
        self._folder = Path(folder)
        self._encoders = encoders
        self._options = {"passage_words": 0, **options}
        self._index: linkseek.Index | None = None

    def index(
        self, corpus: Iterable[Row], *, task_metadata: Any, hf_split: str, hf_subset: str, **_: Any
    ) -> None:
        """Index a corpus of rows with "id", "text" and perhaps "title"; reuses what is unchanged."""
        task = str(getattr(task_metadata, "name", task_metadata))
        name = re.sub(r"[^\w.-]+", "_", "-".join([task, hf_split, hf_subset]))
        documents = (
            {"id": str(row["id"]), "title": row.get("title") or "", "text": row["text"]} for row in corpus
        )
        self._folder.mkdir(parents=True, exist_ok=True)
        self._index = linkseek.build(documents, self._folder / name, self._encoders, **self._options)

    def search(
        self,
        queries: Iterable[Row],
        *,
        top_k: int,
        top_ranked: Mapping[str, Sequence[str]] | None = None,
        **_: Any,
    ) -> dict[str, dict[str, float]]:
        """Query id -> document id -> score, for the top_k documents of each query.

        top_ranked: of tasks that re-rank: only these documents of a query count. Raises `UsageError` before
        `index`.
        """
        if self._index is None:
            raise linkseek.UsageError("there is no index to search", "Call index first, as MTEB does.")
        texts = {str(row["id"]): str(row["text"]) for row in queries}
        everything = len(self._index.passages)
        split = self._options["passage_words"] != 0
        k = everything if top_ranked is not None else top_k * (_PASSAGES if split else 1)
        k = min(k, everything)
        results: dict[str, dict[str, float]] = {query: {} for query in texts}
        # of any length, as in BRIGHT: a text alone may not be so long
        asked = [linkseek.Query(query, text) for query, text in texts.items() if text.strip()]
        hits = self._index.search(asked, k, self.pipeline).by_question() if asked else {}
        for query, listed in hits.items():
            allowed = None if top_ranked is None else set(top_ranked.get(query, ()))
            for passage, score in listed:
                document = passage.document_id
                if len(results[query]) < top_k and (allowed is None or document in allowed):
                    results[query].setdefault(document, score)
        return results

    @property
    def mteb_model_meta(self) -> Any:
        """MTEB's description of the model, which is named after the pipeline."""
        from mteb.models.model_meta import ModelMeta  # type: ignore[import-not-found, unused-ignore]

        return ModelMeta.create_empty({"name": f"linkseek/{self.pipeline}"})
