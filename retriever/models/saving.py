"""Writing the folders of models."""

from __future__ import annotations

import filecmp
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from linkseek.indexer.files.sharing import share
from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.store.artifacts import temporary_path
from linkseek.indexer.store.outputs import locked
from linkseek.retriever.models.library import quiet

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder, SentenceTransformer
    from transformers import PreTrainedModel


def save_model(
    model: SentenceTransformer | CrossEncoder | PreTrainedModel,
    output: Path,
    *,
    card: Path | None = None,
    text: str = "",
    add: Callable[[Path], None] = lambda folder: None,
) -> None:
    """Write a folder of sentence-transformers or transformers atomically.

    card: a README.md to copy; text: one to write. add: writes further files into the folder. A folder that
    holds the same already, such as of a command that was killed at its very end, stays. Raises `UsageError`
    for any other that exists, `BusyError` if another process writes it.
    """
    temporary = temporary_path(output)
    with locked(output):
        if os.path.lexists(output) and (output.is_symlink() or not output.is_dir()):
            raise _exists(output)
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            with quiet():
                model.save_pretrained(str(temporary), create_model_card=False)
            add(temporary)
            if card is not None and card.is_file():
                shutil.copyfile(card, temporary / "README.md")
            elif text:
                (temporary / "README.md").write_text(text, "utf-8", newline="\n")
            share(temporary)
            if not os.path.lexists(output):
                temporary.rename(output)
            elif not _is_same(temporary, output):
                raise _exists(output)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _exists(output: Path) -> UsageError:
    return UsageError(f"{output} exists already", "Remove it, or choose another --output.")


def _is_same(folder: Path, other: Path) -> bool:
    """Whether two folders hold the same files, byte for byte."""
    names = [sorted(path.relative_to(top) for path in top.rglob("*")) for top in (folder, other)]
    return names[0] == names[1] and all(
        (folder / name).is_dir() == (other / name).is_dir()
        and ((folder / name).is_dir() or filecmp.cmp(folder / name, other / name, shallow=False))
        for name in names[0]
    )
