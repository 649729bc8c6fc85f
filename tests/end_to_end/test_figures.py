"""Known figures of BM25 and query likelihood on real collections, through the two commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import run

pytestmark = [pytest.mark.realdata, pytest.mark.slow, pytest.mark.timeout(600)]

BOTH = ("--pipeline", "bm25", "ql")

# Raw Lucene, title indexed, k1 = 0.9, b = 0.4, mu = 1000.
SQUAD = {"bm25": {"R@1": 0.720, "R@20": 0.947}, "ql": {"R@1": 0.684, "R@20": 0.938}}
ACCURACY_AT_20 = {
    "dpr-nq-test": {"bm25": 0.2404, "ql": 0.2452},
    "dpr-wq-test": {"bm25": 0.4173, "ql": 0.4252},
    "dpr-trivia-dev": {"bm25": 0.4137, "ql": 0.4165},
}


@pytest.fixture(scope="module")
def build(tmp_path_factory, shared_data):
    def build_index(name: str, *options: str) -> Path:
        index: Path = tmp_path_factory.mktemp(name) / "index"
        corpus = shared_data / name / "docs.jsonl.zst"
        done = run("indexer/build.py", "--corpus", corpus, "--index", index, "--no-dense", *options)
        assert done.returncode == 0, done.stderr
        return index

    return build_index


@pytest.fixture(scope="module")
def wikispeedia(build) -> Path:
    return build("wikispeedia", "--min-words", "0")


def evaluate(index: Path, queries: Path, output: Path, *options: object) -> dict[str, dict[str, float]]:
    command = ("app/evaluate.py", "--index", index, "--queries", queries, "--output", output, *BOTH)
    done = run(*command, "--depth", 20, "--latency", 0, "--no-report", *options)
    assert done.returncode == 0, done.stderr
    pipelines = json.loads((output / "results.json").read_bytes())["pipelines"]
    return {
        name: {measure: value["mean"] for measure, value in report["measures"].items()}
        for name, report in pipelines.items()
    }


def test_squad_finds_the_paragraph_that_a_question_was_written_for(build, shared_data, tmp_path):
    data = shared_data / "squad"
    index = build("squad", "--passage-words", "0")
    judged = ("--qrels", data / "qrels.dev.txt", "--measure", "R@1", "R@20")
    found = evaluate(index, data / "queries.dev.jsonl.gz", tmp_path, *judged)
    for pipeline, measures in SQUAD.items():
        assert found[pipeline] == pytest.approx(measures, abs=0.002)


@pytest.mark.parametrize("questions", ACCURACY_AT_20)
def test_answers_in_wikipedia_for_schools(questions, wikispeedia, shared_data, tmp_path):
    file = shared_data / "qa" / f"{questions}.jsonl.gz"
    found = evaluate(wikispeedia, file, tmp_path, "--measure", "accuracy@20")
    accuracy = {pipeline: measures["accuracy@20"] for pipeline, measures in found.items()}
    assert accuracy == pytest.approx(ACCURACY_AT_20[questions], abs=0.002)
