"""Uploaded files, written below a folder of ours under safe names.

A name is whatever the browser sends; for files of a folder, a path in it. Parts that lead out of the folder,
are hidden, or are not valid names are replaced, never followed.
"""

from __future__ import annotations

import os
import re
import shutil
import unicodedata
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from app.background.jobs import FILES
from indexer.base.errors import MachineError, UsageError
from indexer.base.text import CONTROLS, DIRECTIONS, SURROGATES, byte_size, counted

Upload = tuple[str, BinaryIO]
"""The name that the browser gives, and the content."""

MAX_BYTES = 500 << 20
"""Of all files of a job together."""
MAX_FILES = 10_000

_MAX_PART = 120  # characters; a file system takes 255 bytes
_MAX_PARTS = 16
_NO_NAME = re.compile(rf"[{CONTROLS}{DIRECTIONS}{SURROGATES}/\\:]+")


def save_uploads(uploads: Sequence[Upload], folder: Path) -> Path:
    """Write uploads below `folder`/files, and return the corpus: the file if there is one, else the folder.

    Raises what `save_files` raises.
    """
    root = folder / FILES
    files = save_files(uploads, root)
    tops = {file.relative_to(root).parts[0] for file in files}
    return next(root.iterdir()) if len(tops) == 1 else root


def save_files(uploads: Sequence[Upload], folder: Path) -> list[Path]:
    """Write uploads below a folder, under different names, and return their paths in the same order.

    Raises `UsageError` if there is nothing, or more than `MAX_FILES` or `MAX_BYTES`, `MachineError` if the
    disk is full.
    """
    if not uploads:
        raise UsageError("there is no file to read", "Choose one file, several, or a folder.")
    size = sum(content.seek(0, os.SEEK_END) for _, content in uploads)
    if len(uploads) > MAX_FILES or size > MAX_BYTES:
        raise UsageError(
            f"{counted(len(uploads), 'file')} of {byte_size(size)} together",
            f"Send at most {MAX_FILES:,} files of {byte_size(MAX_BYTES)}; linkseek build has no such limit.",
        )
    files: list[Path] = []
    taken: set[str] = set()
    for name, content in uploads:
        path = safe_path(name)
        while str(path).casefold() in taken:
            path = path.with_name(f"_{path.name}")
        taken.add(str(path).casefold())
        files.append(folder / path)
        try:
            files[-1].parent.mkdir(parents=True, exist_ok=True)
            content.seek(0)
            with files[-1].open("xb") as file:
                shutil.copyfileobj(content, file, 1 << 20)
        except OSError as error:
            raise MachineError(
                f"the upload could not be stored ({error.strerror})",
                "Free some space, or send less; large corpora are built with linkseek build.",
            ) from None
    return files


def safe_path(name: str) -> PurePosixPath:
    """A name from outside as a path that stays in its folder: of at least one part, none of them hidden."""
    parts = [_safe_part(part) for part in re.split(r"[/\\]", name)]
    return PurePosixPath(*[part for part in parts if part][-_MAX_PARTS:] or ["upload"])


def _safe_part(part: str) -> str:
    text = unicodedata.normalize("NFC", _NO_NAME.sub("_", part)).strip().lstrip(".").strip()
    stem, dot, suffix = text.rpartition(".")
    if len(text) > _MAX_PART:
        text = f"{stem[: _MAX_PART - 12]}{dot}{suffix[:10]}" if stem else text[:_MAX_PART]
    while len(text.encode()) > 240:
        text = text[1:]
    return text
