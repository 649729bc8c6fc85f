"""The page that compares two pipelines without labels, run without a browser."""

import re
from html import unescape

import pytest

from linkseek.app.commands import compare as command
from linkseek.app.page import compare_page as compare
from linkseek.app.page import judging
from linkseek.app.preferences import comparison_files as files
from linkseek.app.preferences import judged_sets as sets
from linkseek.app.preferences.record import order_of
from linkseek.retriever.ranking import Query
from tests.app.preferences.test_preferences import disagreement, preferences
from tests.support.pages import address, bodies, button, labels, notices, run
from tests.support.tiny.index import build

JUDGING = ["Result 1 is better", "Both good", "Both bad", "Result 2 is better"]
QUESTIONS = "volcano\na river in France\ngravel boats\ngravel\ncooking"


@pytest.fixture
def results(tmp_path):
    return tmp_path / "results"


def compare_as_job(test, started):
    """Press the button, run the job's command here, and open what it wrote."""
    test.selectbox(key="compare_b").set_value("dense")
    button(test, "Compare").click()
    run(test)
    [order] = started
    assert order.title.endswith(": bm25 or dense")
    command.main(list(order.command[-2:]))
    return run(test)  # which turns to it


@pytest.fixture
def compared(open_page, own_index, started):
    """The page after a first comparison of bm25 and dense."""
    test = open_page("compare", own_index)
    assert "Which pipeline is better on your pages?" in bodies(test)
    assert "hybrid-weighted" in test.selectbox(key="compare_a").options
    test.text_area(key="compared_questions").set_value(QUESTIONS)
    return compare_as_job(test, started)


def name_of(test):
    return address(test)["comparison"][0]


def judge(test, label):
    button(test, label).click()
    return run(test)


def test_from_questions_to_a_verdict(compared, results, open_page, own_index):
    test, name = compared, name_of(compared)
    made = files.read_preferences(results, name)
    assert (made.a, made.b, made.index, made.origin) == ("bm25", "dense", "own", "written on the page")
    count = len(made.to_judge)
    assert count >= 2 and f"Question 1 of {count}" in bodies(test)
    judging = re.search(r'<div class="ls-judge">.*', bodies(test))[0]
    assert "bm25" not in judging and "dense" not in judging
    assert address(test)["at"] == ["1"]
    for number, question in enumerate(made.to_judge, start=1):  # every time for bm25
        assert f"Question {number} of {count}" in bodies(test)
        judge(test, JUDGING[order_of(name, question.text).index("a")])
    chosen = files.read_preferences(results, name).choices
    assert chosen == {question.id: "a" for question in made.to_judge}
    again = open_page("compare", own_index, comparison=name)  # after a reload, for another visitor
    assert f"{count} judged" in bodies(again) and "judged: result" in bodies(again)
    judge(again, "End it")
    assert f"bm25 is better than dense on {count} of {count} decided" in bodies(again)
    assert "Sign test: p" in bodies(again) and not {*JUDGING} & {*labels(again)}
    assert "at" not in address(again)
    assert f"as the test set {name}." in bodies(again)
    assert name in bodies(open_page("compare", own_index))


def test_a_judge_goes_back_and_changes_a_judgement(compared, results):
    test, name = compared, name_of(compared)
    first = files.read_preferences(results, name).to_judge[0]
    judge(test, "Both good")
    assert address(test)["at"] == ["2"]
    judge(test, "Previous")
    assert address(test)["at"] == ["1"] and "judged: both good" in bodies(test)
    judge(test, "Result 1 is better")
    expected = order_of(name, first.text)[0]
    assert files.read_preferences(results, name).choices == {first.id: expected}


def test_a_browser_with_an_earlier_address_stays_at_the_next_question(compared, results):
    test, name = judge(compared, "Both good"), name_of(compared)
    test.query_params = {**test.query_params, "at": "1"}  # pressed before the browser had the new address
    judge(test, "Both good")
    to_judge = files.read_preferences(results, name).to_judge
    assert files.read_preferences(results, name).choices == {each.id: "same" for each in to_judge[:2]}
    assert address(test)["at"] == [str(min(3, len(to_judge)))]
    judge(test, "Undo question 2")
    assert files.read_preferences(results, name).choices == {to_judge[0].id: "same"}
    assert address(test)["at"] == ["2"]


def test_another_visitor_was_faster(compared, results):
    name = name_of(compared)
    first = files.read_preferences(results, name).to_judge[0]
    files.judge(results, name, first.id, "same")
    judge(compared, "Result 1 is better")
    assert "has been judged since it was shown to you" in notices(compared)[0]
    assert files.read_preferences(results, name).choices == {first.id: "same"}


def test_another_visitor_has_ended_it(compared, results):
    files.end(results, name_of(compared))
    judge(compared, "Result 1 is better")
    assert "This comparison has ended" in notices(compared)[0]
    assert "No question was decided for bm25 or dense" in bodies(compared)


_LEFT = [(4, "the 2 that are left cannot decide it"), (9, "5 more for the same pipeline would decide it")]


@pytest.mark.parametrize(("count", "left"), _LEFT)
def test_what_was_not_judged_is_compared_again(open_page, own_index, results, count, left):
    questions = [disagreement(n, "Paris#0", "Naples#0") for n in range(count)]
    name = files.save_preferences(results, "x", preferences(*questions))
    test = open_page("compare", own_index, comparison=name)
    judge(judge(test, JUDGING[0]), "Both bad")
    assert f"1 decided, 1 to 0, p = 1; {left}" in bodies(test)
    judge(test, "End it")
    assert "0 both good, 1 both bad" in bodies(test) and "5 more of its wins" in bodies(test)
    judge(test, f"Compare the {count - 2} questions without a judgement")
    more = files.read_preferences(results, name_of(test))
    assert name_of(test) == "x-2" and more.judged == "x"
    assert more.questions == questions[2:] and not more.choices and not more.ended


def test_no_result_is_not_better(open_page, own_index, results):
    name = files.save_preferences(results, "x", preferences(disagreement(1, "Paris#0", None)))
    test = open_page("compare", own_index, comparison=name)
    assert [button(test, label).disabled for label in JUDGING].count(True) == 2
    assert button(test, "Both good").disabled and "No result" in bodies(test)
    judge(test, JUDGING[3 - order_of(name, "question 1").index("b")])
    assert files.read_preferences(results, name).choices == {"1": "a"}


def test_a_named_test_set_goes_on(open_page, own_index, results, started):
    sets.judge(results, "mine", "ann", "volcano", {"Naples#0": 1})
    test = open_page("compare", own_index)
    test.text_area(key="compared_questions").set_value(QUESTIONS)
    for key, name in ((judging.SET, "mine"), (judging.RATER, "ann")):
        test.text_input(key=judging._FIELD + key).set_value(name)
    judge(compare_as_job(test, started), "Both good")
    made = files.read_preferences(results, name_of(test))
    assert made.judged == "mine" and [*made.choices.values()] == ["same"]
    grades = sets.read_judged(results, "mine")
    assert len(grades) == 3 or ("volcano", "Naples#0") in grades
    assert all(of == {"ann": 1} for of in grades.values())


def test_a_comparison_is_deleted(compared, results):
    name = name_of(compared)
    judge(compared, "Delete it")
    assert not (results / name).exists() and "comparison" not in address(compared)
    assert "Which pipeline is better on your pages?" in bodies(compared)


def test_questions_are_suggested(open_page, tmp_path):
    index = build(tmp_path / "index" / "plain", [("Moon", "", "Grey.", "")])
    test = judge(open_page("compare", index), "Suggest questions")
    assert "source has no questions" in test.caption[0].value


def test_suggested_questions_say_how(open_page, own_index, monkeypatch, started):
    suggested = [Query("0", "volcano"), Query("1", "river")]
    monkeypatch.setattr(compare, "suggested_items", lambda index, count: (suggested, {}))
    test = judge(open_page("compare", own_index), "Suggest questions")
    assert test.text_area(key="compared_questions").value == "volcano\nriver"
    assert test.caption[0].value == compare._HOW
    compare_as_job(test, started)
    assert compare._HOW in unescape(bodies(judge(test, "End it")))


@pytest.mark.parametrize(
    ("questions", "b", "judged", "problem"),
    [
        ("", "dense", "", "There are no questions"),
        ("x", "bm25", "", "Both pipelines are the same"),
        ("x\n" * 9 + "y" * 10_001, "dense", "", "characters"),
        ("x", "dense", "../x", "cannot name a test set"),
    ],
)
def test_what_cannot_be_compared(open_page, own_index, results, questions, b, judged, problem):
    test = open_page("compare", own_index)
    test.text_area(key="compared_questions").set_value(questions)
    test.selectbox(key="compare_b").set_value(b)
    test.text_input(key=judging._FIELD + judging.SET).set_value(judged)
    assert problem in notices(judge(test, "Compare"))[0]
    assert not results.exists()


@pytest.mark.parametrize("name", ["none", "../own", "/etc", "<script>alert(1)</script>"])
def test_comparisons_that_are_not_there(open_page, own_index, name):
    test = open_page("compare", own_index, comparison=name)
    assert "There is no comparison" in notices(test)[0] and "<script>alert" not in bodies(test)
    assert "All comparisons" in bodies(test)


@pytest.mark.parametrize("at", ["0", "-1", "99", "<b>", "9" * 30])
def test_odd_places(open_page, own_index, results, at):
    name = files.save_preferences(results, "x", preferences(disagreement(1, "Paris#0", "gone#7")))
    test = open_page("compare", own_index, comparison=name, at=at)
    assert "Question 1 of 1" in bodies(test) and not notices(test)
    assert "No result, or its passage is no longer in this index" in bodies(test)


def test_hostile_texts_and_damaged_files(open_page, own_index, results):
    hostile = "<script>alert(1)</script>"
    question = disagreement(1, "Hostile#0", hostile).model_copy(update={"text": hostile})
    files.save_preferences(results, "x", preferences(question, origin=hostile, a=hostile))
    (results / "bad").mkdir()
    (results / "bad" / "preferences.json").write_bytes(b"{")
    for values in ({}, {"comparison": "x"}, {"comparison": "bad"}):
        test = open_page("compare", own_index, **values)
        assert "<script>alert" not in bodies(test) and "<img" not in bodies(test)
    files.end(results, "x")
    assert "<script>alert" not in bodies(open_page("compare", own_index, comparison="x"))


def test_another_index_has_its_passages(open_page, own_index, results):
    name = files.save_preferences(results, "x", preferences(index="elsewhere"))
    test = open_page("compare", own_index, comparison=name)
    assert "in the index elsewhere" in bodies(test) and not {*JUDGING} & {*labels(test)}


def test_read_only(open_page, own_index, results):
    name = files.save_preferences(results, "x", preferences(disagreement(1, "Paris#0", "Lyon#0")))
    assert not labels(open_page("compare", own_index, "--read-only"))
    test = open_page("compare", own_index, "--read-only", comparison=name)
    assert not labels(test) and "read-only" in bodies(test)
    files.end(results, name)
    assert not labels(open_page("compare", own_index, "--read-only", comparison=name))
