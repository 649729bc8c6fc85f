"""Models as they run on a CPU, in the user's cache folder, so that a search starts without the libraries.

Loading a model by its own library, converting it, and comparing the numbers of both takes several seconds and
imports torch and sentence-transformers. The result is kept under the hash of the model's files. One that was
not opened for three months is removed when another is added.

A backend that converts, packs or pads may differ from the library in silence. So every model is compared with
it before its first text: each probe alone in the library, in the backend the shortest next to the longest,
and the others together. On a CPU the outcome is kept with the conversion.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.encoding.batches import Tokens
from linkseek.indexer.files.hashes import file_sha256, model_file_sha256
from linkseek.indexer.files.sharing import share
from linkseek.indexer.program.errors import InputError, raise_of_machine
from linkseek.retriever.models.facts import (
    Features,
    ModelFacts,
    open_tokenizer,
    padded,
    token_ids,
    unpooled_tokens,
)
from linkseek.retriever.models.library import LIBRARIES, first_line
from linkseek.retriever.models.locations import cache_folder

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

T = TypeVar("T")

_OURS = re.compile(r"[0-9a-f]{32}-[A-Za-z_]+-[\w.+-]+|tmp[a-z0-9_]{8}")
"""The names of conversions, and of the leftovers of interrupted ones."""
_UNUSED = 90 * 86_400  # seconds

_UNREADABLE = (OSError, RuntimeError, ValueError, TypeError, KeyError)


def converted(
    key: str, read: Callable[[Path], T], convert: Callable[[], T], write: Callable[[T, Path], None]
) -> T:
    """A model from the cache, or converted and kept there; one model at a time.

    key: its name in the cache, which contains the hash of the model's files. read, write: its folder, by
    `read_record` and `write_record`. A cache that cannot be written costs the conversion each time, and
    nothing else. Raises the errors of `convert`.
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
            os.utime(folder)  # when it was last used
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
    for old in folder.parent.iterdir():
        if _OURS.fullmatch(old.name) and old.stat().st_mtime < time.time() - _UNUSED:
            shutil.rmtree(old, ignore_errors=True)


def write_record(folder: Path, facts: ModelFacts, files: Sequence[str], **more: Any) -> None:
    """Describe a converted model, whose files are in the folder already."""
    record = {**more, "sha256": {file: file_sha256(folder / file) for file in files}, "facts": asdict(facts)}
    (folder / "facts.json").write_text(json.dumps(record), "utf-8")


def read_record(folder: Path) -> tuple[ModelFacts, dict[str, Any]]:
    """The facts of a converted model, and all else that was written with them, including "sha256".

    Raises one of the errors of reading if it is missing or damaged, `ValueError` for a file of another hash.
    """
    record = json.loads((folder / "facts.json").read_bytes())
    facts = ModelFacts(**record.pop("facts"))
    for file, sha256 in record["sha256"].items():
        if Path(file).name != file or model_file_sha256(folder / file) != sha256:
            raise ValueError(f"{file} is damaged")
    return facts, record


MIN_COSINE = 0.999
"""Between the vectors of a text from the library and from a backend."""

_TOLERANCE = {"float32": 1e-4, "bfloat16": 0.1}
"""Between two scores, relative to the largest if that is above 1."""

_SENTENCES = (
    "Jupiter is the fifth planet from the Sun, and the largest in the Solar System.",
    "Wer entdeckte 1610 ihre vier größten Monde?",
    "Сатурн окружён кольцами; 木星是太阳系中最大的行星。 المشتري أكبر الكواكب.",
    "The mass of a planet, 1.898e27 kg here, is known from the orbits of its moons (Newton 1687).",
)
_WORDS = 50
"""of a model's vocabulary, evenly spaced, in a text"""

_LONG_TOKENS = 512
"""Models that read no more are also tried with a text that is too long for them."""


def probe_texts(facts: ModelFacts) -> list[str]:
    """Texts of very different lengths, partly of a model's own vocabulary.

    The last is longer than the model reads, if that is not very much.
    """
    tokenizer = open_tokenizer(facts)
    step = max(tokenizer.get_vocab_size() // _WORDS, 1)
    own = tokenizer.decode([*range(0, tokenizer.get_vocab_size(), step)][:_WORDS])
    texts = ["moon", own, _SENTENCES[2], " ".join(_SENTENCES)]
    while facts.max_tokens <= _LONG_TOKENS and len(texts[-1].split()) <= facts.max_tokens:
        texts[-1] += " " + texts[-1]
    return texts


@dataclass(frozen=True)
class Probe:
    """tokens: the tokens of the probe texts. rows: the library's own for them, float32 [d], or [L, d] for
    tokens.
    """

    tokens: Sequence[Tokens]
    rows: Sequence[NDArray[np.float32]]

    def difference(
        self, forward: Callable[[Features], NDArray[np.float32]], facts: ModelFacts, precision: str
    ) -> str:
        """In words, how the rows of a backend differ from the library's; empty if they are equal."""
        shortest, *others, longest = sorted(range(len(self.tokens)), key=lambda n: len(self.tokens[n]))
        batches = [batch for batch in ([shortest, longest], others) if batch]
        try:
            rows = np.vstack([row for batch in batches for row in self._run(batch, forward, facts)])  # [n, d]
        except Exception as error:  # of backends for what a model does
            raise_of_machine(error)
            return first_line(error)
        library = np.vstack([self.rows[n] for batch in batches for n in batch])  # [n, d]
        if rows.shape != library.shape:
            return f"rows of the shape {rows.shape} instead of {library.shape}"
        if not np.isfinite(rows).all():
            return "numbers that are not finite"
        if facts.dimension == 1:
            differs = float(np.abs(rows - library).max() / max(1.0, np.abs(library).max()))
            return f"scores differ by {differs:.2g}" if differs > _TOLERANCE[precision] else ""
        lengths, expected = np.linalg.norm(rows, axis=1), np.linalg.norm(library, axis=1)  # [n]
        products = np.einsum("nd,nd->n", rows, library)  # [n]
        is_zero = (lengths == 0) & (expected == 0)
        cosines = np.where(is_zero, 1, products / np.maximum(lengths * expected, 1e-12))
        if cosines.min() < MIN_COSINE:
            return f"a cosine of {cosines.min():.4f}"
        ratios = np.abs(lengths - expected) / np.maximum(expected, 1e-12)
        return "" if ratios[~is_zero].max(initial=0) < 0.05 else "vectors of other lengths"

    def _run(
        self, batch: Sequence[int], forward: Callable[[Features], NDArray[np.float32]], facts: ModelFacts
    ) -> list[NDArray[np.float32]]:
        """The rows of a batch; of tokens, without padding."""
        tokens = [self.tokens[n] for n in batch]
        rows = forward(padded(tokens, facts))  # [B, d] or [B, L, d]
        return [row[: len(own)] if row.ndim > 1 else row for row, own in zip(rows, tokens, strict=True)]


def library_probe(model: SentenceTransformer, facts: ModelFacts) -> Probe:
    """The library's own vectors of the probe texts, with each prompt of the model."""
    tokenizer = open_tokenizer(facts)
    tokens: list[Tokens] = []
    rows: list[NDArray[np.float32]] = []
    for prompt in dict.fromkeys(["", facts.passage_prompt, facts.query_prompt]):
        for text in probe_texts(facts)[: 2 if rows else None]:
            tokens += token_ids(tokenizer, [prompt + text], unpooled_tokens(tokenizer, facts, prompt))
            rows.append(model.encode(text, prompt=prompt, show_progress_bar=False))
    return Probe(tokens, [row.astype(np.float32) for row in rows])


def refusal(name: str, difference: str) -> InputError:
    """The error for a model whose numbers are not the library's, however it is run."""
    return InputError(
        f"{name}: its outputs differ from sentence-transformers' ({difference})",
        "Use another model, and please report this with the name of this one.",
    )
