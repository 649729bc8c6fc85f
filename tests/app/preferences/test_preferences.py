"""Comparisons without labels: suggested questions, disagreements, judgements, and what becomes of them."""

from __future__ import annotations

import itertools
import json
import threading
from dataclasses import replace

import orjson
import pytest

from linkseek.app import evaluate
from linkseek.app.commands import compare, train_fusion
from linkseek.app.evaluation.significance import sign_test
from linkseek.app.preferences import comparison_files as files
from linkseek.app.preferences import judged_sets as sets
from linkseek.app.preferences.record import (
    MAX_QUESTIONS,
    Disagreement,
    Preferences,
    Verdict,
    compared,
    find_disagreements,
    order_of,
    read_questions,
    sort_disagreements,
)
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.retriever.queries import queries_lines, read_queries
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.runs import read_qrels


def disagreement(number, a="A#0", b="B#0", overlap=0.0, rbo=0.0):
    return Disagreement(
        id=str(number), text=f"question {number}", first_a=a, first_b=b, overlap=overlap, rbo=rbo
    )


def preferences(*questions, **more):
    settings = {"index": "own", "a": "bm25", "b": "dense", "origin": "", "created": 1.0}
    settings["judged"] = ""
    return Preferences(
        **{**settings, "questions": [*questions] or [disagreement(n) for n in range(1, 6)], **more}
    )


# --- disagreement ---------------------------------------------------------------------------------


def test_the_largest_difference_is_first():
    query, same = Query("1", "x"), [str(n) for n in range(20)]
    far = compared(query, same, [*"abcdefghijk"])
    half = compared(replace(query, id="2"), same, [*same[:5], *"abcde"])
    turned = compared(replace(query, id="3"), same, [*reversed(same[:10]), *same[10:]])
    equal = compared(replace(query, id="4"), same, same)
    assert [each.overlap for each in (far, half, turned, equal)] == [0, 0.5, 1, 1]
    assert turned.rbo < equal.rbo == 1.0
    short = compared(replace(query, id="5"), same, ["a"])  # a list of one says little
    assert (short.overlap, short.compared) == (0, 1) and far.compared == 10
    in_order = [far, half, turned, equal, short]
    for mixed in itertools.permutations(in_order):
        assert sort_disagreements(mixed) == in_order
    assert equal.same_first and not turned.same_first


def test_two_pipelines_are_asked_in_batches(make_pipelines):
    pipelines = make_pipelines()
    questions = ["volcano", "a river in France", "Paris", "zzz", "gravel boats", "cooking"]
    done = []
    found = find_disagreements(
        pipelines.index, questions, pipelines.open("bm25"), pipelines.open("dense"), done.append
    )
    assert done == [4, 2] and sorted(each.id for each in found) == ["1", "2", "3", "4", "5", "6"]
    nothing = next(each for each in found if each.text == "zzz")
    assert nothing.first_a is None and nothing.first_b is not None and nothing.overlap == nothing.rbo == 0
    alone = {each.text: each for each in found}
    for text in questions:  # the same without others around it
        [one] = find_disagreements(pipelines.index, [text], pipelines.open("bm25"), pipelines.open("dense"))
        assert one == alone[text].model_copy(update={"id": "1"})


def test_questions_one_a_line():
    assert read_questions(["  Who  was it? ", "", " When?", "Who was it?"]) == ["Who was it?", "When?"]
    for texts in ([], [" ", ""]):
        with pytest.raises(UsageError, match="there are no questions"):
            read_questions(texts)
    with pytest.raises(UsageError, match="201 questions"):
        read_questions(f"question {number}" for number in range(MAX_QUESTIONS + 1))
    with pytest.raises(UsageError, match="characters"):
        read_questions(["x" * 10_001])


# --- sides and verdicts ---------------------------------------------------------------------------


def test_sides_are_drawn_by_the_question_and_stay():
    drawn, again, other = (
        [order_of(name, f"question {number}") for number in range(400)]
        for name in ("bm25-dense", "bm25-dense", "another")
    )
    assert {*drawn} == {("a", "same", "neither", "b"), ("b", "same", "neither", "a")}
    assert 150 < sum(order[0] == "a" for order in drawn) < 250 and drawn == again != other


@pytest.mark.parametrize(
    ("wins", "losses", "p"),
    [(0, 0, 1.0), (1, 0, 1.0), (3, 3, 1.0), (5, 0, 2 / 32), (9, 1, 2 * (1 + 10) / 1024), (1, 9, 22 / 1024)],
)
def test_the_sign_test_by_hand(wins, losses, p):
    assert sign_test(wins, losses) == pytest.approx(p)


def test_a_verdict_counts_ties_and_leaves_them_out():
    choices = {"1": "a", "2": "a", "3": "same", "4": "b", "5": "neither"}
    verdict = preferences(choices=choices).verdict
    assert verdict == Verdict(2, 1, 1, 1, 1.0)


@pytest.mark.parametrize(
    ("wins_a", "wins_b", "needed"),
    [(0, 0, 6), (4, 2, 6), (5, 0, 1), (6, 0, 0), (2, 9, 1)],  # 10 to 2: p = .039; 6 to 0: p = .031
)
def test_how_many_more_decide_it(wins_a, wins_b, needed):
    assert Verdict(wins_a, wins_b, 0, 0, 1.0).needed == needed


@pytest.mark.parametrize(
    ("choice", "before", "expected"),
    [
        ("a", {}, {"A#0": 1, "B#0": 0}),
        ("b", {}, {"A#0": 0, "B#0": 1}),
        ("same", {}, {"A#0": 1, "B#0": 1}),
        ("neither", {"A#0": 2}, {"A#0": 0, "B#0": 0}),
        ("a", {"A#0": 3, "B#0": 2}, {"A#0": 3, "B#0": 2}),  # what was judged on the search page stays
        ("b", {"A#0": 3, "B#0": 2}, {"A#0": 1, "B#0": 2}),
        ("same", {"B#0": 2}, {"A#0": 2, "B#0": 2}),
    ],
)
def test_a_choice_is_grades(choice, before, expected):
    of = disagreement(1)
    assert of.grades_for(choice, before) == expected
    assert of.choice_of({id_: {"ann": grade} for id_, grade in expected.items()}) == choice


def test_raters_vote():
    """Of those who graded both; no result is as bad as one that is not relevant."""
    of, graded = disagreement(1), {"ann": 1, "bob": 2}
    assert of.choice_of({"A#0": graded, "B#0": {"ann": 0, "bob": 0, "cem": 3}}) == "a"
    assert of.choice_of({"A#0": graded, "B#0": {"ann": 0, "bob": 3}}) == "same"
    assert of.choice_of({"A#0": graded, "B#0": {"cem": 3}}) is None is of.choice_of({})
    alone = disagreement(1, b=None)
    assert alone.grades_for("b", {}) == {"A#0": 0} and alone.choice_of({"A#0": {"ann": 0}}) == "neither"
    assert alone.choice_of({"A#0": {"ann": 1}}) == "a"


def test_the_next_question_without_a_judgement():
    of = preferences(disagreement(1), disagreement(2, a="X", b="X"), disagreement(3), disagreement(4))
    assert [question.id for question in of.to_judge] == ["1", "3", "4"]
    assert of.next_open() == 0
    of = of.model_copy(update={"choices": {"1": "a", "4": "b"}})
    assert of.next_open() == of.next_open(1) == of.next_open(2) == 1
    assert of.model_copy(update={"choices": {"1": "a", "3": "a", "4": "b"}}).next_open(2) == 2


# --- files ----------------------------------------------------------------------------------------


@pytest.fixture
def results(tmp_path):
    return tmp_path / "results"


def test_judgements_survive_and_are_a_test_set(results):
    name = files.save_preferences(results, "bm25-dense", preferences())
    assert files.save_preferences(results, "bm25-dense", preferences()) == "bm25-dense-2"
    files.judge(results, name, "2", "b")
    assert files.judge(results, name, "2", "a", shown="b") == {"A#0": 0, "B#0": 1}  # on second thoughts
    files.judge(results, name, "3", "same")
    again = files.read_preferences(results, name)
    assert again.choices == {"2": "a", "3": "same"} and again.judged == name
    two, three = (sets.question_id(f"question {number}") for number in (2, 3))
    judged = {two: {"A#0": 1, "B#0": 0}, three: {"A#0": 1, "B#0": 1}}
    assert read_qrels(results / name / "qrels.txt") == judged
    assert [query.id for query in read_queries(results / name / "queries.jsonl")] == [two, three]
    with pytest.raises(UsageError, match="judged since it was shown"):
        files.judge(results, name, "2", "same")  # drawn before there was a judgement
    files.judge(results, name, "2", "a")  # the same again, as by a double click
    assert files.read_preferences(results, name).choices == again.choices
    files.judge(results, name, "3", None, shown="same", grades={"A#0": None, "B#0": None})
    assert files.read_preferences(results, name).choices == {"2": "a"}
    assert files.end(results, name).ended
    sets.judge(results, name, "", "question 2", {"B#0": 3})  # the verdict stays
    assert files.read_preferences(results, name).choices == {"2": "a"}
    with pytest.raises(UsageError, match="has ended"):
        files.judge(results, name, "1", "a")
    assert [each.name for each in files.list_preferences(results)] == ["bm25-dense", "bm25-dense-2"]


def test_a_named_test_set_is_read_and_extended(results):
    sets.judge(results, "mine", "ann", "question 1", {"A#0": 2, "B#0": 0})
    sets.judge(results, "mine", "ann", "question 2", {"A#0": 2})
    first, second = (files.save_preferences(results, "x", preferences(judged="mine")) for _ in range(2))
    assert files.read_preferences(results, first).choices == {"1": "a"}
    assert files.judge(results, first, "2", "b", rater="ann") == {"A#0": 2, "B#0": None}
    assert files.read_preferences(results, second).choices == {"1": "a", "2": "b"}
    files.judge(results, first, "2", None, "b", "ann", grades={"A#0": 2, "B#0": None})  # undone
    assert sets.read_judged(results, "mine")["question 2", "A#0"] == {"ann": 2}
    files.remove_preferences(results, first)
    assert len(sets.read_judged(results, "mine")) == 3
    own = files.save_preferences(results, "own", preferences())
    more = files.save_preferences(results, "own", preferences(judged=own))
    files.judge(results, more, "3", "a")
    files.remove_preferences(results, own)  # with the judgements of the other one
    assert files.read_preferences(results, more).choices == {"3": "a"}


def test_visitors_judge_at_the_same_time(results):
    name = files.save_preferences(results, "x", preferences(*[disagreement(n) for n in range(40)]))
    visitors = [
        threading.Thread(
            target=lambda first=first: [files.judge(results, name, str(n), "a") for n in range(first, 40, 4)]
        )
        for first in range(4)
    ]
    for visitor in visitors:
        visitor.start()
    for visitor in visitors:
        visitor.join()
    assert len(files.read_preferences(results, name).choices) == 40
    assert len(read_qrels(results / name / "qrels.txt")) == 40


@pytest.mark.parametrize("name", ["../x", "/etc", "..", "", "x/", "x/../x", "X", "x\0", "<script>" * 1000])
def test_a_name_is_looked_up_and_no_path(results, name):
    files.save_preferences(results, "x", preferences())
    for call in (
        files.read_preferences,
        files.remove_preferences,
        files.end,
        lambda results, name: files.judge(results, name, "1", "a"),
    ):
        with pytest.raises(UsageError, match="there is no comparison") as caught:
            call(results, name)
        assert len(caught.value.message) < 200


def test_unknown_questions_and_files_are_refused(results):
    name = files.save_preferences(results, "x", preferences(disagreement(1), disagreement(2, a="S", b="S")))
    for question in ("2", "9", "../1"):
        with pytest.raises(UsageError, match="to judge"):
            files.judge(results, name, question, "a")


def test_only_what_was_written_here_is_removed(results):
    name = files.save_preferences(results, "x", preferences())
    own = results / name / "notes.txt"
    own.write_text("mine")
    files.remove_preferences(results, name)
    assert own.read_text() == "mine" and [path.name for path in own.parent.iterdir()] == ["notes.txt"]
    name = files.save_preferences(results, "y", preferences())
    files.judge(results, name, "1", "a")
    files.remove_preferences(results, name)
    assert not (results / name).exists()


def test_a_link_that_leads_elsewhere_is_not_followed(results, tmp_path):
    files.save_preferences(tmp_path / "other", "x", preferences())
    results.mkdir()
    (results / "x").symlink_to(tmp_path / "other" / "x")
    for call in (files.read_preferences, files.remove_preferences, files.end):
        with pytest.raises(InputError, match="leads out of the folder"):
            call(results, "x")
    assert (tmp_path / "other" / "x" / "preferences.json").exists()
    [listed] = files.list_preferences(results)
    assert "leads out of the folder" in listed.problem


def damaged():
    whole = preferences(choices={"1": "a"}).model_dump(mode="json")
    yield "not JSON", b"{"
    yield "a list", b"[]"
    for name, change in {
        "another version": {"version": 1},
        "no questions": {"questions": []},
        "an unknown choice": {"choices": {"1": "<script>"}},
        "a judgement of nothing": {"choices": {"7": "a"}},
        "the same id twice": {"questions": [whole["questions"][0]] * 2},
        "an overlap of 2": {"questions": [whole["questions"][0] | {"overlap": 2}]},
        "an unknown key": {"more": 1},
    }.items():
        yield name, json.dumps(whole | change).encode()


@pytest.mark.parametrize(("what", "content"), damaged())
def test_a_damaged_comparison_is_listed_with_its_problem(results, what, content):
    (results / "x").mkdir(parents=True)
    (results / "x" / "preferences.json").write_bytes(content)
    [listed] = files.list_preferences(results)
    assert listed.preferences is None and "damaged" in listed.problem
    with pytest.raises(InputError, match="the comparison x is damaged"):
        files.judge(results, "x", "1", "a")


# --- what commands make of them -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pipelines", "output", "more", "problem"),
    [
        (["bm25", "bm25"], "new", [], "both pipelines are bm25"),
        (["bm25", "none"], "new", [], 'no pipeline "none"'),
        (["bm25"], "new", [], "pipeline"),
        (["bm25", "dense"], "x", [], "already contains a comparison"),
        (["bm25", "dense"], "new", ["--judged", "../x"], "cannot name a test set"),
    ],
)
def test_what_compare_refuses(built_index, word_encoder, results, pipelines, output, more, problem):
    files.save_preferences(results, "x", preferences())
    asked = results / "q.jsonl"
    asked.write_bytes(b"".join(queries_lines([Query("1", "volcano")])))
    words = ["--index", str(built_index), "--queries", str(asked), "--output", str(results / output)]
    with pytest.raises(UsageError, match=problem):
        compare.main([*words, "--pipeline", *pipelines, *more])
    assert not (results / "new").exists()


def test_evaluate_and_train_fusion_take_the_judgements(
    built_index, word_encoder, results, monkeypatch, capsys
):
    """The pipeline that the judge preferred wins at rank 1."""
    index = OpenIndex.open(built_index)
    texts = ["volcano", "a river in France", "gravel boats", "the capital", "famous cooking"]
    questions = [
        Disagreement(id=str(n), text=text, first_a="Paris#0", first_b="Naples#0", overlap=0.0, rbo=0.0)
        for n, text in enumerate(texts, start=1)
    ]
    name = files.save_preferences(results, "own", preferences(*questions))
    for id_, choice in {"1": "b", "2": "a", "4": "a", "5": "neither"}.items():
        files.judge(results, name, id_, choice)
    judged = [
        "--queries",
        str(results / name / "queries.jsonl"),
        "--qrels",
        str(results / name / "qrels.txt"),
    ]
    common = ["--index", str(built_index), *judged, "--pipeline", "bm25", "dense"]
    evaluate.main([*common, "--latency", "0", "--output", str(results / "measured"), "--measure", "MRR"])
    measured = orjson.loads((results / "measured" / "results.json").read_bytes())
    assert measured["counts"]["queries"] == 4 and measured["counts"]["queries_with_judgements"] == 4
    assert measured["judged_level"] == "passages" and measured["counts"]["judgements"] == 8
    values = measured["pipelines"]["bm25"]["measures"]["MRR"]["per_query"]
    assert values[sets.question_id("volcano")] > 0 == values[sets.question_id("famous cooking")]
    assert len(index.passages) == 6

    seen = {}

    def train(examples, folds, seed):
        seen["sizes"], seen["relevant"] = examples.sizes, examples.relevant
        raise UsageError("seen")

    monkeypatch.setattr(train_fusion, "train", train)
    asked = results / name / "queries.jsonl"
    answered = [replace(query, answers=("the",)) for query in read_queries(asked)]
    asked.write_bytes(b"".join(queries_lines(answered)))  # the judgements decide, and not these
    fused = [*common, "--output", str(results / "fusion.json"), "--folds", "2"]
    with pytest.raises(UsageError, match="seen"):
        train_fusion.main(fused)
    assert len(seen["sizes"]) == 3 and seen["relevant"].sum() == 3  # one relevant passage a question
    with pytest.raises(UsageError, match="2 files of --qrels for 1 of --queries"):
        train_fusion.main([*fused, "--qrels", str(results / name / "qrels.txt")])
