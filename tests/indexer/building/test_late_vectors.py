"""Vectors of tokens in an index: built, resumed, updated and divided, and what a re-ranker makes of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from linkseek.app.pipelines.catalogue import Pipelines
from linkseek.indexer.building.builder import build_index
from linkseek.indexer.building.plan import BuildPlan
from linkseek.indexer.building.sampling import estimate_build
from linkseek.indexer.building.updating.changes import Changes
from linkseek.indexer.building.updating.growth import update_index
from linkseek.indexer.commands.partition import main as command
from linkseek.indexer.encoding.shards import TokenShards, open_shards
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError, MismatchError, UsageError
from linkseek.indexer.readers.formats import open_reader
from linkseek.reranker.candidates import Candidates
from linkseek.reranker.models.scoring import LateScorer
from linkseek.retriever.models.late import LateEncoder, open_late
from linkseek.retriever.ranking import Query
from tests.support.small_index import WordEncoder
from tests.support.tiny_models import save_tiny
from tests.support.tiny_training import WORDS

QUERIES = [Query("q1", "bam bem"), Query("q2", "kut , kot ?")]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return str(save_tiny(tmp_path_factory.mktemp("models") / "tiny"))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    rng, path = np.random.default_rng(0), tmp_path_factory.mktemp("corpus") / "corpus.jsonl"
    texts = [" ".join(rng.choice(WORDS, 12)) + " ." for _ in range(11)]
    documents = [{"id": f"d{n}", "title": f"t{n}", "text": text, "links": []} for n, text in enumerate(texts)]
    path.write_text("".join(json.dumps(document) + "\n" for document in documents))
    return path


def opener(name: str, title: bool) -> LateEncoder | WordEncoder:
    if not name.startswith("late:"):
        return WordEncoder()
    encoder = open_late(name, title=title, device="cpu", query_prompt="bem ", passage_prompt="bim ")
    encoder.shard_rows = 4
    return encoder


def build(index: Path, corpus: Path, model: str, **plan) -> Path:
    build_index(
        index, BuildPlan(corpus, **{"encoders": ["words", f"late:{model}"], "title": False, **plan}), opener
    )
    return index


@pytest.fixture(scope="module")
def index(tmp_path_factory, corpus, model) -> Path:
    return build(tmp_path_factory.mktemp("index") / "index", corpus, model)


def codes_of(index: Path) -> list[np.ndarray]:
    opened = OpenIndex.open(index)
    taken = opened.token_codes(np.arange(len(opened.passages)), "tiny")
    return [taken[row] for row in range(len(taken))]


def test_the_codes_are_those_of_the_encoder(index, model):
    opened, encoder = OpenIndex.open(index), opener(f"late:{model}", False)
    part = opened.parts.late["tiny"]
    assert (part.rows, part.width) == (11, encoder.quantizer.width)
    shards = open_shards(index / "late/tiny/vectors", 11)
    assert [shard.rows for shard in shards] == [4, 4, 3] and part.tokens == sum(map(len, codes_of(index)))
    first = opened.passages[0]
    alone = encoder.encode_rows(encoder.tokenize_passages([first.title], [first.text]), lambda rows: None, 0)
    assert (TokenShards(shards).take(np.array([0]))[0] != alone[0]).mean() < 0.01  # other batches, other bits
    assert opened.encoders == ["words"] and opened.manifest.default_encoder == "words"


def test_a_build_that_was_interrupted_ends_with_the_same_bytes(tmp_path, index, corpus, model, monkeypatch):
    calls = 0

    def dies(self, batch):
        nonlocal calls
        calls += 1
        if calls > 1:
            raise InputError("it dies", "Try again.")
        return original(self, batch)

    original = LateEncoder.token_vectors
    monkeypatch.setattr(LateEncoder, "token_vectors", dies)
    with pytest.raises(InputError, match="it dies"):
        build(tmp_path / "index", corpus, model)
    monkeypatch.undo()
    build(tmp_path / "index", corpus, model)
    for file in sorted((index / "late").rglob("*.npy")):
        assert file.read_bytes() == (tmp_path / "index" / file.relative_to(index)).read_bytes()


def test_an_update_encodes_only_what_is_new(tmp_path, index, corpus, model, monkeypatch):
    changed = tmp_path / "corpus.jsonl"
    lines = corpus.read_text().splitlines()
    build(tmp_path / "index", corpus, model)
    changed.write_text(json.dumps({"id": "new", "title": "new", "text": "kut kot kat", "links": []}) + "\n")
    counts = []
    original = LateEncoder.token_vectors
    monkeypatch.setattr(
        LateEncoder, "token_vectors", lambda self, batch: counts.append(len(batch)) or original(self, batch)
    )
    changes = Changes(open_reader(changed), removed=["d3"])
    update_index(tmp_path / "index", changes, BuildPlan(tmp_path / "index"), opener)
    assert counts == [1] and len(lines) == 11
    before, after = codes_of(index), codes_of(tmp_path / "index")
    assert len(after) == 11
    for old, new in zip([*before[:3], *before[4:]], after, strict=False):
        np.testing.assert_array_equal(old, new)


def test_partitions_have_the_codes_of_the_whole(tmp_path, index):
    command(["--index", str(tmp_path / "divided"), "--split", "3", str(index)])
    for whole, divided in zip(codes_of(index), codes_of(tmp_path / "divided"), strict=True):
        np.testing.assert_array_equal(whole, divided)


def test_a_plan_counts_the_codes(tmp_path, corpus, model, index):
    plan = BuildPlan(corpus, encoders=[f"late:{model}"], bm25=False)
    [cost] = [c for c in estimate_build(tmp_path / "new", plan, opener).stages if "late:" in c.name]
    stored = sum(file.stat().st_size for file in (index / "late").rglob("*.npy"))
    assert cost.disk_bytes == pytest.approx(stored, rel=0.1)


def test_a_late_pipeline_ranks_by_maxsim(index, model):
    opened = OpenIndex.open(index)
    assert "late" in Pipelines(opened).available()
    scorer = LateScorer(opened, "tiny", open_late)
    rows = np.array([[3, 0, -1], [10, 4, 5]])
    scores = scorer.scores(QUERIES, Candidates(opened), rows, lambda pairs: None)
    quantizer, stored = scorer._encoder.quantizer, codes_of(index)
    for query, row_scores, own in zip(QUERIES, scores, rows, strict=True):
        [vectors] = scorer._encoder.encode_queries([query.text])
        for score, row in zip(row_scores, own, strict=True):
            products = quantizer.decode(stored[row]) @ quantizer.rotated(vectors).T
            expected = np.mean([products[:, n].max() for n in range(len(vectors))]) if row >= 0 else 0
            assert score == pytest.approx(expected, abs=1e-5)
    parts = scorer.explain(QUERIES[1], 10)
    assert sum(part.added for part in parts) == pytest.approx(scores[1, 0], abs=1e-5)
    assert any(part.name.startswith("kut \N{RIGHTWARDS ARROW} ") for part in parts)


def test_without_vectors_of_tokens_there_is_no_late_pipeline(tmp_path, corpus, model):
    plain = OpenIndex.open(build(tmp_path / "index", corpus, model, encoders=["words"]))
    assert "late" not in Pipelines(plain).available()


def test_another_model_and_a_missing_one_are_refused(index, tmp_path):
    other = str(save_tiny(tmp_path / "tiny", seed=3))
    with pytest.raises(MismatchError, match="another model"):
        LateScorer(OpenIndex.open(index), "tiny", lambda location, **form: open_late(other, **form))
    with pytest.raises(UsageError, match="no vectors of tokens of other"):
        LateScorer(OpenIndex.open(index), "other", open_late)
