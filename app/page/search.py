"""Search: one question, up to four pipelines side by side, and why each passage is a result."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import streamlit as st

from app.page.context import Context
from app.page.elements import invite, show, show_drawing, show_error, show_no_index
from app.service import Answer, Failure, SearchService, checked_question
from app.web import navigation
from app.web.addresses import COUNTS, DEFAULT_COUNT, MAX_PIPELINES, SEARCH, SearchView, read_search_view
from app.web.link_graph import link_graph
from app.web.rank_chart import SELECTION, rank_chart
from app.web.rendering import plain_label
from app.web.views import answer_html, evidence_html, why_html
from indexer.base.errors import LinkseekError

_LAST_VIEW, _ANSWERS, _TURN, _CLICKS = "last view", "answers", "turn of suggestions", "clicks on the chart"


def page(context: Context) -> None:
    """The page."""
    service = context.service
    if service is None:
        if not context.index.exists():
            show_no_index(context)
            show("paragraph.html", text="Or on the command line:")
            st.code("linkseek build", language=None, width=640)
            show("paragraph.html", text="From a corpus of your own:")
            st.code("linkseek build --corpus FILE --index index/NAME", language=None, width=640)
        st.button("Reload")
        return
    available = service.pipelines.available()
    if not available:
        show_error("this index has neither BM25 nor vectors", "Build it again with one of them.")
        return
    view = choose_view(context, available)
    if not view.question:
        st.session_state.pop(_ANSWERS, None)
        suggest_questions(service)
        return
    if not view.pipelines:
        invite("Choose a pipeline", "Up to four answer side by side.")
        return
    checked_question(view.question)
    answers = show_answers(context, service, view)
    if view.why:
        show_why(context, service, view, answers)


def choose_view(context: Context, available: list[str]) -> SearchView:
    """The form, filled in from the address, and the address, filled in from the form."""
    state = st.session_state
    if navigation.is_new(SEARCH) or "question" not in state:
        params = navigation.params()
        view = read_search_view(params, available)
        if navigation.page_has_changed(SEARCH) and not set(params) - {"index"}:
            view = state.get(_LAST_VIEW, view)  # back from another page
        state.question, state.pipelines, state.k = view.question, list(view.pipelines), view.k
        state.grouped, state.chart, state.why = view.grouped, view.chart, view.why
    too_many = len(state.pipelines) > MAX_PIPELINES
    state.pipelines = [name for name in state.pipelines if name in available][:MAX_PIPELINES]
    state.k = state.k or DEFAULT_COUNT  # a second click on the chosen count takes it away

    with st.form("ask", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        st.text_input("Question", key="question", placeholder="Ask a question")
        st.form_submit_button("Search", type="primary", on_click=close_why)
    with st.container(horizontal=True, gap="large", key="choice"):
        st.pills(
            "Pipelines, side by side",
            available,
            selection_mode="multi",
            key="pipelines",
            format_func=plain_label,
            width="stretch",
        )
        st.segmented_control("Results per pipeline", COUNTS, key="k")
        with st.container(key="show", width="content", gap="small"):
            st.toggle("Group by article", key="grouped")
            st.toggle("Chart of ranks", key="chart")
    if too_many:
        st.caption(f"At most {MAX_PIPELINES} pipelines fit side by side.")
    question = state.question.strip()
    view = SearchView(question, tuple(state.pipelines), state.k, state.grouped, state.chart, state.why)
    state[_LAST_VIEW] = replace(view, why="")
    params = {"index": [context.name]}
    if view == read_search_view({}, available):
        navigation.write(SEARCH, params if context.name != context.options.index.resolve().name else {})
    else:
        navigation.write(SEARCH, view.to_params() | params)
    return view


def suggest_questions(service: SearchService) -> None:
    """An empty page, with questions to start with."""
    invite(
        "Ask a question in your own words",
        "Each pipeline ranks the same passages in its own way. Compare their results side by side, where "
        "the words of your question stand, and how hyperlinks connect a passage with other articles.",
    )
    suggestions = service.suggestions(st.session_state.get(_TURN, 0))
    if suggestions:
        st.pills(
            "Or try one of these, whose answers are known",
            suggestions,
            key="try",
            format_func=plain_label,
            on_change=ask_suggested,
        )
        st.button("Other questions", on_click=turn_suggestions, type="tertiary")


def ask_suggested() -> None:
    """Put the suggested question that was clicked into the form."""
    st.session_state.question = st.session_state["try"] or ""
    st.session_state["try"] = None


def turn_suggestions() -> None:
    """Suggest other questions."""
    st.session_state[_TURN] = st.session_state.get(_TURN, 0) + 1


def close_why() -> None:
    """Close the evidence."""
    st.session_state.why = ""


def show_answers(context: Context, service: SearchService, view: SearchView) -> list[Answer]:
    """A column for each pipeline, filled as soon as its answer is there; then all with each other's ranks."""
    chart = st.container()
    count = len(view.pipelines)
    places = st.columns(count, gap="large" if count < 3 else "medium")
    columns = {name: place.empty() for name, place in zip(view.pipelines, places, strict=True)}
    known = known_answers(service, view)

    def show_column(answer: Answer, others: list[Answer]) -> None:
        description = service.pipelines.describe(answer.pipeline)
        columns[answer.pipeline].html(answer_html(answer, description, view, context.name, others))

    for answer in known.values():
        show_column(answer, [*known.values()])
    missing = [name for name in view.pipelines if name not in known]
    if missing:
        waiting = not all(map(service.is_ready, missing))
        text = "Loading the models: only the first question waits for this…" if waiting else "Searching…"
        with st.spinner(text):
            for result in service.answers(view.question, missing, view.k):
                if isinstance(result, Failure):
                    known.pop(result.pipeline, None)
                    with columns[result.pipeline]:
                        show_error(f"{result.pipeline}: {result.message}", result.hint)
                else:
                    known[result.pipeline] = result
                    show_column(result, [])
    answers = [known[name] for name in view.pipelines if name in known]
    if missing and len(answers) > 1:
        for answer in answers:
            show_column(answer, answers)
    if view.chart and any(answer.hits for answer in answers):
        dark = st.context.theme.type == "dark"
        key = f"ranks {st.session_state.get(_CLICKS, 0)}"
        chart.altair_chart(rank_chart(answers, dark), key=key, on_select=partial(open_why, key))
    return answers


def open_why(key: str) -> None:
    """Open the evidence of the passage that was clicked in the chart, and clear the selection."""
    points = st.session_state[key].selection.get(SELECTION, [])
    if points and "id" in points[0]:  # not the name of a pipeline
        st.session_state.why = points[0]["id"]
        st.session_state[_CLICKS] = st.session_state.get(_CLICKS, 0) + 1


def known_answers(service: SearchService, view: SearchView) -> dict[str, Answer]:
    """This visitor's answers to the same question, so that opening one passage does not search again."""
    asked = (service, view.question, view.k)
    if st.session_state.get(_ANSWERS, (None, {}))[0] != asked:
        st.session_state[_ANSWERS] = (asked, {})
    answers: dict[str, Answer] = st.session_state[_ANSWERS][1]
    for name in [name for name, answer in answers.items() if name not in view.pipelines or answer.waiting]:
        del answers[name]
    return answers


def show_why(context: Context, service: SearchService, view: SearchView, answers: list[Answer]) -> None:
    """The evidence for one passage, above the page."""

    @st.dialog("Why this passage?", width="large", on_dismiss=close_why)
    def dialog() -> None:
        try:
            reason = service.why(view.question, view.why)
        except LinkseekError as error:
            show_error(error.message, error.hint)
            return
        st.html(why_html(reason, answers, context.name))
        graph = link_graph(reason.links, context.name)
        if graph:
            show_drawing(graph, "graph")
        st.html(evidence_html(reason, context.name))

    dialog()
