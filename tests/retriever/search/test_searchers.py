"""BM25 and query likelihood as rankings of rows, and their known scores on SciFact."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

import ir_measures
import numpy as np
import orjson
import pytest
import zstandard

from linkseek.indexer.program.errors import DamagedIndexError, UsageError
from linkseek.indexer.search.lucene_index import BM25, LuceneIndex
from linkseek.indexer.search.lucene_writer import build_lucene
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.searchers import Bm25, QueryLikelihood

DATA = Path(__file__).parents[3].parent / "shared" / "data"


class Index:
    """The part of an index that searchers use, over a list of (id, title, text)."""

    def __init__(self, passages, folder: Path) -> None:
        build_lucene(passages, folder, index_title=True, threads=2)
        self.passages = self
        self._ids = [id_ for id_, _, _ in passages]
        self._row = {id_: row for row, id_ in enumerate(self._ids)}
        self._lucene = LuceneIndex(folder)

    def rows_of(self, ids: Sequence[str]):
        return np.array([self._row.get(id_, -1) for id_ in ids], np.int64)

    def ids(self, rows) -> list[str]:
        return [self._ids[row] for row in rows]

    def lucene(self) -> LuceneIndex:
        return self._lucene


PASSAGES = [
    ("z last", "", "amber birch"),
    ("m ünï", "", "amber amber cedar"),
    ("a first", "", "birch amber"),  # ties with row 0, and its id comes first
    ("none", "", "delta"),
]
QUERIES = [Query("1", "amber"), Query("2", "the of"), Query("3", "delta cedar")]


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Index:
    return Index(PASSAGES, tmp_path_factory.mktemp("searchers") / "bm25")


@pytest.mark.parametrize("kind", [Bm25, QueryLikelihood])
def test_rows_and_scores_with_ties_by_row(index, kind):
    searcher = kind(index)
    ranking = searcher(QUERIES, 6)
    assert ranking.query_ids == ("1", "2", "3")
    assert ranking.rows.dtype == np.int64 and ranking.scores.dtype == np.float32
    assert ranking.rows[0].tolist() == [1, 0, 2, -1, -1, -1]
    assert ranking.rows[1].tolist() == [-1] * 6
    assert sorted(ranking.rows[2, :2].tolist()) == [1, 3]
    assert ranking.scores[0, 1] == ranking.scores[0, 2]  # not moved apart
    assert np.isneginf(ranking.scores[ranking.rows < 0]).all()
    assert np.isfinite(ranking.scores[ranking.rows >= 0]).all()


def test_scores_are_lucenes(index):
    [(_, scores)] = index.lucene().search(["amber"], 3, BM25(1.2, 0.75))
    found = Bm25(index, k1=1.2, b=0.75)(QUERIES[:1], 3)
    assert found.scores[0].tolist() == scores.tolist()
    assert found.scores[0].tolist() != Bm25(index)(QUERIES[:1], 3).scores[0].tolist()


def test_many_queries_equal_one_by_one(index):
    queries = [Query(str(n), QUERIES[n % 3].text) for n in range(50)]
    together = Bm25(index)(queries, 3)
    for n, query in enumerate(queries):
        alone = Bm25(index)([query], 3)
        assert alone.rows[0].tolist() == together.rows[n].tolist()
        assert alone.scores[0].tolist() == together.scores[n].tolist()
    assert Bm25(index)([], 3).rows.shape == (0, 3)


def test_the_index_of_other_passages_is_refused(index, tmp_path):
    other = Index([("unknown", "", "amber")], tmp_path / "bm25")
    other._row = {}
    with pytest.raises(DamagedIndexError, match="'unknown'"):
        Bm25(other)(QUERIES, 3)


@pytest.mark.parametrize("options", [{"k1": -0.1}, {"b": 1.1}, {"k1": float("nan")}])
def test_parameters_out_of_range(index, options):
    with pytest.raises(UsageError, match="BM25"):
        Bm25(index, **options)


def test_mu_out_of_range(index):
    with pytest.raises(UsageError, match="mu"):
        QueryLikelihood(index, mu=0)


@pytest.mark.realdata
@pytest.mark.parametrize(("kind", "known"), [(Bm25, 0.679), (QueryLikelihood, 0.670)])
def test_scifact(scifact, kind, known):
    index, queries, qrels = scifact
    ranking = kind(index)(queries, 10)
    run = [
        ir_measures.ScoredDoc(query.id, id_, -float(rank))
        for at, query in enumerate(queries)
        for rank, id_ in enumerate(index.ids([row for row, _ in ranking.results(at)]))
    ]
    measured = ir_measures.calc_aggregate([ir_measures.nDCG @ 10], qrels, run)
    assert measured[ir_measures.nDCG @ 10] == pytest.approx(known, abs=0.002)


@pytest.fixture(scope="module")
def scifact(tmp_path_factory):
    folder = DATA / "scifact"
    if not folder.is_dir():
        pytest.skip(f"the test set is not here: {folder}")
    with zstandard.open(folder / "docs.jsonl.zst", "rb") as stream:
        rows = [orjson.loads(line) for line in stream.read().split(b"\n") if line]
    with gzip.open(folder / "queries.test.jsonl.gz") as stream:
        queries = [orjson.loads(line) for line in stream.read().split(b"\n") if line]
    assert (len(rows), len(queries)) == (5183, 300)
    passages = [(row["id"], row["title"], row["text"]) for row in rows]
    index = Index(passages, tmp_path_factory.mktemp("scifact") / "bm25")
    qrels = list(ir_measures.read_trec_qrels(str(folder / "qrels.test.txt")))
    return index, [Query(row["id"], row["text"]) for row in queries], qrels
