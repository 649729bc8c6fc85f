"""python -m experiments cross-validate CONFIG: fine-tune a re-ranker for each fold of the queries.

The queries are split, each part ranked by a model that has not seen it (PROP, section 4.4.3):

    FOLDER/fold-N       the model by which the queries of part N are ranked
    FOLDER/folds.tsv    N <tab> query, for each query
    FOLDER/run.trec     the run, each query re-ranked by its model; with data.run only

A query's part is given by `folds.file`, or depends on `data.seed` and the other queries alone. Of the other
parts the next one chooses the checkpoint, the rest is trained on; `data.shots` draws from that rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from linkseek.indexer.files.sources import open_source, read_lines
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.program.options import parse_config
from linkseek.indexer.program.progress import progress
from linkseek.indexer.program.settings import Settings, settings_text
from linkseek.indexer.store.artifacts import atomic_file, write_atomically
from linkseek.reranker.candidates import read_candidates
from linkseek.reranker.models.scoring import open_scorer
from linkseek.reranker.reranking import Reranker
from linkseek.reranker.training.config import FinetuneConfig
from linkseek.reranker.training.finetuning import train_on_groups
from linkseek.reranker.training.group_data import (
    GroupTable,
    data_sha256,
    draw_queries,
    open_groups,
    query_numbers,
)
from linkseek.retriever.queries import read_queries
from linkseek.retriever.ranking import Ranking
from linkseek.retriever.search.runs import run_lines
from linkseek.retriever.training.lifecycle import SETTINGS, Run, is_finished, open_run

PROGRAM = "python -m experiments cross-validate"

_FOLDS = "Expected FOLD <tab> QUERY (its id or text) in every line, and three folds or more: 0, 1, 2, ..."


class FoldSettings(Settings):
    """The parts of the queries."""

    count: Annotated[int, Field(ge=3)] = 5
    """parts of the queries: each is ranked by a model that was trained on the others, of which one chooses
    the checkpoint"""
    file: Path | None = None
    """instead of count, the fold of each query: lines FOLD <tab> QUERY, a number from 0 and an id or a text,
    as in the `folds.tsv` of another training"""


class CrossValidationConfig(FinetuneConfig):
    """Fine-tune a re-ranker for each fold of the queries, and rank each fold by its model.

    CONFIG is a TOML file as for `linkseek finetune`, or the name of one in configs/. Started again after an
    interruption, the same command resumes.
    """

    folds: FoldSettings

    @model_validator(mode="after")
    def _without_dev_pairs(self) -> Self:
        if self.dev.pairs:
            raise ValueError("in cross-validation the dev queries are a fold: omit dev.pairs")
        return self


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    cross_validate(parse_config(CrossValidationConfig, argv, PROGRAM))


def cross_validate(config: CrossValidationConfig) -> None:
    """Train one model per fold, or resume, and publish all in `output.folder` atomically.

    Does nothing if it is finished. Raises `UsageError` if the folder contains something else.
    """
    if is_finished(config, config.output.folder):
        return
    with open_run(config.training, config.output) as run:
        sha256 = data_sha256(config.data)
        with run.accelerator.main_process_first():
            table = open_groups(config.data, config.texts.url, run.work, sha256)
        _train_folds(config, run, table, sha256)


def _train_folds(config: CrossValidationConfig, run: Run, table: GroupTable, sha256: str) -> None:
    """Train one model per fold, or resume, rank each query by its model, and publish all results."""
    fold_of = _folds(config, table)
    count = max(fold_of.values()) + 1
    folds = np.array([fold_of[query] for query in table.queries()], np.int64)  # [N]
    numbers = query_numbers(table.queries())
    finished = run.work / "model"
    for held_out in range(count):
        train, dev = fold_split(folds, held_out, count)
        chosen = train[draw_queries(numbers[train], config.data.shots, config.data.seed)]
        dev_rows = dev[np.isin(numbers[dev], np.unique(numbers[dev])[: config.dev.most])]
        dev_pairs = [table[row].record for row in dev_rows.tolist()]
        fold = replace(run, folder=finished / f"fold-{held_out}", work=run.work / f"fold-{held_out}")
        if not fold.folder.is_dir():
            finished.mkdir(exist_ok=True)
            fold.work.mkdir(exist_ok=True)
            train_on_groups(config, fold, table, chosen, dev_pairs, sha256)
    if not run.accelerator.is_main_process:
        return
    if config.data.run:
        _rank(config, finished, fold_of, count)
    lines = "".join(f"{fold}\t{' '.join(query.split())}\n" for query, fold in fold_of.items())
    write_atomically(finished / "folds.tsv", lines.encode())
    (finished / SETTINGS).write_text(settings_text(config), "utf-8", newline="\n")
    finished.rename(run.folder)


def _folds(config: CrossValidationConfig, table: GroupTable) -> dict[str, int]:
    """The fold of each query, by its text."""
    data, folds = config.data, config.folds
    if folds.file is None:
        return fold_of_each(table.queries(), folds.count, data.seed)
    text_of = {query.id: query.text for query in read_queries(data.queries)} if data.queries else {}
    return read_folds(folds.file, table.queries(), text_of)


def _rank(config: CrossValidationConfig, finished: Path, fold_of: Mapping[str, int], count: int) -> None:
    """Write the re-ranked run; a query without a judgement, which is in no fold, goes by the first model."""
    data = config.data
    assert data.run and data.index and data.queries
    queries, ranking, candidates, _ = read_candidates(data.run, OpenIndex.open(data.index), data.queries)
    rows = np.full(ranking.rows.shape, -1, np.int64)
    scores = np.full(ranking.scores.shape, -np.inf, np.float32)
    for fold in range(count):
        places = [n for n, query in enumerate(queries) if fold_of.get(query.text, 0) == fold]
        part = Ranking(tuple(queries[n].id for n in places), ranking.rows[places], ranking.scores[places])
        scorer = open_scorer(str(finished / f"fold-{fold}"), device=config.training.device)
        # What is read of a text is what the fold was trained on.
        reranker = Reranker([scorer], candidates, depth=data.depth, long="first")
        with progress(f"ranking with fold {fold}", reranker.pairs(part), "pairs") as advance:
            reranked = reranker.rerank([queries[n] for n in places], part, advance)
        rows[places], scores[places] = reranked.rows, reranked.scores
    joined = Ranking(ranking.query_ids, rows, scores)
    with atomic_file(finished / "run.trec") as file:
        file.writelines(run_lines(joined, lambda rows: [candidates.id(int(row)) for row in rows]))


def fold_of_each(queries: Iterable[str], count: int, seed: int) -> dict[str, int]:
    """The fold of each query, in [0, count): folds of equal size, by the queries and the seed alone.

    Raises `InputError` if there are fewer queries than folds.
    """
    distinct = list(dict.fromkeys(queries))
    if len(distinct) < count:
        raise InputError(f"folds.count is {count}, and there are {len(distinct)} queries", "Ask for fewer.")
    order = np.random.default_rng(seed).permutation(len(distinct)).tolist()
    return {distinct[query]: place % count for place, query in enumerate(order)}


def read_folds(path: Path, queries: Iterable[str], text_of: Mapping[str, str]) -> dict[str, int]:
    """The fold of each query by a file of lines FOLD <tab> QUERY, as in FOLDER/folds.tsv.

    queries: that need a fold. text_of: of the run's queries, by id. A line names a query by id or text; those
    of other queries are skipped. Raises `InputError` naming file and line for any other line and a query in
    two folds, and for a query without a fold, a fold without a query, and fewer than three folds.
    """
    queries = list(queries)
    named = {" ".join(text.split()): text for text in (*queries, *text_of.values())} | dict(text_of)
    fold_of: dict[str, int] = {}
    _, stream = open_source(path)
    with stream:
        for number, line in read_lines(stream):
            fold, _, name = line.decode("utf-8", "replace").partition("\t")
            name = " ".join(name.split())
            if not (fold.isascii() and fold.isdecimal() and name):
                raise InputError(f"{path}, line {number:,}: not a query of a fold: {line[:60]!r}", _FOLDS)
            query = named.get(name)
            if query is not None and fold_of.setdefault(query, int(fold)) != int(fold):
                raise InputError(
                    f"{path}, line {number:,}: {name!r} is also in fold {fold_of[query]}", _FOLDS
                )
    without = next((query for query in queries if query not in fold_of), None)
    if without is not None:
        raise InputError(f"{path}: no fold for the query {without!r}", _FOLDS)
    used = {fold_of[query] for query in queries}
    if len(used) < 3 or used != set(range(max(fold_of.values()) + 1)):
        raise InputError(f"{path}: the judged queries are in the folds {sorted(used)}", _FOLDS)
    return fold_of


def fold_split(
    folds: NDArray[np.int64], held_out: int, count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows that are trained on and those that choose the checkpoint, int64 [n] each.

    One fold is ranked, the next one chooses, the others are trained on. folds: int64 [N], of each row.
    """
    dev = (held_out + 1) % count
    train = np.flatnonzero((folds != held_out) & (folds != dev))
    return train, np.flatnonzero(folds == dev)
