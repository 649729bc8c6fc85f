"""The contrasts that the objectives of cross-encoders mine from one article, without mining the index.

Where the links around an article are enough (PHP, ICT, WLP), candidates are found among those, as pairs are
(`app.around.mined`). PROP counts the words of the whole collection and HARP looks for anchors everywhere:
that is
done once an index and kept, and not at all where it would take minutes. HARP reads its examples with an
encoder, if that can be had without a network, one after another while there is time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.around.mined import MOST_DRAW, Example, Mined, Near, Text, passage_text, span_in, spread
from app.around.query_words import Span
from indexer.base.errors import LinkseekError
from indexer.base.text import WORD
from reranker.contrasts import Contrast, TextPair
from reranker.objectives.base import Objective
from reranker.objectives.from_pairs import FromPairs
from reranker.objectives.harp import Harp
from reranker.objectives.php import Stage
from reranker.objectives.prop import Prop
from reranker.objectives.registry import all_objectives
from reranker.objectives.source import Source
from retriever.models.locations import is_here

MOST_PASSAGES = 500_000
"""Of an index that is read as a whole: half a minute for PROP on one core."""
SECONDS = 1.5
"""How long an objective may make examples, and may wait for an encoder that others use."""

_WORSE = 2  # shown of an example
_COUNTING, _READING = threading.Lock(), threading.Lock()

_GROUPS = {
    "D1": "links back at its beginning",
    "D2": "links back later",
    "D3": "does not link back",
    "D4": "is named elsewhere in the article",
}


@cache
def contrast_miners() -> dict[str, ContrastMiner]:
    """Every objective of cross-encoders as its settings are by default, by name."""
    return {name: ContrastMiner(objective()) for name, objective in sorted(all_objectives().items())}


class ContrastMiner:
    """Contrasts of a cross-encoder's objective that are mined from the article."""

    def __init__(self, objective: Objective) -> None:
        self._objective = objective

    @property
    def summary(self) -> str:
        """The objective's."""
        return self._objective.summary

    def mine(self, near: Near, most: int) -> Mined:
        """Contrasts from all over the article; where there are none or fewer, why."""
        why = _why_not(self._objective, len(near.source.index.passages))
        if why:
            return self._mined(why=why)
        with _encoder_of(self._objective) as is_free:
            if not is_free:
                return self._mined(why="The encoder is at work for others. Look again in a moment.")
            try:
                objective, rows = self._candidates(near)
                own = rows[objective.documents(near.source, rows) == near.document]
                examples, late = _examples(near, objective, own, most)
            except LinkseekError as error:
                return self._mined(why=f"{error.message}. {error.hint}")
        if late:
            why = "More would take too long to read here."
        elif not len(rows) and objective.needs_whole:
            why = f"In this index {objective.name} {objective.why_none(near.source)}."
        elif not len(own) and isinstance(objective, Stage):
            why = f"It has no passage {objective.missing}."
        return self._mined(len(own), examples, why)

    def _mined(self, count: int = 0, examples: Sequence[Example] = (), why: str = "") -> Mined:
        name, summary = self._objective.name, self._objective.summary
        return Mined(name, summary, {name: count}, tuple(examples), "contrast", why)

    def _candidates(self, near: Near) -> tuple[Objective, NDArray[np.int64]]:
        """The objective, ready to be used, and candidates with all of the article's among them."""
        if not self._objective.needs_whole:
            return self._objective, self._objective.candidates(near.source)
        kept, name = near.mining.kept, self._objective.name
        with _COUNTING:  # two visitors must not count the same words
            if name not in kept:
                source = Source(near.mining.index, near.source.language)
                objective = self._objective.prepare(source)
                kept[name] = objective, objective.candidates(source)
        objective, rows = kept[name]
        return objective, rows


def _why_not(objective: Objective, passages: int) -> str:
    command = f"python -m reranker.mine --objective {objective.name} mines it."
    if objective.needs_whole and passages > MOST_PASSAGES:
        return f"It reads the whole index first, and {passages:,} passages take too long here: {command}"
    if isinstance(objective, Harp) and not is_here(objective.encoder):
        return f"Its encoder, {objective.encoder}, is not on this machine: {command}"
    return ""


@contextmanager
def _encoder_of(objective: Objective) -> Iterator[bool]:
    """Whether nobody else's page reads with the encoder, which sets the threads of the whole process."""
    if not isinstance(objective, Harp):
        yield True
        return
    is_free = _READING.acquire(timeout=SECONDS)
    try:
        yield is_free
    finally:
        if is_free:
            _READING.release()


def _examples(
    near: Near, objective: Objective, rows: NDArray[np.int64], most: int
) -> tuple[list[Example], bool]:
    """At most so many, and whether the time was over before."""
    generator = np.random.default_rng(near.document)
    until = time.monotonic() + SECONDS
    made: list[Example] = []
    for i in spread(len(rows), most):
        if len(made) == most:
            break
        if time.monotonic() > until:
            return made, True
        (contrast,) = objective.contrasts(near.source, rows[i : i + 1], generator.integers(0, MOST_DRAW, 1))
        if contrast is not None:
            made.append(_example(near.source, objective, contrast))
    return made, False


# --- what the evidence of each objective says -----------------------------------------------------


def _example(source: Source, objective: Objective, contrast: Contrast) -> Example:
    match objective:
        case Prop():
            return _word_sets(contrast)
        case FromPairs():
            return _passages(source, contrast)
        case Stage():
            return _groups(source, contrast, f"D{objective.farthest_better + 1}")
        case Harp(name="harp-rqp"):
            return _anchor_or_words(source, contrast)
        case Harp(name="harp-rdp"):
            return _weighed_anchors(source, contrast)
        case Harp():
            return _anchor_and_pages(source, contrast)
    worse = tuple(_document(pair) for pair in contrast.worse)
    return Example(objective.name, Text(contrast.better.query), _document(contrast.better), worse)


def _word_sets(contrast: Contrast) -> Example:
    """PROP: two sets of words for the document."""
    evidence, better, (worse,) = contrast.evidence, contrast.better, contrast.worse
    likely, less = (
        Text(pair.query, note=f"log\u00a0P\u00a0=\u00a0−{-score:.1f}")
        for pair, score in zip((better, worse), evidence["log_likelihood"], strict=True)
    )
    document = _compared(better, worse, evidence["document_id"])
    return Example(contrast.objective, document, likely, (less,))


def _compared(better: TextPair, worse: TextPair, document_id: str) -> Text:
    """A document with the words of both queries marked."""

    def words_of(query: str) -> tuple[Span, ...]:
        wanted = set(query.lower().split())
        found = WORD.finditer(better.document)
        return tuple(match.span() for match in found if match.group().lower() in wanted)

    return replace(_document(better, document_id), marks=words_of(worse.query), strong=words_of(better.query))


def _passages(source: Source, contrast: Contrast) -> Example:
    """ICT and WLP: passages by their ids; marked are anchors that lead from one to what is asked about."""
    evidence, better = contrast.evidence, contrast.better
    ids = [evidence["query_passage_id"], evidence["better"], *evidence["worse"]]
    asked, found, *others = source.index.passages.rows_of(ids).tolist()
    is_whole = better.document == source.text(found)
    anchors = _anchors_to(source, found, source.document_of(asked)) if is_whole else []
    return Example(
        contrast.objective,
        passage_text(source, asked, better.query),
        replace(passage_text(source, found, better.document), strong=tuple(anchors)),
        tuple(
            passage_text(source, row, pair.document) for row, pair in zip(others, contrast.worse, strict=True)
        ),
    )


def _anchors_to(source: Source, passage: int, document: int) -> list[Span]:
    graph = source.index.links
    links = [link for link in graph.from_passage(passage) if graph.target[link] == document]
    return [(int(graph.start[link]), int(graph.end[link])) for link in links]


def _groups(source: Source, contrast: Contrast, farther: str) -> Example:
    """PHP: a passage with its anchors to the better document and to the worse ones, and their groups."""
    evidence, better = contrast.evidence, contrast.better
    link, back, group = evidence["link"], evidence.get("back"), evidence["group"]
    different = dict(zip(evidence["worse"], contrast.worse, strict=True))  # few are drawn again
    shown = [*different.items()][:_WORSE]
    marks = sorted({span for pair in different.values() for span in pair.anchors})
    better_text = _document(better, link["target"], f"{group}: {_GROUPS[group]}")
    if back:
        better_text = replace(better_text, strong=_back_in(source, better.document, back))
    return Example(
        contrast.objective,
        replace(_linking(source, link, better.query), marks=tuple(marks), strong=better.anchors),
        better_text,
        tuple(_document(pair, id_, f"{farther}: {_GROUPS[farther]}") for id_, pair in shown),
        more_worse=len(different) - len(shown),
    )


def _back_in(source: Source, document: str, back: Mapping[str, Any]) -> tuple[Span, ...]:
    """Where the link back stands in what is kept of a document; nowhere if that is cut off."""
    (row,) = source.index.passages.rows_of([back["passage_id"]]).tolist()
    shift = document.find(source.text(row)[: back["end"]])
    return ((shift + back["start"], shift + back["end"]),) if shift >= 0 else ()


def _anchor_or_words(source: Source, contrast: Contrast) -> Example:
    """HARP's first task: an anchor with words of its sentence, and words of its page, for the page."""
    link, better, (worse,) = contrast.evidence["link"], contrast.better, contrast.worse
    near_anchor = replace(_linking(source, link, better.query), note="the anchor and words around it")
    of_page = Text(worse.query, note="drawn from the page")
    return Example(contrast.objective, _compared(better, worse, link["target"]), near_anchor, (of_page,))


def _weighed_anchors(source: Source, contrast: Contrast) -> Example:
    """HARP's third task: a sentence, and the pages of two of its anchors by their shares of attention."""
    links = [contrast.evidence[side] for side in ("better", "worse")]
    text = source.text(int(source.index.passages.rows_of([links[0]["passage_id"]])[0]))
    query = contrast.better.query
    strong, marks = (tuple(span_in(query, text, link["start"], link["end"])) for link in links)
    better, worse = (
        _document(pair, link["target"], f"share of attention {link['share']:.3f}")
        for pair, link in zip((contrast.better, *contrast.worse), links, strict=True)
    )
    asked = replace(_linking(source, links[0], query), marks=marks, strong=strong)
    return Example(contrast.objective, asked, better, (worse,))


def _anchor_and_pages(source: Source, contrast: Contrast) -> Example:
    """HARP's other tasks: an anchor with words, and two pages, of which one is the anchor's or beside it."""
    evidence, better, (worse,) = contrast.evidence, contrast.better, contrast.worse
    if "asked" in evidence:
        asked, target = evidence["asked"], evidence["better"]["target"]
        notes = ("of an anchor beside it", "any other page")
    else:
        asked, target = evidence["link"], evidence["link"]["target"]
        notes = ("where the anchor leads here", "where it leads elsewhere")
    anchor = (0, len(" ".join(asked["anchor"].split())))  # which the query begins with
    return Example(
        contrast.objective,
        replace(_linking(source, asked, better.query), strong=(anchor,)),
        _document(better, target, notes[0]),
        (_document(worse, evidence["worse"], notes[1]),),
    )


def _linking(source: Source, link: Mapping[str, Any], text: str) -> Text:
    """A text from the passage that holds a link."""
    (row,) = source.index.passages.rows_of([link["passage_id"]]).tolist()
    return passage_text(source, row, text)


def _document(pair: TextPair, id_: str = "", note: str = "") -> Text:
    """What is read of a document."""
    return Text(pair.document, document_id=id_, title=pair.title, note=note)
