"""Explanations of pipelines that are made of others: each part with the explanation of its own score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from linkseek.app.pipelines.open_pipeline import OpenPipeline
from linkseek.retriever.ranking import Query, Ranking
from linkseek.retriever.search.explanation import FIRST_STAGE, Explain, Explanation, Part, place_of


class Sum(Protocol):
    """A fusion that adds up what its members give (`app.pipelines.catalogue.pipeline_kinds.SumEntry`)."""

    of: list[str]
    depth: int

    def fuse(self, rankings: Sequence[Ranking], k: int) -> Ranking:
        """The k best of rankings of the same queries."""

    def share(self, ranking: Ranking, number: int, row: int) -> tuple[float, dict[str, float]]:
        """What the ranking of a member adds to the score of a passage, and the numbers it comes from."""
        ...


def explain_sum(
    entry: Sum, members: Sequence[OpenPipeline], query: Query, row: int, k: int
) -> Explanation | None:
    """What each member of a fusion adds to the score of a passage (`Explain`)."""
    depth = max(k, entry.depth)
    rankings = [member([query], depth) for member in members]
    place = place_of(entry.fuse(rankings, k), row)
    if place is None:
        return None
    parts = []
    for number, (name, member, ranking) in enumerate(zip(entry.of, members, rankings, strict=True)):
        own = place_of(ranking, row)
        if own is None:
            parts.append(Part(name, 0.0, f"not among its first {depth}"))
            continue
        added, factors = entry.share(ranking, number, row)
        factors = {"rank": float(own[0]), "score": own[1]} | factors
        parts.append(Part(name, added, "", factors, of=member.explained(query, row, depth)))
    return Explanation.of(place, parts)


def with_first_stage(explain: Explain, name: str, first: OpenPipeline, depth: int) -> Explain:
    """The same with the name of the first stage, and the explanation of the passage's score there.

    depth: results of the first stage, or k if that is more.
    """

    def explained(query: Query, row: int, k: int) -> Explanation | None:
        explanation = explain(query, row, k)
        if explanation is None:
            return None
        parts = tuple(
            replace(part, name=name, of=first.explained(query, row, max(k, depth)))
            if part.name == FIRST_STAGE
            else part
            for part in explanation.parts
        )
        return replace(explanation, parts=parts)

    return explained
