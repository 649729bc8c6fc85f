"""The search service: one index, opened once, without Streamlit."""

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import orjson
import pytest
from small_index import HOSTILE_TEXT, HOSTILE_TITLE, WordEncoder, build

from app import service as module
from app.service import MAX_QUESTION_CHARACTERS, SearchService, checked_question, list_indexes
from indexer.artifacts import index_stamp
from indexer.errors import DamagedIndexError, InputError, UsageError


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
    assert (hit.passage_id, hit.title, hit.url) == ("Naples#0", "Naples", "https://a.example/?a=1&b=2")
    assert [hit.text[start:end] for start, end in hit.marks] == ["volcano", "erupted"]


def test_texts_come_as_they_are(service):
    hits = service.search("template", "bm25").hits
    assert [(hit.title, hit.text, hit.url) for hit in hits] == [
        (HOSTILE_TITLE, HOSTILE_TEXT, "javascript:alert(4)")
    ]


def test_more_than_there_are(service):
    assert len(service.search("river", "dense", 1000).hits) == 6
    assert service.search("zzz", "bm25", 1000).hits == ()


def test_json(service):
    row = orjson.loads(orjson.dumps(service.search("Seine", "hybrid", 1).to_json()))
    assert set(row) == {"question", "pipeline", "hits", "seconds"}
    assert row["hits"][0]["rank"] == 1
    start, end = row["hits"][0]["marks"][0]
    assert row["hits"][0]["text"][start:end] == "Seine"


@pytest.mark.parametrize("question", ["", "  \n\t ", "\u3000"])
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


def test_an_unknown_pipeline(service):
    with pytest.raises(UsageError, match="no pipeline"):
        service.search("Seine", "nothing")
    assert not service.is_ready("nothing")


@pytest.mark.parametrize(
    "name, expected",
    [
        ("bm25", "Lucene’s BM25, k1 = 0.9, b = 0.4"),
        ("ql", "Lucene’s query likelihood, mu = 1000"),
        ("dense", "Vectors of words"),
        ("hybrid", "bm25 and dense, fused by rank"),
        ("hybrid-weighted", "0.4 × bm25 + 0.6 × dense, fused by score"),
    ],
)
def test_descriptions(service, name, expected):
    assert service.describe(name) == expected


def test_a_run_file_answers_no_new_question(built_index, word_encoder, tmp_path):
    (tmp_path / "other.trec").write_text("1 Q0 Paris#0 1 9 x\n")
    (tmp_path / "mine.toml").write_text(
        '[other]\nrun = "other.trec"\n[joined]\nfusion = "reciprocal-rank"\nof = ["bm25", "other"]\n'
    )
    service = SearchService(built_index, tmp_path / "mine.toml")
    assert service.describe("other") == "Results of the run file other.trec"
    for name in ("other", "joined"):
        assert name not in service.pipelines.available()
        with pytest.raises(UsageError, match=f'"{name}" reads a run file'):
            service.search("a river", name)


def test_visitors_at_the_same_time_load_a_model_once(built_index, monkeypatch):
    opened = []

    def open_slowly(location):
        time.sleep(0.2)
        opened.append(location)
        return WordEncoder()

    monkeypatch.setattr("app.pipelines._open_biencoder", open_slowly)
    service = SearchService(built_index)
    names = ["dense", "hybrid", "bm25", "dense", "hybrid-weighted", "dense"]
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda name: service.search("a river", name, 3), names))
    assert opened == ["words"]
    assert answers[0].hits == answers[3].hits == answers[5].hits
    assert all(map(service.is_ready, names))


def test_a_model_that_cannot_be_loaded_is_tried_again(built_index, monkeypatch):
    attempts = []

    def open_at_second_try(location):
        attempts.append(location)
        if len(attempts) == 1:
            raise InputError("the model is not there")
        return WordEncoder()

    monkeypatch.setattr("app.pipelines._open_biencoder", open_at_second_try)
    service = SearchService(built_index)
    with pytest.raises(InputError):
        service.search("river", "dense")
    assert service.search("river", "dense").hits


def test_a_waiting_model_does_not_hold_up_others(built_index, monkeypatch):
    loading, loaded = threading.Event(), threading.Event()

    def open_when_told(location):
        loading.set()
        assert loaded.wait(10)
        return WordEncoder()

    monkeypatch.setattr("app.pipelines._open_biencoder", open_when_told)
    service = SearchService(built_index)
    service.search("river", "bm25")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(service.search, "river", "dense")
        assert loading.wait(10)
        assert service.search("river", "bm25").hits
        assert not waiting.done()
        loaded.set()
        assert waiting.result().hits


# --- suggestions ----------------------------------------------------------------------------------


def test_suggestions_belong_to_the_sample(service):
    assert service.suggestions() == []
    service.index.manifest["corpus"]["file"] = module.SAMPLE_CORPUS
    suggestions = service.suggestions()
    assert len(suggestions) == 6
    assert all(suggestion.endswith("?") for suggestion in suggestions)


def test_no_suggestions_without_the_samples(service, monkeypatch, tmp_path):
    service.index.manifest["corpus"]["file"] = module.SAMPLE_CORPUS
    monkeypatch.setattr(module, "SAMPLE_QUESTIONS", tmp_path / "none.jsonl")
    assert service.suggestions() == []


# --- indexes --------------------------------------------------------------------------------------


def test_indexes_beside_each_other(own_index):
    folder = own_index.parent
    build(folder / "another", encoders=())
    (folder / "own.building").mkdir()
    for name in (".hidden", "own.building", "own.old"):
        build(folder / name, encoders=())
    (folder / "other-folder").mkdir()
    (folder / "web-application").mkdir()
    (folder / "web-application" / "manifest.json").write_text('{"name": "no index"}')
    (folder / "a-file").write_text("")
    assert list_indexes(own_index) == {"another": folder / "another", "own": own_index}


def test_the_chosen_index_is_there_even_if_damaged_or_missing(tmp_path):
    assert list_indexes(tmp_path / "none" / "index") == {"index": tmp_path / "none" / "index"}


def test_the_stamp_changes_with_the_index(own_index, tmp_path):
    before = index_stamp(own_index)
    assert index_stamp(own_index) == before
    build(own_index, [("1", "New", "A new text.", "")], encoders=())
    assert index_stamp(own_index) != before
    assert index_stamp(tmp_path / "none") == (0, 0, 0)


def test_no_index_and_a_damaged_one(own_index, tmp_path):
    with pytest.raises(DamagedIndexError, match="no index here"):
        SearchService(tmp_path / "none")
    (own_index / "passages" / "offsets.npy").write_bytes(b"")
    with pytest.raises(DamagedIndexError, match=r"offsets\.npy: 0 bytes"):
        SearchService(own_index)


def test_the_service_does_not_need_streamlit():
    code = "import sys, app.service, app.view, app.state; print([m for m in sys.modules if m in "
    code += "('streamlit', 'torch', 'openvino', 'faiss', 'jnius')])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
