"""Texts and questions of any script, and of none: found, marked at the right places, and never obeyed."""

from __future__ import annotations

from pathlib import Path

import pytest

from linkseek.app.service import SearchService
from tests.support.damage import here, kept
from tests.support.tiny.corpus import write_jsonl

EVIL = "T\x1b[31m\x9b2J \u202eevil\u202c\x07"
LONG = "w" * 1_000_000
DOCUMENTS = {
    "arabic": ("القاهرة", "القاهرة هي عاصمة مصر وأكبر مدنها."),
    "hebrew": ("ירושלים", "ירושלים היא עיר, שָׁלוֹם עֲלֵיכֶם."),
    "emoji": ("Fox", "A fox 🦊 and a family 👩‍👩‍👧 walked by the flag 🇫🇷."),
    "nfc": ("Café", "The café in Orléans is naïve."),
    "nfd": ("Cafe\u0301", "The cafe\u0301 in Orle\u0301ans is nai\u0308ve."),
    "invisible": ("Zero", "The wo\u200brd and hy\xadphen and می\u200cخواهم and \u200bbegin."),
    "hindi": ("हिन्दी", "हिन्दी भाषा भारत में बोली जाती है।"),
    "chinese": ("東京", "昔から東京は日本の首都である。"),
    "evil": (EVIL, "Text \x1b]0;pwned\x07 with \u202ereversed\u202c control\u2028 words.\0"),
    "long": ("Long", f"before {LONG} after " + "x" * 50_000),  # 10,000 words without a blank
    "marks": ("Marks", "zalgo a" + "\u0301\u0323" * 5_000),
}


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Path:
    """All of them with BM25 and the default encoder."""
    folder = tmp_path_factory.mktemp("text")
    rows = [
        {"id": id_, "title": title, "text": text, "links": [], "url": "http://a/\x1b[2J\u202e"}
        for id_, (title, text) in DOCUMENTS.items()
    ]
    write_jsonl(folder / "c.jsonl", rows)
    done = here("build", "--corpus", folder / "c.jsonl", "--index", folder / "i", "--processes", 1)
    assert "documents 11" in kept(done)
    return folder / "i"


@pytest.fixture(scope="module")
def service(index) -> SearchService:
    return SearchService(index)


def ask(service: SearchService, question: str, pipeline: str = "bm25", k: int = 3) -> dict[str, list[str]]:
    """The documents that are found, with what is marked in each."""
    answer = service.search(question, pipeline, k)
    return {hit.document_id: [hit.text[start:end] for start, end in hit.marks] for hit in answer.hits}


@pytest.mark.parametrize(
    ("question", "document", "marks"),
    [
        ("القاهرة", "arabic", ["القاهرة"]),
        ("\u202eהיא\u202c", "hebrew", ["היא"]),
        ("שָׁלוֹם", "hebrew", ["שָׁלוֹם"]),  # points are part of the word, for Lucene as well
        ("🦊", "emoji", ["🦊"]),
        ("👩‍👩‍👧", "emoji", ["👩‍👩‍👧"]),
        ("🇫🇷?", "emoji", ["🇫🇷"]),
        ("naïve", "nfc", ["naïve"]),
        ("nai\u0308ve", "nfd", ["nai\u0308ve"]),
        ("be\xadgin\u200b", "invisible", ["begin"]),
        ("می\u200cخواهم", "invisible", ["می\u200cخواهم"]),
        ("भाषा", "hindi", ["भाषा"]),
        ("東京", "chinese", ["東京"]),
        ("日本の首", "chinese", ["日本の首"]),
        ("words\0", "evil", ["words"]),
        ("after", "long", ["after"]),
        ("w" * 255, "long", []),  # of a longer word, Lucene indexes pieces of 255 characters
        ("zalgo", "marks", ["zalgo"]),
    ],
    ids=lambda value: str(ascii(value))[:20],
)
def test_found_by_bm25_and_marked(service, question, document, marks):
    found = ask(service, question)
    assert document in found
    assert found[document][: len(marks)] == marks


@pytest.mark.parametrize(
    ("question", "matching"),  # the documents with a term of the question, for BM25 and query likelihood
    [
        ("ملك", []),
        ("🦊🦊🦊", ["emoji"]),
        ("e\u0301" * 500, []),
        ("\u200b\u200d", []),
        ("x" * 10_000, ["long"]),
        ("\u200d", []),
        ("ab\0", []),
    ],
)
def test_any_question_is_answered_by_every_pipeline(service, question, matching):
    assert list(ask(service, question)) == list(ask(service, question, "ql")) == matching
    # Its vector is finite, so there are always nearest passages; "long" has hundreds of them.
    assert len(service.search(question, "dense", 3).hits) == 3
    assert set(matching) <= set(ask(service, question, "hybrid", 1000))


def test_marks_are_slices_of_whole_words(service):
    """Whatever is marked is a term of the question again, and spans lie in order and apart."""
    for title, text in DOCUMENTS.values():
        answer = service.search(f"{title} {text[:300]}", "hybrid", 11)
        for hit in answer.hits:
            ends = [0, *(end for _, end in hit.marks)]
            assert all(start < end <= len(hit.text) for start, end in hit.marks)
            assert all(before <= start for before, (start, _) in zip(ends, hit.marks, strict=False))


# --- a terminal ----------------------------------------------------------------------------------


def test_names_that_look_like_markup(tmp_path):
    """Brackets are markup for the library that prints."""
    folder = tmp_path / "[red]x[" / "[b]"
    folder.mkdir(parents=True)
    (folder / "c.jsonl").write_text('{"id": "a", "text": "t", "links": []}\n{"id": "[/]", "text": []}\n')
    options = ["--corpus", folder / "c.jsonl", "--index", folder / "i", "--no-bm25", "--no-dense"]
    out = kept(here("build", *options, "--on-error", "skip"))
    assert f"{folder}/i is ready" in out and f"{folder}/c.jsonl, line 2" in out
