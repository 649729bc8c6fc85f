"""Passages are slices of their documents, found by row, by id and by document."""

from __future__ import annotations

import re
import time
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkseek.indexer.documents import Document, Section
from linkseek.indexer.language.segments import units
from linkseek.indexer.passages import Cutting, PassageStore, count_words, split_document, write_passages
from tests.support.tiny.corpus import store_documents, store_passages

SPACES = [" ", "\n", "\t", "\u00a0", "\u2028", "\u0085", "\x1c", "\r\n", "  ", "\u3000"]
TEXTS = st.lists(st.sampled_from(["a", "bc", "éß", "𝄞", "e\u0301", "\u200b", *SPACES])).map("".join)


def split_twin(text: str, words: int) -> list[str]:
    """Word by word: a passage begins at its first word's start and ends at its last word's end."""
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    groups = [spans[at : at + words] for at in range(0, len(spans), words)]
    return [text[group[0][0] : group[-1][1]] for group in groups]


@given(TEXTS, st.integers(1, 5))
def test_passages_are_slices_in_order_with_every_word_once(text, words):
    passages = split_document(Document("d", "T", text), Cutting(words))
    assert [p.text for p in passages] == split_twin(text, words)
    assert [p.text for p in passages] == [text[p.start : p.end] for p in passages]
    assert [p.id for p in passages] == [f"d#{n}" for n in range(len(passages))]
    assert all(p.document_id == "d" and p.title == "T" for p in passages)
    assert all(a.end <= b.start for a, b in pairwise(passages))
    assert [len(re.findall(r"\S+", p.text)) for p in passages[:-1]] == [words] * (len(passages) - 1)
    assert re.findall(r"\S+", text) == [w for p in passages for w in re.findall(r"\S+", p.text)]


@given(TEXTS)
def test_zero_words_make_the_document_the_passage(text):
    [passage] = split_document(Document("a#1", "T", text), Cutting(0))
    assert (passage.id, passage.document_id) == ("a#1", "a#1")
    assert (passage.text, passage.start, passage.end) == (text, 0, len(text))


@pytest.mark.parametrize("text", ["", " \n\u2028\u3000"])
def test_white_space_alone_is_no_passage_unless_there_is_a_title(text):
    assert split_document(Document("d", "T", text), Cutting(100)) == []
    assert split_document(Document("d", " ", text), Cutting(0)) == []
    assert [p.title for p in split_document(Document("d", "T", text), Cutting(0))] == ["T"]


@given(st.lists(TEXTS, min_size=1, max_size=5), st.integers(0, 4))
@settings(max_examples=40, deadline=None)
def test_what_is_written_are_the_passages_of_each_document(tmp_path_factory, texts, words):
    folder = tmp_path_factory.mktemp("passages")
    documents = [Document(f"d{n}", f"Title {n}" * (n % 2), text) for n, text in enumerate(texts)]
    store, ids = store_documents(folder, documents)
    twin = store_passages(folder, documents, ids, words)
    done: list[float] = []
    written = write_passages(folder, store, Cutting(words), done.append)
    found = PassageStore([folder / "00000.arrow"], np.load(folder / "offsets.npy"), ids, words)
    assert list(found) == list(twin) and found.offsets.tolist() == twin.offsets.tolist()
    assert (written["passages"], written["words"]) == (len(twin), words) and sum(done) == len(documents)
    digest = sha256()
    for passage in twin:
        digest.update("\0".join([passage.id, passage.title, passage.text, ""]).encode())
    assert written["content_sha256"] == digest.hexdigest()


@pytest.mark.parametrize("text", ["x" * 10**6, "\u00e9" * 10**6 + " a", " " * 10**6, "a " * 500_000])
def test_a_megabyte_is_split_in_linear_time(text):
    started = time.thread_time()
    passages = split_document(Document("d", "T", text), Cutting(100))
    assert time.thread_time() - started < 2
    assert "".join("".join(p.text.split()) for p in passages) == "".join(text.split())
    assert max((len(p.text) for p in passages), default=0) <= 1_600


DOCUMENTS = [
    Document("plain", "Plain", "a b c d e"),
    Document("empty", "Empty", ""),
    Document("C#", "C sharp", "a b"),
    Document("C#1", "looks like a passage", "a"),
    Document("#", "", "a b c"),
    Document("x y/ü", "", "a"),
]


def open_store(folder: Path, words: int) -> PassageStore:
    _, ids = store_documents(folder, DOCUMENTS)
    return store_passages(folder, DOCUMENTS, ids, words)


def test_ids_and_rows_lead_to_each_other(tmp_path):
    store = open_store(tmp_path, 2)
    passages = list(store)
    expected = ["plain#0", "plain#1", "plain#2", "C##0", "C#1#0", "##0", "##1", "x y/ü#0"]
    assert [p.id for p in passages] == expected
    assert len(store) == 8
    assert [store[row] for row in range(8)] == passages
    assert store.ids(range(8)) == expected
    assert store.ids(np.array([3, 0])) == ["C##0", "plain#0"]
    assert store.rows_of(expected[::-1]).tolist() == list(range(8))[::-1]
    assert store.document_rows(np.arange(8)).tolist() == [0, 0, 0, 2, 3, 4, 4, 5]


def test_where_documents_are_passages_ids_are_the_documents(tmp_path):
    store = open_store(tmp_path, 0)
    ids = [document.id for document in DOCUMENTS]
    assert store.ids(range(6)) == ids
    assert store.rows_of(ids).tolist() == list(range(6))
    assert store.rows_of(["plain#0", "", "C"]).tolist() == [-1, -1, -1]
    assert store.document_rows(np.arange(6)).tolist() == list(range(6))


@pytest.mark.parametrize(
    "unknown",
    ["plain#3", "plain#-1", "plain#", "plain", "empty#0", "C#0", "nobody#0", "", "plain#1.0", "plain#²",
     "plain#0000000000000", "plain#99999999999999999999", "plain#00", "plain#01", "plain#\u0661", "x y/ü#1"],
)  # fmt: skip
def test_unknown_ids_have_no_row(tmp_path, unknown):
    store = open_store(tmp_path, 2)
    assert store.rows_of([unknown, "plain#1"]).tolist() == [-1, 1]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=10))
@settings(max_examples=30, deadline=None)
def test_the_documents_of_rows_equal_a_count(tmp_path_factory, lengths):
    documents = [Document(f"d{n}", "", "w " * length) for n, length in enumerate(lengths)]
    folder = tmp_path_factory.mktemp("passages")
    _, ids = store_documents(folder, documents)
    store = store_passages(folder, documents, ids, 1)
    expected = [n for n, length in enumerate(lengths) for _ in range(length)]
    assert store.document_rows(np.arange(len(store))).tolist() == expected
    assert store.ids(range(len(store))) == [f"d{d}#{r - expected.index(d)}" for r, d in enumerate(expected)]


@pytest.mark.parametrize(
    ("words", "lengths"), [(3, [3]), (10, [10]), (11, [11]), (12, [10, 2]), (21, [10, 11]), (23, [10, 10, 3])]
)
def test_a_short_end_joins_the_passage_before(words, lengths):
    text = " ".join(f"w{number}" for number in range(words)) + " \n"
    passages = split_document(Document("d", "T", text), Cutting(10, 2))
    assert [len(passage.text.split()) for passage in passages] == lengths
    assert [passage.text for passage in passages] == [text[p.start : p.end] for p in passages]
    assert [passage.id for passage in passages] == [f"d#{number}" for number in range(len(lengths))]
    plain = split_document(Document("d", "T", text), Cutting(10))
    assert len(plain) == -(-words // 10)


CHINESE = "从前城里许多人家都有水泵，人们每天在那里打水。现在大多数水泵用电。"
THAI = "เครื่องสูบน้ำเป็นเครื่องจักรที่สูบน้ำขึ้นจากบ่อ และใช้ไฟฟ้าในการทำงาน "


@pytest.mark.parametrize(
    "text", [CHINESE * 60, CHINESE.replace("。", "。\n\n") * 60, THAI * 60, "水" * 5_000]
)
def test_where_no_blanks_are_between_words_a_segmenter_counts_them(text):
    passages = split_document(Document("d", "T", text), Cutting(100, 20))
    counts = [count_words(p.text) for p in passages]
    assert len(passages) > 10 and max(counts) <= 119 and min(counts[:-1]) >= 60
    assert [p.text for p in passages] == [text[p.start : p.end] for p in passages]
    assert "".join("".join(p.text.split()) for p in passages) == "".join(text.split())
    assert all(p.text == p.text.strip() for p in passages)


def test_such_passages_end_with_sentences_or_paragraphs():
    passages = split_document(Document("d", "T", CHINESE * 60), Cutting(100, 20))
    assert {p.text[-1] for p in passages} == {"。"}
    text = f"{CHINESE}\n\n" * 30
    passages = split_document(Document("d", "T", text), Cutting(60, 10))
    assert {text[p.end : p.end + 2] for p in passages} == {"\n\n"}


def test_the_same_text_is_as_many_passages_with_and_without_blanks():
    joined = split_document(Document("d", "T", CHINESE * 60), Cutting(100))
    words = " ".join(CHINESE[start:end] for start, end in units(CHINESE * 1))
    apart = split_document(Document("d", "T", f"{words} " * 60), Cutting(100))
    assert abs(len(joined) - len(apart)) <= len(apart) / 3


def sections(*starts: tuple[int, str, int]) -> tuple[Section, ...]:
    return tuple(Section(*each) for each in starts)


def test_passages_begin_at_sections_and_have_the_headings_above_them():
    lead, install, linux, notes = ("lead " * 30, "do " * 150, "apt " * 40, "see " * 25)
    text = lead + install + linux + notes
    at = [len(lead), len(lead + install), len(lead + install + linux)]
    marked = sections(
        (at[0], "Install", 2), (at[1], "Linux", 3), (at[2], "Notes", 2), (len(text), "Empty", 2)
    )
    document = Document("d", "Page", text, sections=marked)
    passages = split_document(document, Cutting(100, 20, headings=True))
    assert [(p.title, len(p.text.split())) for p in passages] == [
        ("Page", 30),
        ("Page > Install", 100),
        ("Page > Install", 50),
        ("Page > Install > Linux", 40),
        ("Page > Notes", 25),
    ]
    assert [text[p.start : p.end] for p in passages] == [p.text for p in passages]
    assert [p.title for p in split_document(document, Cutting(100, 20))] == ["Page"] * 3
    assert [p.title for p in split_document(document, Cutting(0, 0, headings=True))] == ["Page"]


def test_short_sections_share_a_passage_and_keep_their_headings():
    text = "one two " + "three four " + "five " * 30 + "six "
    marked = sections((8, "A", 2), (19, "B", 2), (19 + 150, "C", 3))
    document = Document("d", "P", text, sections=marked)
    [passage] = split_document(document, Cutting(100, 20, headings=True))
    assert (passage.title, passage.text) == ("P; A; B; C", text.strip())
    alone = split_document(document, Cutting(100, 0, headings=True))
    assert [p.title for p in alone] == ["P", "P > A", "P > B", "P > B > C"]


@given(TEXTS, st.lists(st.tuples(st.integers(0, 60), st.integers(1, 4)), max_size=6), st.integers(0, 3))
def test_with_headings_too_every_word_is_in_one_passage_in_order(text, places, minimum):
    marked = sections(*((min(start, len(text)), "H", level) for start, level in sorted(places)))
    document = Document("d", "T", text, sections=marked)
    passages = split_document(document, Cutting(4, minimum, headings=True))
    assert "".join("".join(p.text.split()) for p in passages) == "".join(text.split())
    assert all(a.end <= b.start for a, b in pairwise(passages))
    assert [p.text for p in passages] == [text[p.start : p.end] for p in passages]
