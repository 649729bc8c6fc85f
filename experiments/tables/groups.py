"""The questions of a test set whose answer a training question has, and the others (Lewis et al. 2021).

A model that has read questions may know answers by heart: what it gains on the others is what it has learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from experiments.studies.overlap import overlap
from linkseek.app.testsets import LoadedTestSet
from linkseek.indexer.program.errors import InputError
from linkseek.retriever.queries import read_queries

KNOWN, NOT_KNOWN = "answer known", "answer not known"


def with_known_answers(test_set: LoadedTestSet, training: Sequence[str], data: Path | None) -> LoadedTestSet:
    """The test set with the groups `KNOWN` and `NOT_KNOWN`; as it is if nothing was read.

    training: files in the folder of the user's own data. Raises `InputError` if one is not there.
    """
    if not training:
        return test_set
    if data is None:
        raise InputError(
            f"{test_set.name}: what its models have read lies among the user's own data",
            "Say where: --data DIR, or LINKSEEK_DATA.",
        )
    read = [question for file in training for question in read_queries(data / file)]
    known = overlap(test_set.queries, read).answer.tolist()
    ids = [query.id for query in test_set.queries]
    groups = {
        name: tuple(id_ for id_, is_known in zip(ids, known, strict=True) if is_known == wanted)
        for name, wanted in ((KNOWN, True), (NOT_KNOWN, False))
    }
    return replace(test_set, groups=dict(test_set.groups) | groups)
