"""python -m experiments overlap: which test questions do training questions contain, and what do they change?

A test question has an exact duplicate if a training question has the same words: letters and digits without
regard to case and to marks, without "a", "an" and "the". It has a near duplicate if the words of a training
question are alike: as sets, their intersection is at least `--near` of their union. Its answer is known if
one of its answers, in the same form, answers a training question (Lewis et al. 2021, arXiv 2008.02637). With
reports of `linkseek evaluate`, the measures are also given without the questions that have duplicates, exact
or near.
"""

from __future__ import annotations

import argparse
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from linkseek.app.evaluation.results import Results
from linkseek.app.report.finished import read_report
from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.retriever.queries import read_queries
from linkseek.retriever.ranking import Query

PROGRAM = "python -m experiments overlap"
NEAR = 0.7
BLOCK = 500  # test questions that are compared at once
WORD = re.compile(r"[^\W_]+")
ARTICLES = frozenset({"a", "an", "the"})


def words(text: str) -> tuple[str, ...]:
    """The words of a text in the form in which they are compared."""
    letters = unicodedata.normalize("NFKD", text.casefold())
    plain = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return tuple(word for word in WORD.findall(plain) if word not in ARTICLES)


@dataclass(frozen=True)
class Overlap:
    """Which test questions occur among the training questions, bool [Q] each.

    near: includes the exact. answer: of the questions that have `answers`.
    """

    exact: NDArray[np.bool_]
    near: NDArray[np.bool_]
    answer: NDArray[np.bool_]
    answers: NDArray[np.bool_]


def overlap(test: Sequence[Query], training: Sequence[Query], near: float = NEAR) -> Overlap:
    """Compare all questions of `test` with all of `training`. near: Jaccard's coefficient, above 0 to 1."""
    asked, read = [words(query.text) for query in test], [words(query.text) for query in training]
    known = set(filter(None, read))
    exact = np.array([question in known for question in asked], dtype=bool)
    taught = {words(answer) for query in training for answer in query.answers or ()} - {()}
    return Overlap(
        exact,
        exact | (nearest_share(asked, read) >= near),
        np.array([any(words(text) in taught for text in query.answers or ()) for query in test], dtype=bool),
        np.array([bool(query.answers) for query in test], dtype=bool),
    )


def nearest_share(asked: Sequence[Sequence[str]], read: Sequence[Sequence[str]]) -> NDArray[np.float64]:
    """The largest Jaccard coefficient of each text's set of words with one of `read`, float64 [Q]."""
    columns: dict[str, int] = {}
    a, b = _sets(asked, columns), _sets(read, columns)
    a.resize(a.shape[0], len(columns))
    sizes_a, sizes_b = np.diff(a.indptr), np.diff(b.indptr)
    best = np.zeros(len(asked))
    transposed = b.T.tocsr()
    for start in range(0, len(asked), BLOCK):
        common = (a[start : start + BLOCK] @ transposed).tocoo()
        rows = common.row + start
        shares = common.data / (sizes_a[rows] + sizes_b[common.col] - common.data)
        np.maximum.at(best, rows, shares)
    return best


def _sets(texts: Sequence[Sequence[str]], columns: dict[str, int]) -> csr_matrix:
    """Which words each text has, 0 or 1 [texts, words]; new words get the next columns."""
    rows = [sorted({columns.setdefault(word, len(columns)) for word in text}) for text in texts]
    ends = np.cumsum([0, *map(len, rows)])
    indices = np.array([column for row in rows for column in row], dtype=np.int64)
    return csr_matrix((np.ones(len(indices)), indices, ends), shape=(len(texts), len(columns)))


def flags_of(results: Results, test: Sequence[Query], flags: NDArray[np.bool_]) -> dict[str, bool]:
    """Id of each question of a report -> its flag: by its text, by its id in reports that have no texts.

    The same questions have other ids in other files. flags: of `test`, bool [Q].
    """
    if not results.questions:
        return dict(zip((query.id for query in test), flags.tolist(), strict=True))
    by_text = dict(zip((query.text for query in test), flags.tolist(), strict=True))
    return {asked.id: by_text[asked.text] for asked in results.questions if asked.text in by_text}


def without_duplicates(
    results: Results, found: dict[str, bool]
) -> Iterator[tuple[str, str, list[float], int]]:
    """(pipeline, measure, means of all questions and of those without duplicates, how many these are).

    found: question -> whether it has a duplicate. Raises `InputError` for a question that is not among them.
    """
    for name, pipeline in results.pipelines.items():
        for measure, score in pipeline.measures.items():
            if unknown := [id_ for id_ in score.per_query if id_ not in found]:
                raise InputError(
                    f'the report asks "{unknown[0]}", which is not in the test questions',
                    "Give the report of these questions.",
                )
            values = {id_: value for id_, value in score.per_query.items() if value is not None}
            kept = [value for id_, value in values.items() if not found[id_]]
            means = [
                float(np.mean(group)) if group else float("nan") for group in (list(values.values()), kept)
            ]
            yield name, measure, means, len(kept)


def main(argv: Sequence[str]) -> None:
    """Print tables in Markdown."""
    parser = argparse.ArgumentParser(
        PROGRAM, description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--test", type=Path, required=True, help="the questions that measure")
    parser.add_argument("--training", type=Path, nargs="+", required=True, help="questions that teach")
    parser.add_argument("--near", type=float, default=NEAR, help=f"share of words, above 0 to 1 ({NEAR})")
    parser.add_argument("--results", type=Path, nargs="+", default=[], help="folders of reports on --test")
    parser.add_argument("--list", action="store_true", help="list the test questions with duplicates")
    options = parser.parse_args(argv)
    if not 0 < options.near <= 1:
        raise UsageError(f"--near is {options.near:g}", "Give a share above 0, and at most 1.")
    test = read_queries(options.test)
    training = [query for file in options.training for query in read_queries(file)]
    found = overlap(test, training, options.near)
    print("| test | questions | exact | near or exact | answer known |\n|---|---|---|---|---|")
    answers = f"{_share(found.answer, int(found.answers.sum()))}" if found.answers.any() else "no answers"
    print(
        f"| {options.test.name.partition('.')[0]} | {len(test):,} | {_share(found.exact, len(test))} | "
        f"{_share(found.near, len(test))} | {answers} |"
    )
    for folder in options.results:
        print("\n| pipeline | measure | all | without duplicates | questions |\n|---|---|---|---|---|")
        results = read_report(folder.parent, folder.name).results
        flags = flags_of(results, test, found.near)
        for name, measure, (every, kept), count in without_duplicates(results, flags):
            print(f"| {name} | {measure} | {every:.3f} | {kept:.3f} | {count:,} |")
    if options.list:
        print()
        for query, near in zip(test, found.near, strict=True):
            if near:
                print(f"{query.id}\t{query.text}")


def _share(flags: NDArray[np.bool_], count: int) -> str:
    return f"{int(flags.sum()):,} ({flags.sum() / count:.1%})"
