"""Filters by folder, namespace and metadata: the results of a search of everything, filtered."""

import numpy as np
import pytest

from linkseek.app.pipelines import filters
from linkseek.app.pipelines.catalogue import Pipelines
from linkseek.app.pipelines.filters import Filtered, kept_documents, offered_conditions, read_filter
from linkseek.app.pipelines.open_models import Models
from linkseek.app.service import SearchService
from linkseek.indexer.documents import Document
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import UsageError
from linkseek.retriever.ranking import Query
from tests.support.tiny.index import WordEncoder, WordScorer, build

WORDS = ("river", "volcano", "boat")
QUERY = [Query("1", "river volcano"), Query("2", "boat")]


def document(number):
    folder, word = ("docs/how-to", "docs", "wiki")[number % 3], WORDS[number % 2]
    tags = {"tags": ("red, blue", "blue", "green")[number % 3], "page": str(number)}
    tags |= {"author": "山田\u3000太郎"} if number < 3 else {}
    id_ = f"{folder}/{number}" if number < 30 else f"Help_talk:Page {number}"
    return Document(id_, f"T{number}", f"A {word} of number {number} and a boat.", metadata=tags)


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    documents = [document(number) for number in range(36)]
    records = [(d.id, d.title, d.text, "", dict(d.metadata)) for d in documents]
    return OpenIndex.open(build(tmp_path_factory.mktemp("filters") / "f", records))


@pytest.mark.parametrize(
    "conditions, expected",
    [
        (["folder:docs"], lambda d: d.id.startswith("docs/")),
        (["folder:docs/how-to/"], lambda d: d.id.startswith("docs/how-to/")),
        (["folder:doc"], lambda d: False),
        (["namespace:Help_talk"], lambda d: d.id.startswith("Help_talk:")),
        (["namespace:Help talk"], lambda d: d.id.startswith("Help_talk:")),
        (["namespace:Help"], lambda d: False),
        (["tags:blue"], lambda d: "blue" in d.metadata["tags"]),
        (["tags : blue"], lambda d: "blue" in d.metadata["tags"]),
        (["tags:red", "tags:green"], lambda d: d.metadata["tags"] != "blue"),
        (["tags:blue", "folder:docs/how-to"], lambda d: d.id.startswith("docs/how-to/")),
        (["tags:%s", "page:.*"], lambda d: False),
        (["author:山田\u3000太郎"], lambda d: "author" in d.metadata),
        (["folder: docs"], lambda d: d.id.startswith("docs/")),
    ],
)
def test_the_documents_that_are_kept(index, conditions, expected):
    kept = kept_documents(index, read_filter(conditions))
    assert kept.tolist() == [expected(document(number)) for number in range(36)]


def test_what_is_offered_keeps_some_documents_and_not_all(index):
    offered = offered_conditions(index)
    assert {"folder:docs", "folder:docs/how-to", "namespace:Help_talk", "tags:blue"} <= {*offered}
    assert not [each for each in offered if each.startswith("page:")]  # each value has one document
    for condition in offered:
        assert 1 < kept_documents(index, read_filter([condition])).sum() < 36


@pytest.mark.parametrize("name", ["bm25", "dense"])
@pytest.mark.parametrize("k", [1, 3, 50])
def test_a_search_equals_the_filtered_results_of_all(index, name, k):
    pipelines = Pipelines(index, None, Models(lambda location: WordEncoder(), lambda *wanted: WordScorer()))
    only = read_filter(["folder:docs/how-to"])
    filtered, mask = Filtered(pipelines, only), kept_documents(index, only)
    everything = pipelines.open(name)(QUERY, len(index.passages))
    found = filtered.open(name)(QUERY, k)
    for number in range(len(QUERY)):
        rows = np.array([row for row, _ in everything.results(number)])
        kept = rows[mask[index.passages.document_rows(rows)]]
        assert [row for row, _ in found.results(number)] == kept[:k].tolist()
    assert filtered.excluded == 36 - mask.sum()


@pytest.mark.parametrize("name", ["hybrid", "hybrid-weighted", "best", "bm25-squad", "hops"])
def test_pipelines_of_others_have_results_of_kept_documents_alone(index, word_encoder, name):
    service = SearchService(index)
    only = read_filter(["tags:green"])
    answer = service.search("river boat", name, 5, only)
    assert len(answer.hits) == 5 and all(document_of(hit).metadata["tags"] == "green" for hit in answer.hits)
    explained = service.explained(answer, 5)
    assert all(
        each and each.score == pytest.approx(hit.score, abs=1e-4)
        for each, hit in zip(explained, answer.hits, strict=True)
    )
    assert service.search("river", name, 5, read_filter(["folder:none"])).hits == ()


def document_of(hit):
    return document(int(hit.title[1:]))


def test_no_more_results_than_the_limit_are_filtered(index, word_encoder, monkeypatch):
    monkeypatch.setattr(filters, "MAX_RESULTS", 6)
    only, pipeline = read_filter(["tags:green"]), SearchService(index).pipelines.open("bm25")
    rows = np.array([row for row, _ in pipeline(QUERY, 6).results(1)])
    kept = rows[kept_documents(index, only)[index.passages.document_rows(rows)]]
    found = SearchService(index).opened("bm25", only)(QUERY, 5)
    assert [row for row, _ in found.results(1)] == kept.tolist() and 0 < len(kept) < 5


@pytest.mark.parametrize("text", ["folder", ":docs", "folder:", " : "])
def test_what_is_no_filter(text):
    with pytest.raises(UsageError, match="NAME:VALUE"):
        read_filter([text])
    with pytest.raises(UsageError, match="21 filters"):
        read_filter([f"a:{number}" for number in range(21)])
