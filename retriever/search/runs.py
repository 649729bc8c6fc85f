"""TREC runs and judgements (qrels): the files that every tool of the field reads and writes.

    run    QUERY Q0 PASSAGE RANK SCORE TAG           six columns, separated by white space
    qrels  QUERY 0 PASSAGE RELEVANCE                 four; or BEIR's three with a header, by tabs

Two traps are avoided. trec_eval ignores the rank column, reads scores as float32 and sorts ties by id, so the
scores that we write strictly decrease as float32. And ids may contain spaces, so ids are percent-encoded in
both files: white space, control characters and "%" itself become the %XX of their UTF-8 bytes. Nothing else
is encoded or decoded, so reading returns exactly what was written, and ids of other tools stay as they are
unless they contain a literal "%20", which is looked for too (`resolve_columns`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from operator import index
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.files.sources import open_source, read_lines
from linkseek.indexer.index import Level, OpenIndex
from linkseek.indexer.program.errors import InputError, log_line
from linkseek.indexer.store.ids import hash_ids
from linkseek.indexer.store.outputs import write_output
from linkseek.retriever.ranking import Ranking

_RUN = "Expected a TREC run: QUERY Q0 DOCUMENT RANK SCORE TAG in every line."
_QRELS = "Expected TREC judgements: QUERY 0 DOCUMENT RELEVANCE in every line."
_ENCODED = re.compile(r"[%\s\x00-\x1f\x7f-\x9f]")
# the UTF-8 of one character of one, two or three bytes: all white space is below U+10000
_ESCAPES = re.compile("(?i)%[0-7][0-9A-F]|%[CD][0-9A-F]%[89AB][0-9A-F]|%E[0-9A-F](?:%[89AB][0-9A-F]){2}")

_QUERY = "qid|qids|query|topic|(?:query|topic|question)(?:id|no|number)"
_DOCUMENT = "pid|doc|document|passage|(?:corpus|doc|document|passage|psg)(?:id|no)"
_RELEVANCE, _SCORE = "score|rel|relevance|relevant|label|grade|judg?e?ment|qrels?", "score|sim|similarity"
_RANK, _ANY = "rank", r"\w*"

HIGHEST_GRADE = 1_000
"""of a judgement: the time of trec_eval's nDCG grows with the square of the highest."""
_LOWEST = -(1 << 31)

METADATA_START, METADATA_END = b"# ir_metadata.start", b"# ir_metadata.end"
"""The lines around `ir_metadata` at the head of a run, which is skipped."""

Run = dict[str, dict[str, float]]
"""Query id -> passage (or document) id -> score; the ids of a query in order of rank, best first."""

Qrels = dict[str, dict[str, int]]
"""Query id -> passage (or document) id -> relevance; 0 and below: judged as not relevant."""


Judgements = Mapping[str, Mapping[str, int]] | Path | str
"""As in Python: the same, or the path of their file."""


def write_run(
    path: Path, ranking: Ranking, ids: Callable[[NDArray[np.int64]], Sequence[str]], tag: str = "linkseek"
) -> None:
    """Write a ranking as a TREC run, atomically; see `run_lines` and `indexer.store.outputs.output_file`."""
    write_output(path, run_lines(ranking, ids, tag))


def run_lines(
    ranking: Ranking, ids: Callable[[NDArray[np.int64]], Sequence[str]], tag: str = "linkseek"
) -> Iterator[bytes]:
    """A ranking as the lines of a TREC run.

    ids: from passage rows to their ids (`PassageStore.ids`).
    """
    scores = strictly_decreasing(ranking.scores)  # [Q, k]
    tag = encode_id(tag)
    for query, query_id in enumerate(map(encode_id, ranking.query_ids)):
        rows = ranking.rows[query]
        results = zip(ids(rows[rows >= 0]), scores[query].tolist(), strict=False)
        for rank, (id_, score) in enumerate(results, start=1):
            # nine digits distinguish any two float32
            yield f"{query_id} Q0 {encode_id(id_)} {rank} {score:.9g} {tag}\n".encode()


def strictly_decreasing(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Descending scores float32 [Q, k], each lowered by the least that makes it less than the one before."""
    scores = np.clip(scores, np.float32(-3e38), np.float32(3e38))  # leaves space below for the steps
    for column in range(1, scores.shape[1]):
        last = scores[:, column - 1]  # [Q]
        # near zero by 1e-30: the float32 next to 0 is subnormal, which some programs read as 0
        below = np.minimum(np.nextafter(last, np.float32(-np.inf)), last - np.float32(1e-30))
        scores[:, column] = np.minimum(scores[:, column], below)
    return scores


def read_run(path: Path) -> Run:
    """A TREC run as trec_eval ranks it: by score as float32, ties by id, both descending.

    Raises `InputError` naming the file and line for a line without six columns, a score that is not a number,
    and a document that a query has twice; also for an empty file. Logs a line if scores rise
    with the ranks.
    """
    run: Run = {}
    ends: dict[str, list[tuple[str, float]]] = {}  # rank and score of the first line and the last one
    for place, columns in _rows(path, 6, "query, Q0, document, rank, score, tag"):
        query, document = decode_id(columns[0]), decode_id(columns[2])
        score = _number(columns[4])
        if score is None:
            raise InputError(f"{place}: the score is {columns[4]!r}, expected a number", _RUN)
        results = run.setdefault(query, {})
        if document in results:
            raise InputError(
                f'{place}: query "{query}" has the document "{document}" twice', "Remove one of them."
            )
        results[document] = score
        ends.setdefault(query, [(columns[3], score)] * 2)[1] = columns[3], score
    if not run:
        raise InputError(f"{path}: the run is empty", _RUN)
    if _rises(ends.values()):
        log_line(f"{path}: its scores rise with the ranks; it is sorted by score, the highest first")
    return {query: _ranked(results) for query, results in run.items()}


def _rises(ends: Iterable[Sequence[tuple[str, float]]]) -> bool:
    """Whether rank 1 has the lowest score in all queries, as if scores were ranks or distances."""
    steps = []
    for (first_rank, first), (last_rank, last) in ends:
        before, after = _number(first_rank), _number(last_rank)
        if before is not None and after is not None and before != after:
            steps.append(first != last and (before < after) == (first < last))
    return bool(steps) and all(steps)


def check_questions(run: Iterable[str], query_ids: Collection[str], name: str) -> None:
    """Raises `InputError` if a run, given by the ids of its queries, has none of these queries."""
    run = list(run)
    if set(query_ids).isdisjoint(run):
        raise InputError(
            f"{name}: the run has none of the questions (its first is {run[0]!r}; the first question is "
            f"{next(iter(query_ids), '')!r})",
            "Give the questions of this run.",
        )


def run_ranking(
    run: Mapping[str, Mapping[str, float]],
    query_ids: Sequence[str],
    rows_of: Callable[[Sequence[str]], NDArray[np.int64]],
    k: int | None = None,
) -> Ranking:
    """A run that was read as a `Ranking` of these queries; queries that it lacks have no results.

    rows_of: from ids to rows (`PassageStore.rows_of`). k: columns; by default the length of the longest list.
    Ties are resolved, so scores strictly decrease. Raises `InputError` for an id of row -1.
    """
    lists = [list(run.get(query, {}).items())[:k] for query in query_ids]
    ids = [id_ for results in lists for id_, _ in results]
    rows_of_ids = rows_of(ids)  # [n]
    is_unknown = rows_of_ids < 0
    if is_unknown.any():
        raise InputError(
            f"the run has {int(is_unknown.sum()):,} passages that the index lacks, such as "
            f'"{ids[int(np.argmax(is_unknown))]}"',
            "Use the index that the run was made with.",
        )
    lengths = np.array([len(results) for results in lists], np.int64)  # [Q]
    width = k if k is not None else int(lengths.max(initial=0))
    mask = np.arange(width) < lengths[:, None]  # bool [Q, width]
    rows = np.full(mask.shape, -1, np.int64)  # [Q, width]
    scores = np.full(mask.shape, -np.inf, np.float32)  # [Q, width]
    rows[mask] = rows_of_ids
    values = np.array([score for results in lists for _, score in results], np.float64)  # [n]
    scores[mask] = np.clip(values, -3e38, 3e38)
    scores = np.where(mask, strictly_decreasing(scores), np.float32(-np.inf))
    return Ranking(tuple(query_ids), rows, scores)


def read_qrels(path: Path) -> Qrels:
    """Judgements: TREC's four columns, or BEIR's three (`query-id corpus-id score`) below a header.

    Raises `InputError` naming the file and line for an unexpected number of columns, a relevance that is not
    a whole number or above `HIGHEST_GRADE`, and a document that is judged twice and differently; also for an
    empty file.
    """
    qrels: Qrels = {}
    for place, columns in _rows(path, 4, "query, 0, document, relevance", beir=True):
        query, document = decode_id(columns[0]), decode_id(columns[-2])
        value = _number(columns[-1])
        if value is None or not value.is_integer() or not _LOWEST <= value <= HIGHEST_GRADE:
            expected = f"expected a whole number of at most {HIGHEST_GRADE:,}"
            raise InputError(f"{place}: the relevance is {columns[-1]!r}, {expected}", _QRELS)
        judged = qrels.setdefault(query, {})
        if judged.setdefault(document, int(value)) != int(value):
            raise InputError(
                f'{place}: query "{query}", document "{document}": {int(value)} here, '
                f"{judged[document]} in an earlier line",
                "Keep one of the two judgements.",
            )
    if not qrels:
        raise InputError(f"{path}: the file has no judgements", _QRELS)
    return qrels


def as_qrels(qrels: Judgements) -> Qrels:
    """Judgements as they are given in Python: of a file, or query id -> passage or document id -> relevance.

    Raises the errors of `read_qrels` for a file, `InputError` for anything but whole numbers up to
    `HIGHEST_GRADE`.
    """
    if isinstance(qrels, Path | str):
        return read_qrels(Path(qrels))
    try:
        given = {
            str(query): {str(document): index(value) for document, value in judged.items()}
            for query, judged in qrels.items()
        }
    except (AttributeError, TypeError) as error:
        raise InputError(
            f"the judgements are not whole numbers by id of a query and of a document ({error})",
            'For example: {"q1": {"Mars": 1}}',
        ) from None
    for query, judged in given.items():
        if judged and not _LOWEST <= min(judged.values()) <= max(judged.values()) <= HIGHEST_GRADE:
            raise InputError(
                f"the judgements of {query!r} have grades above {HIGHEST_GRADE:,}, or below {_LOWEST:,}",
                "Scale them, such as to grades of 0 to 3.",
            )
    return given


def qrels_lines(qrels: Qrels) -> Iterator[bytes]:
    """Judgements as TREC's lines, which `read_qrels` reads."""
    for query, judged in qrels.items():
        for document, value in judged.items():
            yield f"{encode_id(query)} 0 {encode_id(document)} {value}\n".encode()


class ResolvedIds(NamedTuple):
    """The rows of n ids of a run or of judgements, read both ways; int64 [n], -1 where unknown."""

    passages: NDArray[np.int64]
    documents: NDArray[np.int64]

    @property
    def level(self) -> Level:
        """Passages, unless more of the ids are ids of documents."""
        return "documents" if (self.documents >= 0).sum() > (self.passages >= 0).sum() else "passages"

    @property
    def rows(self) -> NDArray[np.int64]:
        """The rows at that level, int64 [n]."""
        return self.documents if self.level == "documents" else self.passages


def resolve_columns(index: OpenIndex, ids: Sequence[str]) -> ResolvedIds:
    """The rows of decoded ids, each of which may belong to a passage or to a document.

    One that the index lacks may be its "a%20b", as another tool wrote it.
    """
    passages, documents = index.passages.rows_of(ids), index.document_ids.rows(hash_ids(ids)).astype(np.int64)
    unknown = np.flatnonzero((passages < 0) & (documents < 0))  # [u]
    again = [encode_id(ids[number]) for number in unknown.tolist()]
    passages[unknown] = index.passages.rows_of(again)
    documents[unknown] = index.document_ids.rows(hash_ids(again))
    return ResolvedIds(passages, documents)


def encode_id(id_: str) -> str:
    """An id without white space and control characters, for a column of a TREC file."""
    return _ENCODED.sub(lambda match: quote(match.group()), id_)


def decode_id(column: str) -> str:
    """The inverse of `encode_id`; escapes that it would not have made stay (`%C3%A9` in a URL)."""

    def decode(match: re.Match[str]) -> str:
        character = unquote(match.group())
        return character if _ENCODED.fullmatch(character) else match.group()

    return _ESCAPES.sub(decode, column) if "%" in column else column


def _rows(path: Path, width: int, names: str, beir: bool = False) -> Iterator[tuple[str, list[str]]]:
    """(place for errors, columns). Only ASCII white space ends a column, as in C.

    beir: whether a head may name three columns, whose ids may then contain spaces between tabs. A head of all
    columns is skipped.
    """
    separator: bytes | None = None
    is_metadata = False
    _, stream = open_source(path)
    with stream:
        for row, (number, line) in enumerate(read_lines(stream)):
            line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            if is_metadata or (row == 0 and line.rstrip() == METADATA_START):
                is_metadata = line.rstrip() != METADATA_END
                continue
            if row == 0 and _is_head(line.split(), 3 if beir else width, width):
                if len(line.split()) != width:
                    width, names = 3, "query-id, corpus-id, score"
                    separator = b"\t" if b"\t" in line else None
                continue
            columns = line.split(separator)
            place = f"{path}, line {number:,}"
            if len(columns) != width:
                raise InputError(
                    f"{place}: {len(columns)} columns, expected {width} ({names})", _layout(line, width)
                )
            try:
                yield place, [column.decode("utf-8") for column in columns]
            except UnicodeDecodeError:
                raise InputError(f"{place}: not UTF-8", "Convert the file to UTF-8.") from None


_HEADS = {
    3: (_QUERY, _DOCUMENT, _RELEVANCE),
    4: (_QUERY, _ANY, _DOCUMENT, _RELEVANCE),
    6: (_QUERY, _ANY, _DOCUMENT, _RANK, _SCORE, _ANY),
}
"""The names of columns, by their number, without hyphens, underscores and case."""


def _is_head(columns: Sequence[bytes], *widths: int) -> bool:
    """Whether the first line names all columns, in the order in which they are read."""
    plain = [re.sub(rb"[\W_]", b"", column.lower()).decode() for column in columns]
    return len(plain) in widths and all(map(re.fullmatch, _HEADS[len(plain)], plain))


_OTHERS = {
    (6, 4): "A run has six columns, judgements have four.",
    (4, 6): "Judgements have four columns, a run has six.",
    (3, 6): 'MS MARCO\'s runs have no scores: awk \'{print $1, "Q0", $2, $3, 1/$3, "run"}\' FILE > RUN.',
}
"""Hints on files of other kinds, by their number of columns and the expected one."""


def _layout(line: bytes, width: int) -> str:
    """A hint on a line of another number of columns."""
    if line.lstrip().startswith((b"{", b"[")):
        return "It is JSON; a TREC file has columns, separated by white space."
    if (len(line.split()), width) in _OTHERS:
        return _OTHERS[len(line.split()), width]
    if line.count(b",") >= 2 and len(line.split()) < width:
        return "It is separated by commas; convert it: tr ',' '\\t' < FILE."
    if len(line.split()) < width:
        return "A column is missing" + (
            "; three of judgements need BEIR's head: query-id, corpus-id, score." if width == 4 else "."
        )
    return "White space within an id must be percent-encoded (%20)."


_NUMBER = re.compile(r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|inf(?:inity)?)", re.ASCII | re.IGNORECASE)


def _number(text: str) -> float | None:
    """None for anything that C does not read as a number, and for nan."""
    return float(text) if _NUMBER.fullmatch(text) else None


def _ranked(results: dict[str, float]) -> dict[str, float]:
    with np.errstate(over="ignore"):
        scores = np.array(list(results.values()), np.float64).astype(np.float32)  # [n]
    if (scores[1:] < scores[:-1]).all():
        return results
    keys = dict(zip(results, scores.tolist(), strict=True))
    return dict(sorted(results.items(), key=lambda item: (keys[item[0]], item[0]), reverse=True))
