"""Training pairs, and the JSON lines of DPR and HLP that contain them.

    {"question", "answers", "positive_ctxs", "negative_ctxs", "hard_negative_ctxs": [{"title", "text",
     "passage_id", "teacher_score"}], "objective", "question_title", "question_passage_id", "evidence": {...}}

The first five are DPR's (Karpukhin et al. 2020), and its readers use no others; the rest is the origin of a
mined pair. Titles are separate from texts, since training decides whether they are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, BinaryIO

import orjson
import zstandard

from linkseek.indexer.files.json_stream import BLANK, json_object, read_entries
from linkseek.indexer.files.sources import open_source, read_lines
from linkseek.indexer.passages import PassageStore
from linkseek.indexer.program.errors import InputError, UsageError, log_line
from linkseek.indexer.store.outputs import check_replaceable, output_file
from linkseek.retriever.answer_lists import MISSING, read_answers

LONG = zstandard.ZstdCompressionParameters.from_level(3, window_log=27, enable_ldm=True)
"""Texts of the last 128 MiB are stored once: contrasts are six times smaller. Every zstd reads it."""

_NO_ID = "", "-1", *MISSING
"""Ids of a passage whose id is not known: as one name they would make all of them the same passage."""

_SHOWN = 5
"""Pairs that are skipped, by line, in a log."""

_EXPECTED = (
    'Expected one pair a line, or an array of pairs, as DPR has them: {"question": ..., "positive_ctxs": '
    '[{"title", "text"}], "negative_ctxs": [...], "hard_negative_ctxs": [...]}.'
)


@dataclass(frozen=True, slots=True)
class PairContext:
    """A passage in training. id: its id in the index; empty if unknown. score: a teacher's score."""

    title: str
    text: str
    id: str = ""
    score: float | None = None


def passage_context(passages: PassageStore, row: int) -> PairContext:
    """The passage at a row of an index."""
    passage = passages[row]
    return PairContext(passage.title, passage.text, passage.id)


@dataclass(frozen=True, slots=True)
class Pair:
    """A query and a relevant passage.

    negatives: passages that are not relevant. objective: the one that made the pair; empty for labelled ones.
    evidence: the links that made it, for people. query_title, query_id: of the query's passage.
    """

    query: str
    positive: PairContext
    negatives: tuple[PairContext, ...] = ()
    hard_negatives: tuple[PairContext, ...] = ()
    objective: str = ""
    answers: tuple[str, ...] = ()
    query_title: str = ""
    query_id: str = ""
    evidence: dict[str, Any] = field(default_factory=dict)

    @property
    def contexts(self) -> list[PairContext]:
        """Its passages: the relevant one, the negatives and the hard negatives."""
        return [self.positive, *self.negatives, *self.hard_negatives]


def pair_line(pair: Pair) -> bytes:
    """One line of JSON, with its line break."""
    row: dict[str, Any] = {
        "question": pair.query,
        "answers": list(pair.answers),
        "positive_ctxs": [_context_row(pair.positive)],
        "negative_ctxs": [_context_row(context) for context in pair.negatives],
        "hard_negative_ctxs": [_context_row(context) for context in pair.hard_negatives],
    }
    if pair.objective:
        row["objective"] = pair.objective
    if pair.query_id:
        row["question_title"], row["question_passage_id"] = pair.query_title, pair.query_id
    if pair.evidence:
        row["evidence"] = pair.evidence
    return orjson.dumps(row) + b"\n"


def _context_row(context: PairContext) -> dict[str, Any]:
    row: dict[str, Any] = {"title": context.title, "text": context.text}
    if context.id:
        row["passage_id"] = context.id
    if context.score is not None:
        row["teacher_score"] = context.score
    return row


def check_output(path: Path) -> None:
    """Raises `UsageError` for an output that is not a JSONL file, or that is a file of the user."""
    if not path.name.endswith((".jsonl", ".jsonl.zst")):
        raise UsageError(f"--output {path}: not a JSONL file", "Use a .jsonl or .jsonl.zst file.")
    check_replaceable(path)


def write_lines(path: Path, lines: Iterable[bytes]) -> int:
    """Write lines of JSON, compressed if the name ends in .zst, and return their number.

    The file is published atomically; see `indexer.store.outputs.output_file` for the files that are refused.
    """
    count = 0
    with output_file(path) as raw:
        compressor = zstandard.ZstdCompressor(compression_params=LONG)
        file = compressor.stream_writer(raw, closefd=False) if path.suffix == ".zst" else raw
        for line in lines:
            file.write(line)
            count += 1
        if file is not raw:
            file.close()
    return count


def read_pairs(path: Path) -> Iterator[Pair]:
    """The pairs of a file of Linkseek, DPR or HLP, streaming: JSON lines, or an array as DPR publishes it.

    Only the first positive is taken. Pairs whose list of positives is empty are skipped, as in DPR's code,
    and logged. Raises `InputError` naming file and line, or entry, for an invalid one, a missing or empty
    question, a pair without such a list, and a file without any pair that has a positive.
    """
    _, stream = open_source(path)
    skipped: list[str] = []
    count = 0
    with stream:
        for place, line in _rows(stream, path):
            pair = read_pair(line, f"{path}, {place}")
            if pair is None:
                skipped.append(place)
            else:
                count += 1
                yield pair
    if not count:
        what = "every pair has an empty list of positives" if skipped else "there are no pairs in it"
        raise InputError(f"{path}: {what}", _EXPECTED)
    if skipped:
        shown = ", ".join(skipped[:_SHOWN]) + (", ..." if len(skipped) > _SHOWN else "")
        log_line(f"{path}: {len(skipped):,} pairs without a positive passage are skipped ({shown})")


def _rows(stream: BinaryIO, path: Path) -> Iterator[tuple[str, bytes]]:
    """The place of each pair in the file, and its JSON."""
    if stream.peek(1).lstrip(BLANK).startswith(b"["):  # type: ignore[attr-defined]
        for number, entry in enumerate(read_entries(stream, str(path)), start=1):
            yield f"entry {number:,}", entry
    else:
        for number, line in read_lines(stream):
            yield f"line {number:,}", line


def read_pair(line: bytes, place: str) -> Pair | None:
    """The pair of one line, None if its positives are []. place: for messages. Raises as `read_pairs`."""
    row = json_object(line, place, _EXPECTED)
    query = row.get("question")
    if not isinstance(query, str) or not query.strip():
        raise InputError(f'{place}: "question" is missing or empty', _EXPECTED)
    positives = _contexts(row, "positive_ctxs", place)
    if "positive_ctxs" not in row:
        raise InputError(f"{place}: no positive passage", "Remove the line, or add a positive passage.")
    if not positives:
        return None
    return Pair(
        query=query,
        positive=positives[0],
        negatives=_contexts(row, "negative_ctxs", place),
        hard_negatives=_contexts(row, "hard_negative_ctxs", place),
        objective=field_text(row, "objective", place),
        answers=read_answers(_as_texts(row.get("answers")), place),
        query_title=field_text(row, "question_title", place),
        query_id=field_text(row, "question_passage_id", place),
        evidence=row["evidence"] if isinstance(row.get("evidence"), dict) else {},
    )


def _as_texts(answers: Any) -> Any:
    """Answers with numbers as texts, and without nulls."""
    if not isinstance(answers, list):
        return [] if answers is None else answers
    return [str(a) if type(a) in (int, float) else a for a in answers if a is not None]


def _contexts(row: dict[str, Any], name: str, place: str) -> tuple[PairContext, ...]:
    values = row.get(name, [])
    if not isinstance(values, list):
        raise InputError(f'{place}: "{name}" is {type(values).__name__}, expected a list', _EXPECTED)
    contexts = []
    for context in values:
        if not isinstance(context, dict) or not isinstance(context.get("text"), str):
            raise InputError(f'{place}: a passage of "{name}" has no text', _EXPECTED)
        ids = [field_text(context, key, place) for key in ("passage_id", "psg_id")]
        id_ = next((id_ for id_ in ids if id_ not in _NO_ID), "")
        score = context.get("teacher_score")
        if score is not None and (type(score) not in (int, float) or not isfinite(score)):
            raise InputError(f'{place}: "teacher_score" is not a number', "Write it again: linkseek score")
        contexts.append(PairContext(field_text(context, "title", place), context["text"], id_, score))
    return tuple(contexts)


def field_text(row: dict[str, Any], name: str, place: str) -> str:
    """An id, title or name as text; empty if it is missing or null. Numbers are text: 7, and 7.0, is "7".

    Raises `InputError` for any other type.
    """
    value = row.get(name)
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # as pandas writes whole numbers where some are missing
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InputError(f'{place}: "{name}" is {type(value).__name__}, expected text', _EXPECTED)
    return str(value)
