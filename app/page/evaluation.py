"""Evaluations: one that is to be run, those that run, and finished ones with all that they found."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from app.background.jobs import Job, Jobs
from app.background.work import (
    EVALUATE,
    MAX_DEPTH,
    MAX_LIMIT,
    EvaluationChoices,
    runnable_test_sets,
    start_evaluation,
)
from app.evaluation.reports import Report, list_reports, read_report
from app.page.jobs import show_jobs
from app.service import SearchService, list_indexes
from app.web import address
from app.web.context import Context
from app.web.drawing import show_drawing
from app.web.state import (
    EVALUATION,
    PARTS,
    EvaluationView,
    evaluation_address,
    index_address,
    read_evaluation_view,
)
from app.web.view import invitation_html, notice_html, plain_label, section_html
from app.web.view_index import no_index_html
from app.web.view_report import (
    charts_html,
    differences_html,
    origin_html,
    report_heading_html,
    reports_html,
    results_html,
)
from indexer.base.errors import LinkseekError

_OWN = "questions of your own"
_TYPES = {"html": "text/html", "md": "text/markdown", "json": "application/json", "trec": "text/plain"}


def page(context: Context) -> None:
    """A report, or the list of all and what to run next."""
    view = read_evaluation_view(address.params())
    if view.report:
        show_report(context, view)
        return
    address.write(EVALUATION, view.to_params() | {"index": [context.index.name]})
    jobs = Jobs.beside(context.index)
    reports = list_reports(context.options.results)
    if context.service is not None:
        with st.expander("New evaluation", expanded=not reports, key="new"):
            choose(context, context.service, jobs)
    show_jobs(jobs, [EVALUATE], lambda job: _report_link(context, job))
    if reports:
        st.html(section_html("Finished evaluations"))
        st.html(reports_html(reports, context.index.name))
    elif context.service is None:
        st.html(no_index_html(index_address(context.index.name)))
    else:
        st.html(
            invitation_html(
                "Nothing has been evaluated yet",
                "Choose questions and pipelines above. What is measured stays here, with its report.",
            )
        )


def _report_link(context: Context, job: Job) -> tuple[str, str]:
    return evaluation_address(EvaluationView(job.subject), context.index.name), "Open the report"


# --- a new one ------------------------------------------------------------------------------------


def choose(context: Context, service: SearchService, jobs: Jobs) -> None:
    """The choices, and the button that starts the evaluation."""
    available = service.pipelines.available(with_runs=True)
    chosen_before = st.session_state.get("evaluated", available[:3])
    st.session_state.evaluated = [name for name in chosen_before if name in available]
    choices = {
        choice.name: choice for choice in runnable_test_sets(service.index.manifest, context.index.name)
    }

    def told(name: str) -> str:
        if name == _OWN:
            return "Questions of your own, with answers"
        choice = choices[name]
        count = f", {choice.queries:,} questions" if choice.queries else ""
        other = "" if choice.fits else f" (asked on {choice.corpus})"
        return f"{choice.title}{count}{other}"

    chosen = st.selectbox("Questions", [*choices, _OWN], format_func=told, key="test_set", width=560)
    questions = None
    if chosen == _OWN:
        questions = st.file_uploader(
            "A file of questions with answers: JSON lines, or DPR’s CSV",
            key="questions",
            max_upload_size=50,
            width=560,
        )
    st.pills(
        "Pipelines; the first is the baseline",
        available,
        selection_mode="multi",
        key="evaluated",
        format_func=plain_label,
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        depth = st.number_input("Depth", 1, MAX_DEPTH, 100, key="depth", width=160)
        limit = st.number_input(
            "Only the first … questions",
            1,
            MAX_LIMIT,
            None,
            key="limit",
            placeholder="all",
            width=220,
        )
        latency = st.checkbox("Measure the time of single questions", value=True, key="latency")
    if st.button("Evaluate", type="primary", key="evaluate"):
        evaluation = EvaluationChoices(
            None if chosen == _OWN else chosen, tuple(st.session_state.evaluated), int(depth), limit, latency
        )
        upload = (questions.name, questions) if questions is not None else None
        try:
            start_evaluation(
                jobs,
                context.options.results,
                context.index,
                available,
                context.options.pipelines_file,
                evaluation,
                upload,
            )
        except LinkseekError as error:
            st.html(notice_html(error.message, error.hint))
        else:
            st.rerun()


# --- a finished one -------------------------------------------------------------------------------


def show_report(context: Context, view: EvaluationView) -> None:
    """One report, its files, and where its pipelines differ."""
    try:
        report = read_report(context.options.results, view.report)
    except LinkseekError as error:
        address.write(EVALUATION, view.to_params() | {"index": [context.index.name]})
        st.html(notice_html(error.message, error.hint))
        back = evaluation_address(EvaluationView(), context.index.name)
        st.html(f'<p><a href="{back}">All evaluations</a></p>')
        return
    state, pairs = st.session_state, report.pairs()
    parts = [part for part in PARTS if part != "questions" or pairs]
    if address.is_new(EVALUATION):
        state.part, state.pair = view.part, view.pair
    st.html(report_heading_html(report, context.index.name))
    show_files(report)
    if state.get("part") not in parts:
        state.part = parts[0]
    st.segmented_control(
        "Part of the report", parts, key="part", format_func=str.capitalize, label_visibility="collapsed"
    )
    view = replace(view, part=state.part or parts[0])
    if view.part == "scores":
        st.html(results_html(report))
    elif view.part == "charts":
        show_drawing(charts_html(report), f"charts {report.name}")
    elif view.part == "questions":
        view = replace(view, pair=show_differences(context, report, pairs))
    else:
        st.html(origin_html(report))
    address.write(EVALUATION, view.to_params() | {"index": [context.index.name]})


def show_differences(context: Context, report: Report, pairs: list[tuple[str, str]]) -> tuple[str, str]:
    """The questions that two pipelines answer most differently; the two."""
    state = st.session_state
    if state.get("pair") not in pairs:
        state.pair = pairs[0]
    if len(pairs) > 1:
        st.pills(
            "Two pipelines",
            pairs,
            key="pair",
            format_func=lambda pair: plain_label(f"{pair[1]} beside {pair[0]}"),
        )
    pair = state.pair or pairs[0]
    asked = report.index if report.index in list_indexes(context.index) else context.index.name
    note = "" if asked == report.index else f"The index of this report is not here; links lead to {asked}."
    st.html(differences_html(report.results, report.differences(*pair), asked, note))
    return pair


def show_files(report: Report) -> None:
    """What can be downloaded."""
    runs = [file for file in report.files() if file.startswith("runs/")]
    with st.container(horizontal=True, key="files"):
        for file in ("report.html", "report.md", "results.json"):
            _download(report, file, file)
        if runs:
            st.download_button(
                "All runs (zip)",
                report.zipped_runs,
                f"{report.name}-runs.zip",
                "application/zip",
                key="runs",
                on_click="ignore",
            )
            with st.popover("Single runs"):
                for file in runs:
                    _download(report, file, plain_label(file.removeprefix("runs/")))


def _download(report: Report, file: str, label: str) -> None:
    st.download_button(
        label,
        lambda: report.content(file),
        f"{report.name}-{file.rpartition('/')[2]}",
        _TYPES[file.rpartition(".")[2]],
        key=f"file {file}",
        on_click="ignore",
    )
