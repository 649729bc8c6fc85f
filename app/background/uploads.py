"""Uploaded files, stored below a folder of Linkseek's under their own names.

A name is chosen by the browser; for the files of a folder, it is a path in that folder. It is brought into
one form, and if it could be anything but a file below our folder, the upload is refused before any file is
written.

Those of an evaluation are kept with its report, as RESULTS/NAME/uploads/ROLE/FILE, so that it can be run
again.
"""

from __future__ import annotations

import os
import shutil
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Literal

from linkseek.app.background.jobs import FILES
from linkseek.app.evaluation.records import inside_file
from linkseek.app.evaluation.results import Results
from linkseek.indexer.files.hashes import file_sha256
from linkseek.indexer.program.errors import MachineError, UsageError
from linkseek.indexer.program.paths import check_path, path_inside
from linkseek.indexer.program.text import byte_size, counted
from linkseek.indexer.store.outputs import output_file

Upload = tuple[str, BinaryIO]
"""The name that the browser gives, and the content."""

MAX_BYTES = 500 << 20
"""The maximum size of all files of a job together."""
MAX_FILES = 10_000


def save_uploads(uploads: Sequence[Upload], folder: Path) -> Path:
    """Write uploads below `folder`/files, and return the corpus: the file if there is one, else the folder.

    Raises the errors of `save_files`.
    """
    root = folder / FILES
    files = save_files(uploads, root)
    tops = {file.relative_to(root).parts[0] for file in files}
    return next(root.iterdir()) if len(tops) == 1 else root


def save_files(uploads: Sequence[Upload], folder: Path) -> list[Path]:
    """Write uploads below a folder, and return their paths in the same order.

    Raises `UsageError` if there is nothing, or more than `MAX_FILES` or `MAX_BYTES`, or a name is refused
    (`safe_path`) or given twice, `MachineError` if the disk is full.
    """
    if not uploads:
        raise UsageError("there is no file to read", "Choose one or more files, or a folder.")
    size = sum(content.seek(0, os.SEEK_END) for _, content in uploads)
    if len(uploads) > MAX_FILES or size > MAX_BYTES:
        raise UsageError(
            f"{counted(len(uploads), 'file')} of {byte_size(size)} together",
            f"Send at most {MAX_FILES:,} files of {byte_size(MAX_BYTES)}; linkseek build has no such limit.",
        )
    files: list[Path] = []
    for path, (_, content) in zip(_distinct(safe_path(name) for name, _ in uploads), uploads, strict=True):
        with _storing("Free some space, or send less; large corpora are built with linkseek build."):
            path_inside(folder, path, _WHAT).parent.mkdir(parents=True, exist_ok=True)
            content.seek(0)
            files.append(path_inside(folder, path, _WHAT))  # again, since its folder may have become a link
            with files[-1].open("xb") as file:
                shutil.copyfileobj(content, file, 1 << 20)
    return files


_WHAT = "the upload"


def safe_path(name: str) -> PurePosixPath:
    """A name from outside as a path below any folder. Raises `UsageError` for any other name."""
    return PurePosixPath(check_path(unicodedata.normalize("NFC", name).replace("\\", "/"), _WHAT))


def _distinct(paths: Iterable[PurePosixPath]) -> list[str]:
    """The paths. Raises `UsageError` for two that differ in the case of letters at most."""
    names: dict[str, str] = {}
    for path in map(str, paths):
        if path.casefold() in names:
            raise UsageError(f'two files are named "{path}"', "Rename one, or send their folder.")
        names[path.casefold()] = path
    return list(names.values())


Role = Literal["queries", "qrels", "run"]
ROLES: tuple[Role, ...] = ("queries", "qrels", "run")

FOLDER = "uploads"


def keep_uploads(report: Path, files: Mapping[Role, Sequence[Path]]) -> None:
    """Copy files into the folder of a report. Raises `MachineError` if they cannot be written."""
    with _storing("Free some space, or send less."):
        for role, paths in files.items():
            for path in paths:
                copy = report / FOLDER / role / path.name
                with path.open("rb") as file, output_file(copy) as kept:
                    shutil.copyfileobj(file, kept, 1 << 20)


@contextmanager
def _storing(hint: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise MachineError(f"the upload could not be stored ({error.strerror})", hint) from None


@contextmanager
def kept_uploads(
    report: Path, results: Results, names: Mapping[Role, Sequence[str]]
) -> Iterator[dict[Role, list[Upload]]]:
    """The files that a report was made from, open for reading; none for a test set and pipelines alone.

    names: the names of the files. Raises `UsageError` unless the report has the files that were read,
    `InputError` for links that lead out of the folder of results.
    """
    paths = {
        role: [inside_file(report.parent, report / FOLDER / role / name) for name in of]
        for role, of in names.items()
    }
    read = results.provenance.files if results.provenance else {}
    hashes = {
        file.sha256 for role, file in read.items() if role in ("queries", "qrels") or role.startswith("run ")
    }
    runs = sum(pipeline.source == "file" for pipeline in results.pipelines.values())
    complete = runs == len(names["run"]) and (results.test_set is not None or names["queries"])
    if not complete or hashes != {file_sha256(path) for of in paths.values() for path in of}:
        raise UsageError(
            "this report has no copies of its files of questions, judgements or runs",
            "Start a new evaluation with these files.",
        )
    with ExitStack() as stack:
        yield {
            role: [(path.name, stack.enter_context(path.open("rb"))) for path in of]
            for role, of in paths.items()
        }
