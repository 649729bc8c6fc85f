"""What a search gives the pages and commands: answers, hits, failures, and the reasons of a score."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from linkseek.app.context.evidence import LinkEvidence
from linkseek.app.context.known_questions import Ground
from linkseek.app.pipelines.filters import NO_FILTER, Filter
from linkseek.app.pipelines.pipeline_entry import Shares
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import LinkseekError
from linkseek.retriever.ranking import Step
from linkseek.retriever.search.explanation import Explanation
from linkseek.retriever.search.query_words import Span


@dataclass(frozen=True, slots=True)
class HopStep:
    """A step from a passage. anchor: the text of the link; empty for a step to a similar passage."""

    passage_id: str
    document_id: str
    title: str
    anchor: str

    def __str__(self) -> str:
        """The step in words."""
        name = self.title.strip() or self.document_id
        by = f"by the link “{self.anchor}”" if self.anchor else "as a similar passage"
        return f"from {name} ({self.passage_id}) {by}"


def hop_steps(index: OpenIndex, path: Sequence[Step]) -> tuple[HopStep, ...]:
    """The steps of a path, first step first."""
    steps = []
    for step in path:
        passage, anchor = index.passages[step.source], ""
        if step.link >= 0:
            anchor = passage.text[int(index.links.start[step.link]) : int(index.links.end[step.link])]
        steps.append(HopStep(passage.id, passage.document_id, passage.title, " ".join(anchor.split())))
    return tuple(steps)


_log = logging.getLogger(__name__)


class Place(NamedTuple):
    """The rank and score of a passage."""

    rank: int
    score: float


class First(NamedTuple):
    """The rank of the first relevant passage. article: among articles, where these are judged; else 0."""

    rank: int
    article: int = 0


@dataclass(frozen=True, slots=True)
class AnswerHit:
    """A result of a pipeline.

    marks, answers: spans of the text with the question's words, and with its answers. relevance: whether the
    passage contains an answer, and is judged relevant, as far as that is known; first the one that counts.
    path: how links led here; () if none did. section: the headings above the passage, unless its title has
    them. nearest: the sentence nearest to the question, where it was looked for. cut: whether the passage
    begins and ends within a sentence. extras: further parts that a request asked for, by their names.
    """

    rank: int
    score: float
    passage_id: str
    document_id: str
    title: str
    text: str
    url: str
    marks: tuple[Span, ...] = ()
    row: int = -1
    answers: tuple[Span, ...] = ()
    relevance: Mapping[Ground, bool] = field(default_factory=dict)
    path: tuple[HopStep, ...] = ()
    section: str = ""
    nearest: Span | None = None
    cut: tuple[bool, bool] = (False, False)
    extras: dict[str, Any] = field(default_factory=dict)

    @property
    def heading(self) -> str:
        """The title on one line; the id of the document where it has none."""
        return " ".join(self.title.split()) or self.document_id

    @property
    def contents(self) -> str:
        """Title and text as Search-R1's corpus has them; all clients split at the first line end."""
        return f'"{self.heading}"\n{self.text}'

    @property
    def relevant(self) -> bool | None:
        """Whether it is relevant on the ground that counts; None where that is unknown."""
        return next(iter(self.relevance.values()), None)


@dataclass(frozen=True, slots=True)
class Answer:
    """The results of one pipeline for one question, and its time in seconds, in total and by stage.

    places: passage row -> its place, for more passages than `hits` has. first_stage: the name of the
    pipeline that is re-ranked, if any. before: passage row -> its place there, once it is re-ranked.
    waiting: whether these are its results and re-ranking follows. missing: partitions of the index that did
    not answer. paths: passage row -> how links led to it, of all places. only: the filter.
    excluded: the number that it excludes. firsts: the first relevant passage among the places on
    each known ground, None without one; first the ground that counts.
    """

    question: str
    pipeline: str
    hits: tuple[AnswerHit, ...]
    seconds: float
    stages: Mapping[str, float] = field(default_factory=dict)
    places: Mapping[int, Place] = field(default_factory=dict)
    first_stage: str | None = None
    before: Mapping[int, Place] = field(default_factory=dict)
    waiting: bool = False
    missing: tuple[str, ...] = ()
    paths: Mapping[int, tuple[HopStep, ...]] = field(default_factory=dict)
    only: Filter = NO_FILTER
    excluded: int = 0
    firsts: Mapping[Ground, First | None] = field(default_factory=dict)

    @property
    def by_answers(self) -> bool:
        """Whether answers count, not judgements."""
        return next(iter(self.firsts), "answers") == "answers"

    def to_json(self, explained: Sequence[Explanation | None] = ()) -> dict[str, Any]:
        """The answer as `linkseek search --json` prints it. explained: the hits' explanations, or none."""
        hits: list[dict[str, Any]] = [
            {name: getattr(hit, name) for name in _JSON_FIELDS} | {"path": list(map(asdict, hit.path))}
            for hit in self.hits
        ]
        for hit, explanation in zip(hits, explained, strict=False):
            hit["explanation"] = explanation
        asked = {"question": self.question, "pipeline": self.pipeline}
        return {**asked, "hits": hits, "seconds": self.seconds, "partial": list(self.missing)}


_JSON_FIELDS = ("rank", "score", "passage_id", "document_id", "title", "text", "url", "marks")


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason for a missing answer of a pipeline."""

    pipeline: str
    message: str
    hint: str

    @classmethod
    def of(cls, pipeline: str, error: Exception) -> Failure:
        """The failure to show for an error. Faults of the program are logged, and shown without details."""
        if isinstance(error, LinkseekError):
            return cls(pipeline, error.message, error.hint)
        _log.error("the pipeline %r failed", pipeline, exc_info=error)
        return cls(pipeline, "it failed", "This is an internal error; the terminal has the details.")


@dataclass(frozen=True, slots=True)
class Reason:
    """The evidence for a passage: the passage as a hit, the hyperlinks around it, and its scores.

    scores: for each requested pipeline; None if the passage is not among its results. by_links: the names of
    the requested pipelines that rank by links. turned: the weights of weighted sums that can be changed,
    where requested.
    """

    hit: AnswerHit
    links: LinkEvidence
    scores: Mapping[str, Explanation | None] = field(default_factory=dict)
    by_links: tuple[str, ...] = ()
    turned: Mapping[str, Shares | None] = field(default_factory=dict)
