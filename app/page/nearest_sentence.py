"""The sentence nearest to the question in passages where nothing is marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from linkseek.retriever.search.query_words import Span

if TYPE_CHECKING:
    from linkseek.app.answers import Answer
    from linkseek.app.service import SearchService


def with_nearest_sentences(service: SearchService, answers: Sequence[Answer]) -> list[Answer]:
    """The answers; hits without a mark get the sentence that the vectors of one of them say is nearest."""
    found: dict[int, Span] = {}
    for answer in answers:
        if not service.pipelines.has_vectors(answer.pipeline):
            continue
        depth = service.depth(answer.pipeline, len(answer.hits))
        for hit in answer.hits:
            if hit.marks or hit.answers or hit.row in found:
                continue
            why = service.explain(answer.question, hit.row, answer.pipeline, depth)
            if why and why.sentences:
                found[hit.row] = (why.sentences[0].start, why.sentences[0].end)
    return [
        replace(answer, hits=tuple(replace(hit, nearest=found.get(hit.row)) for hit in answer.hits))
        for answer in answers
    ]
