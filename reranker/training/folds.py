"""Cross-validation: the queries in parts, each ranked by a model that has not seen it (PROP, section 4.4.3).

    FOLDER/fold-N       the model by which the queries of part N are ranked
    FOLDER/folds.tsv    N <tab> query, for each query
    FOLDER/run.trec     the run, each query re-ranked by its model; with data.run only

A query's part depends on `data.seed` and the other queries alone. Of the other parts the next one chooses the
checkpoint, the rest is trained on; `data.shots` draws from that rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from indexer.base.progress import progress
from indexer.base.settings import settings_text
from indexer.index import Index
from indexer.store.artifacts import write_atomically
from reranker.candidates import read_candidates
from reranker.models.scoring import open_scorer
from reranker.reranking import Reranker
from reranker.training.config import FinetuneConfig
from reranker.training.data import draw_queries, fold_of_each, fold_split, query_numbers
from reranker.training.run import train_one
from retriever.ranking import Ranking
from retriever.search.runs import write_run
from retriever.training.data import PairRows
from retriever.training.run import SETTINGS


def cross_validate(
    config: FinetuneConfig, rows: PairRows, data_hash: str, work: Path, *, is_first: bool
) -> None:
    """Train a model a fold, or go on, rank each query by its own, and put all of it into `output.folder`.

    is_first: whether this is the first process, which writes what is more than a model.
    """
    count, folder = config.folds.count, config.output.folder
    assert count is not None
    fold_of = fold_of_each(rows.queries(), count, config.data.seed)
    folds = np.array([fold_of[query] for query in rows.queries()], np.int64)  # [N]
    numbers = query_numbers(rows)
    finished = work / "model"
    for held_out in range(count):
        split = fold_split(folds, held_out, count)
        chosen = split.train[draw_queries(numbers[split.train], config.data.shots, config.data.seed)]
        dev = [rows[row] for row in split.dev[: config.dev.most].tolist()]
        target = finished / f"fold-{held_out}"
        if not target.is_dir():
            finished.mkdir(exist_ok=True)
            inner = work / f"fold-{held_out}"
            inner.mkdir(exist_ok=True)
            train_one(config, rows, chosen, dev, data_hash, target, inner)
    if not is_first:
        return
    if config.data.run:
        _rank(config, finished, fold_of)
    lines = "".join(f"{fold}\t{' '.join(query.split())}\n" for query, fold in fold_of.items())
    write_atomically(finished / "folds.tsv", lines.encode())
    (finished / SETTINGS).write_text(settings_text(config), "utf-8")
    finished.rename(folder)


def _rank(config: FinetuneConfig, finished: Path, fold_of: Mapping[str, int]) -> None:
    """The run in a new order; a query without a judgement, which is in no fold, goes by the first model."""
    data = config.data
    assert data.run and data.index and data.queries and config.folds.count
    queries, ranking, candidates, _ = read_candidates(data.run, Index.open(data.index), data.queries)
    ranked = np.full(ranking.rows.shape, -1, np.int64), np.full(ranking.scores.shape, -np.inf, np.float32)
    for fold in range(config.folds.count):
        places = [n for n, query in enumerate(queries) if fold_of.get(query.text, 0) == fold]
        part = Ranking(tuple(queries[n].id for n in places), ranking.rows[places], ranking.scores[places])
        scorer = open_scorer(str(finished / f"fold-{fold}"), device=config.training.device)
        reranker = Reranker([scorer], candidates, depth=data.depth)
        with progress(f"ranking with fold {fold}", reranker.pairs(part), "pairs") as advance:
            found = reranker.rerank([queries[n] for n in places], part, advance)
        ranked[0][places], ranked[1][places] = found.rows, found.scores
    joined = Ranking(ranking.query_ids, *ranked)
    write_run(finished / "run.trec", joined, lambda rows: [candidates.id(int(row)) for row in rows])
