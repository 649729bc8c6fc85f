"""Comparisons without labels: suggested questions, disagreements, judgements, and what becomes of them."""

from __future__ import annotations

import itertools
import json
import threading
from dataclasses import replace

import orjson
import pytest

from linkseek.app import evaluate
from linkseek.app.commands import train_fusion
from linkseek.app.evaluation.significance import sign_test
from linkseek.app.preferences import comparison_files as files
from linkseek.app.preferences.record import (
    MAX_QUESTIONS,
    Disagreement,
    Preferences,
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
    settings = {"index": "own", "a": "bm25", "b": "dense", "origin": "", "created": 1.0, "depth": 100}
    return Preferences(
        **{**settings, "questions": [*questions] or [disagreement(n) for n in range(1, 6)], **more}
    )


# --- disagreement ---------------------------------------------------------------------------------


def test_the_largest_difference_is_first():
    query, same = Query("1", "x"), [str(n) for n in range(20)]
    far = compared(query, same, [*"abcdefghij"])
    half = compared(replace(query, id="2"), same, [*same[:5], *"abcde"])
    turned = compared(replace(query, id="3"), same, [*reversed(same[:10]), *same[10:]])
    equal = compared(replace(query, id="4"), same, same)
    assert [each.overlap for each in (far, half, turned, equal)] == [0, 0.5, 1, 1]
    assert turned.rbo < equal.rbo == 1.0
    in_order = [far, half, turned, equal]
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
    assert done == [4, 6] and sorted(each.id for each in found) == ["1", "2", "3", "4", "5", "6"]
    assert [each.overlap for each in found] == sorted(each.overlap for each in found)
    nothing = next(each for each in found if each.text == "zzz")
    assert nothing.first_a is None and nothing.first_b is not None and nothing.overlap == nothing.rbo == 0
    alone = {each.text: each for each in found}
    for text in questions:  # the same without others around it
        [one] = find_disagreements(pipelines.index, [text], pipelines.open("bm25"), pipelines.open("dense"))
        assert one == alone[text].model_copy(update={"id": "1"})


def test_questions_one_a_line():
    assert read_questions("  Who  was it? \n\n When?\r\nWho was it?\n") == ["Who was it?", "When?"]
    for text in ("", " \n\n"):
        with pytest.raises(UsageError, match="there are no questions"):
            read_questions(text)
    many = "\n".join(f"question {number}" for number in range(MAX_QUESTIONS + 1))
    with pytest.raises(UsageError, match="201 questions"):
        read_questions(many)
    with pytest.raises(UsageError, match="characters"):
        read_questions("x" * 10_001)


# --- sides and verdicts ---------------------------------------------------------------------------


def test_sides_are_drawn_by_the_question_and_stay():
    drawn, again, other = (
        [order_of(name, f"question {number}") for number in range(400)]
        for name in ("bm25-dense", "bm25-dense", "another")
    )
    assert {*drawn} == {("a", "same", "b"), ("b", "same", "a")}
    assert 150 < sum(order[0] == "a" for order in drawn) < 250 and drawn == again != other


@pytest.mark.parametrize(
    ("wins", "losses", "p"),
    [(0, 0, 1.0), (1, 0, 1.0), (3, 3, 1.0), (5, 0, 2 / 32), (9, 1, 2 * (1 + 10) / 1024), (1, 9, 22 / 1024)],
)
def test_the_sign_test_by_hand(wins, losses, p):
    assert sign_test(wins, losses) == pytest.approx(p)


def test_a_verdict_counts_ties_and_leaves_them_out():
    choices = {"1": "a", "2": "a", "3": "same", "4": "b"}
    verdict = preferences(choices=choices).verdict
    assert (verdict.wins_a, verdict.wins_b, verdict.same, verdict.p) == (2, 1, 1, 1.0)


def test_the_better_result_is_relevant_and_a_tie_says_nothing():
    questions = [disagreement(1), disagreement(2), disagreement(3), disagreement(4, b=None)]
    of = preferences(*questions, choices={"1": "a", "2": "b", "3": "same", "4": "b"})
    # nothing is better than A#0 in question 4, which judges no passage relevant
    assert of.qrels == {"1": {"A#0": 1, "B#0": 0}, "2": {"B#0": 1, "A#0": 0}}


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
    assert read_queries(results / name / "queries.jsonl")[4].text == "question 5"
    files.judge(results, name, "2", "b")
    files.judge(results, name, "2", "a", shown="b")  # on second thoughts
    files.judge(results, name, "3", "same")
    again = files.read_preferences(results, name)
    assert again.choices == {"2": "a", "3": "same"}
    assert read_qrels(results / name / "qrels.txt") == {"2": {"A#0": 1, "B#0": 0}}
    assert [query.id for query in read_queries(results / name / "queries.jsonl")] == ["2", "3"]
    assert files.content(results, name, "qrels.txt") == b"2 0 A#0 1\n2 0 B#0 0\n"
    with pytest.raises(UsageError, match="judged after it was shown"):
        files.judge(results, name, "2", "same")  # drawn before there was a judgement
    files.judge(results, name, "2", "a")  # the same again, as by a double click
    assert files.read_preferences(results, name).choices == again.choices
    files.judge(results, name, "3", None, shown="same")
    assert files.read_preferences(results, name).choices == {"2": "a"}
    files.judge(results, name, "2", "same", shown="a")
    assert not (results / name / "qrels.txt").exists()
    assert files.end(results, name).ended
    with pytest.raises(UsageError, match="has ended"):
        files.judge(results, name, "1", "a")
    assert [each.name for each in files.list_preferences(results)] == ["bm25-dense", "bm25-dense-2"]


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
        lambda results, name: files.content(results, name, "qrels.txt"),
    ):
        with pytest.raises(UsageError, match="there is no comparison") as caught:
            call(results, name)
        assert len(caught.value.message) < 200


def test_unknown_questions_and_files_are_refused(results):
    name = files.save_preferences(results, "x", preferences(disagreement(1), disagreement(2, a="S", b="S")))
    for question in ("2", "9", "../1"):
        with pytest.raises(UsageError, match="to judge"):
            files.judge(results, name, question, "a")
    for file in ("preferences.json", "../secret", ""):
        with pytest.raises(UsageError, match="has no file"):
            files.content(results, name, file)


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
        "another version": {"version": 2},
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


def test_evaluate_and_train_fusion_take_the_judgements(
    built_index, word_encoder, results, monkeypatch, capsys
):
    """The pipeline that the judge preferred wins at rank 1; ties are asked and not judged."""
    index = OpenIndex.open(built_index)
    texts = ["volcano", "a river in France", "gravel boats", "the capital", "famous cooking"]
    questions = [
        Disagreement(id=str(n), text=text, first_a="Paris#0", first_b="Naples#0", overlap=0.0, rbo=0.0)
        for n, text in enumerate(texts, start=1)
    ]
    name = files.save_preferences(results, "own", preferences(*questions))
    for id_, choice in {"1": "b", "2": "a", "4": "a", "5": "same"}.items():
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
    assert measured["counts"]["queries"] == 4 and measured["counts"]["queries_with_judgements"] == 3
    assert measured["judged_level"] == "passages" and measured["counts"]["judgements"] == 6
    values = measured["pipelines"]["bm25"]["measures"]["MRR"]["per_query"]
    assert {*values} == {"1", "2", "4"} and values["1"] > 0
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
