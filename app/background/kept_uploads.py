"""Uploaded files of an evaluation, kept with its report, so that it can be run again.

RESULTS/NAME/uploads.json      for each file its role, its name as sent, and its hash
RESULTS/NAME/uploads/SHA256    its content
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, Literal

from pydantic import Field, TypeAdapter, ValidationError

from linkseek.app.evaluation.records import JsonRecord, inside_file, read_inside
from linkseek.app.evaluation.results import Results
from linkseek.indexer.files.hashes import file_sha256
from linkseek.indexer.program.errors import InputError, MachineError, UsageError
from linkseek.indexer.store.outputs import output_file, write_output_json

Role = Literal["queries", "qrels", "run"]

FILE, FOLDER = "uploads.json", "uploads"

_HINT = "Start a new evaluation, with these files."


class Kept(JsonRecord):
    """A file that was uploaded. name: as it was sent."""

    role: Role
    name: str
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


_LIST = TypeAdapter(list[Kept])


def keep_uploads(report: Path, files: Sequence[tuple[Kept, Path]]) -> None:
    """Copy files into the folder of a report. Raises `MachineError` if they cannot be written."""
    try:
        for sha256, path in {kept.sha256: path for kept, path in files}.items():
            with path.open("rb") as file, output_file(report / FOLDER / sha256) as copy:
                shutil.copyfileobj(file, copy, 1 << 20)
        if files:
            write_output_json(report / FILE, [kept.model_dump() for kept, _ in files])
    except OSError as error:
        raise MachineError(
            f"the upload could not be kept ({error.strerror})", "Free some space, or send less."
        ) from None


@contextmanager
def kept_uploads(report: Path, results: Results) -> Iterator[list[tuple[Kept, BinaryIO]]]:
    """The files that a report was made from, open for reading; none for a test set and pipelines alone.

    Raises `UsageError` unless the report has a copy of each, `InputError` if these were changed since, or are
    links that lead out of the folder of results.
    """
    listed = _listed(report)
    read = results.provenance.files if results.provenance else {}
    hashes = {
        file.sha256 for role, file in read.items() if role in ("queries", "qrels") or role.startswith("run ")
    }
    runs = sum(pipeline.source == "file" for pipeline in results.pipelines.values())
    complete = runs == sum(kept.role == "run" for kept in listed) and (
        results.test_set is not None or any(kept.role == "queries" for kept in listed)
    )
    if not complete or hashes != {kept.sha256 for kept in listed}:
        raise UsageError("its questions, judgements or runs were files, of which it has no copies", _HINT)
    with ExitStack() as stack:
        opened: list[tuple[Kept, BinaryIO]] = []
        for kept in listed:
            path = inside_file(report.parent, report / FOLDER / kept.sha256)
            if file_sha256(path) != kept.sha256:
                raise InputError(f"the copy of {kept.name} was changed since", _HINT)
            opened.append((kept, stack.enter_context(path.open("rb"))))
        yield opened


def _listed(report: Path) -> list[Kept]:
    if not (report / FILE).exists():
        return []
    try:
        return _LIST.validate_json(read_inside(report.parent, report / FILE))
    except ValidationError:
        raise InputError(f"{report.name}: {FILE} is damaged", _HINT) from None
