"""Uploaded files, written below a folder of ours under safe names.

A name is whatever the browser sends; for files of a folder, a path in it. Parts that lead out of the folder,
are hidden, or are not valid names are replaced, never followed.
"""

from __future__ import annotations

import re
import shutil
import unicodedata
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from app.background.jobs import FILES
from indexer.base.errors import MachineError, UsageError
from indexer.base.text import CONTROLS, DIRECTIONS, SURROGATES

Upload = tuple[str, BinaryIO]
"""The name that the browser gives, and the content."""

_MAX_PART = 120  # characters; a file system takes 255 bytes
_MAX_PARTS = 16
_NO_NAME = re.compile(rf"[{CONTROLS}{DIRECTIONS}{SURROGATES}/\\:]+")


def save_uploads(uploads: Sequence[Upload], folder: Path) -> Path:
    """Write uploads below `folder`/files, and return the corpus: the file if there is one, else the folder.

    Raises `UsageError` if there is nothing, `MachineError` if the disk is full.
    """
    if not uploads:
        raise UsageError("there is no file to read", "Choose one file, several, or a folder.")
    root = folder / FILES
    taken: set[str] = set()
    for name, content in uploads:
        path = safe_path(name)
        while str(path).casefold() in taken:
            path = path.with_name(f"_{path.name}")
        taken.add(str(path).casefold())
        try:
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            content.seek(0)
            with target.open("xb") as file:
                shutil.copyfileobj(content, file, 1 << 20)
        except OSError as error:
            raise MachineError(
                f"the upload could not be stored ({error.strerror})",
                "Free some space, or send less; large corpora are built with linkseek build.",
            ) from None
    if len(uploads) == 1 and len(path.parts) == 1:
        return root / path
    tops = {part.parts[0] for part in map(PurePosixPath, taken)}
    only = next(root.iterdir()) if len(tops) == 1 else root
    return only if only.is_dir() else root


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
