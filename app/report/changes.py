"""Reports as things: a name and a note of one's own, and deleting.

RESULTS/NAME/label.json   the name and the note
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from pydantic import Field, ValidationError

from linkseek.app.evaluation.records import JsonRecord, read_inside
from linkseek.app.evaluation.results import RESULTS
from linkseek.app.report.finished import find_report
from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.indexer.store.outputs import locked, remove_outputs, remove_written, write_output_json

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
    """Remove what an evaluation wrote, and its folder unless it has other files.

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
