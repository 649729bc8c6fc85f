"""python -m experiments supporting-links: how many links of supporting passages lead to the other ones.

In a corpus that was made of its questions' paragraphs a link may be nearly the answer. Of the links that
leave the relevant documents of a question for other documents, the share that leads to another relevant one,
and how many would do so by chance.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from linkseek.app.evaluation.judgements import FIRST_UNKNOWN, JudgedNumbers
from linkseek.indexer.index import OpenIndex
from linkseek.retriever.search.runs import read_qrels

PROGRAM = "python -m experiments supporting-links"


def shares(index: OpenIndex, relevant: Sequence[set[int]]) -> tuple[int, int, float]:
    """Links that leave relevant documents for others; of these, to relevant ones; how many by chance.

    relevant: the rows of the relevant documents of each question.
    """
    links, documents = index.links, len(index.documents)
    source = index.passages.document_rows(np.asarray(links.passage))  # [E]
    leaving = leading = 0
    by_chance = 0.0
    for rows in relevant:
        own = np.fromiter(rows, np.int64)
        leaves = np.isin(source, own) & (links.target != source)  # [E]
        leaving += int(leaves.sum())
        leading += int(np.isin(links.target[leaves], own).sum())
        by_chance += float(leaves.sum() * (len(rows) - 1) / (documents - 1))
    return leaving, leading, by_chance


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog=PROGRAM, description=__doc__)
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--qrels", type=Path, required=True, help="relevant documents or passages")
    options = parser.parse_args(argv)
    index = OpenIndex.open(options.index)
    qrels = read_qrels(options.qrels)
    judged = JudgedNumbers(index).judgements(qrels, [*qrels], str(options.qrels))
    relevant = [
        {number for number, grade in of_question.items() if grade > 0 and number < FIRST_UNKNOWN}
        for of_question in judged.relevance.values()
    ]
    if judged.level == "passages":
        relevant = [{*index.passages.document_rows(np.array([*rows])).tolist()} for rows in relevant if rows]
    leaving, leading, by_chance = shares(index, relevant)
    print(
        f"{options.index}: of {leaving:,} links that leave relevant documents, {leading:,} "
        f"({leading / max(leaving, 1):.1%}) lead to another of the same question; by chance {by_chance:.1f}"
    )
