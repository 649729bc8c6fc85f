"""Token vectors and term weights in an index: built, resumed, updated, divided, and searched by."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from linkseek.app.pipelines.catalogue import Pipelines
from linkseek.app.pipelines.open_models import Models
from linkseek.indexer.building.builder import build_index
from linkseek.indexer.building.plan import BuildPlan
from linkseek.indexer.building.sampling import estimate_build
from linkseek.indexer.building.updating.changes import Changes
from linkseek.indexer.building.updating.growth import update_index
from linkseek.indexer.commands.partition import main as command
from linkseek.indexer.encoding.impacts import terms_and_impacts
from linkseek.indexer.encoding.shards import TokenShards, open_shards
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError, MismatchError, UsageError
from linkseek.indexer.readers.formats import open_reader
from linkseek.reranker.candidates import Candidates
from linkseek.reranker.models.scoring import LateScorer
from linkseek.retriever.models.coded import CodedEncoder
from linkseek.retriever.models.encoders import open_encoder
from linkseek.retriever.models.engine import Engine
from linkseek.retriever.models.late import open_late
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.searchers import LearnedSparse
from tests.support.tiny.corpus import write_jsonl
from tests.support.tiny.index import WordEncoder
from tests.support.tiny.models import save_masked, save_tiny
from tests.support.tiny.training import WORDS

QUERIES = [Query("q1", "bam bem"), Query("q2", "kut , kot ?")]


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("models")
    return {
        "late": f"late:{save_tiny(folder / 'tiny')}",
        "sparse": f"sparse:{save_masked(folder / 'masked')}",
    }


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    rng, path = np.random.default_rng(0), tmp_path_factory.mktemp("corpus") / "corpus.jsonl"
    texts = [" ".join(rng.choice(WORDS, 12)) + " ." for _ in range(11)]
    documents = [{"id": f"d{n}", "title": f"t{n}", "text": text, "links": []} for n, text in enumerate(texts)]
    return write_jsonl(path, documents)


def opener(name: str, title: bool) -> CodedEncoder | WordEncoder:
    if ":" not in name:
        return WordEncoder()
    encoder = open_encoder(name, title=title, device="cpu", query_prompt="bem ", passage_prompt="bim ")
    encoder.shard_rows = 4
    return encoder


def build(index: Path, corpus: Path, models: dict[str, str], **plan) -> Path:
    options = {"encoders": ["words", *models.values()], "title": False, **plan}
    build_index(index, BuildPlan(corpus, **options), opener)
    return index


@pytest.fixture(scope="module")
def index(tmp_path_factory, corpus, models) -> Path:
    return build(tmp_path_factory.mktemp("index") / "index", corpus, models)


PARTS = ["late/tiny", "sparse/masked"]


def codes_of(index: Path, part: str) -> list[np.ndarray]:
    opened = OpenIndex.open(index)
    taken = opened.codes(part, np.arange(len(opened.passages)))
    return [taken[row] for row in range(len(taken))]


@pytest.mark.parametrize("part", PARTS)
def test_the_codes_are_those_of_the_encoder(index, models, part):
    opened, encoder = OpenIndex.open(index), opener(models[part.partition("/")[0]], False)
    record = opened.parts[part]
    assert (record.rows, record.width) == (11, encoder.width)
    shards = open_shards(index / part / "vectors", 11)
    assert [shard.rows for shard in shards] == [4, 4, 3]
    assert record.tokens == sum(map(len, codes_of(index, part)))
    first = opened.passages[0]
    alone = encoder.encode_rows(encoder.tokenize_passages([first.title], [first.text]), lambda rows: None, 0)
    stored = TokenShards(shards).take(np.array([0]))[0]
    assert (stored != alone[0]).mean() < 0.01  # other batches, other bits
    assert opened.encoders == ["words"] and opened.manifest.default_encoder == "words"


@pytest.mark.parametrize("kind", ["late", "sparse"])
def test_a_build_that_was_interrupted_ends_with_the_same_bytes(
    tmp_path, index, corpus, models, monkeypatch, kind
):
    calls = 0

    def dies(self, batch):
        nonlocal calls
        calls += 1
        if calls > 1:
            raise InputError("it dies", "Try again.")
        return original(self, batch)

    original = Engine.encode_tokens
    monkeypatch.setattr(Engine, "encode_tokens", dies)
    with pytest.raises(InputError, match="it dies"):
        build(tmp_path / "index", corpus, {kind: models[kind]})
    monkeypatch.undo()
    build(tmp_path / "index", corpus, {kind: models[kind]})
    for file in sorted((index / kind).rglob("*.npy")):
        assert file.read_bytes() == (tmp_path / "index" / file.relative_to(index)).read_bytes()


def test_an_update_encodes_only_what_is_new(tmp_path, index, corpus, models, monkeypatch):
    changed = tmp_path / "corpus.jsonl"
    build(tmp_path / "index", corpus, models, sparse_terms=7)
    changed.write_text(json.dumps({"id": "new", "title": "new", "text": "kut kot kat", "links": []}) + "\n")
    counts, original = [], Engine.encode_tokens
    monkeypatch.setattr(
        Engine, "encode_tokens", lambda self, batch: counts.append(len(batch)) or original(self, batch)
    )
    changes = Changes(open_reader(changed), removed=["d3"])
    update_index(tmp_path / "index", changes, BuildPlan(tmp_path / "index"), opener)
    assert counts == [1, 1]
    for part in PARTS:
        before, after = codes_of(index, part), codes_of(tmp_path / "index", part)
        assert len(after) == 11
        for old, new in zip([*before[:3], *before[4:]], after, strict=False):
            np.testing.assert_array_equal(old, new)
    assert_sums_of_products(OpenIndex.open(tmp_path / "index"), most=7)


def test_partitions_have_the_codes_and_scores_of_the_whole(tmp_path, index):
    command(["--index", str(tmp_path / "divided"), "--split", "3", str(index)])
    for part in PARTS:
        for whole, divided in zip(codes_of(index, part), codes_of(tmp_path / "divided", part), strict=True):
            np.testing.assert_array_equal(whole, divided)
    assert_sums_of_products(OpenIndex.open(tmp_path / "divided"))


@pytest.mark.parametrize("kind", ["late", "sparse"])
def test_a_plan_counts_the_codes(tmp_path, corpus, models, index, kind):
    plan = BuildPlan(corpus, encoders=[models[kind]], bm25=False)
    costs = [c for c in estimate_build(tmp_path / "new", plan, opener).stages if f"{kind}:" in c.name]
    stored = sum(file.stat().st_size for file in (index / kind).rglob("*.npy"))
    assert costs[0].disk_bytes == pytest.approx(stored, rel=0.1)


def assert_sums_of_products(opened: OpenIndex, most: int = 0) -> None:
    """The pipeline `sparse` ranks all passages by the products of the weights that are stored."""
    pipeline, k = Pipelines(opened).open("sparse"), len(opened.passages)
    ranking = pipeline(QUERIES, k)
    encoder = open_encoder(f"sparse:{opened.parts.sparse['masked'].encoder['location']}", query_prompt="bem ")
    for query, rows, scores in zip(QUERIES, ranking.rows, ranking.scores, strict=True):
        [weights] = encoder.encode_queries([query.text])
        expected = np.zeros(k)
        for row, codes in enumerate(codes_of(opened.path, "sparse/masked")):
            pairs = zip(*terms_and_impacts(codes, most), strict=True)
            expected[row] = sum(weights.get(term, 0) * impact for term, impact in pairs)
        assert rows.tolist() == np.lexsort((np.arange(k), -expected.round(4))).tolist()
        np.testing.assert_allclose(scores, expected[rows], rtol=1e-5)
    explained = pipeline.explained(QUERIES[0], int(ranking.rows[0, 0]), k)
    assert sum(part.added for part in explained.parts) == pytest.approx(float(ranking.scores[0, 0]), rel=1e-4)
    meanings = {part.meaning for part in explained.parts}
    assert meanings == {"", "not in the text"}


def test_a_sparse_pipeline_ranks_by_sums_of_products(index, tmp_path, corpus, models, monkeypatch):
    assert_sums_of_products(OpenIndex.open(index))
    monkeypatch.setattr("linkseek.indexer.search.lucene_index._SKIPPING_TERMS", 0)  # questions of many terms
    assert_sums_of_products(OpenIndex.open(index))
    small = build(tmp_path / "index", corpus, models, sparse_terms=5)
    part = OpenIndex.open(small).parts.sparse["masked"]
    codes = codes_of(index, "sparse/masked")
    kept = sum(terms_and_impacts(own, 5)[1].sum() for own in codes)
    assert part.most == 5 and part.kept == round(
        kept / sum(terms_and_impacts(own)[1].sum() for own in codes), 4
    )
    assert_sums_of_products(OpenIndex.open(small), most=5)


def test_a_late_pipeline_ranks_by_maxsim(index):
    opened = OpenIndex.open(index)
    assert "late" in Pipelines(opened).available()
    scorer = LateScorer(opened, "tiny", open_late)
    rows = np.array([[3, 0, -1], [10, 4, 5]])
    scores = scorer.scores(QUERIES, Candidates(opened), rows, lambda pairs: None)
    encoder = scorer._late.encoder
    quantizer, stored = encoder.quantizer, codes_of(index, "late/tiny")
    for query, row_scores, own in zip(QUERIES, scores, rows, strict=True):
        [vectors] = encoder.encode_queries([query.text])
        for score, row in zip(row_scores, own, strict=True):
            products = quantizer.decode(stored[row]) @ quantizer.rotated(vectors).T
            expected = np.mean([products[:, n].max() for n in range(len(vectors))]) if row >= 0 else 0
            assert score == pytest.approx(expected, abs=1e-5)
    parts = scorer.explain(QUERIES[1], 10)
    assert sum(part.added for part in parts) == pytest.approx(scores[1, 0], abs=1e-5)
    assert any(part.name.startswith("kut \N{RIGHTWARDS ARROW} ") for part in parts)


def test_a_late_search_compares_all_passages(index, tmp_path):
    (tmp_path / "own.toml").write_text('[all]\nsearcher = "late"\n')
    opened, k = OpenIndex.open(index), 11
    pipeline = Pipelines(opened, tmp_path / "own.toml").open("all")
    questions = [Query(f"q{n}", query.text) for n in range(9) for query in QUERIES]
    ranking, scorer = pipeline(questions, k), LateScorer(opened, "tiny", open_encoder)
    rows = np.tile(np.arange(k), (len(questions), 1))
    expected = scorer.scores(questions, Candidates(opened), rows, lambda pairs: None)
    np.testing.assert_allclose(ranking.scores, -np.sort(-expected, axis=1), atol=1e-6)
    np.testing.assert_allclose(np.take_along_axis(expected, ranking.rows, 1), ranking.scores, atol=1e-6)
    assert pipeline(questions, 3).rows.tolist() == ranking.rows[:, :3].tolist()
    explained = pipeline.explained(QUERIES[0], int(ranking.rows[0, 1]), 2)
    assert explained.rank == 2 and len(explained.parts) > 1


def test_without_codes_there_are_no_such_pipelines(tmp_path, corpus):
    plain = OpenIndex.open(build(tmp_path / "index", corpus, {}))
    assert not {"late", "sparse"} & {*Pipelines(plain).available()}


def test_another_model_and_a_missing_one_are_refused(index, tmp_path):
    masked = save_masked(tmp_path / "masked", seed=3)
    other, opened = str(save_tiny(tmp_path / "tiny", seed=3)), OpenIndex.open(index)
    with pytest.raises(MismatchError, match="not the model that made"):
        LateScorer(opened, "tiny", lambda location, **form: open_late(other, **form))
    with pytest.raises(MismatchError, match="made by the encoder masked"):
        LearnedSparse(opened, "masked", lambda location, **form: open_encoder(f"sparse:{masked}", **form))
    for kind, message in (("late", "no token vectors of other"), ("sparse", "no term weights of other")):
        with pytest.raises(UsageError, match=message):
            opened.codes_part(kind, "other")
    with pytest.raises(InputError, match="no term weights"):
        Models().encoder(f"sparse:{other}")
