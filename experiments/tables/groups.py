"""The questions of a test set that training questions help to answer, and the others.

A model that has read questions may know answers by heart (Lewis et al. 2021, arXiv 2008.02637): what it gains
on the others is what it has learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from experiments.studies.overlap import overlap
from experiments.tables.definition import TrainingFiles
from linkseek.app.testsets import LoadedTestSet
from linkseek.indexer.program.errors import InputError
from linkseek.retriever.queries import read_queries
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.runs import Qrels, read_qrels

KNOWN, NOT_KNOWN = "answer known", "answer not known"
READ, NOT_READ = "read", "not read"


def with_known_answers(
    test_set: LoadedTestSet, training: Sequence[TrainingFiles], data: Path | None
) -> LoadedTestSet:
    """The test set with the groups `KNOWN` and `NOT_KNOWN`, or `READ` and `NOT_READ` if it has no answers.

    A question was read if a training question has nearly its words, or a document that is relevant to it. The
    set is as it was if nothing was read. data: the folder of the files. Raises `InputError` without one.
    """
    if not training:
        return test_set
    if data is None:
        raise InputError(
            f"{test_set.name}: what its models have read lies among the user's own data",
            "Say where: --data DIR, or LINKSEEK_DATA.",
        )
    questions: list[Query] = []
    documents: set[str] = set()
    for files in training:
        read = read_queries(data / files.queries, files.first)
        questions += read
        if files.qrels:
            qrels = read_qrels(data / files.qrels)
            documents |= {id_ for query in read for id_ in _relevant(qrels, query.id)}
    found = overlap(test_set.queries, questions)
    if found.answers.any():
        names, flags = (KNOWN, NOT_KNOWN), found.answer.tolist()
    else:
        names, flags = (READ, NOT_READ), found.near.tolist()
        for number, query in enumerate(test_set.queries):
            flags[number] |= not documents.isdisjoint(_relevant(test_set.qrels or {}, query.id))
    ids = [query.id for query in test_set.queries]
    groups = {
        name: tuple(id_ for id_, flag in zip(ids, flags, strict=True) if flag == wanted)
        for name, wanted in zip(names, (True, False), strict=True)
    }
    return replace(test_set, groups=dict(test_set.groups) | groups)


def _relevant(qrels: Qrels, query: str) -> set[str]:
    return {document for document, grade in qrels.get(query, {}).items() if grade > 0}
