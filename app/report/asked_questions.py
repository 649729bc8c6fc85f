"""The questions of finished evaluations, by their text, so that their answers are known in a search."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from linkseek.app.context.known_questions import Known, KnownQuestions
from linkseek.app.report.finished import find_report, newest_reports, read_report
from linkseek.indexer.program.errors import LinkseekError
from linkseek.retriever.ranking import Query


class AskedQuestions:
    """The questions of all reports in a folder, including reports that are added later."""

    def __init__(self, results: Path, index: str) -> None:
        """index: judgements of the passages and documents of any other index are ignored."""
        self._results, self._index = results, index

    def find(self, question: str) -> Known:
        """The answers and judgements of a question, from the newest report that has any."""
        reports = newest_reports(self._results)
        found = (_find(self._results, name, stamp, self._index, question) for name, stamp in reports)
        return next(filter(None, found), Known())


def find_in_report(results: Path, report: str, index: str, question: str) -> Known:
    """The answers and judgements of a question in one report. Raises `UsageError` if it is missing."""
    return _find(results, report, find_report(results, report)[1], index, question)


def _find(results: Path, report: str, stamp: tuple[int, int], index: str, question: str) -> Known:
    of_index, questions = _questions(results, report, stamp)
    known = questions.find(question)
    return known if of_index == index else replace(known, relevance=None)


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
