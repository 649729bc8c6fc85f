"""Writing the folders of models, and tokenizers with fewer tokens."""

from __future__ import annotations

import filecmp
import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tokenizers import Tokenizer

from linkseek.indexer.files.sharing import share
from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.store.artifacts import temporary_path
from linkseek.indexer.store.outputs import locked
from linkseek.retriever.models.library import quiet

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder, SentenceTransformer
    from transformers import PreTrainedModel

_KINDS = ("WordPiece", "Unigram")
_SPELLING = re.compile(r"(?:##)?.|<0x[0-9A-F]{2}>", re.DOTALL)


def needed_tokens(tokenizer: Tokenizer) -> set[int]:
    """The ids of special tokens, and of single characters and bytes, by which any word can be spelled.

    For a Unigram model also the least likely piece, whose score determines the cost of an unknown character.
    """
    model = json.loads(tokenizer.to_str())["model"]
    needed = set(tokenizer.get_added_tokens_decoder())
    needed.update(number for word, number in tokenizer.get_vocab().items() if _SPELLING.fullmatch(word))
    if model["type"] == "Unigram":
        scores = [score for _, score in model["vocab"]]
        needed.add(scores.index(min(scores)))
        needed.update(() if model["unk_id"] is None else [model["unk_id"]])
    return needed


def can_lose_tokens(tokenizer: Tokenizer) -> bool:
    """Whether `with_tokens` takes this kind of tokenizer."""
    return json.loads(tokenizer.to_str())["model"]["type"] in _KINDS


def with_tokens(tokenizer: Tokenizer, kept: Sequence[int]) -> Tokenizer:
    """A WordPiece or Unigram tokenizer with a part of its vocabulary, renumbered in order.

    A text whose pieces are all kept is read as before, if the `needed_tokens` are among them: WordPiece takes
    the longest piece that it knows; Unigram takes the most likely sequence of pieces (Kudo 2018), which stays
    the most likely among fewer. Raises `UsageError` for other kinds.
    """
    settings = json.loads(tokenizer.to_str())
    model = settings["model"]
    new = {old: number for number, old in enumerate(kept)}
    if model["type"] == "WordPiece":
        words = model["vocab"].items()
        model["vocab"] = {word: new[number] for word, number in words if number in new}
    elif model["type"] == "Unigram":
        pieces = model["vocab"]
        model["vocab"] = [pieces[number] for number in kept if number < len(pieces)]
        model["unk_id"] = new.get(model["unk_id"])
    else:
        raise UsageError(
            f"its tokenizer is {model['type']}, which needs all of its pieces", "Omit --vocabulary."
        )
    settings["added_tokens"] = [t | {"id": new[t["id"]]} for t in settings["added_tokens"]]
    settings["post_processor"] = None  # static encoders add no special tokens
    return Tokenizer.from_str(json.dumps(settings))


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
    already has the same contents, for example because a command was killed at its very end, is kept. Raises
    `UsageError` for any other that exists, `BusyError` if another process writes it.
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
    """Whether two folders contain the same files, byte for byte."""
    names = [sorted(path.relative_to(top) for path in top.rglob("*")) for top in (folder, other)]
    return names[0] == names[1] and all(
        (folder / name).is_dir() == (other / name).is_dir()
        and ((folder / name).is_dir() or filecmp.cmp(folder / name, other / name, shallow=False))
        for name in names[0]
    )
