"""The training examples that objectives make of one article, without mining the index.

An objective makes its candidates from the links around the article (`retriever.links.neighbourhood`): all of
the article's, in the time that these links take. PROP counts the words of the whole collection and
HARP looks for anchors everywhere: that is done once for an index, and skipped where it would take minutes.
HARP reads its examples with an encoder, if that is on this machine, one after another while there is time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.machine.once import shared_property
from linkseek.indexer.program.errors import LinkseekError
from linkseek.reranker.objectives.base import ContrastSource
from linkseek.reranker.objectives.registry import CONTRASTS
from linkseek.retriever.links.neighbourhood import around_document
from linkseek.retriever.links.topology import Topology
from linkseek.retriever.mining.examples import Example
from linkseek.retriever.mining.objective import Objective, Rows
from linkseek.retriever.models.locations import is_here
from linkseek.retriever.objectives.registry import PAIRS

MAX_PASSAGES = 500_000
"""Of an index that is read as a whole: half a minute for PROP on one core."""
SECONDS = 1.5
"""How long an objective may make examples, and may wait for an encoder that others use."""

_STARTS = 12
_TRIES = 4  # candidates read for each example: some give none
_MAX_DRAW = 1 << 62
_PREPARING, _READING = threading.Lock(), threading.Lock()


@dataclass(frozen=True, slots=True)
class ObjectiveExamples:
    """Some of the examples that an objective makes of an article. count: of all examples, by kind.

    unit: the word for one example. why: a sentence on why examples are missing, or "".
    """

    objective: str
    summary: str
    count: dict[str, int]
    examples: tuple[Example, ...] = ()
    unit: str = "pair"
    why: str = ""


class Mining:
    """One index with its cached corpus-wide counts."""

    def __init__(self, index: OpenIndex, topology: Topology) -> None:
        """topology: of the whole index."""
        self.index, self.topology = index, topology
        self.prepared: dict[str, tuple[Objective[Any], Mapping[str, Rows]]] = {}
        """Objectives that read the whole index, ready to be used, and their candidates, by name."""

    @shared_property
    def most_linked(self) -> tuple[int, ...]:
        """The documents that most others link to: good ones to begin with."""
        return tuple(np.argsort(-self.topology.in_degree, kind="stable")[:_STARTS].tolist())

    def near(self, document: int) -> Near:
        """The surroundings of one document."""
        return Near(self, document)


class Near:
    """The passages of one document, and a source that holds only the links around it."""

    def __init__(self, mining: Mining, document: int) -> None:
        self.mining, self.document = mining, document
        first, last = map(int, mining.index.passages.offsets[document : document + 2])
        self.passages = range(first, last)
        self.source = ContrastSource(mining.index, topology=around_document(mining.topology, document))


Miner = Callable[[Near, int], ObjectiveExamples]
"""Makes at most N examples of an article, the same ones each time."""


@cache
def pair_miners() -> dict[str, Miner]:
    """A miner for every objective of retrievers, by name."""
    return {name: partial(mine_examples, objective) for name, objective in PAIRS.objectives.items()}


@cache
def contrast_miners() -> dict[str, Miner]:
    """A miner for every objective of cross-encoders with its default settings, by name."""
    objectives = sorted(CONTRASTS.objectives.items())
    return {name: partial(mine_examples, objective) for name, objective in objectives}


def spread(count: int, limit: int) -> list[int]:
    """Candidate numbers to try for `limit` examples, spread over the article."""
    if count <= limit:
        return [*range(count)]
    order = np.linspace(0, count - 1, min(limit * _TRIES, count)).astype(np.int64)
    return [number for start in range(_TRIES) for number in order[start::_TRIES].tolist()]


def mine_examples(objective: Objective[Any], near: Near, limit: int) -> ObjectiveExamples:
    """Examples from all over the article, the same number of each kind, and why some are missing."""
    counts, is_late = {objective.name: 0}, False
    examples: list[Example] = []

    def mined(why: str = "") -> ObjectiveExamples:
        name, summary = objective.name, objective.summary
        return ObjectiveExamples(name, summary, counts, tuple(examples), objective.unit, why)

    obstacle = _obstacle(objective, len(near.source.index.passages))
    if obstacle:
        return mined(obstacle)
    with _use_encoder(objective) as is_free:
        if not is_free:
            return mined("The encoder is at work for others. Look again in a moment.")
        try:
            prepared, candidates = _candidates(objective, near)
            own = {
                kind: rows[prepared.documents(near.source, rows) == near.document]
                for kind, rows in candidates.items()
            }
            counts = {kind: len(rows) for kind, rows in own.items()}
            for rows in own.values():
                made, is_late = _examples(prepared, near, rows, max(limit // len(own), 1))
                examples += made
        except LinkseekError as error:
            return mined(f"{error.message}. {error.hint}")
    if is_late:
        return mined("More would take too long to read here.")
    if prepared.needs_whole and not any(map(len, candidates.values())):
        return mined(f"In this index {prepared.name} {prepared.why_none(near.source)}.")
    return mined(
        f"It has no passage {prepared.missing}." if prepared.missing and not any(counts.values()) else ""
    )


def _obstacle(objective: Objective[Any], passages: int) -> str:
    """Why an objective cannot be shown on a page."""
    command = f"linkseek mine-contrasts --objective {objective.name} mines it."
    if objective.needs_whole and passages > MAX_PASSAGES:
        return f"It reads the whole index first, and {passages:,} passages take too long here: {command}"
    if objective.needed_encoder and not is_here(objective.needed_encoder):
        return f"Its encoder, {objective.needed_encoder}, is not on this machine: {command}"
    return ""


@contextmanager
def _use_encoder(objective: Objective[Any]) -> Iterator[bool]:
    """Whether no other page reads with the encoder, which sets the threads of the whole process."""
    if not objective.needed_encoder:
        yield True
        return
    is_free = _READING.acquire(timeout=SECONDS)
    try:
        yield is_free
    finally:
        if is_free:
            _READING.release()


def _candidates(objective: Objective[Any], near: Near) -> tuple[Objective[Any], Mapping[str, Rows]]:
    """The objective, ready to be used, and candidates with all of the article's among them."""
    if not objective.needs_whole:
        return objective, objective.candidates(near.source)
    prepared, name = near.mining.prepared, objective.name
    with _PREPARING:  # two visitors must not count the same words
        if name not in prepared:
            whole = ContrastSource(near.mining.index, topology=near.mining.topology)
            ready = objective.prepare(whole)
            prepared[name] = ready, ready.candidates(whole)
    return prepared[name]


def _examples(objective: Objective[Any], near: Near, rows: Rows, limit: int) -> tuple[list[Example], bool]:
    """At most `limit` examples, and whether the time ran out before."""
    generator = np.random.default_rng(near.document)
    until = time.monotonic() + SECONDS
    examples: list[Example] = []
    for i in spread(len(rows), limit):
        if len(examples) == limit:
            break
        if time.monotonic() > until:
            return examples, True
        draws = generator.integers(0, _MAX_DRAW, 1)
        (made,) = objective.read(near.source, rows[i : i + 1], draws)
        if made is not None:
            examples.append(objective.example(near.source, made))
    return examples, False
