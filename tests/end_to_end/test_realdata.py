"""A real corpus: counts that are known from elsewhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command import run

from linkseek.indexer.index import Index

pytestmark = [pytest.mark.realdata, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def wikispeedia(tmp_path_factory, shared_data) -> Index:
    path: Path = tmp_path_factory.mktemp("wikispeedia") / "index"
    corpus = shared_data / "wikispeedia" / "docs.jsonl.zst"
    done = run(
        "indexer/build.py", "--corpus", corpus, "--index", path, "--no-dense", "--no-bm25", "--min-words", "0"
    )
    assert done.returncode == 0, done.stderr
    return Index.open(path)


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
    manifest = Index.open(tmp_path / "index").manifest
    counts = manifest.counts
    assert (counts.documents, counts.redirects) == (106, 99)
    assert counts.resolved_redirects + counts.dangling_redirects == 99
    assert manifest.skipped["other namespace"].count == 1  # the hundredth redirect
