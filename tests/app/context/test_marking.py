"""Words that a question and a passage share."""

import re
import sys
import time
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from linkseek.indexer.index import OpenIndex
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.query_words import matched_spans, term
from linkseek.retriever.search.searchers import Bm25
from tests.support.tiny.index import build

WIKI = Path(__file__).parents[3] / "samples" / "wiki"


def marked(question, text):
    return [text[start:end] for start, end in matched_spans(question, text)]


@pytest.mark.parametrize(
    "question, text, expected",
    [
        (
            "Who named oxygen?",
            "He named it Oxygen; the naming of oxygen.",
            ["named", "Oxygen", "naming", "oxygen"],
        ),
        ("cities", "A city is no citadel.", ["city"]),
        ("recover", "It was recovered.", ["recovered"]),
        ("Café Çakır", "the cafe of Cakır", ["cafe", "Cakır"]),
        ("What is the Earth's age?", "The earth is of great age, it is the", ["earth", "age"]),
        ("1944", "In 1944, not 19445.", ["1944"]),
        ("東京", "都は 東京 です", ["東京"]),
        ("東京の人口", "昔から東京は日本の都", ["東京", "の"]),
        ("हिन्दी", "हिन्दी भाषा, हिन", ["हिन्दी"]),
        ("nai\u0308ve", "a naïve, nai\u0308ve na\xadive one", ["naïve", "nai\u0308ve", "na\xadive"]),
        ("🦊 👩‍👩‍👧", "🦊🦊 and 👩‍👩‍👧, not 👩", ["🦊🦊", "👩‍👩‍👧"]),
        ("", "anything", []),
        ("the of and", "the of and", []),
        ("anything", "", []),
        ("?!", "?!", []),
    ],
)
def test_what_is_marked(question, text, expected):
    assert marked(question, text) == expected


def test_all_words_of_one_stem_are_marked():
    """Only words with the first letter of a wanted one are stemmed; here all of them are."""
    words = set(re.findall(r"\w+", "".join(path.read_text("utf-8") for path in WIKI.rglob("*.*"))))
    groups: dict[str, list[str]] = {}
    for word in sorted(words | {"Élan", "elans", "ÆSIR", "Øre", "\xadsoft", "İstanbul", "ies", "yes"}):
        groups.setdefault(term(word), []).append(word)
    assert len(groups) > 1_000
    for stem, alike in groups.items():
        assert not stem or marked(alike[0], " ".join(alike)) == alike


def test_a_stop_word_has_no_term():
    assert term("The") == "" and term("Thé") == ""
    assert term("x" * 255) and term("x" * 256) == ""  # no word: BM25 has only pieces of it
    assert term("RIVERS") == term("river") == "river"


def test_long_texts_take_linear_time():
    started = time.thread_time()
    matched_spans("x" * 100_000 + " y" * 50_000, "ing" * 100_000 + " y" * 50_000)
    assert time.thread_time() - started < 5


def test_two_words_are_one_term_where_they_are_for_bm25(tmp_path):
    text = " ".join(path.read_text("utf-8") for path in sorted(WIKI.glob("*.wiki"))[:4]).lower()
    words = set(re.findall(r"\b[a-z]{3,}\b", text))
    words |= {
        word + ending for word in ("relat", "hop", "hopp", "controll") for ending in ("ed", "ing", "ional")
    }
    index = OpenIndex.open(
        build(tmp_path / "index", [(word, "", word, "") for word in sorted(words)], encoders=())
    )
    ranking = Bm25(index)([Query(word, word) for word in words], len(words))
    compared = 0
    for query, word in enumerate(words):
        found = {index.passages[row].text for row, _ in ranking.results(query)}
        if found and term(word):  # no stop word, of Lucene or of ours
            compared += len(found) > 1
            assert found == {other for other in words if term(other) == term(word)}, word
    assert compared > 50


_TEXTS = {
    "zh": ("北京大学在中国的哪里？", "中国的北京有大学，北京大学在海淀。"),
    "mul": (
        "東京タワーの高さは？",
        "東京は日本の都。東京タワーは高さ333メートルの塔で、富士山は高い。ﾀﾜｰ Café café",
    ),
    "ko": ("서울의 인구는?", "서울은 한국의 수도이며 서울의 인구는 많다."),
}


@pytest.mark.parametrize("language", _TEXTS)
def test_what_bm25_has_matched_is_marked(tmp_path, language):
    """Pairs of characters, where its terms are pairs; no pair that adds nothing to the score."""
    question, text = _TEXTS[language]
    index = OpenIndex.open(build(tmp_path / "i", [("x", "", text, "")], encoders=(), language=language))
    parts = Bm25(index).explain(Query("1", question), 0, 1).parts
    matched = {part.name for part in parts}
    marks = {at for start, end in matched_spans(question, text, language) for at in range(start, end)}
    plain = unicodedata.normalize("NFKC", text)
    assert len(matched) > 2 and len(plain) == len(text)
    expected = {at for name in matched for at in range(len(plain)) if plain[at:].startswith(name)}
    assert marks == expected | {at + 1 for at in expected}


def test_threads_do_not_share_a_stemmer():
    """It keeps the word that it works on: another thread's word in its place is a wrong stem, or an error."""
    words = [f"{stem}{ending}" for stem in ("rational", "form", "hope", "sens") for ending in _ENDINGS]
    alone = [term.__wrapped__(word) for word in words]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            results = list(pool.map(lambda _: [term.__wrapped__(word) for word in words], range(24)))
    finally:
        sys.setswitchinterval(interval)
    assert all(stems == alone for stems in results)


_ENDINGS = ("ization", "ational", "iveness", "ousli", "ful", "ness", "alism", "iviti", "ed", "ing")
