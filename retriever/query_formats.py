"""The formats of a file of questions: JSON lines, TSV, and CSV with commas or semicolons.

A format is recognised by the first 64 KB of a file; then each line is parsed alone.
"""

from __future__ import annotations

import csv
import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from linkseek.indexer.files.json_stream import json_object
from linkseek.indexer.files.sources import read_head
from linkseek.indexer.program.errors import InputError
from linkseek.retriever.answer_lists import read_answers
from linkseek.retriever.ranking import Query

T = TypeVar("T")

EXPECTED = (
    'Expected one question per line: {"id": ..., "text": ..., "answers": [...]}, '
    "or id<TAB>text, or question<TAB>['answer', ...], or a CSV with the columns question and answers."
)
Parse = Callable[[str, int, str], Query]
"""(line, number of questions before it, place for errors) -> Query."""

BOM = "\ufeff"
_EXACT = 2.0**53
"""Floats from here on are not exact whole numbers; JSON's numbers of more than 64 bits are read as such."""
_SHOWN = 12
"""Names of fields in a message; a file of texts by their ids has a field for each text."""

# The last field is a list of texts, or is meant as one: its end may be missing.
_OPENING = r"(?:[a-zA-Z_][\w.]*\()?[\[({]"
_LIST = {
    "\t": re.compile(rf"""\t"?{_OPENING}(\s*["'\[][^\t]*|[^\t]*[\])}}]"?\s*)$"""),
    ",": re.compile(rf"""^[^\t]*,\s*("{_OPENING}.*[\])}}]"|\[[^,]*\])\s*$"""),
}
# Between named columns; Excel writes semicolons where a comma is the decimal sign.
_SEPARATED = {"\t": "tab", ",": "comma", ";": "semicolon"}
# The names of fields and columns, without case, blanks and underscores; the first that has a value counts.
_NAMES = {
    "id": (
        *("id", "qid", "queryid", "questionid", "topicid", "exampleid", "sampleid", "uid", "uuid", "guid"),
        *("querynumber", "questionnumber", "topicnumber", "queryno", "questionno", "topicno", "topicnum"),
    ),
    # "text" is last: next to a question, it is its passage
    "text": ("question", "query", "questiontext", "querytext", "text"),
    "answers": (
        *("answers", "answer", "goldenanswers", "goldenanswer", "goldanswers", "goldanswer"),
        *("correctanswers", "correctanswer", "possibleanswers", "referenceanswers", "groundtruths"),
        *("groundtruth", "shortanswers"),
    ),
    "aliases": ("answeraliases",),
}
_HEADS = {
    "id": {*_NAMES["id"], "num", "number", "topic", "no", "key", "index"},
    "text": {*_NAMES["text"], "title", "topic", "utterance", "sentence", "description", "topictitle"},
}
"""Names of columns that are refused, rather than taken for a question."""
_OTHER_FILES = {
    "PAR1": ("a Parquet file", "pandas.read_parquet(FILE)"),
    "ARROW1": ("an Arrow file", "pandas.read_feather(FILE)"),
}
_CONVERT = "Convert it: {}.to_json('FILE.jsonl', orient='records', lines=True)."


def recognise(path: Path) -> tuple[Parse, int]:
    """The parser of a file, and its number of head lines, by its first 64 KB."""
    text = read_head(path).decode("utf-8", "replace").removeprefix(BOM)
    head = text.strip()
    for start, (kind, reader) in _OTHER_FILES.items():
        if head.startswith(start):
            raise InputError(f"{path}: {kind}", _CONVERT.format(reader))
    if re.match(r"<[?!a-zA-Z]", head):
        raise InputError(f"{path}: XML or SGML, such as TREC's topics", "Convert it. " + EXPECTED)
    if re.match(r"\{|\[\s*[\[{]|\[\s*\n", head) or _is_array(head):  # an array is refused as one
        return _parse_jsonl, 0
    lines = text.rstrip().split("\n")
    blank = next((number for number, line in enumerate(lines) if line.strip()), 0)
    lines = lines[blank:]
    for delimiter in _SEPARATED:
        names, _ = _parsed(lines[0].rstrip("\r"), delimiter)
        columns = by_name(zip(names, itertools.count()))
        if "text" in columns and len(columns) > 1:
            return partial(_parse_table, delimiter, columns, len(names), True), blank + 1
    for delimiter in "\t", ",":
        lists = sum(bool(_LIST[delimiter].search(line)) for line in lines)
        if lists * 2 > len(lines):  # one search for "[a]" must not decide
            return partial(_parse_table, delimiter, {"text": 0, "answers": 1}, 2, False), 0
    return _parse_tsv, 0


def _is_array(head: str) -> bool:
    """Whether a file begins as an array of texts over one line, or contains an empty one."""
    try:
        return head.startswith("[") and isinstance(json.loads(head), list)
    except (ValueError, RecursionError):
        return False


def by_name(fields: Iterable[tuple[str, T]]) -> dict[str, T]:
    """Fields or columns by their role: id, text, answers, aliases. Fields without a value do not count."""
    given: dict[str, T] = {}
    for name, value in fields:
        plain = _plain(name)
        if _is_empty(given.get(plain)) or (name == plain and not _is_empty(value)):
            given[plain] = value
    named = {}
    for kind, names in _NAMES.items():
        values = [given[name] for name in names if given.get(name) is not None]
        if values:
            named[kind] = next((value for value in values if not _is_empty(value)), values[0])
    return named


def _plain(name: str) -> str:
    """A name without case, blanks and underscores."""
    return re.sub(r"[\W_]", "", name.lower())


def _is_empty(value: object) -> bool:
    return value is None or value in ("", [], {})


def query_id(row: dict[str, Any]) -> str:
    """The id of a question in a JSON object that was read as one; empty if it has none."""
    return _text("id", by_name(row.items()).get("id", ""), "")


def _parse_jsonl(line: str, count: int, place: str) -> Query:
    row = json_object(line.encode("utf-8", "surrogatepass"), place, EXPECTED)
    fields = by_name(row.items())
    if "text" not in fields:
        is_long = len(row) > _SHOWN
        has = ", ".join([*row][:_SHOWN]) + ", ..." * is_long or "no fields"
        lists = [name for name, value in row.items() if isinstance(value, list) and value]
        is_document = len(lists) == 1 and "id" not in fields  # whose list contains the questions
        hint = f"Convert it: jq -c '.{lists[0]}[]' FILE > FILE.jsonl" if is_document else EXPECTED
        if is_long and all(isinstance(value, str) for value in row.values()):
            hint = "Texts by their ids? jq -c 'to_entries[] | {id: .key, text: .value}' FILE > FILE.jsonl"
        raise InputError(f'{place}: the field "text" is missing (it has {has})', hint)
    answers = read_answers(fields.get("answers", []), place)
    if aliases := fields.get("aliases"):
        answers = tuple(dict.fromkeys((*answers, *read_answers(aliases, place))))
    id_, text = _text("id", fields.get("id", count), place), _text("text", fields["text"], place)
    return Query(id_, text, answers)


def _parse_tsv(line: str, count: int, place: str) -> Query:
    # a field may be quoted where the first is: else a quotation mark belongs to its question
    fields = _parsed(line, "\t")[0] if re.match(r'"[^"\t]+"\t', line) else line.split("\t")
    if len(fields) != 2:
        hint = EXPECTED
        if "\r" in line.strip():
            hint = "Its lines end as on old Macs: tr '\\r' '\\n' < FILE."
        elif len(fields) == 1 and "," in line:
            hint = "A CSV needs names of columns in its first line, such as id,text. " + EXPECTED
        raise InputError(f"{place}: {len(fields)} tab-separated fields, expected 2 (id, text)", hint)
    id_, text = fields[0].strip(), fields[1].strip()
    if not count and "id" in by_name([(id_, 0)]):
        raise _names_error(place, id_, text)
    _refuse_names(place, id_, text)
    return Query(id_, text)


def _refuse_names(place: str, id_: str, text: str) -> None:
    """Raises `InputError` for a line of names of columns, which would become a question."""
    if _plain(id_) in _HEADS["id"] and _plain(text) in _HEADS["text"]:
        raise _names_error(place, id_, text)


def _names_error(place: str, id_: str, text: str) -> InputError:
    return InputError(
        f'{place}: names of columns ("{id_}", "{text[:40]}")',
        "Name the columns id and text, in the first line alone, or remove the line.",
    )


def _parse_table(
    delimiter: str, columns: Mapping[str, int], width: int, plain: bool, line: str, count: int, place: str
) -> Query:
    """columns: text, answers and perhaps id -> number. width: the number of fields in a line. plain: an
    answer needs no list.
    """
    fields, goes_on = _parsed(line, delimiter)
    if delimiter != "\t" and goes_on:
        hint = _CONVERT.format(f"pandas.read_csv(FILE, sep={delimiter!r})")
        raise InputError(
            f"{place}: a quoted field does not end in its line", "Remove its line breaks. " + hint
        )
    kind = _SEPARATED[delimiter]
    if len(fields) <= max(columns.values()):
        raise InputError(f"{place}: {len(fields)} {kind}-separated fields, expected {width}", EXPECTED)
    if any(map(str.strip, fields[width:])):
        hint = f"A field that contains a {kind} must be in quotation marks. " + EXPECTED
        raise InputError(f"{place}: {len(fields)} {kind}-separated fields, expected {width}", hint)
    cells = {kind: fields[column].strip() for kind, column in columns.items()}
    cell = cells.get("answers", "")
    is_list = not plain or cell.startswith(("[", "{", 'c("'))  # as Python, PostgreSQL or R prints it
    answers = read_answers(cell, place, is_cell=is_list)
    if aliases := cells.get("aliases"):
        answers = tuple(dict.fromkeys((*answers, *read_answers(aliases, place))))
    if "id" in cells:
        _refuse_names(place, cells["id"], cells["text"])
    return Query(cells.get("id", str(count)), cells["text"], answers)


def _parsed(line: str, delimiter: str) -> tuple[list[str], bool]:
    """The fields of a line, and whether the last one is quoted up to a later line."""
    goes_on = False
    # Spark and MySQL write \" for a quotation mark within a quoted field, others ""
    for written in line, line.replace('\\"', '""'):
        try:
            return next(csv.reader([written], delimiter=delimiter, strict=True), []), False
        except csv.Error as error:
            goes_on |= "end of data" in str(error)
    return line.split(delimiter), goes_on  # a quotation mark quotes nothing


def _text(name: str, value: Any, place: str) -> str:
    """A text as it is, a whole number as text: 7, and 7.0 as pandas writes it where some are missing."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise InputError(f'{place}: "{name}" is {type(value).__name__}, expected text', EXPECTED)
    return value
