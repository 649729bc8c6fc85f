"""Search: one question, up to four pipelines side by side, and why each passage is a result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from linkseek.app.page.answer_columns import ANSWERS, show_results
from linkseek.app.page.context import Context
from linkseek.app.page.elements import (
    invite,
    pressed,
    set_title,
    show,
    show_choice,
    show_error,
    show_no_index,
)
from linkseek.app.pipelines.pipeline_entry import GROUPS
from linkseek.app.rendering import navigation
from linkseek.app.rendering.addresses import (
    COUNTS,
    MAX_PIPELINES,
    MAX_QUESTION_IN_ADDRESS,
    SEARCH,
    SearchView,
    read_search_view,
)
from linkseek.app.rendering.html_templates import plain_label, render
from linkseek.app.service import SearchService
from linkseek.indexer.program.errors import LinkseekError
from linkseek.retriever.queries import checked_question

_LAST_VIEW = "last view"
_TABLE = "table that led here"
_FIELDS = ("k", "merged", "grouped", "why", "turn")  # of the view, as the state of the page has them
_CHOSEN, _NOTE, _ROWS = "chosen pipelines", "note on pipelines", "pipelines"


def page(context: Context) -> None:
    """Show the search page."""
    service = context.service
    if service is None:
        if not context.index.exists():
            show_no_index(context)
        st.button("Reload")
        return
    available = service.pipelines.available()
    if not available:
        show_error("this index has neither BM25 nor vectors", "Build it again with one of them.")
        return
    view, row, head = choose_view(context, service, available)
    if not view.question:
        st.session_state.pop(ANSWERS, None)
        suggest_questions(context, service, available)
        return
    set_title(view.question)
    if not view.pipelines:
        invite("Choose a pipeline", "Up to four answer side by side.")
        return
    checked_question(view.question)
    show_results(context, service, view, row, head)


def choose_view(
    context: Context, service: SearchService, available: list[str]
) -> tuple[SearchView, DeltaGenerator, DeltaGenerator]:
    """The form, filled in from the address, and the address, filled in from the form; two rows below it."""
    state = st.session_state
    default = service.pipelines.first_visit
    is_new = navigation.is_new(SEARCH) or "question" not in state
    if is_new:
        params = navigation.params()
        view = read_search_view(params, available, default)
        if navigation.page_has_changed(SEARCH) and not set(params) - {"index"}:
            view = state.get(_LAST_VIEW, view)  # back from another page
        for name in ("question", *_FIELDS):
            state[name] = getattr(view, name)
        state.only, state[_TABLE] = [*view.only], view.table
        state[_CHOSEN] = [name for name in view.pipelines if name in available]
        wanted = [name for name in params.get("pipelines", ()) if name]
        state[_NOTE] = _dropped(service, wanted, available)

    with st.form("ask", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        st.text_input("Question", key="question", placeholder="Ask a question")
        st.form_submit_button("Search", type="primary", on_click=close_why)
    row = st.container(horizontal=True, vertical_alignment="center", key="compared")
    folded = row.empty()
    with st.container(horizontal=True, gap="medium", key="choice"):
        choose_pipelines(service, available, is_new)
        st.segmented_control("Results per pipeline", COUNTS, key="k", required=True)
        with st.container(key="show", width="content", horizontal=True, vertical_alignment="bottom"):
            st.toggle("One list", key="merged")
            st.toggle("Group by article", key="grouped", disabled=state.merged)
        choose_documents(service)
    question = state.question.strip()
    chosen, only = tuple(state[_CHOSEN]), tuple(state.only)
    own = {name: state[name] for name in _FIELDS}
    view = SearchView(question, chosen, only=only, table=state[_TABLE], **own)
    folded.html(render("controls.html", view=view))
    notes = [state[_NOTE]]
    if len(question) > MAX_QUESTION_IN_ADDRESS:
        notes.append(
            f"A question of more than {MAX_QUESTION_IN_ADDRESS:,} characters is not part of the page's "
            "address: it is lost when the page is reloaded or shared."
        )
    notes += [next(filter(None, map(service.pipelines.language_note, (None, *view.pipelines))), "")]
    head = st.container(horizontal=True, key="place")
    with head:
        for note in filter(None, notes):
            show("line.html", text=note)
    state[_LAST_VIEW] = replace(view, why="")
    params = {"index": [context.name]}
    if view == read_search_view({}, available, default):
        navigation.write(SEARCH, params if context.name != context.options.index.resolve().name else {})
    else:
        navigation.write(SEARCH, view.to_params() | params)
    return view, row, head


def choose_documents(service: SearchService) -> None:
    """A filter by folder, namespace or metadata, for an index that has any."""
    state = st.session_state
    offered = list(dict.fromkeys([*service.conditions, *state.only]))
    if offered:
        st.multiselect(
            "Only documents of",
            offered,
            key="only",
            format_func=lambda condition: " ".join(condition.partition(":")[::2]),
            placeholder="All documents",
            width=320,
            help="Values of one kind are alternatives; of several kinds, all must match.",
        )


def choose_pipelines(service: SearchService, available: list[str], is_new: bool) -> None:
    """Pipelines by group. The columns are in the order in which they were chosen."""
    state = st.session_state
    groups = service.pipelines.grouped(service.pipelines.offered(available, state[_CHOSEN]))
    if not is_new:
        before = state[_CHOSEN]
        chosen = pressed(groups, _ROWS, before)
        if chosen != before:
            state[_NOTE] = _dropped(service, chosen, available)
        state[_CHOSEN] = chosen[:MAX_PIPELINES]
    show_choice(groups, _ROWS, state[_CHOSEN])


def _dropped(service: SearchService, wanted: Sequence[str], available: Sequence[str]) -> str:
    """Notes on requested pipelines that are not shown, with the reasons; empty if all are shown."""
    missing = [name[:60] for name in wanted if name not in available]
    known = list(dict.fromkeys(name for name in wanted if name in available))
    sentences = [f"Not among the pipelines of this index: {', '.join(missing)}."] if missing else []
    for name in dict.fromkeys(wanted):
        if name in service.pipelines.entries and name not in available:
            try:
                service.pipelines.open(name)
            except LinkseekError as error:
                why = error.message.removeprefix(f"{service.index.path}: ")  # the server's
                sentences.append(f"{name[:60]}: {why}.")
    if len(known) > MAX_PIPELINES:
        more = ", ".join(known[MAX_PIPELINES:])
        sentences.append(f"At most {MAX_PIPELINES} pipelines fit side by side, so {more} is not shown.")
    return " ".join(sentences)


def suggest_questions(context: Context, service: SearchService, available: list[str]) -> None:
    """An empty page, with questions to start with."""
    invite(
        "Ask a question in your own words",
        "Each pipeline ranks the same passages in its own way. Compare their results side by side, the "
        "words of your question in them, and the links between a passage and other articles.",
    )
    if suggestions := service.suggested.suggestions():
        label = "Or try one of these"
        st.pills(label, suggestions, key="try", format_func=plain_label, on_change=ask_suggested)
    groups = service.pipelines.grouped(service.pipelines.offered(available))
    show("groups.html", groups=[(group, GROUPS[group], names) for group, names in groups.items()])


def ask_suggested() -> None:
    """Put the suggested question that was clicked into the form."""
    st.session_state.question = st.session_state["try"] or ""
    st.session_state["try"] = None


def close_why() -> None:
    """Close the evidence."""
    st.session_state.why = st.session_state.turn = ""
