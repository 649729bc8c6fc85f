"""Questions from a file: JSON lines, MS MARCO's TSV or CSV, recognised by their content.

    {"id": "1", "text": "who wrote it", "answers": ["She"]}       JSONL; answers are optional
    {"question": "who wrote it", "answer": ["She"]}               JSONL (NQ-open)
    1<TAB>who wrote it                                            TSV (MS MARCO)
    who wrote it<TAB>['She', "He"]                                CSV (DPR)
    question,answers                                              CSV with commas: columns by their names
    who wrote it,"['She', 'He']"

Questions without ids get the ids 0, 1, 2, ... An id may also be called `_id` (BEIR), `qid`, `query_id`,
`question_id`, `topic_id` or `example_id`, in any case, and the text `query`. Other fields and columns are
ignored. Answers in a CSV are Python list literals, or under names of columns also one answer as it is;
literals are parsed, never evaluated. Files may be compressed (.gz, .bz2, .zst).
"""

from __future__ import annotations

import ast
import csv
import itertools
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import orjson

from linkseek.indexer.base.errors import InputError, UsageError
from linkseek.indexer.base.settings import nearest
from linkseek.indexer.base.text import without_hidden
from linkseek.indexer.files.sources import open_source, read_head, read_lines
from linkseek.retriever.ranking import Query

T = TypeVar("T")

Questions = str | Query | Path | Mapping[str, str] | Iterable[str | Query]
"""One question, several, texts by their ids, or a file of questions."""

Answers = Mapping[str, Iterable[str]]
"""Short answers by the id of their question."""

MAX_QUESTION_CHARACTERS = 10_000
"""Several times the limit of any encoder; a longer text was pasted by mistake."""

_BOM = "\ufeff"
_EXPECTED = (
    'Expected one question a line: {"id": ..., "text": ..., "answers": [...]}, '
    "or id<TAB>text, or question<TAB>['answer', ...], or a CSV with the columns question and answers."
)
# The last field is a list of texts, or is meant as one: its end may be missing.
_LIST = {
    "\t": re.compile(r"""\t"?[\[(](\s*["'][^\t]*|[^\t]*[\])]"?\s*)$"""),
    ",": re.compile(r"""^[^\t]*,\s*("\[.*\]"|\[[^,]*\])\s*$"""),
}
# The names of fields and columns, without case, blanks and underscores; the first that is there counts.
_NAMES = {
    "id": ("id", "qid", "queryid", "questionid", "topicid", "exampleid"),
    "text": ("text", "question", "query"),
    "answers": ("answers", "answer"),
}


def read_queries(path: Path, limit: int | None = None) -> list[Query]:
    """The questions of a file in its order, or the first `limit` of them.

    Raises `InputError` that names file and line for a file without questions, a line that is not UTF-8 or not
    of the file's format, a missing field, an empty text, an id that occurs twice, and answers that are not a
    list literal.
    """
    parse, head = _format(path)
    queries: list[Query] = []
    line_of: dict[str, int] = {}
    _, stream = open_source(path)
    # a literal such as '\d' makes the compiler warn; it is data here, not a program
    with stream, warnings.catch_warnings(action="ignore"):
        for number, line in read_lines(stream):
            if limit is not None and len(queries) >= limit:
                break
            place = f"{path}, line {number:,}"
            if number <= head:
                continue
            try:
                text = line.decode("utf-8").removeprefix(_BOM)
            except UnicodeDecodeError as error:
                raise InputError(
                    f"{place}: not UTF-8 (byte {error.start + 1} is {line[error.start]:#04x})",
                    "Convert the file to UTF-8.",
                ) from None
            query = parse(text, len(queries), place)
            if not query.id.strip():
                raise InputError(f"{place}: the id is empty", "Give every question an id.")
            if not query.text.strip():
                raise InputError(f"{place}: the question is empty", "Add its text, or remove the line.")
            if query.id in line_of:
                raise InputError(
                    f'{place}: the id "{query.id}" is also in line {line_of[query.id]:,}',
                    "Give every question an id of its own.",
                )
            line_of[query.id] = number
            queries.append(query)
    if not queries:
        raise InputError(f"{path}: the file has no questions", _EXPECTED)
    return queries


def as_queries(questions: Questions, answers: Answers | None = None) -> list[Query]:
    """Questions as they are given in Python. Texts without ids get the ids 0, 1, 2, ...

    answers: of questions that have none of their own. Raises the errors of `read_queries` for a file,
    `UsageError` for no question, an empty or too long one, an id that occurs twice, and answers to none.
    """
    if isinstance(questions, Path):
        queries = read_queries(questions)
    elif isinstance(questions, Mapping):
        queries = [_as_query(text, str(id_)) for id_, text in questions.items()]
    else:
        several = [questions] if isinstance(questions, str | Query) else questions
        queries = [_as_query(question, str(number)) for number, question in enumerate(several)]
    if not queries:
        raise UsageError("there is no question", "Give a text, or a list of texts.")
    ids = Counter(query.id for query in queries)
    [(most, count)] = ids.most_common(1)
    if count > 1:
        raise UsageError(f'{count:,} questions have the id "{most}"', "Give every question an id of its own.")
    for id_ in answers or ():
        if id_ not in ids:
            raise UsageError(f'there is no question "{id_}", and answers to it', nearest(str(id_), ids))
    given = {id_: tuple(texts) for id_, texts in (answers or {}).items()}
    return [replace(query, answers=given.get(query.id, query.answers)) for query in queries]


def _as_query(question: Any, id_: str) -> Query:
    if isinstance(question, Query):  # as it is, like one of a file
        if not question.text.strip():
            raise UsageError(f'the question "{question.id}" is empty', "Add its text, or leave it out.")
        return question
    if not isinstance(question, str):
        raise UsageError(f"a question is {type(question).__name__}, expected a text or a Query", _IN_MEMORY)
    return Query(id_, checked_question(question))


_IN_MEMORY = 'For example: "Who found it?", ["Who found it?", "When?"], {"q1": "Who found it?"}.'


def checked_question(question: str) -> str:
    """A question as it is searched for. Raises `UsageError` if it is empty or far too long.

    A byte of a command line that is not valid text becomes a question mark. Invisible characters, which are
    copied with a text, are removed: Lucene takes them for a part of a word.
    """
    question = without_hidden(question.encode("utf-8", "replace").decode()).strip()
    if not question:
        raise UsageError("the question is empty", "Ask something.")
    if len(question) > MAX_QUESTION_CHARACTERS:
        raise UsageError(
            f"the question has {len(question):,} characters",
            f"At most {MAX_QUESTION_CHARACTERS:,} are read.",
        )
    return question


def queries_lines(queries: Iterable[Query]) -> Iterator[bytes]:
    """Questions as JSON lines, which `read_queries` reads."""
    for query in queries:
        answers = {"answers": query.answers} if query.answers else {}
        yield orjson.dumps({"id": query.id, "text": query.text, **answers}) + b"\n"


def evenly_spread(values: Sequence[T], limit: int) -> list[T]:
    """Evenly spaced questions or others, at most `limit` of them: files are often sorted by article."""
    if limit >= len(values):
        return list(values)
    return [values[i * len(values) // limit] for i in range(limit)]


_Parse = Callable[[str, int, str], Query]
"""(line, number of questions before it, place for errors) -> Query."""


def _format(path: Path) -> tuple[_Parse, int]:
    """The parser of a file, and its number of head lines, by its first 64 KB."""
    head = read_head(path).decode("utf-8", "replace").removeprefix(_BOM).strip()
    if head.startswith("{"):
        return _parse_jsonl, 0
    lines = head.split("\n")
    for delimiter in "\t", ",":
        columns = _by_name(zip(_fields(lines[0], delimiter), itertools.count()))
        if "text" in columns and len(columns) > 1:
            return partial(_parse_csv, delimiter, columns, True), 1
    for delimiter in "\t", ",":
        lists = sum(bool(_LIST[delimiter].search(line)) for line in lines)
        if lists * 2 > len(lines):  # one search for "[a]" must not decide
            return partial(_parse_csv, delimiter, {"text": 0, "answers": 1}, False), 0
    return _parse_tsv, 0


def _parse_jsonl(line: str, count: int, place: str) -> Query:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InputError(f"{place}: not JSON ({error})", _EXPECTED) from None
    if not isinstance(row, dict):
        raise InputError(f"{place}: expected a JSON object, got {type(row).__name__}", _EXPECTED)
    fields = _by_name((name, value) for name, value in row.items() if value is not None)
    if "text" not in fields:
        has = ", ".join(map(str, row)) or "no fields"
        raise InputError(f'{place}: the field "text" is missing (it has {has})', _EXPECTED)
    answers = fields.get("answers", [])
    if isinstance(answers, str):
        answers = [answers]
    id_, text = _text("id", fields.get("id", count), place), _text("text", fields["text"], place)
    return Query(id_, text, _answers(answers, place))


def query_id(row: dict[str, Any]) -> str:
    """The id of a question in a JSON object that `read_queries` has read; empty if it has none."""
    return str(_by_name((name, value) for name, value in row.items() if value is not None).get("id", ""))


def _by_name(fields: Iterable[tuple[str, T]]) -> dict[str, T]:
    """Fields or columns by what they are: id, text, answers."""
    given: dict[str, T] = {}
    for name, value in fields:
        plain = re.sub(r"[\W_]", "", name.lower())
        if name == plain or plain not in given:
            given[plain] = value
    ranked = ((kind, next((name for name in names if name in given), None)) for kind, names in _NAMES.items())
    return {kind: given[name] for kind, name in ranked if name is not None}


def _parse_tsv(line: str, count: int, place: str) -> Query:
    fields = line.split("\t")
    if len(fields) != 2:
        raise InputError(f"{place}: {len(fields)} tab-separated fields, expected 2 (id, text)", _EXPECTED)
    return Query(fields[0].strip(), fields[1].strip())


def _parse_csv(
    delimiter: str, columns: Mapping[str, int], plain: bool, line: str, count: int, place: str
) -> Query:
    """columns: text, answers and perhaps id -> number. plain: whether an answer may stand without a list."""
    fields = _fields(line, delimiter)
    expected = max(columns.values()) + 1
    if len(fields) < expected or (not plain and len(fields) > expected):
        kind = "tab-separated" if delimiter == "\t" else "comma-separated"
        raise InputError(f"{place}: {len(fields)} {kind} fields, expected {expected}", _EXPECTED)
    text = fields[columns["text"]].strip()
    cell = fields[columns["answers"]].strip() if "answers" in columns else ""
    values: Any = [cell] if cell else []
    if not plain or cell.startswith(("[", "(")):
        try:
            values = ast.literal_eval(cell)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            raise InputError(
                f"{place}: the answers are not a list of texts: {cell[:60]}",
                "Expected a Python list such as ['Paris', \"L'Aquila\"]; expressions are not evaluated.",
            ) from None
    id_ = fields[columns["id"]].strip() if "id" in columns else str(count)
    return Query(id_, text, _answers(values, place))


def _fields(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error:  # a quotation mark that quotes nothing
        return line.split(delimiter)


def _text(name: str, value: Any, place: str) -> str:
    """A text as it is, a whole number as text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise InputError(f'{place}: "{name}" is {type(value).__name__}, expected text', _EXPECTED)
    return value


def _answers(values: Any, place: str) -> tuple[str, ...]:
    if not isinstance(values, list | tuple) or not all(isinstance(v, str) for v in values):
        raise InputError(f"{place}: the answers are not a list of texts: {str(values)[:60]}", _EXPECTED)
    return tuple(values)
