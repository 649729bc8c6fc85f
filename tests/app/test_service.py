"""The search service: one index, opened once, without Streamlit."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import orjson
import pytest

from linkseek.app.answers import Failure
from linkseek.app.context.known_questions import KnownQuestions
from linkseek.app.pipelines.open_models import Models
from linkseek.app.pipelines.pipeline_entry import OpenPipeline
from linkseek.app.pipelines.pipeline_kinds import RerankEntry
from linkseek.app.service import SearchService, list_indexes
from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.reranker.reranking import Reranking
from linkseek.retriever.queries import checked_question
from linkseek.retriever.ranking import MAX_QUESTION_CHARACTERS, Query, Ranking
from tests.support.asynchronous import wait_until
from tests.support.tiny.index import WordEncoder, WordScorer, build


@pytest.fixture
def service(built_index, word_encoder):
    return SearchService(built_index)


def test_an_answer(service):
    answer = service.search("  Where does a volcano erupt? ", "bm25", 2)
    assert (answer.question, answer.pipeline) == ("Where does a volcano erupt?", "bm25")
    assert [hit.rank for hit in answer.hits] == [1, 2]
    assert answer.hits[0].score >= answer.hits[1].score
    assert answer.seconds > 0
    hit = {hit.document_id: hit for hit in answer.hits}["Naples"]
    assert (hit.passage_id, hit.title, hit.url) == ("Naples#0", "Naples", "https://a.example.org/?a=1&b=2")
    assert [hit.text[start:end] for start, end in hit.marks] == ["volcano", "erupted"]


def test_more_than_there_are(service):
    assert len(service.search("river", "dense", 1000).hits) == 6
    assert service.search("zzz", "bm25", 1000).hits == ()


def test_json(service):
    row = orjson.loads(orjson.dumps(service.search("Seine", "hybrid", 1).to_json()))
    assert set(row) == {"question", "pipeline", "hits", "seconds", "partial"}
    assert row["hits"][0]["rank"] == 1
    start, end = row["hits"][0]["marks"][0]
    assert row["hits"][0]["text"][start:end] == "Seine"


@pytest.mark.parametrize("question", ["", "  \n\t ", "\u3000", "\u202e\u200b\ufeff \xad"])
def test_an_empty_question(service, question):
    with pytest.raises(UsageError, match="empty"):
        service.search(question, "bm25")


def test_a_question_that_is_too_long(service):
    assert service.search("Seine " * (MAX_QUESTION_CHARACTERS // 6), "hybrid").hits
    with pytest.raises(UsageError, match="100,000 characters"):
        service.search("x" * 100_000, "bm25")


def test_a_question_that_is_no_unicode(service):
    assert checked_question("Sei\udcffne") == "Sei?ne"
    orjson.dumps(service.search("Seine \udcff", "hybrid").to_json())


@pytest.fixture
def opens_at_second_try(built_index, monkeypatch):
    """A service whose encoder fails once with an error that nobody foresaw; the attempts."""
    attempts = []

    def open_encoder(location):
        attempts.append(location)
        if len(attempts) == 1:
            raise ZeroDivisionError("half-way")
        return WordEncoder()

    monkeypatch.setattr("linkseek.app.pipelines.open_models._open_encoder", open_encoder)
    return SearchService(built_index), attempts


def test_any_failure_is_that_of_its_column_and_is_tried_again(opens_at_second_try, caplog):
    service, attempts = opens_at_second_try
    by_name = {answer.pipeline: answer for answer in service.answers("river", ["dense", "bm25", "ql"], 3)}
    assert by_name["bm25"].hits and by_name["ql"].hits
    failure = by_name["dense"]
    assert isinstance(failure, Failure) and "internal error" in failure.hint
    assert "half-way" not in failure.message + failure.hint
    assert "Traceback" in caplog.text and "half-way" in caplog.text and "'dense'" in caplog.text
    assert (
        service.pipelines.is_ready("bm25") and not service.pipelines.is_ready("dense") and len(attempts) == 1
    )
    [answer] = service.answers("river", ["dense"], 3)
    assert answer.hits and service.pipelines.is_ready("dense") and len(attempts) == 2


def test_a_search_that_fails_in_any_way_is_that_of_its_column(service, caplog):
    def broken(queries, k):
        raise MemoryError

    service.search("river", "ql")
    service.pipelines._opened.made["ql",] = OpenPipeline(broken)
    answers = {answer.pipeline: answer for answer in service.answers("river", ["ql", "bm25", "dense"], 3)}
    assert isinstance(answers["ql"], Failure) and "MemoryError" in caplog.text
    assert answers["bm25"].hits and answers["dense"].hits


def test_what_fails_in_the_background_is_tried_again_before_anybody_asks(
    opens_at_second_try, caplog, monkeypatch
):
    # A library that configures logging in this process disables the loggers that exist.
    monkeypatch.setattr(logging.getLogger("linkseek.app.pipelines.catalogue"), "disabled", False)
    service, attempts = opens_at_second_try
    service.pipelines.warm(["dense", "bm25"])
    wait_until(lambda: service.pipelines.is_ready("dense") and service.pipelines.is_ready("bm25"))
    assert len(attempts) == 2 and "half-way" in caplog.text


def test_what_always_fails_in_the_background_fails_no_first_question(built_index, monkeypatch):
    """The last failure of the background is forgotten: the first question has an attempt of its own."""
    attempts, working = [], threading.Event()

    def open_encoder(location):
        attempts.append(location)
        if not working.is_set():
            raise ZeroDivisionError
        return WordEncoder()

    monkeypatch.setattr("linkseek.app.pipelines.open_models._open_encoder", open_encoder)
    service = SearchService(built_index)
    service.pipelines.warm(["dense"])
    wait_until(lambda: len(attempts) >= 2 and not service.pipelines._opened._making)
    working.set()
    [answer] = service.answers("river", ["dense"], 3)
    assert answer.hits and len(attempts) == 3


def test_any_number_of_waiting_models_hold_up_no_words(built_index, tmp_path, monkeypatch):
    """Twenty pipelines whose models are being loaded, and the BM25 of another visitor."""
    loaded = threading.Event()

    def open_scorer(*wanted):
        assert loaded.wait(60)
        return WordScorer()

    names = [f"slow{number}" for number in range(20)]
    tables = [f'[{name}]\nrerank = "bi-encoder:hlp"\nof = "ql"\n' for name in names]
    (tmp_path / "slow.toml").write_text("".join(tables), "utf-8")
    service = SearchService(built_index, tmp_path / "slow.toml", Models(None, open_scorer))
    service.pipelines.warm(names)
    with ThreadPoolExecutor(1) as visitor:
        try:
            assert visitor.submit(service.search, "river", "bm25").result(30).hits
        finally:
            loaded.set()


# --- several pipelines ----------------------------------------------------------------------------


def test_places_go_further_down_than_the_passages(service):
    answer = service.search("river", "dense", 2)
    assert len(answer.hits) == 2 and len(answer.places) == 6
    assert {hit.row: (hit.rank, hit.score) for hit in answer.hits}.items() <= {
        row: (place.rank, place.score) for row, place in answer.places.items()
    }.items()


def test_answers_of_several_pipelines(service):
    service.search("river", "bm25")
    answers = list(service.answers("a river in France", ["dense", "nothing", "bm25"], 3))
    assert answers[0].pipeline == "bm25"  # which is open
    by_name = {answer.pipeline: answer for answer in answers}
    assert len(by_name) == len(answers) == 3
    assert isinstance(by_name["nothing"], Failure) and "no pipeline" in by_name["nothing"].message
    assert by_name["dense"].hits == service.search("a river in France", "dense", 3).hits
    with pytest.raises(UsageError, match="empty"):
        next(service.answers(" ", ["bm25"], 3))


class Backwards:
    """Re-ranks backwards: the scores are those of the first stage with the other sign."""

    depth = 3

    def __call__(self, queries, ranking):
        return Ranking.of(ranking.query_ids, ranking.rows, -ranking.scores)


@pytest.fixture
def two_stages(service):
    """The pipeline "turned" re-ranks bm25's first three backwards."""
    service.pipelines.entries["turned"] = RerankEntry(rerank="models/x", of="bm25", depth=3)
    reranking = Reranking(service.pipelines.open("bm25"), Backwards())
    service.pipelines._opened.made["turned",] = OpenPipeline(reranking, rerank=reranking.rerank)
    return service


def test_two_stages_come_twice_and_first_stages_before_all(two_stages):
    answers = list(two_stages.answers("volcano river", ["turned", "bm25"], 2))
    assert [(a.pipeline, a.waiting, a.first_stage) for a in answers[:2]] == [
        ("turned", True, "bm25"),
        ("bm25", False, None),
    ]
    first, bm25, last = answers
    assert (last.pipeline, last.waiting, last.first_stage) == ("turned", False, "bm25")
    assert first.hits == bm25.hits
    assert list(last.stages) == ["search", "rerank"] and last.seconds > first.seconds
    assert len(last.places) == 3
    stood = two_stages.search("volcano river", "bm25", 3).hits  # the best three, and their scores turned
    assert [last.before[hit.row].score for hit in last.hits] == sorted(hit.score for hit in stood)[:2]
    assert [hit.score for hit in last.hits] == [-last.before[hit.row].score for hit in last.hits]
    for hit in last.hits:
        assert stood[last.before[hit.row].rank - 1].passage_id == hit.passage_id
    assert last.before.keys() == last.places.keys()  # also of those that are not shown


def test_a_second_stage_that_fails(two_stages):
    def broken(*_):
        raise InputError("the model is gone", "Get it back.")

    two_stages.pipelines._opened.made["turned",] = OpenPipeline(broken, rerank=broken)
    two_stages.search("river", "dense")  # open, and so asked before the second stage
    answers = list(two_stages.answers("river", ["turned", "dense"], 2))
    assert [type(answer).__name__ for answer in answers] == ["Answer", "Answer", "Failure"]
    assert answers[2] == Failure("turned", "the model is gone", "Get it back.")


def test_why(service):
    reason = service.why("Where does a volcano erupt?", "Naples#0")
    assert (reason.hit.passage_id, reason.hit.relevant) == ("Naples#0", None)
    assert [reason.hit.text[start:end] for start, end in reason.hit.marks] == ["volcano", "erupted"]
    assert reason.links.article.id == "Naples"
    for id_ in ("Naples#7", "gone", "", "../../etc#0"):
        with pytest.raises(InputError, match="no passage"):
            service.why("volcano", id_)


# --- known questions ------------------------------------------------------------------------------


def test_answers_that_are_known_are_marked(built_index, word_encoder):
    service = SearchService(built_index)
    service.known = KnownQuestions([Query("1", "Which river?", ("the Seine",))])
    answer = service.search("which RIVER?", "dense", 6)
    relevant = {hit.document_id: hit.relevant for hit in answer.hits}
    assert relevant["Seine"] and not relevant["Lyon"]
    hit = next(hit for hit in answer.hits if hit.document_id == "Seine")
    assert [hit.text[start:end] for start, end in hit.answers] == ["The Seine"]
    assert {hit.relevant for hit in service.search("river", "bm25").hits} == {None}


# --- indexes --------------------------------------------------------------------------------------


def test_indexes_beside_each_other(own_index):
    folder = own_index.parent
    build(folder / "another", encoders=())
    (folder / "own.linkseek-building").mkdir()
    for name in (".hidden", "own.linkseek-building", "own.linkseek-tmp"):
        build(folder / name, encoders=())
    (folder / "other-folder").mkdir()
    (folder / "web-application").mkdir()
    (folder / "web-application" / "manifest.json").write_text('{"name": "no index"}')
    (folder / "a-file").write_text("")
    assert list_indexes(own_index) == {"another": folder / "another", "own": own_index}


def test_the_chosen_index_is_there_even_if_damaged_or_missing(tmp_path):
    assert list_indexes(tmp_path / "none" / "index") == {"index": tmp_path / "none" / "index"}
