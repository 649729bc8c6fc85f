"""The actions on a report: name it, run it again, delete it, compare it with another report."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from linkseek.app.background.job_requests import run_again
from linkseek.app.evaluation.by_question import shared_measures
from linkseek.app.page.context import Context
from linkseek.app.page.elements import noted_errors, show, show_error
from linkseek.app.rendering import navigation
from linkseek.app.rendering.addresses import EVALUATION, EvaluationView
from linkseek.app.rendering.html_templates import plain_label, plain_option
from linkseek.app.rendering.views import two_reports_html
from linkseek.app.report.finished import (
    MAX_NAME,
    MAX_NOTE,
    Label,
    Report,
    list_reports,
    read_report,
    remove_report,
    write_label,
)
from linkseek.app.service import list_indexes
from linkseek.indexer.program.errors import LinkseekError


def report_buttons(context: Context, report: Report, label: Label) -> None:
    """Buttons to name, run again and delete a report."""
    state, name = st.session_state, report.name
    with st.popover("Name and note"):
        if state.get("labelled") != name:
            state.labelled, state.report_name, state.report_note = name, label.name, label.note
        st.text_input("Name", key="report_name", max_chars=MAX_NAME, placeholder=name)
        st.text_area("Note", key="report_note", max_chars=MAX_NOTE)
        st.button("Save", key=f"save {name}", on_click=save, args=(context, name))
    with st.popover("Run again"):
        available = context.service.pipelines.offered() if context.service else []
        others = [name for name in available if name not in report.results.names]
        st.pills(
            "With these pipelines too", others, selection_mode="multi", key="added", format_func=plain_label
        )
        st.button("Run it", type="primary", key=f"run {name}", on_click=again, args=(context, report))
    with st.popover("Delete"):
        st.write("Removes the files of the evaluation: the report, its results and runs.")
        st.button("Delete it", type="primary", key=f"delete {name}", on_click=delete, args=(context, name))


def save(context: Context, report: str) -> None:
    """Write the name and the note."""
    state = st.session_state
    with noted_errors():
        write_label(context.to_change(context.options.results), report, state.report_name, state.report_note)


def again(context: Context, report: Report) -> None:
    """Start the evaluation again, and go to the list, where its job is."""
    with noted_errors():
        added = st.session_state.get("added") or []
        run_again(context.workplace(), report.folder, report.results, added)
        navigation.set_params({"index": [context.name]})


def delete(context: Context, report: str) -> None:
    """Delete the report, and go to the list."""
    with noted_errors():
        remove_report(context.to_change(context.options.results), report)
        navigation.set_params({"index": [context.name]})


def show_changes(context: Context, report: Report, view: EvaluationView) -> EvaluationView:
    """Another report, chosen by the visitor, next to this one."""
    state = st.session_state
    others = [other.name for other in list_reports(context.options.results) if not other.problem]
    others = [name for name in others if name != report.name]
    if not others:
        show("paragraph.html", text="There is no other report.")
        return view
    if navigation.is_new(EVALUATION) or "other_report" not in state:
        state.other_report = view.other if view.other in others else others[0]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = st.selectbox("Other report", others, key="other_report", format_func=plain_option, width=360)
        try:
            there = read_report(context.options.results, chosen)
        except LinkseekError as error:
            show_error(error.message, error.hint)
            return view
        measures = shared_measures(report.results, there.results)
        if not measures:
            show("paragraph.html", text="The two reports share no measure.")
            return replace(view, other=chosen)
        if navigation.is_new(EVALUATION) or state.get("shared_measure") not in measures:
            main = report.results.main_measure
            wanted = view.measure if view.measure in measures else main
            state.shared_measure = wanted if wanted in measures else measures[0]
        measure = st.selectbox("Measure", measures, key="shared_measure", width=180)
    index = report.index if report.index in list_indexes(context.index) else context.name
    st.html(two_reports_html(report, there, measure, index))
    return replace(view, other=chosen, measure=measure)
