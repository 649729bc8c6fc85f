"""DPR's answer matching: the fast form against the rules written down plainly."""

import sys
import time
import unicodedata

import numpy as np
import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st

from linkseek.retriever.answers import AnswerMatcher, _nfd_with_origin, answer_spans, find_answers
from linkseek.retriever.queries import read_queries

PLAIN = regex.compile(
    r"[\p{L}\p{N}\p{M}]+|[^\p{Z}\p{C}]", flags=regex.IGNORECASE | regex.UNICODE | regex.MULTILINE
)


JOINED = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}ー々〆\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\u1100-\u115f]"
)


def plain_tokens(text: str) -> list[str]:
    tokens = []
    for token in PLAIN.findall(unicodedata.normalize("NFD", text)):
        parts = [""]
        first = None  # of the part: a character of a script without blanks
        for c in token:
            same = unicodedata.category(c)[0] == "M" if first and not "\u1100" <= first <= "\u115f" else False
            if first and "\u1100" <= first <= "\u115f":
                last = parts[-1][-1]
                same = ("\u1160" <= c <= "\u11a7" and last < "\u11a8") or "\u11a8" <= c <= "\u11ff"
            if not first:
                same = not JOINED.match(c)
            if same:
                parts[-1] += c
            else:
                parts.append(c)
                first = c if JOINED.match(c) else None
        tokens += [part.lower() for part in parts if part]
    return tokens


def plain_match(text: str, answers: list[str]) -> bool:
    tokens = plain_tokens(text)
    for answer in answers:
        wanted = plain_tokens(answer)
        for start in range(len(tokens) - len(wanted) + 1):
            if wanted and tokens[start : start + len(wanted)] == wanted:
                return True
    return False


@pytest.mark.parametrize(
    ("text", "answer", "expected"),
    [
        ("It was written in 1905.", "1905", True),
        ("It was written in 19050.", "1905", False),
        ("THE BEATLES sang", "the Beatles", True),
        ("Beatles sang", "the Beatles", False),  # articles count
        ("on May 18, 2018", "May 18 , 2018", True),
        ("on May 18 2018", "May 18, 2018", False),  # punctuation counts
        ("Wilhelm Ro\u0308ntgen", "Röntgen", True),
        ("Rontgen", "Röntgen", False),
        ("a\u2028b", "a b", True),
        ("a\u0085b", "a b", True),
        ("New\nYork", "new york", True),
        ("state-of-the-art", "of the", False),
        ("state-of-the-art", "OF-the", True),
        ("anything", "", False),
        ("anything", " \u200b", False),
        ("", "", False),
        ("C++ and C", "C++", True),
        ("ΟΔΟΣ'Α", "οδος", True),  # lowered by token, the sigma is a final one
        ("İstanbul", "i\u0307stanbul", True),
        ("the 🚁 flew", "🚁", True),
        ("我在北京大学学习。", "北京", True),
        ("東京タワーへ行く", "タワー", True),
        ("เมืองหลวงคือกรุงเทพ", "กรุงเทพ", True),
        ("수도는 서울이다", "서울", True),
        ("수도는 서울이다", "서우", False),  # a part of a syllable
    ],
)
def test_rules(text, answer, expected):
    assert AnswerMatcher([answer]).matches(text) is expected
    assert plain_match(text, [answer]) is expected
    assert bool(answer_spans(text, [answer])) is expected


LETTERS = st.text(
    "aAbBéÉe\u0301\u0323ΣσςİıŒ≠=\u0338 '-.,1²½ßẞ\u2028\u200b\u0345한\u1112\u0344\u0f73", max_size=12
)
TEXTS = st.one_of(LETTERS, st.text(max_size=12))


@settings(max_examples=1500)
@given(st.lists(TEXTS, max_size=6), st.lists(TEXTS, max_size=4), st.data())
@example(["ΑΣ'Β"], ["Σ"], None)
def test_fast_equals_plain(parts, answers, data):
    text = " ".join(parts)
    if data is not None and text and data.draw(st.booleans()):  # else few answers would be found
        start = data.draw(st.integers(0, len(text) - 1))
        answers = [*answers, text[start : data.draw(st.integers(start, len(text)))].swapcase()]
    expected = plain_match(text, answers)
    assert AnswerMatcher(answers).matches(text) == expected
    assert bool(answer_spans(text, answers)) == expected


def test_tokens_of_every_character_are_the_plain_ones():
    """The regular expression's flags change nothing, and lower case never makes a space."""
    everything = [chr(c) for c in range(sys.maxunicode + 1) if not 0xD800 <= c < 0xE000]
    for start in range(0, len(everything), 1 << 14):
        text = "a ".join(everything[start : start + (1 << 14)])
        assert AnswerMatcher([text]).matches(text)
        tokens = plain_tokens(text)
        assert AnswerMatcher([text])._answers[0][1] == f" {' '.join(tokens)} "
        assert not any(" " in token for token in tokens)


def test_find_answers_is_plain_matching_of_every_place():
    texts = ["Paris is in France", "paris, texas", "Lyon", "", "1905 was a year"]
    answers = [["Paris"], ["1905", "lyon"], [], ["", "."], ["France", "France."]]
    generator = np.random.default_rng(0)
    rows = generator.integers(-1, len(texts), (len(answers), 7))
    reads = []

    def text_of(row: int) -> str:
        reads.append(row)
        return texts[row]

    found = find_answers(answers, rows, text_of)
    expected = [
        [row >= 0 and plain_match(texts[row], answers[query]) for row in rows[query]]
        for query in range(len(answers))
    ]
    assert found.tolist() == expected
    assert found.any()
    assert not found.all()
    assert sorted(reads) == sorted(set(reads)) == reads  # once each, in order


def test_find_answers_of_nothing():
    rows = np.full((2, 3), -1, np.int64)
    assert not find_answers([["a"], []], rows, lambda row: "a").any()
    assert find_answers([], np.zeros((0, 3), np.int64), lambda row: "a").shape == (0, 3)
    assert find_answers([["a"]], np.zeros((1, 0), np.int64), lambda row: "a").shape == (1, 0)


def test_an_empty_place_is_not_the_last_passage():
    """FAISS says -1 for nothing, and texts[-1] is the last text."""
    texts = ["a town", "Paris"]
    rows = np.array([[0, -1], [-1, -1]])
    assert not find_answers([["Paris"], ["Paris"]], rows, lambda row: texts[row]).any()


def test_a_passage_of_several_pipelines_is_looked_at_once(monkeypatch):
    looked = []
    matches = AnswerMatcher.matches
    monkeypatch.setattr(AnswerMatcher, "matches", lambda *given: looked.append(given) or matches(*given))
    rows = np.array([[0, 1, 1, 0], [1, -1, 1, 1]])
    found = find_answers([["Paris"], ["Lyon"]], rows, ["in Paris", "in Lyon"].__getitem__)
    assert found.tolist() == [[True, False, False, True], [True, False, True, True]]
    assert len(looked) == 3


def test_answers_of_jsonl_keep_their_line_separators(tmp_path):
    """A line of JSONL ends at a line feed alone; other separators are part of a text."""
    path = tmp_path / "questions.jsonl"
    lines = ['{"id": "1", "text": "a\u2028b", "answers": ["x\u0085y"]}', '{"id": "2", "text": "c"}']
    path.write_text("\n".join(lines), "utf-8")
    queries = read_queries(path)
    assert [(query.text, query.answers) for query in queries] == [("a\u2028b", ("x\u0085y",)), ("c", ())]
    assert AnswerMatcher(queries[0].answers).matches("so X Y it is")


# --- regular expressions --------------------------------------------------------------------------


def plain_pattern_match(text: str, patterns: list[str]) -> bool:
    """DPR's rule, with what matches everything left out."""
    flags = regex.IGNORECASE | regex.UNICODE | regex.MULTILINE
    for pattern in patterns:
        try:
            compiled = regex.compile(unicodedata.normalize("NFD", pattern), flags)
        except regex.error:
            continue
        everywhere = not pattern.strip() or compiled.search("")
        if not everywhere and compiled.search(unicodedata.normalize("NFD", text)):
            return True
    return False


@pytest.mark.parametrize(
    ("text", "pattern", "expected"),
    [
        ("It opened on 2 May 1889.", r"May,?\s+1889", True),
        ("It opened in MAY, 1889.", r"may,?\s+1889", True),
        ("It opened in 18890.", r"\b1889\b", False),
        ("19050", "1905", True),  # no tokens: a pattern matches inside a word
        ("first\nsecond line", "^second", True),
        ("first second line", "^second", False),
        ("Wilhelm R\u00f6ntgen", "Ro\u0308ntgen", True),
        ("Wilhelm Ro\u0308ntgen", "R\u00f6ntgen", True),
        ("R\u00f6ntgen", "^Rontgen", False),
        ("(anything", "(", False),
        ("anything [", "[", False),
        ("a", "*a", False),
        ("anything", "", False),
        ("any thing", " ", False),
        ("anything", "x*", False),
        ("anything", "Paris|", False),
        ("In Paris", "(London|Paris)", True),
    ],
)
def test_patterns(text, pattern, expected):
    found = find_answers([[pattern]], np.array([[0]]), [text].__getitem__, kind="regex")
    assert found.tolist() == [[expected]]
    assert plain_pattern_match(text, [pattern]) is expected


def test_patterns_are_not_tokens():
    rows = np.array([[0]])
    for kind, expected in (("tokens", False), ("regex", True)):
        assert find_answers([["P.ris"]], rows, ["Paris"].__getitem__, kind=kind).tolist() == [[expected]]


def test_patterns_of_many_places_are_plain_matching():
    texts = ["Paris, 1889", "parish", "LYON", "", "a1b"]
    answers = [["par.s"], [r"\d{4}", "ly[eo]n"], [], ["(", "a.b"], ["^paris$", "x*"]]
    rows = np.random.default_rng(0).integers(-1, len(texts), (len(answers), 9))
    found = find_answers(answers, rows, texts.__getitem__, kind="regex")
    expected = [
        [row >= 0 and plain_pattern_match(texts[row], answers[query]) for row in rows[query]]
        for query in range(len(answers))
    ]
    assert found.tolist() == expected
    assert found.any()


def test_a_pattern_that_takes_too_long_matches_nothing_anywhere(monkeypatch):
    """Also where it was quick: else the order of the passages would decide."""
    monkeypatch.setattr("linkseek.retriever.answers.PATTERN_SECONDS", 0.05)
    texts = ["aaaa", "a" * 5000 + "!", "Paris"]
    rows = np.array([[0, 1, 2], [0, 1, 2]])
    notes = []
    began = time.thread_time()
    found = find_answers(
        [["(a|aa)+$", "Paris"], ["^a"]], rows, texts.__getitem__, kind="regex", on_note=notes.append
    )
    assert time.thread_time() - began < 5
    assert found.tolist() == [[False, False, True], [True, True, False]]
    [note] = notes
    assert "need more than 1 s for a passage" in note
    assert "1, such as '(a|aa)+$'" in note


def test_notes_name_what_matches_nothing():
    notes = []
    answers = [["(", "x*"], ["[", "Paris", "y?"], ["("]]
    find_answers(answers, np.array([[0]] * 3), ["Paris"].__getitem__, kind="regex", on_note=notes.append)
    assert notes == [
        "answers that are not regular expressions match nothing: 3, such as '('",
        "answers that match even an empty text match nothing: 2, such as 'x*'",
    ]


# --- spans ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "answers", "expected"),
    [
        ("In Paris, Paris!", ["paris"], ["Paris", "Paris"]),
        ("New York City", ["new york", "York City"], ["New York City"]),
        ("New York City", ["york", "new"], ["New", "York"]),
        ("Wilhelm Röntgen won", ["Ro\u0308ntgen"], ["Röntgen"]),
        ("Wilhelm Ro\u0308ntgen won", ["Röntgen"], ["Ro\u0308ntgen"]),
        ("é é Lyon", ["lyon"], ["Lyon"]),
        ("a ≠ b", ["="], ["≠"]),
        ("a =\u0338 b", ["="], ["="]),
        ("한국 (Korea)", ["한국"], ["한국"]),
        ("a a a", ["a a"], ["a a a"]),
        ("nothing", ["", "."], []),
    ],
)
def test_spans(text, answers, expected):
    assert [text[start:end] for start, end in answer_spans(text, answers)] == expected


@settings(max_examples=1500)
@given(TEXTS)
@example("a\u0323\u0301\u0316")
@example("\u0301\u0323a")
@example("\u0344\u0323")
def test_nfd_with_origin(text):
    normalised, origin = _nfd_with_origin(text)
    assert normalised == unicodedata.normalize("NFD", text)
    assert sorted(set(origin)) == list(range(len(text)))
    for character, position in zip(normalised, origin, strict=True):
        assert character in unicodedata.normalize("NFD", text[position])


@given(st.lists(TEXTS, max_size=6), st.lists(TEXTS, max_size=3))
def test_spans_are_sorted_disjoint_and_hold_an_answer(parts, answers):
    text = " ".join(parts)
    spans = answer_spans(text, [*answers, *parts[:1]])
    ends = [end for _, end in spans]
    assert all(end <= start for end, (start, _) in zip(ends, spans[1:], strict=False))
    for start, end in spans:
        assert 0 <= start < end <= len(text)
