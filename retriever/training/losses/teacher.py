"""Distillation: another encoder's vectors of the texts of training, and the loss that follows its scores.

It is the KL divergence of the student's scores of a batch from the teacher's: each query's distribution over
the passages of the batch, both as softmax (Hinton et al. 2015, section 2).

The loss of a batch is (1 - w) times the loss of the pairs plus w times this one. Texts are looked up by the
keys with which passages are compared, so every kind of model can be taught. Several teachers act as one,
whose score is the mean of their scores, each divided by its own temperature.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from torch import Tensor
from torch.nn import functional

from linkseek.indexer.encoding.batches import encode_texts
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError, MismatchError, raise_of_machine
from linkseek.indexer.program.progress import progress
from linkseek.indexer.store.artifacts import temporary_path
from linkseek.indexer.store.ids import IdTable
from linkseek.retriever.mining.pairs import Pair, PairContext
from linkseek.retriever.models.biencoder import BiEncoder, TextFormat, open_biencoder
from linkseek.retriever.models.folders import model_sha256
from linkseek.retriever.models.locations import find_model
from linkseek.retriever.training.config import TeacherSettings
from linkseek.retriever.training.samples.pair_inputs import context_keys, key_of

_BLOCK = 8_192  # texts that are encoded together


@dataclass(frozen=True)
class Teacher:
    """The vectors of texts, float16 [T, D], by the rows of their keys. temperature: divides the scores."""

    keys: IdTable
    vectors: NDArray[np.float16]
    temperature: float

    def of(self, keys: Tensor) -> Tensor:
        """The vectors of texts by their keys, int64 [n] -> float32 [n, D]; 0 for the key 0."""
        hashes = keys.cpu().numpy()
        rows = self.keys.rows(hashes.view(np.uint64))
        vectors = self.vectors[rows].astype(np.float32)
        vectors[hashes == 0] = 0
        return torch.from_numpy(vectors).to(keys.device)

    def scores(self, query: int, passages: Sequence[int]) -> NDArray[np.float32]:
        """The teacher's scores of passages, divided by the temperature, float32 [n]; texts by their keys."""
        vectors = self.of(torch.tensor([query, *passages])).numpy()  # [1 + n, D]
        return np.asarray(vectors[1:] @ vectors[0] / self.temperature, np.float32)

    def loss(self, scores: Tensor, keys: tuple[Tensor, Tensor], mask: Tensor) -> Tensor:
        """The loss of a student's scores [B, P].

        keys: int64 [B] and [P], of the texts of queries and passages; mask: bool [B, P] of omitted scores.
        """
        taught = self.of(keys[0]) @ self.of(keys[1]).T / self.temperature
        return divergence(scores, taught, mask).sum() / len(scores)


def open_teacher(settings: TeacherSettings, texts: TeacherTexts, *, title: bool, work: Path) -> Teacher:
    """The teacher of some texts. title: whether it reads titles. work: where vectors are kept if the settings
    name no file; a second teacher has a file of that name with `-2`. Raises as `teacher_vectors`
    does.
    """
    index = OpenIndex.open(settings.index) if settings.index else None
    stored = settings.vectors or work / "teacher.safetensors"
    teachers = []
    for number, (name, temperature) in enumerate(settings.teachers, start=1):
        file = stored if number == 1 else stored.with_stem(f"{stored.stem}-{number}")
        encoder = open_biencoder(name, title=title)
        teachers.append(Teacher(*teacher_vectors(encoder, texts, index, file), temperature))
    return joined(teachers)


def divergence(scores: Tensor, taught: Tensor, mask: Tensor) -> Tensor:
    """The summands of the KL divergence of scores from a teacher's, [B, P] each; 0 under the mask."""
    expected = taught.masked_fill(mask, -torch.inf).softmax(dim=1)
    own = scores.masked_fill(mask, -torch.inf).log_softmax(dim=1)
    return functional.kl_div(own.masked_fill(mask, 0), expected, reduction="none")


def taught_by(settings: TeacherSettings) -> str:
    """The SHA-256 of the teachers' folders."""
    return " ".join(model_sha256(find_model(name)) for name, _ in settings.teachers)


def joined(teachers: Sequence[Teacher]) -> Teacher:
    """One teacher for several: its score / temperature is the mean of their score / temperature.

    Its vectors are theirs end to end, each divided by the root of its temperature.
    """
    if len(teachers) == 1:
        return teachers[0]
    hashes = reduce(np.intersect1d, (teacher.keys.hashes for teacher in teachers))  # [T], ascending
    vectors = [t.vectors[t.keys.rows(hashes)] / np.sqrt(np.float32(t.temperature)) for t in teachers]
    keys = IdTable(hashes, np.arange(len(hashes), dtype=np.int32))
    return Teacher(keys, np.concatenate(vectors, axis=1).astype(np.float16), len(teachers))


@dataclass(frozen=True)
class TeacherTexts:
    """The texts of training by their keys, each once."""

    queries: dict[int, str]
    passages: dict[int, PairContext]

    @classmethod
    def of(cls, pairs: Iterable[Pair], text_format: TextFormat) -> TeacherTexts:
        """All texts of some pairs; text_format: the student's."""
        texts = cls({}, {})
        for pair in pairs:
            texts.queries[key_of(text_format.query(pair.query))] = pair.query
            for context in pair.contexts:
                texts.passages[context_keys(context)[0]] = context
        return texts


def teacher_vectors(
    encoder: BiEncoder, texts: TeacherTexts, index: OpenIndex | None, stored: Path
) -> tuple[IdTable, NDArray[np.float16]]:
    """The keys of texts and their vectors, float16 [T, D].

    index: whose vectors of the same encoder are taken for its passages. stored: a file from which others are
    read; missing vectors are encoded and added. Raises `MismatchError` if the index or the file has vectors
    of another encoder.
    """
    keys, vectors = _read(stored, encoder)
    known = set(keys)
    if index is not None:
        contexts = {key: c for key, c in texts.passages.items() if key not in known and c.id}
        rows = index.passages.rows_of([context.id for context in contexts.values()])
        sha256 = encoder.identity["sha256"]
        made = [name for name in index.encoders if index.parts.dense[name].encoder["sha256"] == sha256]
        if not made:
            raise _other_encoder(encoder, str(index.path))
        dense = index.own_dense(made[0])
        keys += [key for key, row in zip(contexts, rows.tolist(), strict=True) if row >= 0]
        vectors.append(dense.vectors[rows[rows >= 0]])
        known = set(keys)
    queries = {key: query for key, query in texts.queries.items() if key not in known}
    passages = {key: context for key, context in texts.passages.items() if key not in known}

    def encode_passages(block: Sequence[PairContext]) -> NDArray[np.float32]:
        tokens = encoder.tokenize_passages([c.title for c in block], [c.text for c in block])
        return encode_texts(encoder, tokens)

    vectors += _encoded(list(queries.values()), encoder.encode_queries, "the teacher reads queries")
    vectors += _encoded(list(passages.values()), encode_passages, "the teacher reads passages")
    keys += [*queries, *passages]
    joined = np.concatenate(vectors)
    hashes = np.array(keys, np.int64)
    if queries or passages:
        temporary = temporary_path(stored)
        save_file({"keys": hashes, "vectors": joined}, temporary, {"sha256": encoder.identity["sha256"]})
        temporary.replace(stored)
    return IdTable.build(hashes.view(np.uint64)), joined


def _encoded(
    texts: Sequence[object], encode: Callable[..., NDArray[np.float32]], label: str
) -> list[NDArray[np.float16]]:
    blocks = []
    with progress(label, len(texts), "texts") as advance:
        for start in range(0, len(texts), _BLOCK):
            block = texts[start : start + _BLOCK]
            blocks.append(encode(block).astype(np.float16))
            advance(len(block))
    return blocks


def _read(stored: Path, encoder: BiEncoder) -> tuple[list[int], list[NDArray[np.float16]]]:
    if not stored.is_file():
        return [], [np.empty((0, encoder.dimension), np.float16)]
    try:
        with safe_open(stored, "numpy") as file:
            if (file.metadata() or {}).get("sha256") != encoder.identity["sha256"]:
                raise _other_encoder(encoder, str(stored))
            return file.get_tensor("keys").tolist(), [file.get_tensor("vectors")]
    except (OSError, SafetensorError) as error:
        raise_of_machine(error)
        raise InputError(f"{stored}: cannot be read ({error})", "Remove it; it is made again.") from None


def _other_encoder(encoder: BiEncoder, place: str) -> MismatchError:
    return MismatchError(
        f"{place} contains vectors of another encoder than the teacher, {encoder.name}",
        "Give vectors of the teacher, or set another teacher.encoder.",
    )
