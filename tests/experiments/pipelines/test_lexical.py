"""Lucene's scores of the candidates of any pipeline."""

# ruff: noqa: F811 - fixtures of other files

from __future__ import annotations

import pytest

from experiments.pipelines.lexical import LexicalScorer
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.search.lucene_index import BM25
from linkseek.reranker.candidates import Candidates
from linkseek.retriever.ranking import Query
from tests.app.conftest import built_index, make_pipelines  # noqa: F401 - fixtures

QUERIES = [Query("1", "a river in France"), Query("2", "volcano")]


@pytest.mark.parametrize(("model", "searcher"), [("bm25", "bm25"), ("query-likelihood", "ql")])
def test_lucenes_scores_of_given_candidates_are_those_of_its_search(make_pipelines, model, searcher) -> None:
    pipelines = make_pipelines(f'[x]\nrerank = "{model}"\nof = "dense"\n')
    assert "x" in pipelines.available()
    every = pipelines.open(searcher)(QUERIES, 100)
    found = pipelines.open("x")(QUERIES, 100)
    for query in range(2):
        best = every.results(query)
        assert found.results(query)[: len(best)] == [(row, pytest.approx(score)) for row, score in best]
        assert found.results(query)[len(best)][1] < 1e-20  # no word of the question
    assert pipelines.models[model]["name"] == model
    assert pipelines.fingerprint("x")["x"]["rerank_sha256"] == []


def test_whole_documents_of_an_index_of_passages_are_not_scored(built_index) -> None:
    index = OpenIndex.open(built_index)
    scorer = LexicalScorer(index, "bm25", BM25())
    rows = OpenIndex.open(built_index).passages.rows_of(["Seine#0"])[None]
    with pytest.raises(InputError, match="the candidates are whole documents"):
        scorer.scores(QUERIES[:1], Candidates(index, "documents"), rows, lambda pairs: None)
