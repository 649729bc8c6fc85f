"""The kinds of questions in a report: the bins and groups of its analyses, as filters of its questions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from linkseek.app.evaluation.results import Results
from linkseek.app.report import text

_PROPERTIES = {
    "overlap": "question's words in the passage",
    "length": "words of the question",
    "title": "title's words in the question",
    "rarity": "passages with the title's rarest word",
    "links": "links to the article",
}
"""The analyses by a number, in the order of the report's charts."""


@dataclass(frozen=True, slots=True)
class QuestionGroup:
    """Questions of one kind. label: for people."""

    label: str
    query_ids: frozenset[str]


def question_kinds(results: Results) -> dict[str, QuestionGroup]:
    """Name in addresses -> kind; without the empty ones, and none of results before there were ids."""
    return {name: kind for name, kind in _kinds(results) if kind.query_ids}


def _kinds(results: Results) -> Iterator[tuple[str, QuestionGroup]]:
    for name, group in (results.analyses.groups or {}).items():
        yield f"group {text.clean(name)}", QuestionGroup(name, frozenset(group.query_ids or ()))
    for name, property_ in _PROPERTIES.items():
        binned = getattr(results.analyses, name)
        if binned is None:
            continue
        unit = " %" if text.is_share(binned) else ""
        for ends, bin_ in zip(text.bin_ends(binned), binned.bins, strict=True):
            yield (
                f"{name} {ends}",
                QuestionGroup(f"{property_}: {ends}{unit}", frozenset(bin_.query_ids or ())),
            )
