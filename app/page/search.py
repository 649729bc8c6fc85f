"""Search: one question, up to four pipelines side by side, and why each passage is a result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import streamlit as st

from linkseek.app.page.context import Context
from linkseek.app.page.elements import (
    invite,
    set_title,
    show,
    show_drawing,
    show_error,
    show_no_index,
    shown_errors,
)
from linkseek.app.pipeline_entry import GROUPS
from linkseek.app.service import Answer, Failure, SearchService
from linkseek.app.web import navigation
from linkseek.app.web.addresses import (
    COUNTS,
    MAX_PIPELINES,
    MAX_QUESTION_IN_ADDRESS,
    SEARCH,
    SearchView,
    read_search_view,
)
from linkseek.app.web.link_graph import link_graph
from linkseek.app.web.rank_chart import SELECTION, rank_chart
from linkseek.app.web.rendering import plain_label
from linkseek.app.web.views import answer_html, evidence_html, failed_html, waiting_html, why_html
from linkseek.retriever.queries import checked_question

_LAST_VIEW, _ANSWERS, _TURN, _CLICKS = "last view", "answers", "turn of suggestions", "clicks on the chart"
_CHOSEN, _NOTE = "chosen pipelines", "note on pipelines"


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
    view = choose_view(context, service, available)
    if not view.question:
        st.session_state.pop(_ANSWERS, None)
        suggest_questions(context, service, available)
        return
    set_title(view.question)
    if not view.pipelines:
        invite("Choose a pipeline", "Up to four answer side by side.")
        return
    checked_question(view.question)
    answers = show_answers(context, service, view)
    if view.why:
        show_why(context, service, view, answers)


def choose_view(context: Context, service: SearchService, available: list[str]) -> SearchView:
    """The form, filled in from the address, and the address, filled in from the form."""
    state = st.session_state
    default = service.pipelines.first_visit
    is_new = navigation.is_new(SEARCH) or "question" not in state
    if is_new:
        params = navigation.params()
        view = read_search_view(params, available, default)
        if navigation.page_has_changed(SEARCH) and not set(params) - {"index"}:
            view = state.get(_LAST_VIEW, view)  # back from another page
        state.question, state.k = view.question, view.k
        state.grouped, state.chart, state.why = view.grouped, view.chart, view.why
        state[_CHOSEN] = [name for name in view.pipelines if name in available]
        state[_NOTE] = _dropped([name for name in params.get("pipelines", ()) if name], available)

    with st.form("ask", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        st.text_input("Question", key="question", placeholder="Ask a question")
        st.form_submit_button("Search", type="primary", on_click=close_why)
    with st.container(horizontal=True, gap="medium", key="choice"):
        choose_pipelines(service, available, is_new)
        st.segmented_control("Results per pipeline", COUNTS, key="k", required=True)
        with st.container(key="show", width="content", horizontal=True, vertical_alignment="bottom"):
            st.toggle("Group by article", key="grouped")
            st.toggle("Chart of ranks", key="chart")
    question = state.question.strip()
    view = SearchView(question, tuple(state[_CHOSEN]), state.k, state.grouped, state.chart, state.why)
    notes = [state[_NOTE]]
    if len(question) > MAX_QUESTION_IN_ADDRESS:
        notes.append(
            f"A question of more than {MAX_QUESTION_IN_ADDRESS:,} characters is not in the address of the "
            "page: it is lost when the page is loaded again or shared."
        )
    if view.chart and len(view.pipelines) == 1:
        notes.append("The chart of ranks compares two pipelines or more.")
    for note in filter(None, notes):
        st.caption(plain_label(note))
    state[_LAST_VIEW] = replace(view, why="")
    params = {"index": [context.name]}
    if view == read_search_view({}, available, default):
        navigation.write(SEARCH, params if context.name != context.options.index.resolve().name else {})
    else:
        navigation.write(SEARCH, view.to_params() | params)
    return view


def choose_pipelines(service: SearchService, available: list[str], is_new: bool) -> None:
    """A row of pipelines for each group. The columns stand in the order in which they were chosen."""
    state = st.session_state
    groups = service.pipelines.grouped(available)
    keys = {group: f"pipelines: {group}" for group in groups}
    if not is_new:
        before = state[_CHOSEN]
        pressed = [name for group, names in groups.items() for name in names if name in state[keys[group]]]
        chosen = [name for name in before if name in pressed]
        chosen += [name for name in pressed if name not in before]
        if chosen != before:
            state[_NOTE] = _dropped(chosen, available)
        state[_CHOSEN] = chosen[:MAX_PIPELINES]
    for group, names in groups.items():
        state[keys[group]] = [name for name in names if name in state[_CHOSEN]]
        with st.container(key=f"group-{group}", width="content"):
            st.pills(
                group,
                names,
                selection_mode="multi",
                key=keys[group],
                format_func=plain_label,
                help=plain_label(GROUPS[group]),
            )


def _dropped(wanted: Sequence[str], available: Sequence[str]) -> str:
    """A sentence on the pipelines that are wanted and not shown; empty if there are none."""
    missing = [name[:60] for name in wanted if name not in available]
    known = list(dict.fromkeys(name for name in wanted if name in available))
    sentences = [f"Not among the pipelines of this index: {', '.join(missing)}."] if missing else []
    if len(known) > MAX_PIPELINES:
        more = ", ".join(known[MAX_PIPELINES:])
        sentences.append(f"At most {MAX_PIPELINES} pipelines fit side by side, so {more} is not shown.")
    return " ".join(sentences)


def suggest_questions(context: Context, service: SearchService, available: list[str]) -> None:
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
        st.button("Other questions", on_click=turn_suggestions)
    groups = service.pipelines.grouped(available)
    one_of_each = SearchView(pipelines=tuple(names[0] for names in groups.values())[:MAX_PIPELINES])
    show(
        "groups.html",
        groups=[(group, GROUPS[group], names) for group, names in groups.items()],
        of_each=one_of_each.pipelines,
        address=one_of_each.address(context.name),
    )


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
        name = answer.pipeline
        status = ""
        if answer.waiting:
            step = "re-ranking" if service.is_ready(name) else "loading the re-ranker"
            status = f"Order of {answer.first_stage}; {step}…"
        description = service.pipelines.describe(name)
        columns[name].html(answer_html(answer, description, view, context.name, others, status))

    for answer in known.values():
        show_column(answer, [*known.values()])
    missing = [name for name in view.pipelines if name not in known]
    for name in missing:
        status = (
            "Searching…" if service.is_ready(name) else "Loading; only the first question waits for this…"
        )
        columns[name].html(waiting_html(name, service.pipelines.describe(name), status))
    for result in service.answers(view.question, missing, view.k) if missing else ():
        if isinstance(result, Failure):
            known.pop(result.pipeline, None)
            with columns[result.pipeline].container():
                st.html(failed_html(result, service.pipelines.describe(result.pipeline)))
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
    return answers


def open_why(key: str) -> None:
    """Open the evidence of the passage that was clicked in the chart, and clear the selection."""
    points = st.session_state[key].selection.get(SELECTION, [])
    if points and "id" in points[0]:  # not the name of a pipeline
        st.session_state.why = points[0]["id"]
        st.session_state[_CLICKS] = st.session_state.get(_CLICKS, 0) + 1


def known_answers(service: SearchService, view: SearchView) -> dict[str, Answer]:
    """This visitor's answers to the same question, so that opening one passage does not search again."""
    asked = (service.index.path, service.stamp, view.question, view.k)
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
        with shown_errors("the evidence"):
            reason = service.why(view.question, view.why, [answer.pipeline for answer in answers])
            st.html(why_html(reason, answers, context.name))
            graph = link_graph(reason.links, context.name)
            if graph:
                show_drawing(graph, "graph")
            st.html(evidence_html(reason, context.name))

    dialog()
