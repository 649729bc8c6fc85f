"""Runs of other systems as pipelines, to be fused or re-ranked: `run = "FILE"`, a TREC run of passages.

Results are looked up by the ids of questions, so only evaluations and runs of files of questions have some.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError, log_line
from linkseek.plugins import OpenPipeline, PipelineEntry, PipelineParts
from linkseek.retriever.ranking import Query, Ranking
from linkseek.retriever.search.runs import read_run, resolve_columns, run_ranking
from linkseek.retriever.search.stages import stage


class RunEntry(PipelineEntry):
    """The results of any system from a TREC run of passages."""

    chosen_by = ("run", "FILE")
    file_key = "run"
    run: Path
    """the file, relative to the one that names it; results are looked up by the ids of questions"""

    def describe(self, index: OpenIndex) -> str:
        return f"Results of the run file {self.run.name}"

    def open(self, parts: PipelineParts, name: str) -> OpenPipeline:
        return OpenPipeline(RecordedRun(parts.index, self.run))


class RecordedRun:
    """Results of another system from a TREC run of passages, looked up by the query's id.

    Ids that the index does not contain are dropped, and the results below move up; the log says how many.
    """

    def __init__(self, index: OpenIndex, path: Path) -> None:
        """Raises the errors of `read_run`, and `InputError` for a run of other passages or of documents."""
        self.path = path
        run = read_run(path)
        ids = list(dict.fromkeys(id_ for results in run.values() for id_ in results))
        resolved = resolve_columns(index, ids)
        row_of = dict(zip(ids, resolved.passages.tolist(), strict=True))
        unknown = [id_ for id_ in ids if row_of[id_] < 0]
        documents = int(((resolved.documents >= 0) & (resolved.passages < 0)).sum())
        if documents > len(ids) - len(unknown):
            raise InputError(
                f"{path}: ranks documents (such as {unknown[0]!r}); a pipeline ranks passages",
                "Give a run of passages. A run of documents can be evaluated: linkseek evaluate --run FILE.",
            )
        if len(unknown) == len(ids):
            raise InputError(
                f"{path}: none of its ids (such as {ids[0]!r}) is a passage of the index",
                "Use the index that the run was made with.",
            )
        known: dict[str, dict[str, float]] = {}
        for query_id, results in run.items():
            best: dict[int, float] = {}
            for id_, score in results.items():  # best first; two ids (one of a redirect) may be the same row
                best.setdefault(row_of[id_], score)
            best.pop(-1, None)
            known[query_id] = {str(row): score for row, score in best.items()}
        self._ranking = run_ranking(known, list(known), lambda rows: np.array(rows, np.int64))  # [R, K]
        if unknown:
            log_line(f"{path.name}: {len(unknown):,} ids are not in the index; skipped")
        self._place = {query_id: place for place, query_id in enumerate(known)}

    @stage("look up run")
    def __call__(self, queries: Sequence[Query], k: int) -> Ranking:
        """The k best passages of each query; -1 for all of a query that the run lacks."""
        places = np.array([self._place.get(query.id, -1) for query in queries], np.int64)  # [Q]
        known, width = places >= 0, min(k, self._ranking.depth)
        rows = np.full((len(queries), k), -1, np.int64)  # [Q, k]
        scores = np.full((len(queries), k), -np.inf, np.float32)  # [Q, k]
        if missing := int((~known).sum()):
            log_line(f"{self.path.name}: {missing:,} of {len(queries):,} questions are not in it: no results")
        rows[known, :width] = self._ranking.rows[places[known], :width]
        scores[known, :width] = self._ranking.scores[places[known], :width]
        return Ranking(tuple(query.id for query in queries), rows, scores)
