"""What threads share: eight of them get the answers that one gets, while pipelines are being opened."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from linkseek.app.answers import Answer
from linkseek.app.context.known_questions import SAMPLE_QUESTIONS
from linkseek.app.pipelines.open_models import Models
from linkseek.app.service import SearchService
from linkseek.indexer.build import SAMPLE
from linkseek.retriever.learned.boosted_trees import FusionFile, Tree
from linkseek.retriever.learned.learned_fusion import feature_names
from linkseek.retriever.queries import read_queries
from tests.support.tiny.index import WordEncoder, WordScorer, built

THREADS, K = 8, 10
OTHER = """
[other-bm25]
searcher = "bm25"
k1 = 2.0
b = 0.9
[learned]
fusion = "learned"
of = ["bm25", "ql"]
model = "fusion.json"
depth = 100
[read]
rerank = "words"
of = "hybrid"
depth = 10
neighbours = "links"
"""
NAMES = ["bm25", "ql", "other-bm25", "dense", "hybrid-weighted", "learned", "read"]


def stump(feature: int, value: float) -> Tree:
    """A tree that adds a value where a feature is above 0.5."""
    leaves = [-1, -1]
    return Tree(
        feature=[feature, *leaves],
        threshold=[0.5, 0, 0],
        left=[1, *leaves],
        right=[2, *leaves],
        value=[0, 0, value],
    )


class LargeShards(WordEncoder):
    """For an index of more than a few passages."""

    def __init__(self) -> None:
        super().__init__()
        self.shard_rows, self.token_budget = 4_096, 65_536


@pytest.fixture(autouse=True)
def many_switches() -> Iterator[None]:
    """Threads change places a thousand times as often as usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture(scope="module")
def sample(tmp_path_factory) -> Path:
    """The sample with the vectors of words, and a fusion of trees."""
    folder = tmp_path_factory.mktemp("threads")
    built(folder / "index", SAMPLE, LargeShards(), encoders=["words"])
    model = FusionFile(
        format="linkseek fusion 1",
        pipelines=["bm25", "ql"],
        links=True,
        features=(features := feature_names(["bm25", "ql"], True)),
        trained={},
        trees=[stump(feature, 1 + feature / 10) for feature in range(len(features))],
    )
    (folder / "fusion.json").write_text(model.model_dump_json())
    (folder / "p.toml").write_text(OTHER)
    return folder


def open_service(folder: Path) -> SearchService:
    models = Models(lambda location: WordEncoder(), lambda *wanted: WordScorer())
    return SearchService(folder / "index", folder / "p.toml", models)


def questions(count: int) -> list[str]:
    return [query.text for query in read_queries(SAMPLE_QUESTIONS, count)]


def without_times(answer: Answer) -> Answer:
    """Hits with their marks, scores and known answers, places of all passages, and the names of stages."""
    return replace(answer, seconds=0.0, stages=dict.fromkeys(answer.stages, 0.0))


def assert_threads_agree(service: SearchService, alone: SearchService, tasks: list[tuple[str, str]]) -> None:
    """Searches and evidence of one service from all threads, and those of another from one."""

    def ask(service: SearchService, task: tuple[str, str]) -> tuple[object, ...]:
        question, name = task
        answer = service.search(question, name, K)
        last = service.why(question, answer.hits[-1].passage_id, [name]) if answer.hits else None
        return without_times(answer), last

    with ThreadPoolExecutor(THREADS) as pool:  # it begins with everything closed
        together = list(pool.map(lambda task: ask(service, task), tasks))
    expected = [ask(alone, task) for task in tasks]
    for task, got, wanted in zip(tasks, together, expected, strict=True):
        assert got == wanted, task
    answers = [answer for answer, _ in expected]
    assert sum(bool(answer.hits and answer.hits[0].marks) for answer in answers) > len(tasks) / 2
    assert any(hit.relevant for answer in answers for hit in answer.hits)
    assert any(reason.links.anchors for _, reason in expected if reason)


def test_searches_marks_and_evidence_of_eight_threads_are_those_of_one(sample):
    service, alone = open_service(sample), open_service(sample)
    tasks = [(question, name) for question in questions(12) for name in NAMES]
    assert_threads_agree(service, alone, tasks)
    assert all(service.pipelines.is_ready(name) for name in [*NAMES, "hybrid"])
    [question] = questions(1)
    best = alone.search(question, "learned").hits[0].passage_id
    learned = alone.why(question, best, ["learned"])
    assert any(part.added for part in learned.scores["learned"].parts)


def test_columns_of_eight_visitors_are_those_of_one(sample):
    """All pipelines at once, while each visitor's pipelines are being opened for the others."""
    service, alone = open_service(sample), open_service(sample)

    def columns(service: SearchService, question: str) -> list[Answer]:
        found = [without_times(answer) for answer in service.answers(question, NAMES, K)]
        return sorted(found, key=lambda answer: (answer.pipeline, answer.waiting))

    asked = questions(2 * THREADS)
    with ThreadPoolExecutor(THREADS) as pool:
        together = list(pool.map(lambda question: columns(service, question), asked))
    assert together == [columns(alone, question) for question in asked]
    assert all(len(each) == len(NAMES) + 1 for each in together)  # one answers twice


def test_real_models_answer_eight_threads_as_they_answer_one(sample_index):
    service, alone = SearchService(sample_index), SearchService(sample_index, None, Models())
    names = ["bm25", "dense", "hybrid-weighted", "best"]
    assert set(names) <= set(service.pipelines.available())
    assert_threads_agree(service, alone, [(question, name) for question in questions(2) for name in names])
