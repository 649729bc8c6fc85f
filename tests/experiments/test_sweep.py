"""A sweep: its combinations, its measure against a slow twin, and what the same command does again."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from experiments.sweep import combinations, folder_name, main
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.program.settings import read_settings
from linkseek.retriever.queries import read_queries
from linkseek.retriever.training import pair_training
from linkseek.retriever.training.config import TrainConfig
from tests.support.tiny.corpus import write_jsonl
from tests.support.tiny.training import WORDS, pair_rows, save_static, write_pairs

pytestmark = pytest.mark.usefixtures("one_thread")

CONFIG = """
[stage]
kind = "pretrain"
[model]
base = "{0}/static"
[data]
pairs = ["{0}/pairs.jsonl"]
[texts]
title = true
query_tokens = 0
passage_tokens = 0
[training]
batch = 16
epochs = 2
[output]
folder = "unused"
"""


def test_combinations_of_values():
    assert list(combinations(["a.b=1,2", "model.base=x/y,z"])) == [
        {"a.b": "1", "model.base": "x/y"},
        {"a.b": "1", "model.base": "z"},
        {"a.b": "2", "model.base": "x/y"},
        {"a.b": "2", "model.base": "z"},
    ]
    assert folder_name({"a.b": "1e-3", "model.base": "x/y"}) == "b=1e-3,base=x-y"


@pytest.mark.parametrize("text", ["training.epochs", "training.epochs=1,,2", "training.epochs="])
def test_values_that_are_missing(text):
    with pytest.raises(UsageError, match="expected TABLE"):
        list(combinations([text]))


@pytest.fixture
def sweep(tmp_path, build, index_path):
    """The command over 40 passages with a unique word each; questions ask for it by the word before."""
    save_static(tmp_path / "static")
    write_pairs(tmp_path / "pairs.jsonl", pair_rows(40, objectives=("bfs",)))
    words = [WORDS[n : n + 3] for n in range(40)]
    rows = [{"id": f"d{n}", "title": "", "text": " ".join(w), "links": []} for n, w in enumerate(words)]
    build(corpus=write_jsonl(tmp_path / "c.jsonl", rows), min_words=0)
    questions = [
        json.dumps({"id": str(n), "text": w[0], "answers": [w[2]]}) + "\n" for n, w in enumerate(words)
    ]
    (tmp_path / "questions.jsonl").write_text("".join(questions))
    (tmp_path / "c.toml").write_text(CONFIG.format(tmp_path))
    arguments = [tmp_path / "c.toml", "--index", index_path, "--questions", tmp_path / "questions.jsonl"]

    def run(*more: str) -> dict:
        main([*map(str, arguments), "--output", str(tmp_path / "out"), "--depth", "2", *more])
        return json.loads((tmp_path / "out" / "sweep.json").read_text())

    return run


def test_runs_are_measured_over_all_passages_and_kept(sweep, tmp_path, index_path, capsys, monkeypatch):
    vary = ["--vary", "training.learning_rate=1e-6,0.05", "--set", "training.epochs=3"]
    results = sweep(*vary)
    assert list(results["runs"]) == ["learning_rate=1e-6", "learning_rate=0.05"]
    said = capsys.readouterr().out
    ranked = sorted(results["runs"], key=lambda name: -results["runs"][name]["accuracy"])
    assert said.index(ranked[0]) < said.index(ranked[1])
    assert f"best accuracy@2 of 40 questions: {tmp_path / 'out' / ranked[0]}" in said
    best = read_settings(TrainConfig, tmp_path / "out" / "best.toml")
    assert best.output.folder == tmp_path / "out" / ranked[0] and best.training.epochs == 3
    passages = list(OpenIndex.open(index_path).passages)
    queries = read_queries(tmp_path / "questions.jsonl")
    for name, row in results["runs"].items():
        model = SentenceTransformer(str(tmp_path / "out" / name), device="cpu")
        scores = model.encode([q.text for q in queries]) @ model.encode([p.text for p in passages]).T
        top = np.argsort(-scores, axis=1, kind="stable")[:, :2]
        hits = [
            any(query.answers[0] in passages[row].text.split() for row in rows)
            for query, rows in zip(queries, top, strict=True)
        ]
        assert row["accuracy"] == pytest.approx(np.mean(hits))
    trained = []
    monkeypatch.setattr(pair_training, "train_steps", lambda *_: trained.append(1))
    assert sweep(*vary) == results and not trained


def test_questions_without_answers_are_refused(sweep, tmp_path):
    (tmp_path / "questions.jsonl").write_text('{"id": "1", "text": "bam"}\n')
    with pytest.raises(UsageError, match="questions without answers"):
        sweep("--vary", "training.epochs=1")


def test_a_setting_that_is_wrong_is_named_before_anything_runs(sweep, tmp_path):
    with pytest.raises(UsageError, match=r"training\.epochs"):
        sweep("--vary", "training.epochs=1,0")
    assert not (tmp_path / "out").exists()
