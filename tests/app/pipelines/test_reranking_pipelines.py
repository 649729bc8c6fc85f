"""Entries that re-rank another pipeline, and what is made of them."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from experiments.tables.cells import _made_from
from linkseek.app.evaluation.provenance import provenance
from linkseek.app.pipelines.catalogue import Pipelines
from linkseek.app.pipelines.open_models import Models
from linkseek.app.pipelines.pipeline_kinds import RerankEntry
from linkseek.app.testsets import LoadedTestSet
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.reranker.pair_texts import PairFormat
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.fusion import stretched
from tests.support.tiny.index import DOCUMENTS, WordEncoder

QUERIES = [Query("1", "a river in France"), Query("2", "volcano"), Query("3", "zzz")]


class Lengths:
    """Longer texts are better; keeps what it read."""

    text_format = PairFormat()

    def __init__(self, name):
        self.identity = {"name": Path(name).name, "sha256": hashlib.sha256(name.encode()).hexdigest()}
        self.sign = -1 if "short" in name else 1
        self.read = []

    def score(self, queries, texts, on_rows=lambda rows: None):
        pairs = list(zip(queries, texts, strict=True))
        self.read += pairs
        on_rows(len(pairs))
        return np.array([self.sign * len(text) for _, text in pairs], np.float32)

    def windows(self, query, head, text):
        return [head + text]


@pytest.fixture
def opened():
    """The models that were opened, by name, device and precision."""
    return {}


@pytest.fixture
def make(built_index, tmp_path, opened):
    """Pipelines with a TOML text of one's own, on models that need no weights."""

    def open_scorer(name, device, precision):
        assert (name, device, precision) not in opened, "opened twice"
        opened[name, device, precision] = Lengths(name)
        return opened[name, device, precision]

    def make_(toml):
        path = tmp_path / "pipelines.toml"
        path.write_text(toml, "utf-8")
        models = Models(lambda location: WordEncoder(), open_scorer)
        return Pipelines(OpenIndex.open(built_index), path, models)

    return make_


@pytest.fixture
def here(monkeypatch):
    """Which models `available` takes to be on this machine."""
    names = {"long", "short"}
    monkeypatch.setattr("linkseek.app.pipelines.pipeline_kinds.scorer_is_here", names.__contains__)
    return names


def test_the_best_of_another_pipeline_in_a_new_order(make, opened):
    pipelines = make('[x]\nrerank = "long"\nof = "bm25"\ndepth = 2\n')
    run = pipelines.open("x")
    assert pipelines.first_stage("x") == ("bm25", 2)
    first = pipelines.open("bm25")(QUERIES, 6)
    found = run(QUERIES, 6)
    assert found.query_ids == ("1", "2", "3") and found.rows.shape == (3, 6)
    texts = {row: f"{p.title} {p.text}".strip() for row, p in enumerate(pipelines.index.passages)}
    for query in range(3):
        before = [row for row, _ in first.results(query)]
        best = sorted(before[:2], key=lambda row: -len(texts[row]))
        assert [row for row, _ in found.results(query)] == best + before[2:]
        assert [score for _, score in found.results(query)][: len(best)] == [len(texts[row]) for row in best]
    read = opened["long", "auto", "auto"].read
    assert len(read) == 4 and ("volcano", texts[int(first.rows[1, 0])]) in read


def test_the_two_stages_can_be_run_apart(make):
    pipelines = make('[x]\nrerank = "long"\nof = "bm25"\ndepth = 3\n')
    run, (first, depth) = pipelines.open("x"), pipelines.first_stage("x")
    apart = run.rerank(QUERIES[:1], pipelines.open(first)(QUERIES[:1], depth), 2)
    whole = run(QUERIES[:1], 2)
    assert apart.rows.tolist() == whole.rows.tolist() and apart.scores.tolist() == whole.scores.tolist()
    assert whole.rows.shape == (1, 2)


def test_all_of_the_depth_is_read_for_a_few_results(make, opened):
    make('[x]\nrerank = "long"\nof = "dense"\n').open("x")(QUERIES[1:2], 1)
    assert len(opened["long", "auto", "auto"].read) == len(DOCUMENTS)  # 100 are wanted, there are no more


def test_weight_ensemble_device_and_precision_reach_the_reranker(make, opened):
    pipelines = make(
        '[first]\nrerank = "long"\nof = "bm25"\nweight = 0\n'
        '[both]\nrerank = ["long", "short"]\nof = "bm25"\ndevice = "cpu"\nlong = "first"\n'
        '[fast]\nrerank = "short"\nof = "bm25"\nprecision = "bfloat16"\n'
    )
    bm25 = pipelines.open("bm25")(QUERIES, 6)
    assert pipelines.open("first")(QUERIES, 6).rows.tolist() == bm25.rows.tolist()
    np.testing.assert_allclose(
        pipelines.open("first")(QUERIES, 6).scores[0][bm25.rows[0] >= 0],
        stretched(bm25)[0][bm25.rows[0] >= 0],
        atol=1e-6,
    )
    assert pipelines.open("both")(QUERIES, 6).rows.tolist() == bm25.rows.tolist()  # they cancel out
    pipelines.open("fast")
    assert set(opened) == {
        ("long", "auto", "auto"),
        ("long", "cpu", "auto"),
        ("short", "cpu", "auto"),
        ("short", "auto", "bfloat16"),
    }


def test_a_reranked_pipeline_can_be_fused_and_reranked_again(make):
    pipelines = make(
        '[x]\nrerank = "long"\nof = "bm25"\n[y]\nrerank = "short"\nof = "x"\ndepth = 1\n'
        '[z]\nfusion = "reciprocal-rank"\nof = ["x", "dense"]\n'
    )
    rows = pipelines.open("x")(QUERIES, 6).rows.tolist()
    assert pipelines.open("y")(QUERIES, 6).rows.tolist() == rows
    assert pipelines.open("z")(QUERIES, 3).results(1)


# --- entries --------------------------------------------------------------------------------------


def test_one_model_or_several_by_name_or_folder(make, tmp_path):
    (tmp_path / "models" / "mine").mkdir(parents=True)
    pipelines = make(
        '[x]\nrerank = "models/mine"\nof = "ql"\n[y]\nrerank = ["a/b", "models/mine"]\nof = "ql"\n'
    )
    mine = str(tmp_path / "models" / "mine")  # relative to the file
    assert pipelines.entries["x"] == RerankEntry(rerank=mine, of="ql")
    assert pipelines.entries["x"].depth == 100 and pipelines.entries["x"].weight is None
    assert pipelines.entries["y"].rerank == ["a/b", mine]


@pytest.mark.parametrize(
    "toml, message, hint",
    [
        ('rerank = "a"\nof = "ql"\ndept = 3', 'unknown key "dept"', "Did you mean depth?"),
        ('rerank = "a"', "of: missing", ""),
        ('rerank = []\nof = "ql"', "rerank: needs at least one value", ""),
        ('rerank = 3\nof = "ql"', "rerank: needs a list", ""),
        ('rerank = "a"\nof = ["ql"]', "of: needs a text", ""),
        ('rerank = "a"\nof = "ql"\ndepth = 0', "depth: needs a whole number", ""),
        ('rerank = "a"\nof = "ql"\nweight = 1.5', "weight: needs a number", ""),
        ('rerank = "a"\nof = "ql"\nlong = "all"', "long: needs first or max", ""),
        ('rerenk = "a"\nof = "ql"', "no known searcher", 'rerank = "MODEL"'),
    ],
)
def test_a_bad_entry_is_named(make, toml, message, hint):
    with pytest.raises(UsageError) as caught:
        make(f"[x]\n{toml}\n")
    assert message in caught.value.message and hint in caught.value.hint


def test_only_what_is_on_this_machine_is_offered(make, here):
    pipelines = make(
        '[x]\nrerank = ["long", "short"]\nof = "bm25"\n[none]\nrerank = ["long", "other"]\nof = "bm25"\n'
        '[without]\nrerank = "long"\nof = "gone"\n'
    )
    available = pipelines.available()
    assert "x" in available and not {"none", "without"} & set(available)
    with pytest.raises(UsageError, match='no pipeline "gone"'):
        pipelines.open("without")


def test_a_model_that_cannot_be_had(built_index, tmp_path):
    (tmp_path / "p.toml").write_text(
        '[x]\nrerank = "./none"\nof = "bm25"\n[y]\nrerank = "all-MiniLM-L6-v2"\nof = "bm25"\n'
    )
    pipelines = Pipelines(OpenIndex.open(built_index), tmp_path / "p.toml")
    with pytest.raises(InputError, match=r"cross-encoder \./none: no such folder"):
        pipelines.open("x")
    with pytest.raises(InputError, match="it is a bi-encoder") as caught:
        pipelines.open("y")
    assert "bi-encoder:all-MiniLM-L6-v2" in caught.value.hint


# --- where results come from ----------------------------------------------------------------------


def test_the_models_stand_in_the_provenance(make, opened, monkeypatch, tmp_path):
    home = tmp_path / "home"
    (home / "models" / "short").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    pipelines = make(f'[x]\nrerank = ["long", "{home}/models/short"]\nof = "bm25"\n')
    assert pipelines.models == {}
    pipelines.open("x")
    record = provenance("p", [], pipelines.index, {}, pipelines.models).model_dump()
    assert list(record["models"]) == ["long", "~/models/short", "words"]
    assert record["models"]["long"] == {"sha256": hashlib.sha256(b"long").hexdigest()}
    assert str(home) not in str(record)


def test_a_cell_is_made_again_for_another_model(make, monkeypatch):
    pipelines = make('[x]\nrerank = ["long", "short"]\nof = "hybrid"\n')
    test_set = LoadedTestSet("t", QUERIES)
    monkeypatch.setattr("linkseek.app.pipelines.pipeline_kinds.scorer_sha256", lambda name: f"hash of {name}")
    made_from = _made_from(pipelines, "x", test_set, 10)
    assert set(made_from["entries"]) == {"x", "hybrid", "bm25", "dense"}
    assert made_from["entries"]["x"]["rerank_sha256"] == ["hash of long", "hash of short"]
    monkeypatch.setattr("linkseek.app.pipelines.pipeline_kinds.scorer_sha256", lambda name: "another")
    assert _made_from(pipelines, "x", test_set, 10) != made_from
