"""The rows of the files that packings write.

A JSONL file is a list of objects: documents {"id", "title", "text", "links"}, questions
{"id", "text", "answers"}. A file of judgements or a run is a list of lines in TREC's columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Row = dict[str, Any]
Rows = list[Row] | list[str]
Files = dict[str, Rows]
"""Name -> rows."""


def document_row(id_: str, title: str, text: str) -> Row:
    """A document without links."""
    return {"id": id_, "title": title, "text": text, "links": []}


def question_row(id_: str, text: str, answers: Iterable[str] = ()) -> Row:
    """A question; equal answers are written once."""
    return {"id": id_, "text": text, "answers": list(dict.fromkeys(answers))}


def collection(name: str, documents: list[Row], split: str, questions: list[Row], judged: list[str]) -> Files:
    """The files of a collection with one set of questions."""
    return {
        f"{name}/docs.jsonl.zst": documents,
        f"{name}/queries.{split}.jsonl.gz": questions,
        f"{name}/qrels.{split}.txt": judged,
    }
