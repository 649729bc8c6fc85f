"""Questions from a file: JSON lines, MS MARCO's TSV or CSV, recognised by their content.

    {"id": "1", "text": "who wrote it", "answers": ["She"]}       JSONL; answers are optional
    {"question": "who wrote it", "answer": ["She"]}               JSONL (NQ-open)
    1<TAB>who wrote it                                            TSV (MS MARCO)
    who wrote it<TAB>['She', "He"]                                CSV (DPR)
    question,answers                                              CSV (commas or semicolons): columns by names
    who wrote it,"['She', 'He']"

Questions without ids get the ids 0, 1, 2, ... Other names of fields and columns are in
`retriever.query_formats`, such as `_id` (BEIR), `qid`, `query_id` and `golden_answers` (FlashRAG), in any
case; further fields are ignored. Answers may be written as `retriever.answer_lists` reads them. Files may be
compressed (.gz, .bz2, .zst).
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import orjson

from linkseek.indexer.files.sources import open_source, read_lines
from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.indexer.program.text import nearest, with_whole_characters, without_hidden
from linkseek.retriever.query_formats import BOM, EXPECTED, recognise
from linkseek.retriever.ranking import MAX_QUESTION_CHARACTERS, Query

T = TypeVar("T")

Questions = str | Query | Path | Mapping[str, str] | Iterable[str | Query]
"""One question, several, texts by their ids, or a file of questions."""

Answers = Mapping[str, str | Iterable[str]]
"""Short answers by the id of their question; a text is one answer."""


def read_queries(path: Path, limit: int | None = None) -> list[Query]:
    """The questions of a file in its order, or the first `limit` of them.

    Raises `InputError` that names file and line for a file without questions, a line that is not UTF-8 or not
    of the file's format, a missing field, an empty text, an id that occurs twice, and answers that are not a
    list literal.
    """
    parse, head = recognise(path)
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
                text = line.decode("utf-8").removeprefix(BOM)
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
        raise InputError(f"{path}: the file has no questions", EXPECTED)
    return queries


def as_queries(questions: Questions, answers: Answers | None = None) -> list[Query]:
    """Questions as they are given in Python. Texts without ids get the ids 0, 1, 2, ...

    answers: for questions that have none of their own. Raises the errors of `read_queries` for a file,
    `UsageError` for no question, an empty or too long one, an id that occurs twice, and answers to none.
    """
    if hasattr(questions, "columns"):  # a table, whose items are the names of its columns
        raise UsageError(
            f"the questions are of type {type(questions).__name__}, expected texts",
            'For example: dict(zip(frame["id"], frame["text"])).',
        )
    if isinstance(questions, Path):
        queries = read_queries(questions)
    elif isinstance(questions, Mapping) or hasattr(questions, "items"):  # or a Series of pandas
        queries = [_as_query(text, str(id_)) for id_, text in questions.items()]
    elif isinstance(questions, Iterable) and not isinstance(questions, str | bytes | Query):
        queries = [_as_query(question, str(number)) for number, question in enumerate(questions)]
    else:
        queries = [_as_query(questions, "0")]
    if not queries:
        raise UsageError("there is no question", "Give a text, or a list of texts.")
    ids = Counter(query.id for query in queries)
    if any(not id_.strip() for id_ in ids):
        raise UsageError("the id of a question is empty", "Give every question an id.")
    [(most, count)] = ids.most_common(1)
    if count > 1:
        raise UsageError(f'{count:,} questions have the id "{most}"', "Give every question an id of its own.")
    answers = {} if answers is None else answers
    if not isinstance(answers, Mapping):
        raise UsageError(f"the answers are of type {type(answers).__name__}, expected texts by id", _ANSWERS)
    given = {str(id_): texts for id_, texts in answers.items()}
    for id_ in given:
        if id_ not in ids:
            raise UsageError(f'there are answers for "{id_}", but no such question', nearest(id_, ids))
    return [_with_whole_characters(query, _as_answers(given, query)) for query in queries]


def _as_answers(given: Answers, query: Query) -> tuple[str, ...]:
    texts = given.get(query.id, query.answers)
    listed = (texts,) if isinstance(texts, str) else tuple(texts)
    for answer in listed:
        if not isinstance(answer, str):
            raise UsageError(
                f'an answer to "{query.id}" is {type(answer).__name__}, expected a text', _ANSWERS
            )
    return listed


def _with_whole_characters(query: Query, answers: tuple[str, ...]) -> Query:
    try:
        id_, text, *rest = map(with_whole_characters, (query.id, query.text, *answers))
    except UnicodeError:
        raise UsageError(
            f"the question {query.id!a} contains an unpaired surrogate character", "Decode its text again."
        ) from None
    return replace(query, id=id_, text=text, answers=tuple(rest))


def _as_query(question: Any, id_: str) -> Query:
    text = question.text if isinstance(question, Query) else question
    if not isinstance(text, str):
        raise UsageError(f"a question is {type(text).__name__}, expected a text or a Query", _IN_MEMORY)
    if not isinstance(question, Query):
        return Query(id_, checked_question(text))
    if not text.strip():
        raise UsageError(f'the question "{question.id}" is empty', "Add its text, or omit it.")
    return replace(question, id=str(question.id))  # its text as it is, like one of a file


_ANSWERS = 'For example: {"q1": ["Botticelli"]}.'
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
            f"the question has {len(question):,} characters", f"At most {MAX_QUESTION_CHARACTERS:,} are read."
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
