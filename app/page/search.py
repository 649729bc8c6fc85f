"""Search: one question, up to four pipelines side by side, and why each passage was found."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from app.service import Answer, Failure, SearchService, checked_question
from app.web import address
from app.web.context import Context
from app.web.drawing import show_drawing
from app.web.state import COUNTS, DEFAULT_COUNT, MAX_PIPELINES, SEARCH, View, index_address, read_view
from app.web.view import invitation_html, notice_html, paragraph_html, plain_label
from app.web.view_evidence import evidence_html, graph_svg, passage_html, scores_html
from app.web.view_index import no_index_html
from app.web.view_ranks import NARROW, WIDE, ranks_svg
from app.web.view_search import answer_html
from indexer.base.errors import LinkseekError

_LAST_VIEW, _ANSWERS, _TURN = "last view", "answers", "turn of suggestions"


def page(context: Context) -> None:
    """The page."""
    service = context.service
    if service is None:
        show_no_index(context)
        return
    available = service.pipelines.available()
    if not available:
        st.html(notice_html("this index has neither BM25 nor vectors", "Build it again with one of them."))
        return
    view = choose_view(context, service, available)
    if not view.question:
        st.session_state.pop(_ANSWERS, None)
        invite(service)
        return
    if not view.pipelines:
        st.html(invitation_html("Choose a pipeline", "Up to four answer side by side."))
        return
    checked_question(view.question)
    answers = show_answers(context, service, view)
    if view.why:
        show_why(context, service, view, answers)


def show_no_index(context: Context) -> None:
    """There is nothing to search, and how to change that."""
    if not context.index.exists():
        st.html(no_index_html(index_address(context.index.name)))
        st.html(paragraph_html("Or by a command, of the sample:"))
        st.code("linkseek build", language=None, width=640)
        st.html(paragraph_html("of a corpus of your own:"))
        st.code("linkseek build --corpus FILE --index index/NAME", language=None, width=640)
    st.button("Look again")


# --- what is asked --------------------------------------------------------------------------------


def choose_view(context: Context, service: SearchService, available: list[str]) -> View:
    """The form, filled in from the address, and the address, filled in from the form."""
    state = st.session_state
    if address.is_new(SEARCH) or "question" not in state:
        params = address.params()
        view = read_view(params, available)
        if address.page_has_changed(SEARCH) and not set(params) - {"index"}:
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
        st.segmented_control("Passages each", COUNTS, key="k")
        with st.container(key="show", width="content", gap="small"):
            st.toggle("Group by article", key="grouped")
            st.toggle("Chart of ranks", key="chart")
    if too_many:
        st.caption(f"At most {MAX_PIPELINES} pipelines fit side by side.")
    question = state.question.strip()
    view = View(question, tuple(state.pipelines), state.k, state.grouped, state.chart, state.why)
    remember(context, view, available)
    return view


def remember(context: Context, view: View, available: list[str]) -> None:
    """Put the view into the address, and keep it for the way back from another page."""
    st.session_state[_LAST_VIEW] = replace(view, why="")
    index = {"index": [context.index.name]}
    if view == read_view({}, available):
        wanted = index if context.index.name != context.options.index.resolve().name else {}
    else:
        wanted = view.to_params() | index
    address.write(SEARCH, wanted)


def invite(service: SearchService) -> None:
    """What an empty page says, with questions to start with."""
    st.html(
        invitation_html(
            "Ask a question in your own words",
            "Each pipeline ranks the same passages in its own way. See side by side what they find, "
            "where the words of your question stand, and which hyperlinks speak for a passage.",
        )
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
    """Take the evidence away."""
    st.session_state.why = ""


# --- what is found --------------------------------------------------------------------------------


def show_answers(context: Context, service: SearchService, view: View) -> list[Answer]:
    """A column for each pipeline, filled as soon as its answer is there; then all with each other's ranks."""
    chart = st.container()
    count = len(view.pipelines)
    places = st.columns(count, gap="large" if count < 3 else "medium")
    columns = {name: place.empty() for name, place in zip(view.pipelines, places, strict=True)}
    kept = kept_answers(service, view)
    for name, answer in kept.items():
        columns[name].html(column_html(context, service, view, answer, [*kept.values()]))
    missing = [name for name in view.pipelines if name not in kept]
    if missing:
        waiting = not all(map(service.is_ready, missing))
        text = "Loading the models: only the first question waits for this…" if waiting else "Searching…"
        with st.spinner(text):
            for found in service.answers(view.question, missing, view.k):
                place = columns[found.pipeline]
                if isinstance(found, Failure):
                    kept.pop(found.pipeline, None)
                    place.html(notice_html(f"{found.pipeline}: {found.message}", found.hint))
                else:
                    kept[found.pipeline] = found
                    place.html(column_html(context, service, view, found, []))
    answers = [kept[name] for name in view.pipelines if name in kept]
    if missing and len(answers) > 1:
        for answer in answers:
            columns[answer.pipeline].html(column_html(context, service, view, answer, answers))
    if view.chart and any(answer.hits for answer in answers):
        with chart:
            wide, narrow = (ranks_svg(answers, view, context.index.name, frame) for frame in (WIDE, NARROW))
            show_drawing(f'<div class="ls-wide">{wide}</div><div class="ls-narrow">{narrow}</div>', "ranks")
    return answers


def kept_answers(service: SearchService, view: View) -> dict[str, Answer]:
    """This visitor's answers to the same question, so that opening one passage does not search again."""
    asked = (service, view.question, view.k)
    if st.session_state.get(_ANSWERS, (None, {}))[0] != asked:
        st.session_state[_ANSWERS] = (asked, {})
    kept: dict[str, Answer] = st.session_state[_ANSWERS][1]
    for name in [name for name, answer in kept.items() if name not in view.pipelines or answer.waiting]:
        del kept[name]
    return kept


def column_html(
    context: Context, service: SearchService, view: View, answer: Answer, others: list[Answer]
) -> str:
    """The HTML of one column."""
    return answer_html(answer, service.describe(answer.pipeline), view, context.index.name, others)


def show_why(context: Context, service: SearchService, view: View, answers: list[Answer]) -> None:
    """The evidence for one passage, above the page."""

    @st.dialog("Why this passage?", width="large", on_dismiss=close_why)
    def dialog() -> None:
        try:
            reason = service.why(view.question, view.why)
        except LinkseekError as error:
            st.html(notice_html(error.message, error.hint))
            return
        name = context.index.name
        st.html(passage_html(reason, name) + scores_html(reason.hit.row, answers))
        graph = graph_svg(reason.links, name)
        if graph:
            show_drawing(f'<div class="ls-scroll">{graph}</div>', "graph")
        st.html(evidence_html(reason.links, name))

    dialog()
