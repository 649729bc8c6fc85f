"""The part between the question and its answers: its test set, other questions."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from linkseek.app.context.did_you_mean import did_you_mean
from linkseek.app.context.known_questions import Known
from linkseek.app.evaluation.by_question import QuestionRow
from linkseek.app.page.context import Context
from linkseek.app.page.elements import remembered, show
from linkseek.app.rendering.addresses import EvaluationView, SearchView, read_table
from linkseek.app.rendering.question_table import (
    figure,
    fitting,
    ground_of,
    measured_text,
    search_address,
    table_rows,
)
from linkseek.app.report.finished import find_in_report, read_report
from linkseek.app.report.text import clean
from linkseek.app.service import SearchService
from linkseek.indexer.program.errors import LinkseekError

_MEANT, _TABLE = "question as it may have been meant", "questions of the table"
_MAX_ANSWERS = 4


def find_known(context: Context, service: SearchService, view: SearchView) -> Known:
    """What is known of the question; in the table of a report, the results that its measure counts."""
    if view.table:
        table = read_table(view.table)
        with suppress(LinkseekError):  # the report is gone
            known = find_in_report(context.options.results, table.report, context.name, view.question)
            return replace(known, ground=ground_of(table.measure)) or service.find_known(view.question)
    return service.find_known(view.question)


def show_place(context: Context, view: SearchView, known: Known) -> None:
    """The known answers of a question, and links to the questions before and after it."""
    expected = known.answers
    place = _in_table(context, view)
    if expected or place:
        show("question_place.html", expected=expected, place=place, max_answers=_MAX_ANSWERS)


def _in_table(context: Context, view: SearchView) -> dict[str, Any] | None:
    """The place in the table of a report that led here; None where the question is not in it."""
    if not view.table:
        return None

    def read() -> tuple[EvaluationView, list[tuple[str, QuestionRow]]]:
        table = read_table(view.table)
        with suppress(LinkseekError):  # without the report there are no neighbours
            results = read_report(context.options.results, table.report).results
            table = fitting(table, results)
            return table, [(name, row) for row in table_rows(results, table) if (name := clean(row.text))]
        return table, []

    table, rows = remembered(_TABLE, (context.options.results, view.table), read)
    number = next((n for n, (text, _) in enumerate(rows) if text == view.question), None)
    if number is None:
        return None

    def neighbour(n: int) -> str:
        if not 0 <= n < len(rows):
            return ""
        shown = {"pipelines": view.pipelines, "k": view.k, "only": view.only}
        shown |= {"merged": view.merged, "grouped": view.grouped}
        return search_address(rows[n][0], table, context.name, **shown)

    back = replace(table, part="questions").address(context.name)
    kind = "" if table.shown == "all" else table.shown
    values = [(name, figure(table.measure, value)) for name, value in rows[number][1].values.items()]
    return {
        "number": number + 1,
        "count": len(rows),
        "previous": neighbour(number - 1),
        "next": neighbour(number + 1),
        "kind": kind,
        "back": back,
        "measure": measured_text(table.measure),
        "values": [(name, value) for name, value in values if name in view.pipelines],
    }


def show_meant(context: Context, service: SearchService, view: SearchView) -> None:
    """The question as it may have been meant."""

    def look_up() -> tuple[str, list[str]] | None:
        with suppress(LinkseekError):  # the columns show what is wrong with the index
            return did_you_mean(service.index, view.question)
        return None

    if meant := remembered(_MEANT, (service.index.path, service.stamp, view.question), look_up):
        question, words = meant
        address = replace(view, question=question, why="").address(context.name)
        show("did_you_mean.html", question=question, words=words, address=address)
