"""Test sets that people judge where they read: grades of several raters, agreement, and what is written."""

import threading

import pytest

from linkseek.app.page import judging
from linkseek.app.preferences import judged_sets as sets
from linkseek.app.preferences.judged_sets import agreement, judge, question_id, read_judged
from linkseek.app.rendering.html_templates import render
from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.retriever.queries import read_queries
from linkseek.retriever.search.runs import read_qrels
from tests.support.pages import bodies, button, run

ASKED = {"q": "volcano", "pipelines": "bm25", "k": "5"}


def test_the_last_grade_of_a_rater_counts_and_none_takes_it_back(tmp_path):
    judge(tmp_path, "mine", "ann", " a  river ", {"A#0": 1, "A#1": 0})
    judge(tmp_path, "mine", "bob", "a river", {"A#0": 3})
    judge(tmp_path, "mine", "cem", "a river", {"A#0": 2})
    grades = judge(tmp_path, "mine", "ann", "a river", {"A#1": None, "B#0": 2})
    assert (
        grades
        == read_judged(tmp_path, "mine")
        == {("a river", "A#0"): {"ann": 1, "bob": 3, "cem": 2}, ("a river", "B#0"): {"ann": 2}}
    )
    assert len((tmp_path / "mine" / sets.FILE).read_bytes().splitlines()) == 6
    [query] = read_queries(tmp_path / "mine" / sets.QUERIES)
    assert (query.id, query.text) == (question_id("a river"), "a river")
    assert read_qrels(tmp_path / "mine" / sets.QRELS) == {query.id: {"A#0": 2, "B#0": 2}}
    assert sets.list_judged(tmp_path) == ["mine"]
    judge(tmp_path, "mine", "ann", "a river", {"B#0": None})
    for rater in ("ann", "bob", "cem"):
        judge(tmp_path, "mine", rater, "a river", {"A#0": None})
    assert read_judged(tmp_path, "mine") == {} and not (tmp_path / "mine" / sets.QRELS).exists()
    judge(tmp_path, "mine", "ann", "x", {"A": 1})  # of two grades, the lower one
    assert sets.qrels_of(judge(tmp_path, "mine", "bob", "x", {"A": 0})) == {question_id("x"): {"A": 0}}


def test_agreement_of_raters():
    """Cohen 1960: 20 both yes, 15 both no, 5 and 10 apart: (.7 - .5) / (1 - .5) = .4."""
    counts = {(1, 1): 20, (1, 0): 5, (0, 1): 10, (0, 0): 15}
    pairs = [pair for pair, count in counts.items() for _ in range(count)]
    grades = {("q", str(n)): {"a": 2 * a, "b": b} for n, (a, b) in enumerate(pairs)}
    [(a, b, count, kappa)] = agreement(grades | {("q", "alone"): {"a": 1}})
    assert (a, b, count) == ("a", "b", 50) and kappa == pytest.approx(0.4)
    assert agreement({("q", "1"): {"a": 1, "b": 1, "c": 0}}) == [
        ("a", "b", 1, 1.0), ("a", "c", 1, 0.0), ("b", "c", 1, 0.0)
    ]  # fmt: skip
    assert agreement({("q", "1"): {"a": 1}, ("q", "2"): {"b": 1}}) == []


@pytest.mark.parametrize(
    ("name", "grade", "problem"),
    [
        ("../x", 1, "cannot name a test set"),
        ("", 1, "cannot name a test set"),
        ("ok", 4, "grade"),
        ("ok", 1.5, "grade"),
        ("report", 1, "there is already a report"),
    ],
)
def test_what_cannot_be_judged(tmp_path, name, grade, problem):
    (tmp_path / "report").mkdir()
    with pytest.raises(UsageError, match=problem):
        judge(tmp_path, name, "", "x", {"A": grade})
    assert [path.name for path in tmp_path.glob("[!.]*")] == ["report"]


def test_a_damaged_file_keeps_what_it_holds(tmp_path):
    judge(tmp_path, "mine", "a", "x", {"A": 1})
    path = tmp_path / "mine" / sets.FILE
    path.write_bytes(path.read_bytes() + b"{}\n")
    before = path.read_bytes()
    with pytest.raises(InputError, match="mine, line 2: time"):
        judge(tmp_path, "mine", "a", "x", {"B": 1})
    assert path.read_bytes() == before
    with pytest.raises(UsageError, match='no judged test set "other"'):
        read_judged(tmp_path, "other")


def test_nobodys_judgement_is_lost(tmp_path):
    def many(rater):
        for number in range(8):
            judge(tmp_path, "all", rater, f"question {number}", {rater: number % 4})

    threads = [threading.Thread(target=many, args=(f"rater {n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read_judged(tmp_path, "all")) == 32


# --- the page -------------------------------------------------------------------------------------


@pytest.fixture
def judged(open_page, own_index):
    """A page that judges into a test set."""
    test = open_page("search", own_index, **ASKED)
    assert "data-passage=" not in bodies(test)
    for key, name in ((judging.SET, "mine"), (judging.RATER, "ann")):
        test.text_input(key=judging._FIELD + key).set_value(name)
    return run(test)


def test_a_result_is_judged_and_undone(judged, tmp_path):
    assert 'aria-pressed="true">✓' not in bodies(judged) and 'data-question="volcano"' in bodies(judged)
    passage = bodies(judged).partition('data-passage="')[2].partition('"')[0]
    judge(tmp_path / "results", "mine", "ann", "volcano", {passage: 2})
    judged.session_state[judging._LAST] = ("mine", "volcano", passage, None)
    assert bodies(run(judged)).count('aria-pressed="true">✓ 2') == 1
    button(judged, "Undo").click()
    assert "✓ 2" not in bodies(run(judged)) and read_judged(tmp_path / "results", "mine") == {}


def test_a_judged_set_is_evaluated(open_page, own_index, tmp_path, started):
    judge(tmp_path / "results", "mine", "", "volcano", {"x": 1})
    test = open_page("evaluation", own_index)
    test.selectbox(key="test_set").set_value("judged mine")
    run(test)
    button(test, "Evaluate").click()
    run(test)
    [order] = started
    kept = {path.name for path in (tmp_path / "results" / order.subject).rglob("mine-*")}
    assert kept == {"mine-queries.jsonl", "mine-qrels.txt"}


def test_names_are_only_text():
    grades = {("q", "p"): {"<script>": 1, "": 0}}
    html = render("judged_set.html", grades=grades, questions=1, agreement=agreement(grades))
    assert "<script>" not in html and "without a name" in html and "kappa 0.00 on 1 passage" in html
