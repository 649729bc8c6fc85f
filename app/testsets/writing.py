"""A test set as files: for commands that take questions and judgements from files, such as a fine-tuning."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from linkseek.app.testsets.definition import LoadedTestSet
from linkseek.indexer.store.outputs import check_replaceable, write_output
from linkseek.retriever.queries import queries_lines
from linkseek.retriever.search.runs import qrels_lines


def write_test_set(test_set: LoadedTestSet, folder: Path) -> list[Path]:
    """Write queries.jsonl, qrels.txt if anything is judged, and folds.tsv if there are official folds.

    Only of the test set's questions. Returns the paths. Raises `UsageError` if the user has files there.
    """
    ids = [query.id for query in test_set.queries]
    files: dict[Path, Iterator[bytes]] = {folder / "queries.jsonl": queries_lines(test_set.queries)}
    if test_set.qrels is not None:
        judged = {id_: test_set.qrels[id_] for id_ in ids if id_ in test_set.qrels}
        files[folder / "qrels.txt"] = qrels_lines(judged)
    if test_set.folds:
        files[folder / "folds.tsv"] = (f"{test_set.folds[id_]}\t{id_}\n".encode() for id_ in ids)
    check_replaceable(*files)
    for path, lines in files.items():
        write_output(path, lines)
    return [*files]
