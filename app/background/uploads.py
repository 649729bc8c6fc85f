"""Files that a visitor sends, written below a folder of ours under names that are harmless.

A name is whatever the browser says: of a folder's files a path in it. What leads out of the folder, is
hidden, or is no name for a file is replaced, never followed.
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

_LONGEST_PART = 120  # characters; a file system takes 255 bytes
_MOST_PARTS = 16
_NO_NAME = re.compile(rf"[{CONTROLS}{DIRECTIONS}{SURROGATES}/\:]+")


def save_uploads(uploads: Sequence[Upload], folder: Path) -> Path:
    """Write what was sent below `folder`/files, and return the corpus: a file if it is one, else a folder.

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
    kept = [part for part in parts if part][-_MOST_PARTS:]
    return PurePosixPath(*kept) if kept else PurePosixPath("upload")


def _safe_part(part: str) -> str:
    text = unicodedata.normalize("NFC", _NO_NAME.sub("_", part)).strip().lstrip(".").strip()
    stem, dot, suffix = text.rpartition(".")
    if len(text) > _LONGEST_PART:
        text = f"{stem[: _LONGEST_PART - 12]}{dot}{suffix[:10]}" if stem else text[:_LONGEST_PART]
    while len(text.encode()) > 240:
        text = text[1:]
    return text
