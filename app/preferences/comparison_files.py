"""Comparisons as folders below the folder of results; several visitors can judge at the same time.

    RESULTS/NAME/preferences.json   the comparison with all judgements
    RESULTS/NAME/queries.jsonl      the same as a test set: its questions
    RESULTS/NAME/qrels.txt          and judgements, once there is one

Every change reads the file again under a lock, and publishes it atomically: nobody's judgement is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from linkseek.app.background.jobs import new_folder
from linkseek.app.evaluation.records import find_folder, first_fault, read_inside, stamps
from linkseek.app.preferences.record import Choice, Preferences
from linkseek.indexer.machine.locks import holding
from linkseek.indexer.program.errors import InputError, LinkseekError, UsageError
from linkseek.indexer.store.outputs import remove_outputs, remove_written, write_output, write_output_json
from linkseek.retriever.queries import queries_lines
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.runs import Qrels, qrels_lines

FILE, QUERIES, QRELS = "preferences.json", "queries.jsonl", "qrels.txt"

_LOCK = ".preferences-lock"
_MAX_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class ListedComparison:
    """A comparison in the list. problem: why it cannot be shown; else empty."""

    name: str
    preferences: Preferences | None
    problem: str = ""


def list_preferences(results: Path) -> list[ListedComparison]:
    """Every comparison below the folder of results, the newest first; damaged ones too."""
    listed = []
    for name in sorted(stamps(results, FILE)):
        try:
            listed.append(ListedComparison(name, read_preferences(results, name)))
        except LinkseekError as error:
            listed.append(ListedComparison(name, None, error.message))
    return sorted(listed, key=lambda each: -(each.preferences.created if each.preferences else 0.0))


def read_preferences(results: Path, name: str) -> Preferences:
    """A comparison by its name. Raises `UsageError` if it is missing, `InputError` if it is damaged."""
    path = _found(results, name) / FILE
    if path.stat().st_size > _MAX_BYTES:
        raise InputError(f"the comparison {name} is too large", "Remove its folder.")
    try:
        return Preferences.model_validate_json(read_inside(results, path))
    except ValidationError as error:
        problem = f"the comparison {name} is damaged: {first_fault(error)}"
        raise InputError(problem, "Remove its folder, or compare again.") from None


def save_preferences(results: Path, name: str, preferences: Preferences) -> str:
    """Write a new comparison, and return its name: the one given, or with a number where that is taken.

    Raises `MachineError` if the folder cannot be made.
    """
    folder = new_folder(results, name)
    with changing(results):
        _write(folder, preferences)
    return folder.name


def judge(
    results: Path, name: str, question: str, choice: Choice | None, shown: Choice | None = None
) -> Preferences:
    """Record a judgement, or with None take it back. shown: the one that the judge saw, which is
    replaced.

    Raises `UsageError` for an unknown comparison or question, once the comparison has ended, and if the
    question has got another judgement since it was shown.
    """
    with changing(results):
        preferences = read_preferences(results, name)
        if preferences.ended:
            raise UsageError("this comparison has ended", "Start another comparison to judge more questions.")
        if question not in [each.id for each in preferences.to_judge]:
            raise UsageError(f'there is no question "{question[:100]}" to judge', "Reload the page.")
        choices = dict(preferences.choices)
        if choices.pop(question, None) not in (shown, choice):
            raise UsageError(
                "this question was judged after it was shown to you", "Go back to it to judge it again."
            )
        if choice is not None:
            choices[question] = choice
        preferences = preferences.model_copy(update={"choices": choices})
        _write(_found(results, name), preferences)
    return preferences


def end(results: Path, name: str) -> Preferences:
    """Reveal which pipeline was on which side; nothing can be judged any more."""
    with changing(results):
        preferences = read_preferences(results, name).model_copy(update={"ended": True})
        _write(_found(results, name), preferences)
    return preferences


def remove_preferences(results: Path, name: str) -> None:
    """Remove the files of a comparison, and its folder unless there are others in it."""
    with changing(results):
        remove_written(_found(results, name))


def content(results: Path, name: str, file: str) -> bytes:
    """One of the files of the test set. Raises `UsageError` for any other name."""
    if file not in (QUERIES, QRELS):
        raise UsageError(f'a comparison has no file "{file[:100]}"', f"{QUERIES} or {QRELS}.")
    return read_inside(results, _found(results, name) / file)


def _found(results: Path, name: str) -> Path:
    """The folder of a comparison. Raises `UsageError` if it is missing, `InputError` for a link elsewhere."""
    return find_folder(results, FILE, name, "comparison", "Nothing has been compared here yet.")[0]


def _write(folder: Path, preferences: Preferences) -> None:
    """The test set has the questions that were judged; all of them before there is a judgement."""
    asked = [
        each for each in preferences.questions if not preferences.choices or each.id in preferences.choices
    ]
    write_questions(folder, (Query(each.id, each.text) for each in asked), preferences.qrels)
    write_output_json(folder / FILE, preferences.model_dump(mode="json"))


def write_questions(folder: Path, queries: Iterable[Query], qrels: Qrels) -> None:
    """Write a test set, without a file of judgements where there are none."""
    write_output(folder / QUERIES, queries_lines(queries))
    if qrels:
        write_output(folder / QRELS, qrels_lines(qrels))
    else:
        remove_outputs(folder / QRELS)


@contextmanager
def changing(results: Path) -> Iterator[None]:
    """One change at a time, in all processes: it takes milliseconds, so all comparisons share a lock."""
    results.mkdir(parents=True, exist_ok=True)
    with holding(results / _LOCK):
        yield
