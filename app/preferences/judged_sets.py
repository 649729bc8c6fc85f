"""Named test sets that people judge where they read: below the folder of results, for several raters.

    RESULTS/NAME/judged.jsonl    every judgement; of a rater's several on a passage, the last one counts
    RESULTS/NAME/queries.jsonl   the same as a test set: its questions
    RESULTS/NAME/qrels.txt       and judgements: of several raters, the lower median

A change appends a line under a lock, and publishes the test set atomically.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import combinations
from pathlib import Path
from statistics import median_low

from pydantic import Field, ValidationError

from linkseek.app.evaluation.records import JsonRecord, find_folder, first_fault, read_inside, stamps
from linkseek.indexer.machine.locks import holding
from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.indexer.store.outputs import remove_outputs, write_output
from linkseek.retriever.queries import queries_lines
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.runs import Qrels, qrels_lines

FILE, QUERIES, QRELS = "judged.jsonl", "queries.jsonl", "qrels.txt"
COMPARISON = "preferences.json"
"""The file of a comparison, whose folder has its own test set."""

_LOCK = ".preferences-lock"
MAX_GRADE = 3
_MAX_BYTES = 64 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class Judgement(JsonRecord):
    """A rater's grade of a passage for a question, 0 for not relevant; None takes it back."""

    time: float
    rater: str = Field(max_length=100)
    question: str = Field(min_length=1, max_length=10_000)
    passage: str = Field(min_length=1, max_length=2_000)
    grade: int | None = Field(ge=0, le=MAX_GRADE)


Grades = Mapping[tuple[str, str], Mapping[str, int]]
"""(question, passage id) -> rater -> grade."""


def list_judged(results: Path) -> list[str]:
    """The names of the test sets, sorted."""
    return sorted(stamps(results, FILE))


def read_judged(results: Path, name: str, *, missing_ok: bool = False) -> Grades:
    """The grades that count. missing_ok: whether an unknown name has no grades instead.

    Raises `UsageError` for an unknown name, `InputError` for a damaged file.
    """
    if missing_ok and name not in list_judged(results):
        return {}
    folder, (_, size) = find_folder(results, FILE, name, "judged test set", "There are no judgements yet.")
    if size > _MAX_BYTES:
        raise InputError(f"the judgements {name} are too large", "Remove its folder.")
    grades: dict[tuple[str, str], dict[str, int]] = {}
    for number, line in enumerate(read_inside(results, folder / FILE).splitlines(), start=1):
        try:
            one = Judgement.model_validate_json(line)
        except ValidationError as error:
            problem = f"the judgements {name}, line {number}: {first_fault(error)}"
            raise InputError(problem, "Remove the line, or its folder.") from None
        by_rater = grades.setdefault((one.question, one.passage), {})
        by_rater.pop(one.rater, None)
        if one.grade is not None:
            by_rater[one.rater] = one.grade
    return {asked: by_rater for asked, by_rater in grades.items() if by_rater}


def judge(results: Path, name: str, rater: str, question: str, judged: Mapping[str, int | None]) -> Grades:
    """Record grades of passages for a question; the first judgement of a name makes the test set.

    Raises `UsageError` for an invalid name or grade, or one that a report has; else as `read_judged`.
    """
    with changing(results):
        return record(results, name, rater, question, judged)


def check_set_name(name: str) -> str:
    """The name of a judged test set. Raises `UsageError` for one that none can have."""
    if not _NAME.fullmatch(name):
        hint = "Letters, digits, hyphens and underscores, such as my-questions."
        raise UsageError(f'"{name[:100]}" cannot name a test set', hint)
    return name


def record(results: Path, name: str, rater: str, question: str, judged: Mapping[str, int | None]) -> Grades:
    """As `judge`, for callers that hold `changing`."""
    folder = results / check_set_name(name)
    now, text = time.time(), " ".join(question.split())
    try:
        new = [Judgement(time=now, rater=rater, question=text, passage=p, grade=g) for p, g in judged.items()]
    except ValidationError as error:
        raise UsageError(f"this cannot be judged: {first_fault(error)}", "Reload the page.") from None
    before = b""
    if (folder / FILE).exists():
        read_judged(results, name)  # which refuses a damaged one
        before = read_inside(results, folder / FILE)
    elif folder.exists() and not (folder / COMPARISON).exists():
        raise UsageError(f'there is already a report "{name}"', "Choose another name.")
    lines = [item.model_dump_json().encode() + b"\n" for item in new]
    write_output(folder / FILE, [before, *lines])
    grades = read_judged(results, name)
    for file, content in files_of(grades).items():
        if grades or file == QUERIES:
            write_output(folder / file, content)
        else:
            remove_outputs(folder / file)
    return grades


def files_of(grades: Grades) -> dict[str, list[bytes]]:
    """The contents of `QUERIES` and `QRELS`."""
    queries = {text: Query(question_id(text), text) for text, _ in grades}
    return {QUERIES: [*queries_lines(queries.values())], QRELS: [*qrels_lines(qrels_of(grades))]}


def grades_of(results: Path, questions: Container[str]) -> Grades:
    """The grades of some questions in all test sets; damaged ones are passed over, as judging says."""
    grades: dict[tuple[str, str], dict[str, int]] = {}
    for name in list_judged(results):
        with suppress(InputError):
            for asked, by_rater in read_judged(results, name).items():
                if asked[0] in questions:
                    grades.setdefault(asked, {}).update(by_rater)
    return grades


@contextmanager
def changing(results: Path) -> Iterator[None]:
    """One change at a time, in all processes: it takes milliseconds, so all test sets share a lock."""
    results.mkdir(parents=True, exist_ok=True)
    with holding(results / _LOCK):
        yield


def content(results: Path, name: str, file: str) -> bytes:
    """`QUERIES` or `QRELS`. Raises as `read_judged`, and `InputError` for a missing file."""
    folder, _ = find_folder(results, FILE, name, "judged test set", "There are no judgements yet.")
    return read_inside(results, folder / file)


def question_id(question: str) -> str:
    """The id of a question: the same in every test set."""
    return hashlib.sha256(question.encode()).hexdigest()[:12]


def qrels_of(grades: Grades) -> Qrels:
    """The lower median of the raters' grades, by id of question and passage."""
    qrels: Qrels = {}
    for (question, passage), by_rater in grades.items():
        qrels.setdefault(question_id(question), {})[passage] = median_low(by_rater.values())
    return qrels


def agreement(grades: Grades) -> list[tuple[str, str, int, float]]:
    """For every two raters: the number of passages that both judged, and Cohen's kappa of relevant or not.

    Cohen 1960, "A coefficient of agreement for nominal scales". 1 where both gave all passages one grade.
    """
    raters = sorted({rater for by_rater in grades.values() for rater in by_rater})
    found = []
    for a, b in combinations(raters, 2):
        both = [(of[a] > 0, of[b] > 0) for of in grades.values() if a in of and b in of]
        if both:
            found.append((a, b, len(both), _kappa(both)))
    return found


def _kappa(both: Sequence[tuple[bool, bool]]) -> float:
    count = len(both)
    agreed = sum(a == b for a, b in both) / count
    yes_a, yes_b = (sum(column) / count for column in zip(*both, strict=True))
    chance = yes_a * yes_b + (1 - yes_a) * (1 - yes_b)
    return 1.0 if chance == 1 else (agreed - chance) / (1 - chance)
