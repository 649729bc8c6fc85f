"""HTML of comparisons: a question to judge, and the outcome."""

from __future__ import annotations

import shlex
from pathlib import Path

from linkseek.app.context.known_questions import Known
from linkseek.app.preferences.comparison_files import QRELS, QUERIES
from linkseek.app.preferences.record import OVERLAP, Disagreement, Preferences, order_of
from linkseek.app.rendering.addresses import SearchView
from linkseek.app.rendering.html_templates import render
from linkseek.app.service import SearchService
from linkseek.indexer.index import OpenIndex

_CHARACTERS = 1_200  # of a passage


def question_html(service: SearchService, question: Disagreement, name: str) -> str:
    """A question, and the two first results side by side, without the names of their pipelines."""
    rows = [_row_of(service.index, id_) for id_ in (question.first_a, question.first_b)]
    hits = [service.marked_hit(question.text, row, Known()) if row >= 0 else None for row in rows]
    if order_of(name, question.text)[0] != "a":
        hits.reverse()
    shown = {"question": question, "hits": hits, "index": service.index.path.name}
    return render("judge.html", depth=OVERLAP, limit=_CHARACTERS, **shown)


def _row_of(index: OpenIndex, id_: str | None) -> int:
    """The row of a passage; -1 without an id, or if the passage is not in the index any more."""
    return int(index.passages.rows_of([id_])[0]) if id_ is not None else -1


def outcome_html(index: OpenIndex | None, preferences: Preferences) -> str:
    """All questions of a comparison that has ended, the largest disagreement first."""
    pair = (preferences.a, preferences.b)
    name = {"a": preferences.a, "b": preferences.b, "same": "the same"}

    def title(id_: str | None) -> str:
        row = _row_of(index, id_) if index else -1
        passage = index.passages[row] if index and row >= 0 else None
        return (passage.title.strip() or passage.document_id) if passage else (id_ or "no result")

    rows = [
        (
            question,
            SearchView(question.text, pair).address(preferences.index),
            "same first result"
            if question.same_first
            else name.get(preferences.choices.get(question.id, ""), ""),
            [title(question.first_a), title(question.first_b)],
        )
        for question in preferences.questions
    ]
    return render("preferences.html", pair=pair, rows=rows, depth=OVERLAP)


def commands(preferences: Preferences, index: Path, results: Path, name: str) -> str:
    """The commands that evaluate on the judgements, and that train a fusion on them."""
    folder, pair = results / name, f"{shlex.quote(preferences.a)} {shlex.quote(preferences.b)}"
    paths = (index, folder / QUERIES, folder / QRELS)
    where = "--index {} --queries {} --qrels {}".format(*(shlex.quote(path.as_posix()) for path in paths))
    output = shlex.quote((results / f"{name}-evaluated").as_posix())
    return (
        f"linkseek evaluate {where} --pipeline {pair} --output {output}\n"
        f"linkseek train-fusion {where} --pipeline {pair} --output fusion.json"
    )
