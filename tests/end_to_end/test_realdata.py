"""Real corpora: counts, and figures of BM25 and query likelihood, that are known from elsewhere."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from linkseek.indexer.index import OpenIndex
from tests.support.command import run

pytestmark = [pytest.mark.realdata, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def build(tmp_path_factory, shared_data):
    def build_index(name: str, *options: str) -> OpenIndex:
        path: Path = tmp_path_factory.mktemp(name) / "index"
        corpus = shared_data / name / "docs.jsonl.zst"
        done = run("indexer/build.py", "--corpus", corpus, "--index", path, "--no-dense", *options)
        assert done.returncode == 0, done.stderr
        return OpenIndex.open(path)

    return build_index


@pytest.fixture(scope="module")
def wikispeedia(wikispeedia_index) -> OpenIndex:
    return OpenIndex.open(wikispeedia_index)


def test_documents_passages_and_links_are_as_many_as_known(wikispeedia):
    counts = wikispeedia.manifest.counts
    assert counts.documents == len(wikispeedia.documents) == 4_598
    assert counts.passages == len(wikispeedia.passages) == 146_151
    assert counts.links == counts.between_documents == len(wikispeedia.links) == 105_254
    assert counts.links + counts.cut == 105_665  # what the corpus has
    assert (counts.cut, counts.dangling, counts.redirects) == (411, 0, 0)
    assert wikispeedia.manifest.skipped == {}


def test_every_link_between_documents_is_distinct(wikispeedia):
    """105,254 (passage, target) pairs, and as many pairs of articles: a mention is linked once an article."""
    passage = np.asarray(wikispeedia.links.passage).astype(np.int64)  # [E]
    target = np.asarray(wikispeedia.links.target)
    source = wikispeedia.passages.document_rows(passage)
    between = source != target
    pairs = np.unique(np.stack([passage, target])[:, between], axis=1)
    assert pairs.shape[1] == 105_254
    articles = np.unique(np.stack([source, target])[:, between], axis=1)
    assert articles.shape[1] == 105_254


def test_links_lie_in_their_passages_and_lead_where_the_documents_say(wikispeedia):
    graph, draw = wikispeedia.links, np.random.default_rng(0)
    anchors = []
    for link in draw.choice(len(graph), 500, replace=False):
        passage = wikispeedia.passages[int(graph.passage[link])]
        document = wikispeedia.documents[wikispeedia.document_ids.row(passage.document_id)]
        start, end = int(graph.start[link]), int(graph.end[link])
        [same] = [x for x in document.links if x.start == passage.start + start]
        assert wikispeedia.document_ids.row(same.target) == graph.target[link]
        assert passage.text[start:end] == document.text[same.start : same.end] != ""
        anchors.append(passage.text[start:end])
    assert len(set(anchors)) > 200


def test_passages_are_a_hundred_words_but_the_last(wikispeedia):
    words = [len(text.split()) for text in wikispeedia.passages.table.column("text", 0, 5000)]
    last = set((np.asarray(wikispeedia.passages.offsets[1:]) - 1).tolist())
    assert all(count == 100 or row in last for row, count in enumerate(words))
    assert max(words) == 100 and min(words) >= 1


def test_a_slice_of_wikipedia_keeps_its_redirects_apart(tmp_path, shared_data):
    [dump] = (shared_data / "enwiki-slice").glob("*.xml.bz2")
    done = run(
        "indexer/build.py",
        "--corpus",
        dump,
        "--index",
        tmp_path / "index",
        "--no-dense",
        "--no-bm25",
        "--min-words",
        "0",
    )
    assert done.returncode == 0, done.stderr
    manifest = OpenIndex.open(tmp_path / "index").manifest
    counts = manifest.counts
    assert (counts.documents, counts.redirects) == (106, 99)
    assert counts.resolved_redirects + counts.dangling_redirects == 99
    assert manifest.skipped["other namespace"].count == 1  # the hundredth redirect


# Raw Lucene, title indexed, k1 = 0.9, b = 0.4, mu = 1000. On all questions, whose known figures these are
# within one standard error of: SQuAD 0.720 and 0.947, 0.684 and 0.938; NQ's on Wikipedia for Schools 0.2404
# and 0.2452.
SQUAD = {"bm25": {"R@1": 0.7200, "R@20": 0.9432}, "ql": {"R@1": 0.6916, "R@20": 0.9338}}
ACCURACY_AT_20 = {"bm25": 0.2317, "ql": 0.2409}


def evaluate(
    index: OpenIndex, questions: Path, folder: Path, *options: object
) -> dict[str, dict[str, float]]:
    """The measures of each pipeline on a thousand questions or some more, evenly spaced in a file."""
    with gzip.open(questions, "rb") as file:
        lines = file.readlines()
    some = folder / "questions.jsonl"
    some.write_bytes(b"".join(lines[:: len(lines) // 1000]))
    pipelines = ("--pipeline", "bm25", "ql", "--depth", 20, "--latency", 0, "--no-report")
    command = ("--index", index.path, "--queries", some, "--output", folder / "results")
    done = run("app/evaluate.py", *command, *pipelines, *options)
    assert done.returncode == 0, done.stderr
    results = json.loads((folder / "results" / "results.json").read_bytes())["pipelines"]
    return {
        name: {measure: value["mean"] for measure, value in report["measures"].items()}
        for name, report in results.items()
    }


def test_squad_finds_the_paragraph_that_a_question_was_written_for(build, shared_data, tmp_path):
    data = shared_data / "squad"
    index = build("squad", "--passage-words", "0")
    judged = ("--qrels", data / "qrels.dev.txt", "--measure", "R@1", "R@20")
    found = evaluate(index, data / "queries.dev.jsonl.gz", tmp_path, *judged)
    for pipeline, measures in SQUAD.items():
        assert found[pipeline] == pytest.approx(measures, abs=0.001)


def test_answers_in_wikipedia_for_schools(wikispeedia, shared_data, tmp_path):
    file = shared_data / "qa" / "dpr-nq-test.jsonl.gz"
    found = evaluate(wikispeedia, file, tmp_path, "--measure", "accuracy@20")
    accuracy = {pipeline: measures["accuracy@20"] for pipeline, measures in found.items()}
    assert accuracy == pytest.approx(ACCURACY_AT_20, abs=0.001)
