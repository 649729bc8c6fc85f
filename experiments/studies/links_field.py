"""python -m experiments links-field: does it help to index what links say of the article they lead to?

For every article, the anchors of the links that lead to it, each as often as it occurs, or up to 50 of the
sentences around them, become a text of its own with BM25 statistics of its own: what a separate field of the
index would be. A passage's score is the pipeline's score, scaled to 0..1 for each question, plus a weight
times the score of its article's text (of the best candidate: 1), either for all passages of the article or
for its first one. The control favours first passages by the weight alone, without any text. Text, place and
weight are chosen on development questions, by accuracy@1 plus accuracy@20, for each pipeline; the test
questions are asked once.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from linkseek.app.evaluation.significance import holm, randomisation_test
from linkseek.app.pipelines.catalogue import Pipelines
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.search.lucene_index import BM25, LuceneIndex
from linkseek.indexer.search.lucene_writer import build_lucene
from linkseek.retriever.answers import find_answers
from linkseek.retriever.links.source import LinkSource
from linkseek.retriever.queries import evenly_spread, read_queries
from linkseek.retriever.ranking import Query, Ranking
from linkseek.retriever.search.fusion import stretched

PROGRAM = "python -m experiments links-field"
DEPTH = 200  # candidates of each question
BEST = 1000  # articles whose link texts score, of each question
SENTENCES = 50  # of an article
CUTS = (1, 20)
TEXTS = ("anchors", "sentences")
PLACES = ("first passage", "all passages")
CONTROL = "nothing"
WEIGHTS = (0.02, 0.05, 0.1, 0.2, 0.4)

Setting = tuple[str, str, float]
"""A text, a place, and a weight."""


def link_texts(index: OpenIndex, text: str) -> Iterator[tuple[str, str, str]]:
    """(row, no title, what links say) of every article that links lead to. text: of `TEXTS`."""
    source, links = LinkSource(index), index.links
    for article in range(len(index.documents)):
        incoming = links.to_document(article)
        if text == "anchors":
            found = [str(source.link_evidence(link)["anchor"]) for link in incoming.tolist()]
        else:
            places = np.linspace(0, len(incoming), min(len(incoming), SENTENCES), endpoint=False).astype(int)
            found = list(dict.fromkeys(_sentences(source, incoming[places])))
        if found:
            yield str(article), "", " ".join(found)


def _sentences(source: LinkSource, links: NDArray[np.int32]) -> Iterator[str]:
    for link in links.tolist():
        try:
            yield source.anchor_sentence(link)
        except InputError:  # a blank anchor
            continue


class Questions:
    """The candidates of some questions, which of them have an answer, and the scores of the links' texts."""

    def __init__(
        self, index: OpenIndex, queries: Sequence[Query], ranking: Ranking, texts: dict[str, LuceneIndex]
    ) -> None:
        self._rows, self._scores = ranking.rows, stretched(ranking)  # [Q, k]
        column = index.passages.table.value
        self._relevant = find_answers(
            [query.answers for query in queries], self._rows, lambda row: str(column("text", row))
        )
        rows = np.maximum(self._rows, 0)
        articles = index.passages.document_rows(rows.ravel()).reshape(rows.shape)
        self._is_first = np.asarray(index.passages.offsets)[articles] == rows
        self._links = {
            name: _best_is_1(_scores(lucene, [query.text for query in queries], articles))
            for name, lucene in texts.items()
        }
        self._links[CONTROL] = np.ones(rows.shape)

    def answered(self, setting: Setting | None = None) -> NDArray[np.float64]:
        """Whether an answer is in the first 1 and 20 candidates, 0 or 1 [Q, 2]. setting: none, or links'."""
        scores = self._scores
        if setting:
            text, place, weight = setting
            counts = self._is_first if place == PLACES[0] else True
            scores = scores + weight * self._links[text] * counts
        order = np.argsort(np.where(self._rows < 0, np.inf, -scores), axis=1, kind="stable")
        relevant = np.take_along_axis(self._relevant, order, axis=1)
        return np.stack([relevant[:, :cut].any(axis=1) for cut in CUTS], axis=1).astype(float)


def _scores(lucene: LuceneIndex, texts: list[str], articles: NDArray[np.integer]) -> NDArray[np.float64]:
    """BM25 of the articles' link texts, float64 [Q, k], 0 for those that are not among the `BEST`.

    articles: int [Q, k], by row.
    """
    scores = np.zeros(articles.shape)
    for row, (found, values) in enumerate(lucene.search(texts, BEST, BM25())):
        by_article = dict(zip(map(int, found), values.tolist(), strict=True))
        scores[row] = [by_article.get(article, 0.0) for article in articles[row].tolist()]
    return scores


def _best_is_1(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    best = scores.max(axis=1, keepdims=True, initial=0.0)  # [Q, 1]
    scaled: NDArray[np.float64] = scores / np.maximum(best, np.finfo(float).tiny)
    return scaled


def main(argv: Sequence[str]) -> None:
    """Choose, measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(
        "python -m experiments links-field",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("--index", type=Path, required=True, help="an index with links")
    parser.add_argument("--dev", type=Path, nargs="+", required=True, help="questions to choose on")
    parser.add_argument("--test", type=Path, nargs="+", required=True, help="questions to measure on")
    parser.add_argument("--pipeline", nargs="+", default=["bm25"], help="whose candidates")
    parser.add_argument("--limit", type=int, default=2000, help="questions of each file of --dev")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        index = OpenIndex.open(options.index)
        texts = {}
        for text in TEXTS:
            path = Path(folder, text)
            build_lucene(link_texts(index, text), path, index_title=False, threads=1)
            texts[text] = LuceneIndex(path)
        pipelines = Pipelines(index)

        def open_questions(file: Path, pipeline: str, limit: int | None) -> Questions:
            queries = read_queries(file)
            queries = evenly_spread(queries, limit) if limit else queries
            return Questions(index, queries, pipelines.open(pipeline)(queries, DEPTH), texts)

        print(
            f"| pipeline | links say | {' | '.join(file.name.partition('.')[0] for file in options.test)} |"
        )
        print(f"|---|---|{'---|' * len(options.test)}")
        for pipeline in options.pipeline:
            dev = [open_questions(file, pipeline, options.limit) for file in options.dev]
            control, chosen = (_choose(dev, texts) for texts in ([CONTROL], TEXTS))
            asked = [open_questions(file, pipeline, None) for file in options.test]
            for setting in (None, control, chosen):
                cells = [_percent(questions.answered(setting)) for questions in asked]
                print(f"| `{pipeline}` | {_described(setting)} | {' | '.join(cells)} |")
            for name, other in (("pipeline", None), ("control", control)):
                cells = _differences(asked, chosen, other)
                print(f"| | links - {name} | {' | '.join(cells)} |", flush=True)


def _choose(dev: Sequence[Questions], texts: Sequence[str]) -> Setting:
    return max(
        product(texts, PLACES, WEIGHTS),
        key=lambda setting: float(np.mean([q.answered(setting).mean(axis=0).sum() for q in dev])),
    )


def _described(setting: Setting | None) -> str:
    return f"{setting[0]}, {setting[1]}, weight {setting[2]:g}" if setting else ""


def _percent(answered: NDArray[np.float64]) -> str:
    return " / ".join(f"{100 * value:.1f}" for value in answered.mean(axis=0))


def _differences(asked: Sequence[Questions], setting: Setting, other: Setting | None) -> list[str]:
    """With p of the paired randomisation test, after Holm's correction over all of them."""
    differences = [questions.answered(setting) - questions.answered(other) for questions in asked]
    corrected = iter(holm(np.concatenate(list(map(randomisation_test, differences))).tolist()))
    return [
        " / ".join(f"{100 * mean:+.1f} (p = {next(corrected):.3f})" for mean in difference.mean(axis=0))
        for difference in differences
    ]
