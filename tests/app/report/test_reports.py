"""Finished evaluations: listed, read, taken away; damaged ones told."""

import json
import os
import re
from dataclasses import replace

import pytest

from linkseek.app.evaluation.by_question import SHOWN, compare_questions
from linkseek.app.rendering.addresses import EvaluationView
from linkseek.app.rendering.html_templates import render, style
from linkseek.app.rendering.question_table import fitting, question_kinds, question_scatter, questions_html
from linkseek.app.rendering.views import report_part_html
from linkseek.app.report import report_title
from linkseek.app.report.finished import list_reports, read_report, remove_report, write_label
from linkseek.app.report.text import clean
from linkseek.indexer.program.errors import InputError, UsageError
from tests.support.reading import Reader
from tests.support.results_records import RESULTS, changed, comparison, pipeline, score

MEANS = {"bm25": 0.5, "dense": 0.75}
VALUES = {"bm25": {"1": 0, "2": 1, "3": 0, "4": 1}, "dense": {"1": 1, "2": 0, "3": 1, "4": 1}}
HOSTILE = "<script>alert(1)</script> \u202eesrever"


def results(**more):
    """The results of two pipelines, with two questions answered differently."""
    scores = {
        name: {"accuracy@20": score(mean, mean - 0.1, mean + 0.1) | {"queries": 4, "per_query": VALUES[name]}}
        for name, mean in MEANS.items()
    }
    asked = {"1": f"Who? {HOSTILE}", "2": "Where & when?", "3": "How?", "4": "Why?"}
    return {
        **RESULTS,
        "test_set": {"name": "sample", "description": "", "licence": "", "source": ""},
        "questions": [{"id": id_, "text": text, "answers": ["she"]} for id_, text in asked.items()],
        "pipelines": {name: pipeline(of) for name, of in scores.items()},
        "measures": ["accuracy@20"],
        "comparisons": [
            comparison("accuracy@20", "bm25", "dense", 0.25, 0.1, 0.4, 0.5)
            | {"wins": 2, "ties": 1, "losses": 1, "queries": 4}
        ],
        "curves": {"measure": "accuracy", "ks": [1, 2], "pipelines": {"bm25": [0.2, 0.5], "dense": [0.5, 1]}},
        "analyses": {"length": {"label": "words", "without_value": 0, "bins": []}},
        "counts": {"queries": 4, "queries_with_answers": 4},
        "depth": 20,
        "provenance": changed("provenance", "index", "path", to="~/index/mine")["provenance"],
        **more,
    }


def listed_html(reports, index):
    return render("reports.html", reports=reports, labels={}, index=index)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "results"


def write(folder, name, content=None, when=1_000_000_000):
    path = folder / name / "results.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content or results()).encode())
    os.utime(path, (when, when))
    return path.parent


def test_the_list_is_newest_first_and_says_who_was_best(folder):
    dated = changed("provenance", "date", to="2026-11-20T14:11:00+00:00", of=results())
    write(folder, "old", dated, when=2)  # copied since: its own date counts
    even = {name: pipeline({"accuracy@20": score(0.5, 0.4, 0.6)}) for name in MEANS}
    write(folder, "new", results(pipelines=even, provenance=None), when=2_000_000_000)
    (folder / "unfinished" / "runs").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    new, old = list_reports(folder)
    assert (new.name, new.best, new.value) == ("new", ("bm25", "dense"), 0.5)
    assert (old.name, old.when, old.test_set) == ("old", 1795183860.0, "sample")
    assert (old.index, old.questions, old.pipelines) == ("mine", 4, ("bm25", "dense"))
    assert (old.measure, old.best, old.value) == ("accuracy@20", ("dense",), 0.75)
    html = listed_html([new, old], "sample")
    assert "dense</bdi>: accuracy@20 75.0 %" in html and "20 November 2026, 14:11 UTC" in html
    assert 'href="evaluation?report=old&amp;index=sample"' in html
    assert list_reports(folder / "none") == []


def test_a_report_that_is_written_again_is_read_again(folder):
    write(folder, "one")
    assert read_report(folder, "one").results.depth == 20
    write(folder, "one", results(depth=50), when=2)
    assert read_report(folder, "one").results.depth == 50 and list_reports(folder)[0].questions == 4


@pytest.mark.parametrize("name", ["../results/one", "/etc", "..", "", "one/", "one/../one", "ONE", "one\0"])
def test_a_name_is_looked_up_and_no_path(folder, name):
    write(folder, "one")
    for act in (read_report, remove_report, lambda *given: write_label(*given, "x", "")):
        with pytest.raises(UsageError, match="there is no report"):
            act(folder, name)


DAMAGED = {
    "no JSON": b'{"pipelines": ',
    "a list": b"[]",
    "not UTF-8": b"\xff\xfe",
    "of a later version": json.dumps(results(version=4)).encode(),
    "with a wrong value": json.dumps(results(depth="20")).encode(),
    "deep provenance": json.dumps(
        changed("provenance", "corpus", to=json.loads('{"a":' * 150 + "1" + "}" * 150), of=results())
    ).encode(),
    "NaN": b'{"pipelines": {"a": {"measures": {"x": {"mean": NaN}}}}}',
}


@pytest.mark.parametrize("content", list(DAMAGED.values()), ids=list(DAMAGED))
def test_a_damaged_report_is_listed_with_its_problem(folder, content):
    write(folder, "damaged", content)
    write(folder, "whole")
    with pytest.raises(InputError, match="of damaged") as caught:
        read_report(folder, "damaged")
    assert "Evaluate again" in caught.value.hint
    problems = {summary.name: summary.problem for summary in list_reports(folder)}
    assert problems == {"damaged": caught.value.message, "whole": ""}
    assert "cannot be shown" in listed_html(list_reports(folder), "x")


def test_a_time_beyond_all_calendars(folder):
    """Not every file system keeps such a time."""
    write(folder, "one")
    [summary] = [replace(each, when=253_402_300_800.0) for each in list_reports(folder)]
    assert "<td></td></tr>" in listed_html([summary], "x")


def test_links_are_not_followed_out_of_the_folder(folder, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("root")
    at = write(folder, "one")
    (at / "report.html").symlink_to(secret)
    report = read_report(folder, "one")
    with pytest.raises(InputError, match="leads out of the folder"):
        report.content("report.html")
    elsewhere = write(tmp_path / "elsewhere", "two")
    (folder / "two").symlink_to(elsewhere)
    problems = {summary.name: summary.problem for summary in list_reports(folder)}
    assert problems == {"one": "", "two": "two/results.json: a link that leads out of the folder of results"}


def test_what_is_shown_of_a_report(folder):
    write(folder, "one")
    report = read_report(folder, "one")
    assert report.index == "mine"
    scores = report_part_html(report, "scores", "i")
    assert "dense" in scores and "75.0" in scores and "65.0–85.0" in scores
    charts = report_part_html(report, "charts", "i")
    assert charts.count("<svg") == 2
    used = set(re.findall(r"var\((--c\d)\)", charts))
    assert used and all(f"{name}: light-dark(" in style() for name in used)
    assert "~/index/mine" in report_part_html(report, "provenance", "i")
    assert report_title(report.results) == "bm25, dense on sample"


def questions(results, **view):
    view = EvaluationView("one", "questions", **view)
    html = questions_html(results, fitting(view, results), "sample", "mine", "A <note>.")
    assert "<script>" not in html and "\u202e" not in html and "%E2%80%AE" not in html
    return Reader(html)


def test_the_questions_count_what_the_scores_count(folder):
    """The numbers of the report's tests, by the measure that is chosen, over all questions."""
    write(folder, "one")
    results = read_report(folder, "one").results
    read = questions(results)
    assert read.all(".ls-questions > p") == [
        "dense vs. bm25 by accuracy@20, which counts passages with an answer: 2 better, 1 worse, 1 equal, "
        "of 4 questions",
        "1 to 4 of 4 questions. The largest differences first. A <note>.",
    ]
    pair = results.comparison("bm25", "dense", "accuracy@20")
    counts = [len(compare_questions(results, "bm25", "dense", "accuracy@20", shown)) for shown in SHOWN]
    assert counts == [4, pair.wins, pair.losses, pair.ties, 0]
    assert any(
        href.startswith("./?pipelines=bm25&pipelines=dense&k=20&q=Where+%26+when%3F&") for href in read.hrefs
    )
    assert [cells[1:] for cells in cells_of(read)] == [
        ["0", "1", "▲ 1, better"],
        ["1", "0", "▼ 1, worse"],
        ["0", "1", "▲ 1, better"],
        ["1", "1", "="],
    ]


def test_questions_are_filtered_sorted_and_compared_either_way(folder):
    write(folder, "one")
    results = read_report(folder, "one").results
    assert [cells[0] for cells in cells_of(questions(results, shown="worse"))] == ["Where & when? she"]
    both_zero = questions(results, pair=("bm25", "bm25"), shown="both zero")
    assert [cells[0][:4] for cells in cells_of(both_zero)] == ["Who?", "How?"]
    assert "differences" not in both_zero.text  # between a pipeline and itself
    back = questions(results, pair=("dense", "bm25"))
    assert (
        "bm25 vs. dense by accuracy@20, which counts passages with an answer: 1 better, 2 worse"
        in back.all(".ls-questions > p")[0]
    )
    by_bm25 = questions(results, sort="-bm25")
    assert [cells[1] for cells in cells_of(by_bm25)] == ["1", "1", "0", "0"]
    heads = [href for href in by_bm25.hrefs if "sort=" in href]
    orders = [re.search("sort=([^&]*)", href)[1] for href in heads]
    assert orders == ["question", "bm25", "-dense", "-difference"]
    by_question = cells_of(questions(results, sort="question"))
    assert [cells[0][:3] for cells in by_question] == ["How", "Whe", "Who", "Why"]
    odd = questions(results, measure="none", pair=("none", "x"), shown="x", sort="-x", first=99)
    assert odd.words == questions(results).words


def test_questions_of_a_kind_and_with_words(folder):
    """The bins and groups of the analyses are filters, with counts and means of their own."""
    group = {"queries": 3, "pipelines": {}, "query_ids": ["1", "2", "4"]}
    bins = [
        {"low": 1, "high": 1, "queries": 2, "pipelines": {}, "query_ids": ["3", "4"]},
        {"low": 2, "high": 9, "queries": 0, "pipelines": {}, "query_ids": []},
    ]
    length = {"label": "words", "without_value": 0, "bins": bins}
    told = results(analyses={"length": length, "groups": {HOSTILE: group}})
    write(folder, "one", told)
    read = read_report(folder, "one").results
    of_hostile = f"group {clean(HOSTILE)}"
    assert [*question_kinds(read)] == [of_hostile, "length 1"]
    of_group = questions(read, kind=of_hostile)
    assert {cells[0][:4] for cells in cells_of(of_group)} == {"Who?", "Wher", "Why?"}
    counted = of_group.all(".ls-questions > p")[1]
    assert counted.endswith(": 3 questions; dense 66.7 %, bm25 66.7 %; 1 better, 1 worse")
    assert [cells[0] for cells in cells_of(questions(read, kind="length 1", shown="better"))] == ["How? she"]
    assert [cells[0] for cells in cells_of(questions(read, words=" WHERE  & "))] == ["Where & when? she"]
    assert "No such question" in questions(read, words="<b>nothing</b>").words
    assert questions(read, kind="length 2").words == questions(read).words


def test_a_point_for_each_question(folder):
    write(folder, "one")
    read = read_report(folder, "one").results
    view = fitting(EvaluationView("one", "questions", shown="better"), read)
    svg = question_scatter(read, view, "mine")
    assert "<script>" not in svg and "\u202e" not in svg
    drawn = Reader(svg)
    assert drawn.all("figure a[tabindex='-1'] title")[-1] == "Why? (bm25 1, dense 1)"
    circles = [circle.attributes for circle in drawn.tree.css("circle")]
    assert sorted(circle["class"] for circle in circles) == ["down faint", "same faint", "up", "up"]
    places = {(circle["cx"], circle["cy"]) for circle in circles}
    assert len(places) == 4  # those with the same values stand next to each other
    assert question_scatter(read, replace(view, pair=("bm25", "bm25")), "mine") == ""


def test_all_questions_can_be_read(folder):
    ids = [f"q{number:03}" for number in range(250)]
    values = score(0.5, 0.4, 0.6) | {"per_query": dict.fromkeys(ids, 0.5)}
    told = results(
        pipelines={name: pipeline({"m": values}) for name in "ab"},
        questions=[{"id": id_, "text": f"Question {id_}", "answers": []} for id_ in ids],
        measures=["m"],
        main_measure="m",
        baseline="a",
        curves={"measure": "accuracy", "ks": [], "pipelines": {}},
        comparisons=[comparison("m", "a", "b", 0, 0, 0, 1)],
    )
    write(folder, "one", told)
    read = read_report(folder, "one").results
    pages = [questions(read, first=first) for first in (1, 101, 201)]
    assert [cells[0] for page in pages for cells in cells_of(page)] == [f"Question {id_}" for id_ in ids]
    assert "201 to 250 of 250 questions." in pages[2].all(".ls-questions > p")[1]


def cells_of(read):
    """The texts of the cells of each row, below the head."""
    rows = read.tree.css("tbody tr")
    return [[" ".join(cell.text().split()) for cell in row.css("th, td")] for row in rows]


def test_downloads(folder):
    at = write(folder, "one")
    report = read_report(folder, "one")
    assert report.content("report.html").startswith(b"<!doctype html>")  # made again
    (at / "report.html").write_text("As it was written")
    assert report.content("report.html") == b"As it was written"
    assert json.loads(report.content("results.json")) == results()
    for file in ("../two/results.json", "label.json", "/etc/passwd", ""):
        with pytest.raises(UsageError, match="has no file"):
            report.content(file)
    (at / "results.json").unlink()
    with pytest.raises(InputError, match="No such file"):
        report.content("results.json")
