"""Compare: two pipelines on questions without labels, judged where their first results differ."""

from __future__ import annotations

import time
from dataclasses import replace

import streamlit as st

from linkseek.app.background.job_requests import COMPARE as COMPARISONS
from linkseek.app.background.job_requests import start_comparison
from linkseek.app.background.jobs import Job
from linkseek.app.context.question_log import read_asked
from linkseek.app.page.context import Context
from linkseek.app.page.elements import (
    invite,
    noted_errors,
    set_title,
    show,
    show_error,
    show_failure,
    show_no_index,
)
from linkseek.app.page.job_list import show_jobs, started
from linkseek.app.page.judging import RATER, SET, chosen, set_files, text_field
from linkseek.app.preferences import comparison_files as files
from linkseek.app.preferences.record import MAX_QUESTIONS, Choice, Preferences, order_of
from linkseek.app.rendering import navigation
from linkseek.app.rendering.addresses import COMPARE, CompareView
from linkseek.app.rendering.html_templates import plain_option
from linkseek.app.rendering.views import outcome_html, question_html
from linkseek.app.service import SearchService
from linkseek.app.testsets.known_items import CAUTION, suggested_items
from linkseek.indexer.program.errors import LinkseekError

_SUGGESTED = 40
_HOW = f"Headings and link texts from the whole index, each asking for one page. {CAUTION}"
# label -> key
_BUTTONS = {"Result 1 is better": "1", "Both good": "0", "Both bad": "x", "Result 2 is better": "2"}
_ASKED = "The questions asked most often, from the logs of this application."
_STARTED = "comparison that was started"
_SUGGESTION, _AT, _LAST = "suggestion", "question to judge", "judgement to undo"


def page(context: Context) -> None:
    """A comparison, or the list of all of them with the form for a new one."""
    view = CompareView.read(navigation.params())
    if view.comparison:
        show_comparison(context, view)
        return
    navigation.write(COMPARE, {"index": [context.name]})
    if context.service is None:
        show_no_index(context)
        return
    listed = files.list_preferences(context.options.results)
    if st.session_state.get(_STARTED) in [entry.name for entry in listed]:
        turn_to(context, st.session_state.pop(_STARTED))
        st.rerun()
    if not listed:
        invite(
            "Which pipeline is better on your pages?",
            "No labelled questions are needed. Two pipelines answer the same questions. Where they disagree, "
            "you judge their first results side by side, without knowing which is whose. A sign test shows "
            "whether the difference may be chance, and your judgements become a test set.",
        )
    if not context.options.read_only:
        with st.expander("New comparison", expanded=not listed, key="new"):
            choose(context, context.service)
    show_jobs(context.jobs, COMPARISONS, lambda job: None, lambda job: job.state != "done")
    if listed:
        show("section.html", title="Comparisons")
        show("comparisons.html", listed=listed, index=context.name)


def choose(context: Context, service: SearchService) -> None:
    """Questions and two pipelines, and the button that starts the comparison."""
    state = st.session_state
    available = service.pipelines.offered()
    if len(available) < 2:
        show_error("this index has one pipeline only", "Build it again with words and vectors.")
        return
    usual = [service.pipelines.first_visit[0], service.pipelines.first_visit[-1]]
    for key, name in zip(("compare_a", "compare_b"), usual, strict=True):
        if state.get(key) not in available:
            state[key] = name
    label = f"Questions, one per line, at most {MAX_QUESTIONS}"
    st.text_area(label, key="compared_questions", height=220, max_chars=100_000)

    def suggest(texts: list[str], origin: str) -> None:
        state.compared_questions = "\n".join(texts)
        state[_SUGGESTION] = (state.compared_questions, origin)

    def take_headings() -> None:
        suggest([item.text for item in suggested_items(service.index, _SUGGESTED)[0]], _HOW)

    def take_asked() -> None:
        with noted_errors():
            asked, damaged = read_asked(context.asked_logs)
            most = [text for text, _ in asked.most_common(MAX_QUESTIONS)]
            suggest(most, f"{_ASKED} {len(most)} of {len(asked)}; {damaged} lines could not be read.")

    with st.container(horizontal=True):
        help_ = "From the headings and links of this index"
        st.button("Suggest questions", on_click=take_headings, help=help_)
        if context.asked_logs:
            st.button("Questions people asked", on_click=take_asked, help=_ASKED)
    show_failure()
    suggested, origin = state.get(_SUGGESTION, (None, ""))
    is_suggested = bool(suggested) and state.compared_questions == suggested
    if is_suggested:
        st.caption(origin)
    elif suggested == "":
        st.caption("This source has no questions.")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.selectbox("First pipeline", available, key="compare_a", format_func=plain_option, width=260)
        st.selectbox("Second pipeline", available, key="compare_b", format_func=plain_option, width=260)
        text_field(SET, "Name of the test set for the judgements (optional)")
        text_field(RATER)

    def start() -> Job:
        written, pair = state.compared_questions.splitlines(), (state.compare_a, state.compare_b)
        where = origin if is_suggested else "written on the page"
        job = start_comparison(context.workplace(), pair, written, where, chosen(SET))
        state[_STARTED] = job.order.subject
        return job

    if st.button("Compare", type="primary", key=f"compare {context.name}"):
        started(start)


def turn_to(context: Context, name: str) -> None:
    """Show a comparison."""
    navigation.set_params(CompareView(name).to_params() | {"index": [context.name]})


def show_comparison(context: Context, view: CompareView) -> None:
    """One comparison: a question to judge, or the outcome."""
    results, name = context.options.results, view.comparison
    try:
        preferences = files.read_preferences(results, name)
    except LinkseekError as error:
        navigation.write(COMPARE, view.to_params() | {"index": [context.name]})
        show("comparison_heading.html", preferences=None, index=context.name)
        show_error(error.message, error.hint)
        return
    set_title(f"{preferences.a} and {preferences.b}", "Compare")
    show("comparison_heading.html", preferences=preferences, index=context.name)
    if preferences.ended:
        view = replace(view, at=0)
        show_outcome(context, name, preferences)
    elif not preferences.to_judge:
        show("paragraph.html", text="Both pipelines have the same first result for every question.")
        end_buttons(context, name)
    elif context.options.read_only:
        show("paragraph.html", text="It has not ended. This application is read-only: nothing can be judged.")
    elif context.service is None or context.name != preferences.index:
        text = f"Its passages are in the index {preferences.index}; open that index to judge."
        show("paragraph.html", text=text)
    else:
        view = show_question(context, context.service, view, preferences)
    navigation.write(COMPARE, view.to_params() | {"index": [context.name]})


def show_question(
    context: Context, service: SearchService, view: CompareView, preferences: Preferences
) -> CompareView:
    """The question that the address names, or the next one without a judgement, and the buttons."""
    state, to_judge, name = st.session_state, preferences.to_judge, view.comparison
    if navigation.is_new(COMPARE) or _AT not in state:
        state[_AT] = view.at - 1 if 0 < view.at <= len(to_judge) else preferences.next_open()
    place = min(state[_AT], len(to_judge) - 1)
    question = to_judge[place]
    choices = dict(zip(order_of(name, question.text), _BUTTONS, strict=True))
    shown = preferences.choices.get(question.id)
    before = choices[shown] if shown else ""
    show("judged.html", of=preferences, place=place + 1, before=before)
    st.html(question_html(service, question, name))
    with st.container(key="judge"):
        columns = st.columns(len(_BUTTONS), gap="small")
        for column, (choice, label) in zip(columns, choices.items(), strict=True):
            column.button(
                label,
                key=f"{label} {name} {question.id}",  # a button that has gone from the page judges nothing
                type="primary" if shown == choice else "secondary",
                shortcut=_BUTTONS[label],
                width="stretch",
                disabled=not question.can_be(choice),
                on_click=judge,
                args=(context, name, question.id, choice, shown, place),
            )
        with st.container(horizontal=True):
            st.button("Previous", on_click=go_to, args=(place - 1,), disabled=place == 0)
            st.button("Next", on_click=go_to, args=(place + 1,), disabled=place + 1 == len(to_judge))
            if (last := state.get(_LAST)) and last[0] == name:
                label, key = f"Undo question {last[4] + 1}", f"undo {last[:4]}"
                st.button(label, key=key, shortcut="u", on_click=undo, args=(context,))
            end_buttons(context, name)
    show_failure()
    return replace(view, at=place + 1)


def judge(
    context: Context, name: str, question: str, choice: Choice, shown: Choice | None, place: int
) -> None:
    """Record a judgement, and turn to the next question without one. shown: an earlier one, to replace."""
    state = st.session_state
    state.pop(_LAST, None)
    with noted_errors():
        results = context.to_change(context.options.results)
        before = files.judge(results, name, question, choice, shown, chosen(RATER))
        state[_AT] = files.read_preferences(results, name).next_open(place)
        state[_LAST] = (name, question, shown, choice, place, before)


def undo(context: Context) -> None:
    """Give the question that was judged last the grades that it had before, and turn back to it."""
    state = st.session_state
    name, question, shown, choice, place, before = state.pop(_LAST)
    with noted_errors():
        results = context.to_change(context.options.results)
        files.judge(results, name, question, shown, choice, chosen(RATER), before)
        state[_AT] = place


def go_to(place: int) -> None:
    """Go to a question."""
    st.session_state[_AT] = place


def end_buttons(context: Context, name: str) -> None:
    """End the comparison or delete it; each asks once."""
    with st.popover("End and reveal", key="end-comparison"):
        st.write("Shows which pipeline was on which side, and ends the judging.")
        st.button("End it", type="primary", key=f"end {name}", on_click=end, args=(context, name))
    delete_button(context, name)


def delete_button(context: Context, name: str) -> None:
    """Delete a comparison; asks once."""
    with st.popover("Delete", key="delete-comparison"):
        st.write("Removes this comparison, and its judgements unless they belong to another test set.")
        st.button("Delete it", type="primary", key=f"delete {name}", on_click=delete, args=(context, name))


def end(context: Context, name: str) -> None:
    """End the comparison."""
    with noted_errors():
        files.end(context.to_change(context.options.results), name)


def go_on(context: Context, name: str) -> None:
    """Make a new comparison of the questions that were not judged, and turn to it."""
    with noted_errors():
        results = context.to_change(context.options.results)
        ended = files.read_preferences(results, name)
        values = {"questions": ended.not_judged, "ended": False, "choices": {}, "created": time.time()}
        turn_to(context, files.save_preferences(results, name, ended.model_copy(update=values)))


def delete(context: Context, name: str) -> None:
    """Delete the comparison, and go back to the list."""
    with noted_errors():
        files.remove_preferences(context.to_change(context.options.results), name)
        navigation.set_params({"index": [context.name]})


def show_outcome(context: Context, name: str, preferences: Preferences) -> None:
    """The verdict, the judgements as a test set, and all questions."""
    index = context.service.index if context.service and context.name == preferences.index else None
    show("verdict.html", of=preferences)
    if preferences.choices:
        show("paragraph.html", text=f"Evaluation has the judgements as the test set {preferences.judged}.")
    with st.container(horizontal=True):
        if preferences.choices:
            set_files(context, preferences.judged)
        if not context.options.read_only:
            if left := len(preferences.not_judged):
                label = f"Compare the {left} questions without a judgement"
                st.button(label, key=f"more {name}", on_click=go_on, args=(context, name))
            delete_button(context, name)
    show_failure()
    st.html(outcome_html(index, preferences))
