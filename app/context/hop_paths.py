"""How a pipeline that follows links reached a passage, for people and for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from linkseek.indexer.index import OpenIndex
from linkseek.retriever.ranking import Step


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
