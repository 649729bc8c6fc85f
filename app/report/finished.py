"""Finished evaluations: the folders below `results/` that contain a results.json, for the pages.

    RESULTS/NAME/label.json   a name and a note that visitors gave a report

A report is looked up by its name in the list of existing ones; a name is never made into a path, and a link
that leads out of the folder is not followed. A damaged one is listed with its problem.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from pydantic import Field, ValidationError

from linkseek.app.context.known_questions import Known, KnownQuestions
from linkseek.app.evaluation.records import JsonRecord, find_folder, read_inside, stamps
from linkseek.app.evaluation.results import RESULTS, Results, parse_results
from linkseek.app.report import to_html
from linkseek.indexer.program.errors import InputError, LinkseekError, UsageError
from linkseek.indexer.store.outputs import locked, remove_outputs, remove_written, write_output_json
from linkseek.retriever.ranking import Query

FILES = ("report.html", RESULTS)
"""Those that can be downloaded."""

_MAX_BYTES = 512 << 20
_MAX_SUMMARIES = 100  # of the newest ones; older ones are listed by their names


@dataclass(frozen=True, slots=True)
class Summary:
    """A report in the list. problem: why it cannot be shown; else empty.

    when: seconds since 1970, by the date in the report, or else the date of its file. best: the pipelines
    with the highest mean of the main measure. value: that mean.
    """

    name: str
    when: float
    test_set: str = ""
    index: str = ""
    questions: int | None = None
    pipelines: tuple[str, ...] = ()
    measure: str = ""
    best: tuple[str, ...] = ()
    value: float | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """One finished evaluation."""

    name: str
    folder: Path
    results: Results

    @property
    def index(self) -> str:
        """The name of the index that was searched; empty where unknown."""
        origin = self.results.provenance
        return Path(origin.index.path).name if origin else ""

    def content(self, file: str) -> bytes:
        """One of `FILES`; a missing report is written again. Raises `UsageError` for any other name."""
        if file not in FILES:
            raise UsageError(f'the report {self.name} has no file "{file[:100]}"', "Look at its list.")
        if file != RESULTS and not (self.folder / file).exists():
            return to_html(self.results).encode()
        return read_inside(self.folder.parent, self.folder / file)


def list_reports(folder: Path) -> list[Summary]:
    """Every evaluation below a folder, the newest first."""
    summaries = [
        _summary(folder, name, stamp) if place < _MAX_SUMMARIES else Summary(name, stamp[0] / 1e9)
        for place, (name, stamp) in enumerate(_newest_first(folder))
    ]
    return sorted(summaries, key=lambda summary: -summary.when)


def _newest_first(folder: Path) -> list[tuple[str, tuple[int, int]]]:
    return sorted(stamps(folder, RESULTS).items(), key=lambda item: (-item[1][0], item[0]))


def read_report(folder: Path, name: str) -> Report:
    """An evaluation by its name. Raises `UsageError` if it is missing, `InputError` if it is damaged."""
    return _read(folder, name, find_report(folder, name)[1])


def find_report(folder: Path, name: str) -> tuple[Path, tuple[int, int]]:
    """The folder of an evaluation, and a stamp that changes when it is written again. Raises as
    `find_folder`.
    """
    return find_folder(folder, RESULTS, name, "report", "There are no evaluations yet.")


@lru_cache(maxsize=4)
def _read(folder: Path, name: str, stamp: tuple[int, int]) -> Report:
    path = folder / name / RESULTS
    if stamp[1] > _MAX_BYTES:
        message = f"the results of {name} are too large to show ({stamp[1]:,} bytes)"
        raise InputError(message, f"Open {path.parent}/report.html.")
    return Report(name, folder / name, parse_results(read_inside(folder, path), name))


@lru_cache(maxsize=4 * _MAX_SUMMARIES)
def _summary(folder: Path, name: str, stamp: tuple[int, int]) -> Summary:
    modified = stamp[0] / 1e9
    try:
        report = _read.__wrapped__(folder, name, stamp)  # past the cache: few of them are opened
    except LinkseekError as error:
        return Summary(name, modified, problem=error.message)
    results = report.results
    if results.provenance:
        with suppress(ValueError, OverflowError):
            date = datetime.fromisoformat(results.provenance.date)
            modified = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    means = {pipeline: score.mean for pipeline, score in results.scores(results.main_measure).items()}
    best = max(means.values())
    return Summary(
        name,
        modified,
        test_set=results.title,
        index=report.index,
        questions=results.counts.queries,
        pipelines=tuple(results.names),
        measure=results.main_measure,
        best=tuple(pipeline for pipeline, mean in means.items() if mean == best),
        value=best,
    )


def find_asked(results: Path, index: str, question: str) -> Known:
    """The answers and judgements of a question, from the newest report in a folder that has any.

    index: judgements of the passages and documents of any other index are ignored.
    """
    reports = _newest_first(results)[:_MAX_SUMMARIES]
    found = (_find(results, name, stamp, index, question) for name, stamp in reports)
    return next(filter(None, found), Known())


def find_in_report(results: Path, report: str, index: str, question: str) -> Known:
    """The answers and judgements of a question in one report. Raises `UsageError` if it is missing."""
    return _find(results, report, find_report(results, report)[1], index, question)


def _find(results: Path, report: str, stamp: tuple[int, int], index: str, question: str) -> Known:
    own_index, questions = _questions(results, report, stamp)
    known = questions.find(question)
    return known if own_index == index else replace(known, relevance=None)


@lru_cache(maxsize=256)
def _questions(folder: Path, name: str, stamp: tuple[int, int]) -> tuple[str, KnownQuestions]:
    """The index and the questions of a report; none if it is damaged. stamp: changes with the report."""
    try:
        report = read_report(folder, name)
    except LinkseekError:
        return "", KnownQuestions([])
    questions = report.results.questions
    judged = {q.id: dict.fromkeys(q.relevant, 1) for q in questions if q.relevant is not None}
    queries = [Query(q.id, q.text, tuple(q.answers)) for q in questions]
    return report.index, KnownQuestions(queries, judged or None, report.results.answer_kind)


FILE = "label.json"
MAX_NAME, MAX_NOTE = 100, 2_000


class Label(JsonRecord):
    """The title and the notes that visitors have given a report; empty where nobody has."""

    name: str = Field(default="", max_length=MAX_NAME)
    note: str = Field(default="", max_length=MAX_NOTE)


def read_label(results: Path, report: str) -> Label:
    """The label of a report; empty where it is missing or damaged."""
    with suppress(InputError, ValidationError):
        return Label.model_validate_json(read_inside(results, results / report / FILE))
    return Label()


def write_label(results: Path, report: str, name: str, note: str) -> None:
    """Name a report and note something; two empty texts remove the label.

    Raises `UsageError` for an unknown report and for texts that are too long.
    """
    folder, _ = find_report(results, report)
    try:
        label = Label(name=" ".join(name.split()), note=note.strip())
    except ValidationError:
        raise UsageError(
            "the name or the note is too long", f"At most {MAX_NAME} and {MAX_NOTE:,} characters."
        ) from None
    if label == Label():
        remove_outputs(folder / FILE)
    else:
        write_output_json(folder / FILE, label.model_dump())


def remove_report(results: Path, report: str) -> None:
    """Remove the files of an evaluation, and its folder unless it has other files.

    Raises `UsageError` for an unknown report, `InputError` for a link, `BusyError` while it is written.
    """
    folder, _ = find_report(results, report)
    with locked(folder / RESULTS):
        pass
    remove_written(folder)
    if (folder / RESULTS).exists():
        raise UsageError(
            f"{report}: results.json was copied here, or changed since", "Remove its folder by hand."
        )
