"""Whole texts that are compared with files. `RENEW=1 python -m pytest FILE` writes the files anew."""

from __future__ import annotations

import os
import re
from pathlib import Path


def assert_golden(file: Path, text: str) -> None:
    """A text is that of its file, which a person has read: a change of it is seen in the commit."""
    if os.environ.get("RENEW"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, "utf-8")
    assert file.is_file() and text == file.read_text("utf-8"), (
        f"{file.name} differs; if that is right: RENEW=1"
    )


def pretty(html: str) -> str:
    """HTML with a line for each tag that follows another one."""
    return re.sub(r">\s*<", ">\n<", str(html).strip()) + "\n"
