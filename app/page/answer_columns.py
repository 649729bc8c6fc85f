"""The answers of the search page: columns side by side or one list, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from linkseek.app.answers import Answer, AnswerHit, Failure, Reason
from linkseek.app.context.known_questions import Known
from linkseek.app.context.question_log import note_asked
from linkseek.app.page.context import Context
from linkseek.app.page.elements import noted_errors, remembered, sender, show, show_failure, shown_errors
from linkseek.app.page.judging import choose_judging, reader_grades
from linkseek.app.page.question import find_known, show_meant, show_place
from linkseek.app.pipelines.filters import MAX_RESULTS, read_filter
from linkseek.app.pipelines.pipeline_entry import Shares
from linkseek.app.rendering import exports, navigation
from linkseek.app.rendering.addresses import SearchView, why_address
from linkseek.app.rendering.html_templates import render
from linkseek.app.rendering.views import answer_html, comparison_html, merged_html, why_html
from linkseek.app.service import SearchService
from linkseek.indexer.program.errors import UsageError
from linkseek.retriever.search.explanation import Explanation
from linkseek.retriever.search.query_words import Span

ANSWERS = "answers"
_REASON, _TURNED = "reason", "turned weights"

_turning = sender("turning")  # by "Use these", below the sliders


def show_results(
    context: Context, service: SearchService, view: SearchView, row: DeltaGenerator, head: DeltaGenerator
) -> None:
    """Columns or one list, filled as soon as answers are there; then all with each other's ranks, and why.

    row: the place for notes on all of them. head: the place for notes on the question.
    """
    top = st.container()
    with head:
        known_of_question = find_known(context, service, view)
        show_place(context, view, known_of_question)
        if view.only:
            show_filter(context, service, view)
    known = known_answers(service, view, known_of_question)
    missing = [name for name in view.pipelines if name not in known]
    shown = _Shown(context, service, view, known)
    shown.draw(view.pipelines, [*known.values()])
    only = read_filter(view.only)
    for result in service.answers(view.question, missing, view.k, only, known_of_question) if missing else ():
        if isinstance(result, Failure):
            known.pop(result.pipeline, None)
            shown.fail(result)
        else:
            known[result.pipeline] = result
            shown.draw([result.pipeline])
    answers = [known[name] for name in view.pipelines if name in known]
    if missing:
        if log := context.options.log_questions:
            note_asked(log, view.question, index=context.name, pipelines=[*view.pipelines])
        answers = with_nearest_sentences(service, answers)
        known.update({answer.pipeline: answer for answer in answers})
    if any(answer.hits for answer in answers):
        with row:
            if len(answers) > 1:
                recommended = service.pipelines.recommended
                st.html(comparison_html(answers, recommended, with_tabs=not view.merged))
            show_exports(context, view, answers)
            if not context.options.read_only:
                choose_judging(context, view)
    reason = None
    if view.why:
        with top, shown_errors("the evidence"):
            place = st.empty()
            for name, reason in known_reasons(service, view, answers, known_of_question):
                if any(hit.row == reason.hit.row for answer in answers for hit in answer.hits):
                    shown.draw([name], answers, reason)
                else:
                    close = why_address(view, context.name, "")
                    place.html(why_html(reason, answers, context.name, close, view=view))
    if view.turn and not context.options.read_only:
        offer_weights(context, service, view)
        show_failure()
    if reason or missing:
        shown.draw([*known], answers, reason)
    if not known_of_question:
        with head:
            show_meant(context, service, view)


def show_filter(context: Context, service: SearchService, view: SearchView) -> None:
    """Show the filter and the number of documents that it excludes."""
    documents = len(service.index.documents)
    show(
        "filtered.html",
        only=view.only,
        excluded=service.excluded(read_filter(view.only)),
        documents=documents,
        more=len(service.index.passages) > MAX_RESULTS,
        max_results=MAX_RESULTS,
        address=replace(view, only=(), why="").address(context.name),
    )


def show_exports(context: Context, view: SearchView, answers: Sequence[Answer]) -> None:
    """Offer the contents of the page as a link, a file and commands."""
    with st.popover("Share and export", type="tertiary"):
        show("copy_link.html")
        content = partial(exports.json, answers)
        st.download_button("JSON", content, "linkseek.json", on_click="ignore", type="tertiary", key="JSON")
        options = context.options
        index = options.index.parent / context.name
        show("paragraph.html", text="The same on the command line:")
        st.code(exports.commands(view, index, options.pipelines_file), language=None, wrap_lines=True)


class _Shown:
    """The answers on the page: a column for each pipeline, or one list with a cell for each.

    answers: the answers so far; the caller adds others.
    """

    def __init__(
        self, context: Context, service: SearchService, view: SearchView, answers: Mapping[str, Answer]
    ) -> None:
        self._context, self._service, self._view, self._answers = context, service, view, answers
        self._grades = reader_grades(context, view.question)
        self._failed: set[str] = set()
        self._columns: dict[str, DeltaGenerator] = {}
        if view.merged:
            self._failures, self._list = st.container(), st.empty()
            return
        count = len(view.pipelines)
        with st.container(key="columns"):
            places = st.columns(count, gap="large" if count < 3 else "medium")
        self._columns = {name: place.empty() for name, place in zip(view.pipelines, places, strict=True)}

    def draw(self, names: Sequence[str], others: Sequence[Answer] = (), reason: Reason | None = None) -> None:
        """Show the available answers of some pipelines next to the ranks of others, or their progress.

        reason: the explanation of the passage that is open. Its links are shown where it ranks best.
        """
        view, index = self._view, self._context.name
        descriptions = {name: self._service.pipelines.describe(name) for name in view.pipelines}
        if view.merged:
            answers = [self._answers[name] for name in view.pipelines if name in self._answers]
            statuses = [f"{name}: {status}" for name in view.pipelines if (status := self._status(name))]
            self._list.html(merged_html(answers, descriptions, view, index, statuses, reason, self._grades))
            return
        row = reason.hit.row if reason else -1
        with_passage = [answer for answer in others if any(hit.row == row for hit in answer.hits)]
        best = min(with_passage, key=lambda answer: answer.places[row].rank, default=None)
        for name in names:
            description, status = descriptions[name], self._status(name)
            if answer := self._answers.get(name):
                links = answer is best
                common, grades = (others, status, reason), self._grades
                html = answer_html(answer, description, view, index, *common, grades, with_links=links)
            else:
                html = render("waiting.html", pipeline=name, description=description, status=status)
            self._columns[name].html(html)

    def fail(self, failure: Failure) -> None:
        """Show the reason for a missing answer, and a button."""
        name = failure.pipeline
        self._failed.add(name)
        with self._failures if self._view.merged else self._columns[name].container():
            show("failed.html", failure=failure, description=self._service.pipelines.describe(name))
            st.button("Try again", key=f"try again: {name}")
        if self._view.merged:
            self.draw([])

    def _status(self, name: str) -> str:
        """The step that a pipeline is at; empty once it has answered or failed."""
        answer = self._answers.get(name)
        is_over = name in self._failed or (answer is not None and not answer.waiting)
        return "" if is_over else status_of(self._service, name, answer)


def status_of(service: SearchService, name: str, answer: Answer | None = None) -> str:
    """The current step of a pipeline. answer: the answer of its first stage, if known."""
    is_ready = service.pipelines.is_ready(name)
    if answer:
        step = "re-ranking" if is_ready else "loading the re-ranker"
        return f"Order of {answer.first_stage}; {step}…"
    return "Searching…" if is_ready else "Loading; only the first question waits for this…"


def _asked(service: SearchService, view: SearchView, known: Known) -> tuple[object, ...]:
    return service.index.path, service.stamp, view.question, view.k, view.only, known


def known_answers(service: SearchService, view: SearchView, known: Known) -> dict[str, Answer]:
    """This visitor's answers to the same question, so that opening one passage does not search again."""
    nothing: dict[str, Answer] = {}
    answers = remembered(ANSWERS, _asked(service, view, known), lambda: nothing)
    for name in [name for name, answer in answers.items() if name not in view.pipelines or answer.waiting]:
        del answers[name]
    return answers


def known_reasons(
    service: SearchService, view: SearchView, answers: Sequence[Answer], known: Known
) -> Iterator[tuple[str, Reason]]:
    """Why this visitor's open passage has its scores, in one pipeline after another; re-rankers, which take
    seconds, come last. Each is explained once, and follows with those before it.
    """
    nothing: dict[str, Reason] = {}
    explained = remembered(_REASON, (*_asked(service, view, known), view.why), lambda: nothing)
    scores: dict[str, Explanation | None] = {}
    links: tuple[str, ...] = ()
    turned: dict[str, Shares | None] = {}
    for name in sorted(
        (answer.pipeline for answer in answers), key=lambda n: bool(service.pipelines.first_stage(n))
    ):
        key, only = f"{name} {name == view.turn}", read_filter(view.only)
        if key not in explained:
            explained[key] = service.why(view.question, view.why, [name], view.k, only, known, view.turn)
        one = explained[key]
        scores, turned, links = {**scores, **one.scores}, {**turned, **one.turned}, links + one.by_links
        yield name, replace(one, scores=scores, by_links=links, turned=turned)


def offer_weights(context: Context, service: SearchService, view: SearchView) -> None:
    """What the browser sends when weights that were turned are to be used."""

    def use() -> None:
        with noted_errors():
            weights = [float(weight) for weight in st.session_state[_TURNED].sent]
            file = context.to_change(context.options.pipelines_file or Path())
            if context.options.pipelines_file is None:
                hint = "Start the application with --pipelines-file FILE; it may be empty."
                raise UsageError("there is no file of pipelines to write to", hint)
            new = service.pipelines.write_turned(view.turn, weights, file)
            chosen = tuple(new if name == view.turn else name for name in view.pipelines)
            shown = replace(view, pipelines=chosen, turn="")
            navigation.set_params(shown.to_params() | {"index": [context.name]})

    _turning(key=_TURNED, on_sent_change=use)


def with_nearest_sentences(service: SearchService, answers: Sequence[Answer]) -> list[Answer]:
    """The answers; hits without a mark get the sentence that the vectors of one of them say is nearest."""
    found: dict[int, Span] = {}
    for answer in answers:
        if not service.pipelines.has_vectors(answer.pipeline):
            continue
        depth = service.depth(answer.pipeline, len(answer.hits))
        for hit in answer.hits:
            if hit.marks or hit.answers or hit.row in found:
                continue
            why = service.explain(answer.question, hit.row, answer.pipeline, depth)
            if why and why.sentences:
                found[hit.row] = (why.sentences[0].start, why.sentences[0].end)

    def with_nearest(hit: AnswerHit) -> AnswerHit:
        span = found.get(hit.row)
        return replace(hit, nearest=span, section=service.section(hit.row, span[0])) if span else hit

    return [replace(answer, hits=tuple(map(with_nearest, answer.hits))) for answer in answers]
