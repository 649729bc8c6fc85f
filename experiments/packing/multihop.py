"""Questions of several steps: HotpotQA's distractor setting, 2WikiMultihopQA and MuSiQue.

Documents are the paragraphs that come with the questions; links are placed by mention (`mentions`). Judged
are the supporting paragraphs, all of which are needed. Questions have their `type` and their number of
`steps`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from experiments.packing.mentions import place_mentions
from experiments.packing.originals import Originals
from experiments.packing.rows import Files, Row, collection, document_row, question_row
from linkseek.indexer.program.errors import InputError


def hotpotqa_distractor(originals: Originals) -> Files:
    """HotpotQA, dev: ten paragraphs with each question, two of which are supporting (Yang et al. 2018)."""
    return _by_title("hotpotqa-distractor", originals.json("hotpot_dev_distractor_v1.json"), lambda row: 2)


def two_wiki(originals: Originals) -> Files:
    """2WikiMultihopQA, dev: ten paragraphs a question, two or four supporting (Ho et al. 2020)."""
    return _by_title("2wiki", originals.json("dev.json"), lambda row: len(_supporting(row)))


def musique(originals: Originals) -> Files:
    """MuSiQue-Ans, dev: twenty paragraphs a question, two to four supporting (Trivedi et al. 2022)."""
    documents: dict[tuple[str, str], Row] = {}
    questions: list[Row] = []
    judgements: list[str] = []
    for row in originals.json_lines("musique_ans_v1.0_dev.jsonl"):
        supporting = []
        for paragraph in row["paragraphs"]:
            key = paragraph["title"], paragraph["paragraph_text"]
            document = documents.setdefault(key, document_row(f"musique-{len(documents)}", *key))
            if paragraph["is_supporting"]:
                supporting.append(document["id"])
        answers = [row["answer"], *row.get("answer_aliases", ())]
        kind = row["id"].partition("__")[0]
        questions.append(_question(row["id"], row["question"], answers, kind, len(set(supporting))))
        judgements += [f"{row['id']} 0 {id_} 1" for id_ in dict.fromkeys(supporting)]
    return _files("musique", list(documents.values()), questions, judgements)


def _by_title(name: str, rows: Iterable[Row], steps: Any) -> Files:
    """Files from rows with a `context` of (title, sentences): a document is a title's first paragraph."""
    documents: dict[str, Row] = {}
    questions: list[Row] = []
    judgements: list[str] = []
    for row in rows:
        for title, sentences in row["context"]:
            separator = "" if any(sentence[:1].isspace() for sentence in sentences[1:]) else " "
            documents.setdefault(title, document_row(_id(title), title, separator.join(sentences).strip()))
        supporting = _supporting(row)
        if missing := [title for title in supporting if title not in documents]:
            raise InputError(
                f"question {row['_id']}: its supporting paragraph {missing[0]!r} is not among its paragraphs",
                "Get the file again: this set needs the development file of the distractor setting.",
            )
        questions.append(_question(row["_id"], row["question"], [row["answer"]], row["type"], steps(row)))
        judgements += [f"{row['_id']} 0 {_id(title)} 1" for title in supporting]
    return _files(name, list(documents.values()), questions, judgements)


def _supporting(row: Row) -> list[str]:
    return list(dict.fromkeys(title for title, _ in row["supporting_facts"]))


def _files(name: str, documents: list[Row], questions: list[Row], judgements: list[str]) -> Files:
    place_mentions(documents)
    return collection(name, documents, "dev", questions, judgements)


def _id(title: str) -> str:
    """A title as an id: TREC's files have no spaces in ids."""
    return title.replace(" ", "_")


def _question(id_: str, text: str, answers: Iterable[str], kind: str, steps: int) -> Row:
    return question_row(id_, text.strip(), answers) | {"type": kind, "steps": f"{steps} steps"}
