"""TREC runs and judgements (qrels): what every tool of the field reads and writes.

    run    QUERY Q0 PASSAGE RANK SCORE TAG           six columns, separated by white space
    qrels  QUERY 0 PASSAGE RELEVANCE                 four; or BEIR's three with a header, by tabs

Two things go wrong with these files elsewhere. trec_eval ignores the rank column, reads scores as
float32 and sorts ties by id: the scores that we write strictly decrease as float32. And ids hold
spaces: in both files an id is percent-encoded, that is white space, control characters and "%"
itself become the %XX of their UTF-8 bytes. Nothing else is encoded or decoded, so reading gives
back exactly what was written, and other tools' ids stay as they are unless they hold a literal
"%20".
"""

from __future__ import annotations

import math
import os
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from indexer.base.errors import InputError
from indexer.files.sources import open_source, read_lines
from retriever.ranking import Ranking

Run = dict[str, dict[str, float]]
"""Query id -> passage (or document) id -> score; the ids of a query stand by rank, best first."""

Qrels = dict[str, dict[str, int]]
"""Query id -> passage (or document) id -> relevance; 0 and below: judged and found wanting."""


def write_run(
    path: Path,
    ranking: Ranking,
    ids: Callable[[NDArray[np.int64]], Sequence[str]],
    tag: str = "linkseek",
) -> None:
    """Write a ranking as a TREC run; the file is there whole or not at all.

    ids: from passage rows to passage ids (`PassageStore.ids`).
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    scores = strictly_decreasing(ranking.scores)  # [Q, k]
    tag = encode_id(tag)
    temporary = path.with_name(path.name + ".tmp")
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            for query, query_id in enumerate(map(encode_id, ranking.query_ids)):
                rows = ranking.rows[query]
                found = ids(rows[rows >= 0])
                places = zip(found, scores[query].tolist(), strict=False)
                for rank, (id_, score) in enumerate(places, start=1):
                    # nine digits tell any two float32 apart
                    file.write(f"{query_id} Q0 {encode_id(id_)} {rank} {score:.9g} {tag}\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def strictly_decreasing(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Descending scores float32 [Q, k], each lowered as little as makes it less than the last."""
    scores = np.clip(scores, np.float32(-3e38), np.float32(3e38))  # room below -3e38 for the steps
    for column in range(1, scores.shape[1]):
        last = scores[:, column - 1]  # [Q]
        # near zero by 1e-30: the float32 next to 0 is subnormal, and some programs read it as 0
        below = np.minimum(np.nextafter(last, np.float32(-np.inf)), last - np.float32(1e-30))
        scores[:, column] = np.minimum(scores[:, column], below)
    return scores


def read_run(path: Path) -> Run:
    """A TREC run as trec_eval ranks it: by score as float32, ties by id, both descending.

    Raises `InputError` naming the file and line for a line without six columns, a score that is no
    number, a document that a query has twice; and for an empty file.
    """
    run: Run = {}
    for place, columns in _rows(path, 6, "query, Q0, document, rank, score, tag"):
        query, document = decode_id(columns[0]), decode_id(columns[2])
        score = _number(columns[4])
        if score is None:
            raise InputError(f"{place}: the score is {columns[4]!r}, expected a number", _RUN)
        results = run.setdefault(query, {})
        if document in results:
            raise InputError(
                f'{place}: query "{query}" has the document "{document}" twice',
                "Remove one of them.",
            )
        results[document] = score
    if not run:
        raise InputError(f"{path}: the run is empty", _RUN)
    return {query: _ranked(results) for query, results in run.items()}


def run_ranking(
    run: Mapping[str, Mapping[str, float]],
    query_ids: Sequence[str],
    rows_of: Callable[[Sequence[str]], NDArray[np.int64]],
    k: int | None = None,
) -> Ranking:
    """A run that was read as a `Ranking` of these queries; what the run lacks has no results.

    rows_of: from ids to rows (`PassageStore.rows_of`). k: columns; by default the longest list.
    Ties are resolved, so scores strictly decrease. Raises `InputError` for an id of row -1.
    """
    lists = [list(run.get(query, {}).items())[:k] for query in query_ids]
    ids = [id_ for results in lists for id_, _ in results]
    found = rows_of(ids)  # [n]
    if (found < 0).any():
        raise InputError(
            f"the run has {int((found < 0).sum()):,} passages that the index lacks, such as "
            f'"{ids[int(np.argmax(found < 0))]}"',
            "Use the index that the run was made with.",
        )
    lengths = np.array([len(results) for results in lists], np.int64)  # [Q]
    width = k if k is not None else int(lengths.max(initial=0))
    filled = np.arange(width) < lengths[:, None]  # bool [Q, width]
    rows = np.full(filled.shape, -1, np.int64)  # [Q, width]
    scores = np.full(filled.shape, -np.inf, np.float32)  # [Q, width]
    rows[filled] = found
    values = np.array([score for results in lists for _, score in results], np.float64)  # [n]
    scores[filled] = np.clip(values, -3e38, 3e38)
    scores = np.where(filled, strictly_decreasing(scores), np.float32(-np.inf))
    return Ranking(tuple(query_ids), rows, scores)


def read_qrels(path: Path) -> Qrels:
    """Judgements: TREC's four columns, or BEIR's three (`query-id corpus-id score`) below a header.

    Raises `InputError` naming the file and line for a wrong number of columns, a relevance that is
    no whole number, a document that is judged twice and differently; and for an empty file.
    """
    qrels: Qrels = {}
    for place, columns in _rows(path, 4, "query, 0, document, relevance", beir=True):
        query, document = decode_id(columns[0]), decode_id(columns[-2])
        value = _number(columns[-1])
        if value is None or not value.is_integer():
            raise InputError(f"{place}: the relevance is {columns[-1]!r}, expected a whole number", _QRELS)
        judged = qrels.setdefault(query, {})
        if judged.setdefault(document, int(value)) != int(value):
            raise InputError(
                f'{place}: query "{query}", document "{document}": {int(value)} here, '
                f"{judged[document]} further up",
                "Keep one of the two judgements.",
            )
    if not qrels:
        raise InputError(f"{path}: there are no judgements in it", _QRELS)
    return qrels


# --- ids -----------------------------------------------------------------------------------------

_ESCAPES = re.compile("(?:%[0-9A-Fa-f]{2})+")


def encode_id(id_: str) -> str:
    """An id without white space and control characters, for a column of a TREC file."""
    if id_.isalnum():
        return id_  # the usual case, fast
    return "".join(map(_encode_character, id_)) if any(map(_must_be_encoded, id_)) else id_


def decode_id(column: str) -> str:
    """The inverse of `encode_id`; escapes that it would not have made stay (`%C3%A9` in a URL)."""
    return _ESCAPES.sub(_decode_escapes, column) if "%" in column else column


def _must_be_encoded(character: str) -> bool:
    return character == "%" or character.isspace() or unicodedata.category(character) == "Cc"


def _encode_character(character: str) -> str:
    if not _must_be_encoded(character):
        return character
    return "".join(f"%{byte:02X}" for byte in character.encode())


def _decode_escapes(match: re.Match[str]) -> str:
    """Decode a run of escapes, character by character: what we would not encode stays as it is."""
    data = bytes.fromhex(match.group().replace("%", ""))
    pieces, start = [], 0
    while start < len(data):
        for size in (1, 2, 3):  # all white space is below U+10000
            try:
                character = data[start : start + size].decode()
            except UnicodeDecodeError:
                continue
            if len(character) == 1 and _must_be_encoded(character):
                pieces.append(character)
                break
        else:
            size = 1
            pieces.append(match.group()[3 * start : 3 * start + 3])
        start += size
    return "".join(pieces)


# --- lines ---------------------------------------------------------------------------------------


def _rows(path: Path, width: int, names: str, beir: bool = False) -> Iterator[tuple[str, list[str]]]:
    """(place for errors, columns). Only ASCII white space ends a column, as in C."""
    separator: bytes | None = None
    _, stream = open_source(path)
    with stream:
        for number, line in read_lines(stream):
            line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            if beir and number == 1 and line.split() == [b"query-id", b"corpus-id", b"score"]:
                separator, width, names = b"\t", 3, "query-id, corpus-id, score"
                continue
            columns = line.split(separator)
            place = f"{path}, line {number:,}"
            if len(columns) != width:
                raise InputError(
                    f"{place}: {len(columns)} columns, expected {width} ({names})",
                    "White space within an id must be percent-encoded (%20).",
                )
            try:
                yield place, [column.decode("utf-8") for column in columns]
            except UnicodeDecodeError:
                raise InputError(f"{place}: not UTF-8", "Convert the file to UTF-8.") from None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return None if math.isnan(value) else value


def _ranked(results: dict[str, float]) -> dict[str, float]:
    with np.errstate(over="ignore"):
        scores = np.array(list(results.values()), np.float64).astype(np.float32)  # [n]
    if (scores[1:] < scores[:-1]).all():
        return results
    keys = dict(zip(results, scores.tolist(), strict=True))
    return dict(sorted(results.items(), key=lambda item: (keys[item[0]], item[0]), reverse=True))


_RUN = "Expected a TREC run: QUERY Q0 DOCUMENT RANK SCORE TAG in every line."
_QRELS = "Expected TREC judgements: QUERY 0 DOCUMENT RELEVANCE in every line."
