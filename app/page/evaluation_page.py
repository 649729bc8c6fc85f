"""Evaluations: a form for a new one, running ones, and the reports of finished ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from io import BytesIO
from typing import Any

import streamlit as st

from linkseek.app.background.job_requests import (
    EVALUATE,
    MAX_DEPTH,
    MAX_LIMIT,
    runnable_test_sets,
    start_evaluation,
)
from linkseek.app.background.jobs import Job
from linkseek.app.background.uploads import Role, Upload
from linkseek.app.evaluation.by_question import SHOWN
from linkseek.app.evaluation.measures import SEED
from linkseek.app.page.context import Context
from linkseek.app.page.elements import (
    invite,
    pressed,
    remembered,
    set_title,
    show,
    show_choice,
    show_drawing,
    show_error,
    show_failure,
    show_no_index,
    shown_errors,
)
from linkseek.app.page.job_list import show_jobs, started
from linkseek.app.page.judging import asked_questions, show_asked
from linkseek.app.page.report_actions import report_buttons, show_changes
from linkseek.app.preferences.judged_sets import QRELS, QUERIES, content, files_of, grades_of, list_judged
from linkseek.app.rendering import navigation
from linkseek.app.rendering.addresses import EVALUATION, REPORT_PARTS, EvaluationView, SearchView
from linkseek.app.rendering.html_templates import plain_label, plain_option
from linkseek.app.rendering.question_table import (
    QuestionGroup,
    fitting,
    question_kinds,
    question_scatter,
    questions_html,
)
from linkseek.app.rendering.views import report_part_html
from linkseek.app.report import report_title
from linkseek.app.report.finished import FILES, Report, list_reports, read_label, read_report
from linkseek.app.service import SearchService, list_indexes
from linkseek.app.testsets.known_items import CAUTION, HOW, SIZE, kinds_of, own_kind
from linkseek.indexer.program.errors import LinkseekError

_OWN, _JUDGED, _ASKED, _KINDS = "questions of your own", "judged ", "asked", "kinds of own questions"
_EVALUATED, _ROWS = "pipelines to evaluate", "evaluated"
_UPLOAD_MB = 50
_TYPES = {"html": "text/html", "json": "application/json"}


def page(context: Context) -> None:
    """A report, or the list of all of them with the form for a new evaluation."""
    view = EvaluationView.read(navigation.params())
    if view.report:
        show_report(context, view)
        return
    navigation.write(EVALUATION, view.to_params() | {"index": [context.name]})
    jobs = context.jobs
    reports = list_reports(context.options.results)
    if context.service is not None and not context.options.read_only:
        with st.expander("New evaluation", expanded=not reports, key="new"):
            choose(context, context.service)

    def link(job: Job) -> tuple[str, str]:
        return EvaluationView(job.order.subject).address(context.name), "Open the report"

    names = {report.name for report in reports}
    show_jobs(jobs, EVALUATE, link, lambda job: job.state != "done" or job.order.subject not in names)
    if reports:
        show("section.html", title="Finished evaluations")
        labels = {name: read_label(context.options.results, name) for name in names}
        show("reports.html", reports=reports, labels=labels, index=context.name)
    elif context.service is None:
        show_no_index(context)
    elif context.options.read_only:
        invite("Nothing has been evaluated yet", "This application is read-only.")
    else:
        invite(
            "Nothing has been evaluated yet",
            "Choose questions and pipelines above. Finished evaluations are listed here with their reports.",
        )


def choose(context: Context, service: SearchService) -> None:
    """The choices, and the button that starts the evaluation."""
    available = service.pipelines.offered()
    choices = runnable_test_sets(service.index.manifest, context.name)
    own = remembered(_KINDS, (service.index.path, service.stamp), lambda: kinds_of(service.index))
    labels = {f"{_JUDGED}{name}": f"Judged: {name}" for name in list_judged(context.options.results)}
    labels |= {kind: f"{kind.capitalize()} of this index, each asking for its page" for kind in own}
    if asked := asked_questions(context):
        labels[_ASKED] = "Questions that people asked and judged"

    def title(name: str) -> str:
        if name not in choices:
            return labels.get(name, "Questions of your own")
        test_set, is_of_this_index = choices[name]
        count = f", {test_set.queries:,} questions" if test_set.queries else ""
        other = "" if is_of_this_index else f" (asked on {test_set.corpus.title})"
        return f"{test_set.title}{count}{other}"

    ordered = sorted([*choices, *labels], key=lambda name: name in choices and not choices[name][1])
    chosen = st.selectbox("Questions", [*ordered, _OWN], format_func=title, key="test_set", width=560)
    if kind := own_kind(chosen):
        st.caption(f"{HOW[kind]} {CAUTION}")
    name, results = chosen.removeprefix(_JUDGED), context.options.results
    contents: dict[str, bytes] = {}
    with shown_errors("the judgements"):
        if chosen.startswith(_JUDGED):
            contents = {file: content(results, name, file) for file in (QUERIES, QRELS)}
        elif chosen == _ASKED:
            judged = grades_of(results, asked)
            show_asked(context, SearchView(pipelines=service.pipelines.first_visit), asked, judged)
            contents = {file: b"".join(lines) for file, lines in files_of(judged).items() if judged}
    judged_files = {file: [(f"{name}-{file}", BytesIO(written))] for file, written in contents.items()}
    queries, qrels = (list[Upload](judged_files.get(file, ())) for file in (QUERIES, QRELS))
    if chosen == _OWN:
        accepted = "Questions: JSON lines, CSV with the columns question and answers, or TSV"
        queries = _uploads(accepted, "questions", several=False)
        qrels = _uploads("Judgements, if there are any: TREC’s qrels or BEIR’s TSV", "qrels", several=False)
    options: dict[str, Any] = {"pipeline": choose_pipelines(service, available)}
    runs = _uploads("Runs of other systems, if there are any: TREC’s format", "other_runs", several=True)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        options["depth"] = st.number_input("Depth", 1, MAX_DEPTH, 100, key="depth", width=160)
        usual, label = str(SIZE) if kind else "all", "Limit of questions"
        options["limit"] = st.number_input(label, 1, MAX_LIMIT, None, placeholder=usual, key="limit")
        if kind:
            options["seed"] = st.number_input("Draw", 1, MAX_LIMIT, SEED, key="draw", width=120)
            if offered := service.conditions:
                options["only"] = st.multiselect("Only pages of", offered, key="asked_pages", width=320)
    if st.button("Evaluate", type="primary", key=f"evaluate {context.name}"):
        options["test_set"] = None if queries or chosen in (_OWN, _ASKED) else chosen
        files: dict[Role, list[Upload]] = {"queries": queries, "qrels": qrels, "run": runs}
        started(lambda: start_evaluation(context.workplace(), options, files))


def choose_pipelines(service: SearchService, available: list[str]) -> list[str]:
    """Pipelines by group, in the order in which they were pressed."""
    groups = service.pipelines.grouped(available)
    before = st.session_state.get(_EVALUATED, service.pipelines.first_visit[:3])
    chosen = pressed(groups, _ROWS, [name for name in before if name in available])
    st.session_state[_EVALUATED] = chosen
    with st.container(horizontal=True, gap="medium", key="evaluated"):
        show_choice(groups, _ROWS, chosen)
    if chosen:
        text = f"The baseline is {chosen[0]}, chosen first: the others are compared with it."
        st.caption(plain_label(text))
    return chosen


def _uploads(label: str, key: str, *, several: bool) -> list[Upload]:
    """A field for files of an evaluation, and the files in it."""
    sent = st.file_uploader(
        label, accept_multiple_files=several, key=key, max_upload_size=_UPLOAD_MB, width=560
    )
    files = sent if isinstance(sent, list) else [sent] if sent else []
    return [(file.name, file) for file in files]


def show_report(context: Context, view: EvaluationView) -> None:
    """One report, its files, and its questions one by one."""
    try:
        report = read_report(context.options.results, view.report)
    except LinkseekError as error:
        navigation.write(EVALUATION, view.to_params() | {"index": [context.name]})
        show_error(error.message, error.hint)
        show("report_heading.html", title="", note="", index=context.name)
        return
    set_title(report_title(report.results), report.name)
    state = st.session_state
    if navigation.is_new(EVALUATION) or "part" not in state:
        state.part = view.part
    label = read_label(context.options.results, report.name)
    title = label.name or report_title(report.results)
    show("report_heading.html", title=title, note=label.note, index=context.name)
    with st.container(horizontal=True, vertical_alignment="center", key="report-actions"):
        st.segmented_control(
            "Part of the report",
            REPORT_PARTS,
            key="part",
            format_func=str.capitalize,
            label_visibility="collapsed",
            required=True,
        )
        show_files(report)
        if not context.options.read_only:
            report_buttons(context, report, label)
    show_failure()
    view = replace(view, part=state.part)
    if view.part == "questions":
        view = show_questions(context, report, view)
    elif view.part == "changes":
        view = show_changes(context, report, view)
    elif view.part == "charts":
        show_drawing(report_part_html(report, view.part, context.name), f"charts {report.name}")
    else:
        st.html(report_part_html(report, view.part, context.name))
    navigation.write(EVALUATION, view.to_params() | {"index": [context.name]})


def show_questions(context: Context, report: Report, view: EvaluationView) -> EvaluationView:
    """A scatter and the table of questions, below the choice of a measure, two pipelines and questions."""
    state, results = st.session_state, report.results
    view = fitting(view, results)
    if navigation.is_new(EVALUATION) or "of_questions" not in state:
        state.of_questions, state.shown, (state.pair_a, state.pair_b) = view.measure, view.shown, view.pair
        state.kind, state.words = view.kind, view.words
    with st.container(horizontal=True, key="of-questions"):
        measure = st.selectbox("Measure", results.measures, key="of_questions", width=180)
        chosen = fitting(replace(view, measure=measure, pair=(state.pair_a, state.pair_b)), results)
        state.pair_a, state.pair_b = chosen.pair
        for key, label in (("pair_b", "Pipeline"), ("pair_a", "Compared with")):
            names = list(results.scores(measure))
            st.selectbox(label, names, key=key, format_func=plain_option, width=240)
        st.segmented_control("Questions", [*SHOWN], key="shown", format_func=str.capitalize, required=True)
        kinds = question_kinds(results)
        if kinds:
            st.selectbox("Kind", ["", *kinds], key="kind", format_func=partial(_kind_label, kinds), width=300)
        st.text_input("Words", key="words", max_chars=200, placeholder="of question or answer", width=200)
    kind, words = state.kind if kinds else "", " ".join(state.words.split())
    chosen = replace(chosen, pair=(state.pair_a, state.pair_b), shown=state.shown, kind=kind, words=words)
    if chosen != view:
        view = replace(chosen, first=1)
    index = report.index if report.index in list_indexes(context.index) else context.name
    note = "" if index == report.index else f"The index of this report is missing; links lead to {index}."
    with st.container(key="report-questions"):
        if scatter := question_scatter(results, view, index):
            show_drawing(scatter, f"scatter {report.name}")
        st.html(questions_html(results, view, context.name, index, note))
    return view


def _kind_label(kinds: Mapping[str, QuestionGroup], name: str) -> str:
    """A kind with the number of its questions, for the list of kinds."""
    return plain_option(f"{kinds[name].label} ({len(kinds[name].query_ids):,})") if name else "all"


def show_files(report: Report) -> None:
    """The files of a report, to download."""
    with st.popover("Export"), st.container(key="files"):
        for name in FILES:
            content, kind = partial(report.content, name), _TYPES[name.rpartition(".")[2]]
            key = f"file {report.name} {name}"
            st.download_button(name, content, f"{report.name}-{name}", kind, key=key, on_click="ignore")
