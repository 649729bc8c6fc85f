"""Comparisons as folders below the folder of results; several visitors can judge at the same time.

    RESULTS/NAME/preferences.json   the comparison; its judgements are in a judged test set (`judged_sets`)

Every change reads the file again under a lock, and publishes it atomically: nobody's judgement is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from linkseek.app.evaluation.records import find_folder, first_fault, new_folder, read_inside, stamps
from linkseek.app.preferences import judged_sets as sets
from linkseek.app.preferences.record import Choice, Disagreement, Preferences
from linkseek.indexer.program.errors import InputError, LinkseekError, UsageError
from linkseek.indexer.store.outputs import remove_outputs, remove_written, write_output_json

FILE = sets.COMPARISON
_MAX_BYTES = 16 << 20


class ListedComparison(NamedTuple):
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
    return sorted(listed, key=lambda entry: -(entry.preferences.created if entry.preferences else 0.0))


def read_preferences(results: Path, name: str) -> Preferences:
    """A comparison by its name, with the judgements of its test set.

    Raises `UsageError` if it is missing, `InputError` if it or its test set is damaged.
    """
    path = _found(results, name) / FILE
    if path.stat().st_size > _MAX_BYTES:
        raise InputError(f"the comparison {name} is too large", "Remove its folder.")
    try:
        preferences = Preferences.model_validate_json(read_inside(results, path))
    except ValidationError as error:
        problem = f"the comparison {name} is damaged: {first_fault(error)}"
        raise InputError(problem, "Remove its folder, or compare again.") from None
    if preferences.ended:
        return preferences
    grades = sets.read_judged(results, preferences.judged, missing_ok=True)
    chosen = {item.id: item.choice_of(_of_both(item, grades)) for item in preferences.to_judge}
    choices = {id_: choice for id_, choice in chosen.items() if choice is not None}
    return preferences.model_copy(update={"choices": choices})


def save_preferences(results: Path, name: str, preferences: Preferences) -> str:
    """Write a new comparison, and return its name: the one given, with a number if it is taken.

    Its test set is a new one of the same name if it names none. Raises `MachineError` if the folder cannot be
    made.
    """
    folder = new_folder(results, name)
    write_preferences(folder, preferences)
    return folder.name


def write_preferences(folder: Path, preferences: Preferences) -> None:
    """Write a comparison into its folder."""
    named = preferences.model_copy(update={"judged": preferences.judged or folder.name})
    write_output_json(folder / FILE, named.model_dump(mode="json"))


def judge(
    results: Path,
    name: str,
    question: str,
    choice: Choice | None,
    shown: Choice | None = None,
    rater: str = "",
    grades: Mapping[str, int | None] | None = None,
) -> dict[str, int | None]:
    """Record a judgement as grades, and return the rater's earlier grades.

    shown: the choice that the judge saw, which is replaced. grades: these instead of the choice's, to undo.
    Raises `UsageError` for an unknown comparison or question, once the comparison has ended, and if the
    question has got another judgement since it was shown.
    """
    with sets.changing(results):
        preferences = read_preferences(results, name)
        if preferences.ended:
            raise UsageError("this comparison has ended", "Start another comparison to judge more questions.")
        asked = next((item for item in preferences.to_judge if item.id == question), None)
        if asked is None:
            raise UsageError(f'there is no question "{question[:100]}" to judge', "Reload the page.")
        if preferences.choices.get(question) not in (shown, choice):
            raise UsageError(
                "this question has been judged since it was shown to you", "Go back to it to judge it again."
            )
        known = sets.read_judged(results, preferences.judged, missing_ok=True)
        before = {id_: of.get(rater) for id_, of in _of_both(asked, known).items()}
        if grades is None and choice is not None:
            grades = asked.grades_for(choice, {id_: grade for id_, grade in before.items() if grade})
        if grades is not None and grades != before:
            sets.record(results, preferences.judged, rater, asked.text, grades)
    return before


def end(results: Path, name: str) -> Preferences:
    """Reveal which pipeline was on which side; nothing can be judged any more."""
    with sets.changing(results):
        preferences = read_preferences(results, name).model_copy(update={"ended": True})
        write_preferences(_found(results, name), preferences)
    return preferences


def remove_preferences(results: Path, name: str) -> None:
    """Remove the files of a comparison, and its folder unless there are others in it.

    Its own test set stays if another comparison has it, too.
    """
    with sets.changing(results):
        folder = _found(results, name)
        others = [of.preferences for of in list_preferences(results) if of.name != name]
        if any(other and other.judged == name for other in others):
            remove_outputs(folder / FILE)
        else:
            remove_written(folder)


def _of_both(question: Disagreement, grades: sets.Grades) -> dict[str, Mapping[str, int]]:
    """Passage id -> rater -> grade, of the first results of a question."""
    ids = (question.first_a, question.first_b)
    return {id_: grades.get((question.text, id_), {}) for id_ in ids if id_ is not None}


def _found(results: Path, name: str) -> Path:
    """The folder of a comparison. Raises `UsageError` if it is missing, `InputError` for a link elsewhere."""
    return find_folder(results, FILE, name, "comparison", "There are no comparisons yet.")[0]
