"""Models as they run on a CPU, in the user's cache folder, so that a search starts without the libraries.

Loading a model by its own library, converting it, and comparing the numbers of both takes several seconds and
imports torch and sentence-transformers. The result is kept under the hash of the model's files.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from linkseek.indexer.files.hashes import file_sha256
from linkseek.indexer.files.sharing import share
from linkseek.retriever.models.facts import ModelFacts
from linkseek.retriever.models.library import LIBRARIES
from linkseek.retriever.models.locations import cache_folder

T = TypeVar("T")

_UNREADABLE = (OSError, RuntimeError, ValueError, TypeError, KeyError)


def converted(
    key: str, read: Callable[[Path], T], convert: Callable[[], T], write: Callable[[T, Path], None]
) -> T:
    """A model from the cache, or converted and kept there; one model at a time.

    key: its name in the cache, of which the hash of the model's files is a part. read, write: its folder,
    by `read_record` and `write_record`. A cache that cannot be written costs the conversion each time, and
    nothing else. Raises what `convert` raises.
    """
    folder = cache_folder() / key
    if (found := _read(folder, read)) is not None:
        return found
    with LIBRARIES:
        if (found := _read(folder, read)) is not None:  # another thread has written it meanwhile
            return found
        made = convert()
        with suppress(OSError, RuntimeError):
            _publish(folder, read, lambda temporary: write(made, temporary))
            # as all later runs read it, so that the first has the same bits
            made = _read(folder, read) or made
        return made


def _read(folder: Path, read: Callable[[Path], T]) -> T | None:
    """A model in the cache; None if it is missing or damaged."""
    with suppress(*_UNREADABLE):
        model = read(folder)
        with suppress(OSError):  # a folder of another account
            os.utime(folder)  # when it was last used: `linkseek cache`
        return model
    return None


def _publish(folder: Path, read: Callable[[Path], T], write: Callable[[Path], None]) -> None:
    """Put a model into the cache atomically. One that another process has put there meanwhile stays."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        write(temporary)
        share(temporary)
        if _read(folder, read) is None:
            shutil.rmtree(folder, ignore_errors=True)
            temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_record(folder: Path, facts: ModelFacts, files: Sequence[str], **more: Any) -> None:
    """Describe a converted model, whose files are in the folder already."""
    record = {**more, "sha256": {file: file_sha256(folder / file) for file in files}, "facts": asdict(facts)}
    (folder / "facts.json").write_text(json.dumps(record), "utf-8")


def read_record(folder: Path) -> tuple[ModelFacts, dict[str, Any]]:
    """The facts of a converted model, and what else was written with them, "sha256" included.

    Raises one of the errors of reading if it is missing or damaged, `ValueError` for a file of another hash.
    """
    record = json.loads((folder / "facts.json").read_bytes())
    facts = ModelFacts(**record.pop("facts"))
    for file, sha256 in record["sha256"].items():
        if Path(file).name != file or file_sha256(folder / file) != sha256:
            raise ValueError(f"{file} is damaged")
    return facts, record
