"""Judging on the search page: into which test set, as whom, and what the browser sends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import streamlit as st

from linkseek.app.background.services import file_stamp
from linkseek.app.context.question_log import read_asked
from linkseek.app.page.context import Context
from linkseek.app.page.elements import (
    noted_errors,
    remembered,
    sender,
    show,
    show_error,
    show_failure,
    shown_errors,
)
from linkseek.app.preferences import judged_sets as sets
from linkseek.app.rendering.addresses import SearchView
from linkseek.indexer.program.errors import LinkseekError

SET, RATER = "judged set", "rater"
_FIELDS = {SET: "Test set: a new name or an existing one", RATER: "Your name"}
_FIELD, _SENT, _ASKED = "field of ", "judging", "asked questions"
_MAX_ASKED = 8
_LAST = "judgement to take back"

_judging = sender("judging")  # by the buttons of results


def chosen(key: str) -> str:
    """The name of the test set or the reader in its field."""
    state = st.session_state
    return str(state.get(_FIELD + key, state.get(key, ""))).strip()


def text_field(key: str, label: str = "") -> None:
    """The field for the name of the test set or the reader; other pages have none of it."""
    state = st.session_state
    state[_FIELD + key] = chosen(key)
    state[key] = st.text_input(label or _FIELDS[key], key=_FIELD + key, max_chars=100)


def reader_grades(context: Context, question: str) -> Mapping[str, int] | None:
    """This reader's grades for a question, by passage id; None where nothing is judged."""
    name, rater = chosen(SET), chosen(RATER)
    if not name or context.options.read_only:
        return None
    try:
        grades = sets.read_judged(context.options.results, name)
    except LinkseekError:  # a new one, or a damaged one, which judging refuses
        return {}
    text = " ".join(question.split())
    return {passage: of[rater] for (asked, passage), of in grades.items() if asked == text and rater in of}


def choose_judging(context: Context, view: SearchView) -> None:
    """The name of the test set, the reader's own name, how far raters agree, undo, and the files; and what
    people asked.
    """
    state, results = st.session_state, context.options.results
    known, name = sets.list_judged(results), chosen(SET)
    with st.popover("Judge", type="tertiary"):
        text_field(SET)
        text_field(RATER)
        if known:
            show("paragraph.html", text=f"Known: {', '.join(known)}")
        show("paragraph.html", text="✓ or ✗ below a passage, or the keys y, n, 0 to 3; press again to undo.")
        if name in known:
            show_set(context, name)
        if asked := asked_questions(context):
            show_asked(context, view, asked, sets.grades_of(results, asked))
    if name:
        _judging(key=_SENT, on_sent_change=partial(_record, context))
        if state.get(_LAST):
            st.button("Undo", key="undo judgement", shortcut="u", on_click=_undo, args=(context,))
    show_failure()


def asked_questions(context: Context) -> Counter[str]:
    """The questions that people asked, with their number; none without a log that can be read."""
    logs = context.asked_logs
    stamps = [(log, file_stamp(log)) for log in logs]
    try:
        return remembered(_ASKED, stamps, lambda: read_asked(logs)[0])
    except LinkseekError as error:
        show_error(error.message, error.hint)
        return Counter()


def show_asked(context: Context, view: SearchView, asked: Counter[str], judged: sets.Grades) -> None:
    """How many of the questions that people asked are judged, and links to the most frequent others.

    view: of the search that they are asked with.
    """
    known = {question for question, _ in judged}
    others = [
        (text, count, replace(view, question=text, why="", table="").address(context.name))
        for text, count in asked.items()
        if text not in known
    ]
    show("asked.html", asked=len(asked), others=others[:_MAX_ASKED], judged=len(asked) - len(others))


def show_set(context: Context, name: str) -> None:
    """The size of a test set, its files, and Cohen's kappa of each two raters."""
    results = context.options.results
    with shown_errors("the judgements"):
        grades = sets.read_judged(results, name)
        show("judged_set.html", questions=len({asked for asked, _ in grades}), grades=grades,
             agreement=sets.agreement(grades))  # fmt: skip
        set_files(context, name)


def set_files(context: Context, name: str) -> None:
    """The files of a test set, to download."""
    for file in (sets.QUERIES, sets.QRELS):
        content = partial(sets.content, context.options.results, name, file)
        st.download_button(file, content, f"{name}-{file}", "text/plain", on_click="ignore")


def _record(context: Context) -> None:
    """Record a grade that the browser sends, with its question and passage."""
    sent = st.session_state[_SENT].sent
    with noted_errors():
        _judge(context, chosen(SET), str(sent["question"]), str(sent["passage"]), sent["grade"])


def _judge(context: Context, name: str, question: str, passage: str, grade: int | None) -> None:
    state, results = st.session_state, context.to_change(context.options.results)
    before = (reader_grades(context, question) or {}).get(passage)
    sets.judge(results, name, chosen(RATER), question, {passage: grade})
    state[_LAST] = (name, question, passage, before)


def _undo(context: Context) -> None:
    """Give the passage that was judged last the grade that it had before."""
    with noted_errors():
        _judge(context, *st.session_state[_LAST])
        st.session_state.pop(_LAST)
