"""What is read of passages, documents and the ids of a run; windows of what is too long."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import BertTokenizerFast

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError
from linkseek.reranker.candidates import Candidates, RunCandidates
from linkseek.reranker.pair_texts import Candidate, PairFormat, Readable, windows
from linkseek.retriever.models.facts import ModelFacts
from tests.support.tiny.index import built
from tests.support.tiny.models import WORDS

ROWS = [
    {
        "id": "Paris",
        "title": "Paris",
        "text": "one two three four five",
        "url": "http://a/Paris",
        "links": [],
    },
    {"id": "New York", "title": "", "text": "six seven", "url": "http://a/NY", "links": []},
    {"id": "Rome", "title": "Rome", "text": "eight", "links": []},
]


def build(folder: Path, words: int) -> OpenIndex:
    return built(folder / "index", ROWS, passage_words=words, bm25=False)


@pytest.fixture(scope="module")
def split(tmp_path_factory) -> OpenIndex:
    """Passages of three words."""
    return build(tmp_path_factory.mktemp("split"), 3)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> OpenIndex:
    """Documents as passages."""
    return build(tmp_path_factory.mktemp("whole"), 0)


def test_passages_have_a_title_and_no_address(split):
    passages = Candidates(split)
    assert passages.read(1) == Candidate("Paris", "four five", "")
    assert passages.id(1) == "Paris#1"


def test_whole_documents_have_an_address(split, whole):
    for documents in (Candidates(whole), Candidates(split, "documents"), Candidates(whole, "documents")):
        assert documents.read(0) == Candidate("Paris", "one two three four five", "http://a/Paris")
        assert documents.read(1) == Candidate("", "six seven", "http://a/NY")
        assert documents.read(2) == Candidate("Rome", "eight", "")
        assert documents.id(1) == "New York"


@pytest.mark.parametrize(
    ("ids", "level", "known"),
    [
        (["Paris#1", "gone#0", "New York#0", "Rome"], "passages", [True, False, True, False]),
        (["Rome", "Paris", "Paris#0"], "documents", [True, True, False]),
    ],
)
def test_ids_of_a_run_are_passages_or_documents(split, ids, level, known):
    candidates = RunCandidates(split, ids, "a.trec")
    assert candidates.level == level and candidates.known.tolist() == known
    texts = {"Paris#1": "four five", "New York#0": "six seven", "Rome": "eight"} | {
        "Paris": "one two three four five"
    }
    for place, id_ in enumerate(ids):
        assert candidates.id(place) == id_
        if known[place]:
            assert candidates.read(place).text == texts[id_]


def test_where_documents_are_passages_either_will_do(whole):
    candidates = RunCandidates(whole, ["Rome", "Paris"], "a.trec")
    assert candidates.level == "passages" and candidates.read(1).url == "http://a/Paris"


def test_a_run_of_another_index(split):
    with pytest.raises(
        InputError, match=r"a\.trec: none of its ids \(such as 'x#1'\) is a passage or a document"
    ):
        RunCandidates(split, ["x#1", "y"], "a.trec")


def test_the_form_of_a_text():
    plain = PairFormat()
    assert plain.head(Candidate("T", "x", "u")) == "T "
    assert plain.head(Candidate("", "x", "u")) == ""
    papers = PairFormat(title_separator=" [SEP] ", url_separator=" ")
    assert papers.head(Candidate("T", "x", "http://u")) == "http://u T [SEP] "
    assert papers.head(Candidate("T", "x")) == "T [SEP] "
    harp = PairFormat(title_separator=" [SEP] ", url_separator=" ", url_after_title=True)
    assert harp.head(Candidate("T", "x", "http://u")) == "T http://u [SEP] "
    assert harp.head(Candidate("", "x", "http://u")) == "http://u [SEP] "
    assert PairFormat(passage_prompt="passage: ").head(Candidate("T", "x")) == "passage: T "
    assert PairFormat(title=False).head(Candidate("T", "x")) == ""


# --- windows --------------------------------------------------------------------------------------

SPANS = [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (10, 11), (12, 13)]


def test_windows_by_hand():
    text = "a b c d e f g"
    assert windows("T ", text, SPANS, 7) == ["T a b c d e f g"]
    assert windows("T ", text, SPANS, 4) == ["T a b c d", "T c d e f", "T d e f g"]
    assert windows("", text, SPANS, 5) == ["a b c d e", "c d e f g"]
    assert windows("", text, SPANS, 2) == ["a b", "b c", "c d", "d e", "e f", "f g"]
    assert windows("", "a b c", SPANS[:3], 1) == ["a", "b", "c"]
    assert windows("T ", "", [], 4) == ["T "]


def test_of_many_windows_thirty_are_read():
    words = [f"w{n}" for n in range(100)]
    spans = [(4 * n, 4 * n + 3) for n in range(100)]
    text = " ".join(f"{word:3}" for word in words)
    found = windows("T ", text, spans, 2)
    assert len(found) == 30 and found[0] == "T w0  w1 " and found[-1] == "T w98 w99"
    starts = [int(window.split()[1].removeprefix("w")) for window in found]
    assert starts[1] - starts[0] == 3 and {b - a for a, b in pairwise(starts)} <= {3, 4}
    assert len(windows("", text, spans[:31], 2)) == 30  # all of them


LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORD = st.sampled_from([*LETTERS, "abc", "zz", "!"])
TEXTS = st.lists(WORD, max_size=60).map(" ".join)
SHORT = st.lists(WORD, max_size=2).map(" ".join)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> BertTokenizerFast:
    path = tmp_path_factory.mktemp("tokenizer") / "vocab.txt"
    path.write_text("\n".join(WORDS))
    return BertTokenizerFast(str(path))


@pytest.fixture(scope="module")
def readable(tokenizer) -> Readable:
    return Readable(ModelFacts(1, 24, 0, tokenizer.backend_tokenizer.to_str()))


@settings(deadline=None, max_examples=120)
@given(query=SHORT, head=SHORT, text=TEXTS)
def test_all_of_a_text_is_read_and_nothing_is_cut(tokenizer, readable, query, head, text):
    found = readable.windows(head + " ", text, query)
    lengths = [len(tokenizer(query, window)["input_ids"]) for window in found]
    whole = len(tokenizer(query, f"{head} {text}")["input_ids"])
    if whole <= 24:
        assert found == [f"{head} {text}"] and lengths == [whole]
        return
    assert set(lengths) == {24}  # each as long as the model
    spans = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    reached = 0
    for window in found:
        piece = window.removeprefix(f"{head} ")
        starts = [n for n, (start, _) in enumerate(spans) if text.startswith(piece, start)]
        assert any(start <= reached for start in starts), "a gap"
        reached = max(start for start in starts if start <= reached) + len(
            tokenizer(piece, add_special_tokens=False)["input_ids"]
        )
    assert text.endswith(found[-1].removeprefix(f"{head} "))


def test_a_head_that_leaves_no_room_is_cut(readable):
    """Of 24 tokens 3 are special; query 1: 20 are left, of which a head may have 10."""
    head, text = " ".join("h" * 30) + " ", " ".join("abcdefghijklmnop")
    found = readable.windows(head, text, "q")
    assert found[0] == " ".join("h" * 10) + " " + " ".join("abcdefghij")
    assert found[-1].endswith("o p") and all(window.startswith("h " * 10) for window in found)


def test_a_query_that_is_longer_than_the_model_leaves_half(readable):
    found = readable.windows("", " ".join("abcdefghijklmnop"), " ".join("q" * 99))
    assert found[0] == " ".join("abcdefghij")  # (24 - 3) / 2


def test_without_a_query_beside_it_there_is_more_room(readable):
    text = " ".join("abcdefghijklmnopqrstuv")
    assert readable.windows("", text) == [text]  # 22 and two special tokens
    assert len(readable.windows("", text + " w")) == 2


@given(st.text(alphabet="ab \n\t\u3000\u00a0c", max_size=80))
def test_the_start_of_a_text_has_as_many_words_as_the_model_has_tokens(readable, text):
    start = readable.start(text)
    assert text.startswith(start)
    assert start.split() == text.split()[:24]
