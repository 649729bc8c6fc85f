"""The answers of the search page: columns side by side or one list, the chart of ranks, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from linkseek.app.page.context import Context
from linkseek.app.page.elements import show_drawing, shown_errors
from linkseek.app.service import Answer, Failure, Reason, SearchService
from linkseek.app.web.addresses import SearchView, why_address
from linkseek.app.web.link_graph import link_graph
from linkseek.app.web.rank_chart import SELECTION, rank_chart
from linkseek.app.web.views import (
    answer_html,
    evidence_html,
    failed_html,
    items_of,
    links_summary,
    waiting_html,
    why_html,
)

ANSWERS = "answers"
_REASON, _CLICKS = "reason", "clicks on the chart"


def show_results(context: Context, service: SearchService, view: SearchView) -> None:
    """A column for each pipeline, filled as soon as its answer is there; then all with each other's ranks."""
    top, chart = st.container(), st.container()
    with st.container(key="columns"):
        count = len(view.pipelines)
        places = st.columns(count, gap="large" if count < 3 else "medium")
    columns = {name: place.empty() for name, place in zip(view.pipelines, places, strict=True)}
    describe = service.pipelines.describe
    known = known_answers(service, view)

    def show_column(answer: Answer, others: list[Answer]) -> None:
        status = ""
        if answer.waiting:
            step = "re-ranking" if service.is_ready(answer.pipeline) else "loading the re-ranker"
            status = f"Order of {answer.first_stage}; {step}…"
        html = answer_html(answer, describe(answer.pipeline), view, context.name, others, status)
        columns[answer.pipeline].html(html)

    for answer in known.values():
        show_column(answer, [*known.values()])
    missing = [name for name in view.pipelines if name not in known]
    for name in missing:
        status = (
            "Searching…" if service.is_ready(name) else "Loading; only the first question waits for this…"
        )
        columns[name].html(waiting_html(name, describe(name), status))
    for result in service.answers(view.question, missing, view.k) if missing else ():
        if isinstance(result, Failure):
            known.pop(result.pipeline, None)
            with columns[result.pipeline].container():
                st.html(failed_html(result, describe(result.pipeline)))
                st.button("Try again", key=f"try again: {result.pipeline}")
        else:
            known[result.pipeline] = result
            show_column(result, [])
    answers = [known[name] for name in view.pipelines if name in known]
    if missing and len(answers) > 1:
        for answer in answers:
            show_column(answer, answers)
    if view.chart and len(view.pipelines) > 1 and any(answer.hits for answer in answers):
        dark = st.context.theme.type == "dark"
        key = f"ranks {st.session_state.get(_CLICKS, 0)}"
        chart.altair_chart(rank_chart(answers, dark), key=key, on_select=partial(open_why, key))
    if view.why:
        with top, shown_errors("the evidence"):
            reason = known_reason(service, view, [answer.pipeline for answer in answers])
            show_why(context, describe, view, answers, reason, columns, top)


def show_why(
    context: Context,
    describe: Callable[[str], str],
    view: SearchView,
    answers: Sequence[Answer],
    reason: Reason,
    columns: dict[str, DeltaGenerator],
    top: DeltaGenerator,
) -> None:
    """Why a passage has its score, below it in each column, and the links around it where it ranks best.

    A passage that no column shows is shown above them.
    """
    row, links_place = reason.hit.row, None
    shown = [answer for answer in answers if any(hit.row == row for hit in answer.hits)]
    for answer in sorted(shown, key=lambda answer: answer.places[row].rank):
        items = items_of(answer, view)
        at = next(n for n, hits in enumerate(items) if any(hit.row == row for hit in hits))
        ends = [slice(0, at + 1), slice(at + 1, None)]
        first = links_place is None
        html = [
            answer_html(answer, describe(answer.pipeline), view, context.name, answers, "", reason, part)
            for part in (ends if first else [slice(None)])
        ]
        with columns[answer.pipeline].container(gap=None):
            st.html(html[0])
            if first:
                links_place = st.container(key="links")
                if at + 1 < len(items):
                    st.html(html[1])
    if links_place is None:
        with top:
            close = why_address(view, context.name, "")
            st.html(why_html(reason, answers, context.name, close))
            links_place = st.container(key="links")
    with links_place:
        show_links(context, reason)


def show_links(context: Context, reason: Reason) -> None:
    """The links around a passage, folded."""
    with st.expander(links_summary(reason)):
        graph = link_graph(reason.links, context.name)
        if graph:
            show_drawing(graph, "graph")
        st.html(evidence_html(reason, context.name))


def open_why(key: str) -> None:
    """Open the evidence of the passage that was clicked in the chart, and clear the selection."""
    points = st.session_state[key].selection.get(SELECTION, [])
    if points and "id" in points[0]:  # not the name of a pipeline
        st.session_state.why = points[0]["id"]
        st.session_state[_CLICKS] = st.session_state.get(_CLICKS, 0) + 1


def _asked(service: SearchService, view: SearchView) -> tuple[object, ...]:
    return service.index.path, service.stamp, view.question, view.k


def known_answers(service: SearchService, view: SearchView) -> dict[str, Answer]:
    """This visitor's answers to the same question, so that opening one passage does not search again."""
    asked = _asked(service, view)
    if st.session_state.get(ANSWERS, (None, {}))[0] != asked:
        st.session_state[ANSWERS] = (asked, {})
    answers: dict[str, Answer] = st.session_state[ANSWERS][1]
    for name in [name for name, answer in answers.items() if name not in view.pipelines or answer.waiting]:
        del answers[name]
    return answers


def known_reason(service: SearchService, view: SearchView, pipelines: Sequence[str]) -> Reason:
    """Why this visitor's open passage has its scores, explained once."""
    asked = (*_asked(service, view), view.why, *pipelines)
    if st.session_state.get(_REASON, (None, None))[0] != asked:
        st.session_state[_REASON] = (asked, service.why(view.question, view.why, pipelines, view.k))
    reason: Reason = st.session_state[_REASON][1]
    return reason
