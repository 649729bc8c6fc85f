"""Questions whose answers are known: found again, suggested in turn, and which passages are relevant."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from linkseek.app.context.known_questions import SAMPLE_CORPUS, KnownQuestions, sample_questions
from linkseek.indexer.passages import Passage
from linkseek.retriever.ranking import Query


def passage(text, id_="Ada#2", document_id="Ada"):
    return Passage(id_, document_id, "the cancer", text, 0, len(text))


KNOWN = KnownQuestions(
    [
        Query("1", "Which  sickness killed her?", ("cancer",)),
        Query("2", "Who?", ()),
        Query("3", "Where?", ()),
    ],
    {"1": {"Ada": 1}, "2": {"Ada#2": 2, "Babbage": 0}, "3": {}},
)


@pytest.mark.parametrize("mark", ["?", "", " ?", "??", "\uff1f"])
def test_found_with_and_without_the_question_mark(mark):
    assert KNOWN.find(f"Which sickness killed her{mark}").answers == ("cancer",)


def relevant_by(known, of):
    """Whether a passage is relevant on the ground that counts."""
    return next(iter(known.relevance_of(of).values()), None)


def test_answers_that_are_patterns():
    known = KnownQuestions([Query("1", "When?", (r"18\d\d",))], kind="regex").find("When")
    assert relevant_by(known, passage("in 1852")) and not relevant_by(known, passage("in 1952"))
    assert known.spans("in 1852") == ()


def test_found_by_text_whatever_its_case_and_spaces():
    assert KNOWN.find(" which sickness KILLED her?\n").answers == ("cancer",)
    assert KNOWN.find("which sickness").answers == ()
    assert relevant_by(KNOWN.find("which sickness"), passage("cancer")) is None


@pytest.mark.parametrize(
    ("text", "relevant"),
    [
        ("She died of cancer at 36", True),
        ("She died of Cancer.", True),
        ("A cancerous growth", False),
        ("", False),
    ],
)
def test_a_passage_with_an_answer_is_relevant_and_the_title_does_not_count(text, relevant):
    assert relevant_by(KNOWN.find("Which sickness killed her?"), passage(text)) is relevant


def test_without_answers_judgements_count_on_passages_and_documents():
    known = KNOWN.find("Who?")
    assert relevant_by(known, passage("x")) is True
    assert relevant_by(known, passage("x", "Ada#3")) is False
    assert relevant_by(known, passage("x", "Babbage#0", "Babbage")) is False
    assert relevant_by(KNOWN.find("Where?"), passage("x")) is False  # judged, and nothing is relevant
    for qrels in (None, {"2": {"Ada": 1}}):  # not judged
        assert relevant_by(KnownQuestions([Query("1", "Who?")], qrels).find("Who?"), passage("x")) is None


def test_both_grounds_and_the_one_that_counts_first():
    known = KNOWN.find("which sickness killed her")
    assert known.relevance_of(passage("x")) == {"answers": False, "judgements": True}
    assert relevant_by(known, passage("x")) is False
    judged = replace(known, ground="judgements")
    assert [*judged.relevance_of(passage("x"))] == ["judgements", "answers"]
    assert relevant_by(judged, passage("x")) is True


def test_suggestions_are_from_all_over_the_questions():
    known = KnownQuestions([Query(str(n), f"question {n}") for n in range(20)], first=("7", "3", "99"))
    assert known.suggestions() == [f"question {n}" for n in (7, 3, 0, 4, 8, 11)]
    assert KnownQuestions([]).suggestions() == []


def test_the_sample():
    known, none = (
        sample_questions(SimpleNamespace(manifest=SimpleNamespace(corpus=SimpleNamespace(file=file))))
        for file in (SAMPLE_CORPUS, f"my-{SAMPLE_CORPUS}")
    )
    assert not none.queries and len(known.queries) == 200
    found = known.find("Which sickness killed the lady who foresaw software?")
    assert found.answers == ("cancer",) and found.relevance == {"Ada_Lovelace": 1}
