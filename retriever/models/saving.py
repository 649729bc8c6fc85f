"""Writing the folders of models."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from linkseek.indexer.base.errors import UsageError
from linkseek.indexer.files.sharing import share
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

    card: a README.md to copy; text: one to write. add: writes further files into the folder. Raises
    `UsageError` if the folder exists already, `BusyError` if another process writes it.
    """
    if os.path.lexists(output):
        raise UsageError(f"{output} exists already", "Remove it, or choose another --output.")
    temporary = temporary_path(output)
    with locked(output):
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
            temporary.rename(output)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
