"""Simple search: one box and one list, of the recommended pipeline."""

from __future__ import annotations

import streamlit as st

from linkseek.app.answers import Failure
from linkseek.app.context.question_log import note_asked
from linkseek.app.page.answer_columns import status_of
from linkseek.app.page.context import Context
from linkseek.app.page.elements import invite, set_title, show_error, show_no_index
from linkseek.app.rendering import navigation
from linkseek.app.rendering.addresses import DEFAULT_COUNT, MAX_QUESTION_IN_ADDRESS, SEARCH, read_search_view
from linkseek.app.rendering.html_templates import render
from linkseek.app.rendering.views import results_html
from linkseek.retriever.queries import checked_question


def page(context: Context) -> None:
    """Show the question box and the list below it."""
    service, state = context.service, st.session_state
    if service is None:
        show_no_index(context)
        return
    available = service.pipelines.available()
    if not available:
        show_error("this index has neither BM25 nor vectors", "Build it again with one of them.")
        return
    if navigation.is_new(SEARCH) or "question" not in state:
        state.question = read_search_view(navigation.params(), (), ()).question
    with st.form("ask", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        st.text_input("Question", key="question", placeholder="Ask a question")
        st.form_submit_button("Search", type="primary")
    question = state.question.strip()
    asked = {"q": [question]} if 0 < len(question) <= MAX_QUESTION_IN_ADDRESS else {}
    navigation.write(SEARCH, asked | {"index": [context.name]})
    if not question:
        invite("Ask a question in your own words", "The pages that answer it best are listed here.")
        return
    set_title(question)
    question, pipeline = checked_question(question), service.pipelines.recommended
    place = st.empty()
    status = status_of(service, pipeline)
    place.html(render("waiting.html", pipeline="results", description="", status=status))
    if log := context.options.log_questions:
        note_asked(log, question, index=context.name, pipelines=[pipeline])
    for result in service.answers(question, [pipeline], DEFAULT_COUNT):
        if isinstance(result, Failure):
            with place.container():
                show_error(result.message, result.hint)
                st.button("Try again")
        else:
            place.html(results_html(result, context.name))
