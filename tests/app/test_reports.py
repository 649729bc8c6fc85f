"""Finished evaluations: listed, read, taken away; damaged ones told."""

import io
import json
import os
import re
import zipfile

import pytest
from reading import Reader
from results_records import RESULTS, changed, comparison, pipeline, score

from app.evaluation.reports import list_reports, read_report
from app.web.rendering import render, style
from app.web.views import differences_html, report_part_html, report_title, reports_html
from indexer.base.errors import InputError, UsageError

MEANS = {"bm25": 0.5, "dense": 0.75}
HOSTILE = "<script>alert(1)</script> \u202eesrever"


def results(**more):
    """The results of two pipelines, with two questions answered differently."""
    side = {"title": HOSTILE, "text": f"Text {HOSTILE}", "right": False}
    right = {"title": "Right", "text": "She.", "right": True}
    scores = {name: {"accuracy@20": score(mean, mean - 0.1, mean + 0.1)} for name, mean in MEANS.items()}
    first = {"a": "bm25", "b": "dense", "query_id": "1", "question": f"Who? {HOSTILE}", "answers": ["she"]}
    second = {"a": "bm25", "b": "dense", "query_id": "2", "question": "Where & when?", "answers": []}
    return {
        **RESULTS,
        "test_set": {"name": "sample", "description": "", "licence": "", "source": ""},
        "pipelines": {name: pipeline(of) for name, of in scores.items()},
        "measures": ["accuracy@20"],
        "comparisons": [comparison("accuracy@20", "bm25", "dense", 0.25, 0.1, 0.4, 0.5)],
        "curves": {"measure": "accuracy", "ks": [1, 2], "pipelines": {"bm25": [0.2, 0.5], "dense": [0.5, 1]}},
        "analyses": {"length": {"label": "words", "bins": []}},
        "differences": [
            {**first, "rank_a": None, "rank_b": 2, "top_a": side, "top_b": right},
            {**second, "rank_a": 1, "rank_b": 4, "top_a": None, "top_b": None},
        ],
        "counts": {"queries": 4, "queries_with_answers": 4},
        "depth": 20,
        "provenance": changed("provenance", "index", "path", to="~/index/mine")["provenance"],
        **more,
    }


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
    write(folder, "old", when=1)
    even = {name: pipeline({"accuracy@20": score(0.5, 0.4, 0.6)}) for name in MEANS}
    write(folder, "new", results(pipelines=even), when=2)
    (folder / "unfinished" / "runs").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    new, old = list_reports(folder)
    assert (new.name, new.best, new.value) == ("new", ("bm25", "dense"), 0.5)
    assert (old.name, old.modified, old.test_set, old.index, old.questions) == (
        "old",
        1.0,
        "sample",
        "mine",
        4,
    )
    assert (old.pipelines, old.measure, old.best, old.value) == (
        ("bm25", "dense"),
        "accuracy@20",
        ("dense",),
        0.75,
    )
    html = reports_html([new, old], "sample")
    assert "dense</bdi>: accuracy@20 75.0 %" in html and "1 January 1970, 00:00 UTC" in html
    assert 'href="evaluation?report=old&amp;index=sample"' in html
    assert list_reports(folder / "none") == []


def test_a_report_that_is_written_again_is_read_again(folder):
    write(folder, "one")
    assert read_report(folder, "one").results.depth == 20
    write(folder, "one", results(depth=50), when=2)
    assert read_report(folder, "one").results.depth == 50 and list_reports(folder)[0].modified == 2.0


@pytest.mark.parametrize("name", ["../results/one", "/etc", "..", "", "one/", "one/../one", "ONE", "one\0"])
def test_a_name_is_looked_up_and_no_path(folder, name):
    write(folder, "one")
    with pytest.raises(UsageError, match="there is no report"):
        read_report(folder, name)


DAMAGED = {
    "no JSON": b'{"pipelines": ',
    "empty": b"",
    "a list": b"[]",
    "a number": b"5",
    "no pipelines": b"{}",
    "pipelines of nothing": b'{"pipelines": 5}',
    "not UTF-8": b"\xff\xfe",
    "deep": b"[" * 100_000,
    "of a later version": json.dumps(results(version=3)).encode(),
    "with a wrong value": json.dumps(results(depth="20")).encode(),
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
    assert "cannot be shown" in reports_html(list_reports(folder), "x")


def test_a_report_of_the_version_before_is_shown(folder):
    before = results()
    del before["version"]
    write(folder, "old", before)
    assert read_report(folder, "old").results.version == 1 and list_reports(folder)[0].problem == ""


def test_what_is_shown_of_a_report(folder):
    write(folder, "one")
    report = read_report(folder, "one")
    assert report.index == "mine"
    scores = report_part_html(report, "scores")
    assert "dense" in scores and "75.0" in scores and "65.0–85.0" in scores
    charts = report_part_html(report, "charts")
    assert charts.count("<svg") == 4  # two charts, each wide and narrow
    used = set(re.findall(r"var\((--c\d)\)", charts))
    assert used and all(f"{name}: light-dark(" in style() for name in used)
    assert "~/index/mine" in report_part_html(report, "provenance")
    assert report_title(report.results) == "Evaluation on sample"


def test_names_of_pipelines_are_only_text(folder):
    """Charts are drawn without the browser's sanitizer between."""
    name = '<img src=x onerror="alert(1)">\u202e</text></svg>'
    timed = {"total": {"p50": 0.1, "p95": 0.2, "p99": 0.3, "questions": 4}}
    share = {"mean": 0.5, "low": 0.1, "high": 0.9}
    binned = {"label": name, "bins": [{"low": 0, "high": 1, "queries": 3, "pipelines": {name: share}}]}
    told = results(
        pipelines={of: pipeline({"accuracy@20": score(0.5, 0.4, 0.6)}, timed) for of in (name, "b")},
        baseline=name,
        test_set=dict.fromkeys(("name", "description", "licence", "source"), name),
        curves={"measure": "accuracy", "ks": [1, 2], "pipelines": {name: [0.25, 0.5]}},
        analyses={
            "overlap": binned,
            "length": binned,
            "groups": {name: {"queries": 3, "pipelines": {name: {"accuracy@20": 0.5}}}},
        },
        comparisons=[comparison("accuracy@20", name, "b", 0.25, 0.1, 0.4, 0.5)],
        differences=[],
        provenance={**RESULTS["provenance"], "command": name, "versions": {name: name}},
        notes=[name],
    )
    write(folder, "one", told)
    report = read_report(folder, "one")
    assert report_part_html(report, "charts").count("<svg") >= 6
    parts = [report_part_html(report, part) for part in ("scores", "charts", "provenance")]
    parts.append(render("report_heading.html", title=report_title(report.results), index=name))
    for html in parts:
        assert "<img" not in html and "\u202e" not in html and "&lt;img src=x onerror=" in html


def test_differences_lead_to_search_with_both_pipelines(folder):
    write(folder, "one")
    report = read_report(folder, "one")
    assert report.pairs() == [("bm25", "dense")]
    html = differences_html(report, ("bm25", "dense"), "mine", "A <note>.")
    read = Reader(html)
    assert read.all(".ls-differences > p") == [
        "dense vs. bm25: 2 questions, 1 better and 1 worse",
        "A <note>.",
    ]
    assert read.hrefs[1] == "./?pipelines=bm25&pipelines=dense&k=10&q=Where+%26+when%3F&index=mine"
    assert read.all(".ls-found-at") == [
        "bm25 no relevant passage in the top 20",
        "dense relevant at rank 2",
        "bm25 relevant at rank 1",
        "dense relevant at rank 4",
    ]
    assert read.all("li", "class") == ["ls-better", "ls-worse"]
    assert "<script>" not in html and "\u202e" not in html and "%E2%80%AE" not in html
    assert report.differences("dense", "bm25") == []


def test_downloads(folder):
    at = write(folder, "one")
    (at / "runs").mkdir()
    (at / "runs" / "bm25.trec").write_text("q1 Q0 p1 1 2.0 bm25\n")
    (at / "runs" / "notes.txt").write_text("not a run")
    (at / "report.md").write_text("# As it was written")
    report = read_report(folder, "one")
    assert report.files() == ["report.html", "report.md", "results.json", "runs/bm25.trec"]
    assert report.content("report.md") == b"# As it was written"
    assert report.content("report.html").startswith(b"<!doctype html>")  # made again
    assert json.loads(report.content("results.json")) == results()
    with zipfile.ZipFile(io.BytesIO(report.zipped_runs())) as runs:
        assert runs.namelist() == ["one/runs/bm25.trec"]
        assert runs.read("one/runs/bm25.trec") == b"q1 Q0 p1 1 2.0 bm25\n"
    for file in ("../two/results.json", "runs/notes.txt", "/etc/passwd", ""):
        with pytest.raises(UsageError, match="has no file"):
            report.content(file)
    (at / "results.json").unlink()
    with pytest.raises(InputError, match="No such file"):
        report.content("results.json")
