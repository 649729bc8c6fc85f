"""linkseek train-fusion, and the pipelines that use its model."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linkseek.app.commands.train_fusion import main, read_features
from linkseek.app.pipelines import examples as examples_module
from linkseek.app.pipelines.catalogue import Pipelines
from linkseek.app.pipelines.examples import ExampleBuilder, collection_of_test_set
from linkseek.app.rendering.views import why_html
from linkseek.app.service import SearchService
from linkseek.app.testsets import LoadedTestSet
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError, MismatchError, UsageError
from linkseek.retriever.learned import learned_fusion as learned
from linkseek.retriever.learned.learned_fusion import FeatureReader, FusionCandidates
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.searchers import Bm25
from linkseek.testing import check_pipeline, check_sum
from tests.support.tiny.corpus import write_jsonl
from tests.support.tiny.index import built
from tests.support.tiny.linked import document
from tests.support.tiny.models import save_tiny_reranker

CITIES = ["Paris", "Lyon", "Rome", "Oslo", "Bonn", "Cork"]
TABLE = '[both]\nfusion = "learned"\nof = ["bm25", "ql"]\nmodel = "fusion.json"\ndepth = 10\n'


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Path:
    """Cities that link to the next one, with Lucene and without vectors."""
    folder = tmp_path_factory.mktemp("fusion")
    rows = [
        document(city, f"The city of {city} lies on river number {n}. North of it is the town of [{after}].")
        for n, (city, after) in enumerate(zip(CITIES, CITIES[1:] + CITIES[:1], strict=True))
    ]
    return built(folder / "index", rows, passage_words=9, min_words=0).path


@pytest.fixture(scope="module")
def trained(index) -> Path:
    folder = index.parent
    rows = [
        {"id": f"q{n}", "text": f"On which river lies {city}?", "answers": [f"number {n}"]}
        for n, city in enumerate(CITIES)
    ]
    write_jsonl(folder / "q.jsonl", rows)
    options = ["--index", str(index), "--pipeline", "bm25", "--pipeline", "ql", "--folds", "2"]
    options += ["--queries", str(folder / "q.jsonl"), "--mined", "4", "--output", str(folder / "fusion.json")]
    main(options)
    (folder / "p.toml").write_text(TABLE)
    return folder


def test_the_model_says_what_it_was_trained_on(trained):
    model = json.loads((trained / "fusion.json").read_text())
    assert model["pipelines"] == ["bm25", "ql"] and model["links"]
    assert model["trained"]["questions"] == {"q.jsonl": 6, "mined": 4}
    accuracies = model["trained"]["accuracy at 1, 5, 20 of held-out questions"]
    assert list(accuracies) == ["bm25", "ql", "reciprocal rank", "fusion"]
    assert accuracies["bm25"][2] > 0.5


def test_the_pipeline_ranks_the_candidates_of_its_members(index, trained):
    pipelines = Pipelines(OpenIndex.open(index), trained / "p.toml")
    assert "both" in pipelines.available()
    assert pipelines.fingerprint("both")["both"]["model_sha256"]
    queries = [Query("1", "the river of Oslo"), Query("2", "zzz")]
    ranking = pipelines.open("both")(queries, 5)
    members = [pipelines.open(name)(queries, 10) for name in ("bm25", "ql")]
    candidates = {row for member in members for row, _ in member.results(0)}
    assert {row for row, _ in ranking.results(0)} <= candidates and ranking.rows.shape == (2, 5)
    assert not ranking.results(1)


def test_questions_are_fused_in_blocks_of_bounded_size(index, trained, monkeypatch):
    queries = [Query(city, f"the river of {city}") for city in CITIES]
    fusion = Pipelines(OpenIndex.open(index), trained / "p.toml").open("both")
    together, read = fusion(queries, 5), FeatureReader.read
    sizes = []

    def counted(reader: FeatureReader, *arguments: Any) -> FusionCandidates:
        candidates = read(reader, *arguments)
        sizes.append(candidates.rows.size)
        return candidates

    monkeypatch.setattr(FeatureReader, "read", counted)
    monkeypatch.setattr(learned, "_BLOCK", 50)
    blocks = fusion(queries, 5)
    assert len(sizes) == 3 and max(sizes) <= 50
    assert np.array_equal(blocks.rows, together.rows) and np.array_equal(blocks.scores, together.scores)
    assert blocks.query_ids == together.query_ids and fusion([], 5).rows.shape == (0, 5)


def test_training_reads_questions_in_blocks_of_bounded_size(index, trained, tmp_path, monkeypatch):
    monkeypatch.setattr(examples_module, "_CANDIDATES", 20)
    options = ["--index", str(index), "--pipeline", "bm25", "--pipeline", "ql", "--folds", "2"]
    options += ["--queries", str(trained / "q.jsonl"), "--mined", "4", "--depth", "1000000000"]
    main([*options, "--output", str(tmp_path / "fusion.json")])
    made, expected = (json.loads((f / "fusion.json").read_text()) for f in (tmp_path, trained))
    assert made["trees"] == expected["trees"]


def test_why_shows_each_feature_and_what_it_adds(index, trained):
    service = SearchService(index, trained / "p.toml")
    answer = service.search("the river of Oslo", "both")
    reason = service.why("the river of Oslo", answer.hits[0].passage_id, ["bm25", "both"])
    assert list(reason.scores) == ["bm25", "both"] and reason.by_links == ("both",)
    shares = reason.scores["both"].parts
    value = {share.name: share.factors["value"] for share in shares[1:]}
    bm25 = service.search("the river of Oslo", "bm25")
    assert value["bm25: score"] == pytest.approx(bm25.places[answer.hits[0].row].score)
    assert shares[0].added == service.pipelines.open("both").search._trees.bias
    check_pipeline(service.pipelines.open("both"), service.pipelines.index, "the river of Oslo", 5)
    page = why_html(reason, [answer], "index")
    assert f"{shares[1].added:+.3f}" in page and shares[1].meaning in page
    assert service.why("zzz", answer.hits[0].passage_id, ["both"]).scores["both"] is None


def test_a_model_of_other_pipelines_or_features_is_refused(index, trained):
    (trained / "three.toml").write_text(TABLE.replace('["bm25", "ql"]', '["bm25", "ql", "bm25"]'))
    with pytest.raises(MismatchError, match="fuses 2 pipelines \\(bm25, ql\\), not 3"):
        Pipelines(OpenIndex.open(index), trained / "three.toml").open("both")
    model = json.loads((trained / "fusion.json").read_text())
    (trained / "old.json").write_text(json.dumps(model | {"features": model["features"][::-1]}))
    (trained / "old.toml").write_text(TABLE.replace("fusion.json", "old.json"))
    with pytest.raises(MismatchError, match="for another version of Linkseek"):
        Pipelines(OpenIndex.open(index), trained / "old.toml").open("both")
    (trained / "none.toml").write_text(TABLE.replace("fusion.json", "none.json"))
    missing = Pipelines(OpenIndex.open(index), trained / "none.toml")
    assert "both" not in missing.available()
    with pytest.raises(InputError, match=r"none\.json"):
        missing.open("both")


def test_a_reranking_pipeline_is_a_member(index, trained):
    save_tiny_reranker(trained / "tiny")
    table = TABLE.replace('"ql"]', '"read"]') + '[read]\nrerank = "tiny"\nof = "bm25"\ndepth = 4\n'
    (trained / "read.toml").write_text(table)
    both, read = map(Pipelines(OpenIndex.open(index), trained / "read.toml").open, ("both", "read"))
    queries = [Query("1", "the river of Oslo")]
    expected = dict(read(queries, 10).results(0))
    for row, score in expected.items():
        parts = both.explained(queries[0], row, 10).parts
        shares = {part.name: part.factors.get("value") for part in parts}
        assert shares["ql: score"] == pytest.approx(score, abs=1e-6)  # the model calls it ql
    assert len(set(expected.values())) > 1


def test_every_passage_that_is_shown_is_explained(index, trained):
    """Also those that the members find below the model's own depth, among the ranks that are compared."""
    (trained / "shallow.toml").write_text(TABLE.replace("depth = 10", "depth = 1"))
    service = SearchService(index, trained / "shallow.toml")
    answer = service.search("the river of Oslo", "both")
    assert len(answer.hits) > 2
    for hit, explanation in zip(answer.hits, service.explained(answer, 10), strict=True):
        check_sum(explanation, hit.score)


def test_questions_and_a_json_file_are_needed(index, tmp_path):
    options = ["--index", str(index), "--pipeline", "bm25", "--output"]
    with pytest.raises(UsageError, match="no questions to learn from"):
        main([*options, str(tmp_path / "a.json")])
    with pytest.raises(UsageError, match="not JSON"):
        main([*options, str(tmp_path / "a.txt"), "--mined", "5"])


def test_judged_documents_are_labels_where_there_are_no_answers(index, tmp_path, capsys):
    queries = [Query("1", "the town of Oslo"), Query("2", "river"), Query("3", "not judged")]
    judged = LoadedTestSet("judged", queries, {"1": {"Oslo": 1}, "2": {"Paris": 0}})
    opened, builder = OpenIndex.open(index), ExampleBuilder(100)
    collection = collection_of_test_set(opened, judged)
    builder.add(opened, collection, [Bm25(opened)], partial(read_features, FeatureReader(opened, ["bm25"])))
    labelled = builder.examples()
    examples = labelled.examples
    assert (labelled.collections, len(examples.sizes)) == ([("judged", 2)], 1)
    assert examples.relevant.sum() == 2  # both passages of Oslo
    assert np.all(examples.values[examples.relevant][:, 0] > 0)
