"""Finished evaluations: listed, read, taken away; damaged ones told."""

import io
import json
import os
import zipfile

import pytest
from reading import Reader

from app.evaluation.reports import list_reports, read_report
from app.web.rendering import render
from app.web.views import differences_html, report_part_html, report_title, reports_html
from indexer.base.errors import InputError, LinkseekError, UsageError

HOSTILE = "<script>alert(1)</script> \u202eesrever"


def results(**more):
    """What the runner writes, in short: two pipelines, one question answered differently."""

    def pipeline(mean):
        return {
            "measures": {"accuracy@20": {"mean": mean, "low": mean - 0.1, "high": mean + 0.1, "queries": 4}}
        }

    side = {"title": HOSTILE, "text": f"Text {HOSTILE}", "right": False}
    return {
        "test_set": {"name": "sample"},
        "pipelines": {"bm25": pipeline(0.5), "dense": pipeline(0.75)},
        "measures": ["accuracy@20"],
        "main_measure": "accuracy@20",
        "baseline": "bm25",
        "comparisons": [{"measure": "accuracy@20", "a": "bm25", "b": "dense", "difference": 0.25}],
        "curves": {"measure": "accuracy", "ks": [1, 2], "pipelines": {"bm25": [0.2, 0.5], "dense": [0.5, 1]}},
        "differences": [
            {"a": "bm25", "b": "dense", "question": f"Who? {HOSTILE}", "answers": ["she"], "rank_a": None,
             "rank_b": 2, "top_a": side, "top_b": {"title": "Right", "text": "She.", "right": True}},
            {"a": "bm25", "b": "dense", "question": "Where & when?", "rank_a": 1, "rank_b": 4},
        ],
        "counts": {"queries": 4},
        "depth": 20,
        "provenance": {"index": {"path": "~/index/mine"}, "date": "2026-11-20T18:57:00+00:00"},
        **more,
    }  # fmt: skip


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
    write(folder, "new", results(pipelines={"ql": {"measures": {}}}, main_measure=None), when=2)
    (folder / "unfinished" / "runs").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    new, old = list_reports(folder)
    assert (new.name, new.best, new.value) == ("new", (), None)
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
    "NaN": b'{"pipelines": {"a": {"measures": {"x": {"mean": NaN}}}}}',
}


@pytest.mark.parametrize("content", list(DAMAGED.values()), ids=list(DAMAGED))
def test_a_damaged_report_is_told(folder, content):
    write(folder, "damaged", content)
    write(folder, "whole")
    with pytest.raises(InputError, match="of damaged") as caught:
        read_report(folder, "damaged")
    assert "Evaluate again" in caught.value.hint
    problems = {summary.name: summary.problem for summary in list_reports(folder)}
    assert problems == {"damaged": caught.value.message, "whole": ""}
    assert "cannot be shown" in reports_html(list_reports(folder), "x")


WRONG = [None, 5, "x", [], {}, {"a": 5}, [5, None], True, -1.5, "\u202e<b>"]


@pytest.mark.parametrize("key", sorted(results()))
def test_a_report_with_one_wrong_part_is_shown_without_it(folder, key):
    """Each part replaced by each wrong value: an error that is told, or a page."""
    for number, value in enumerate(WRONG):
        write(folder, "odd", results(**{key: value}), when=number + 1)
        try:
            report = read_report(folder, "odd")
        except LinkseekError:
            assert key == "pipelines"
            continue
        for part in ("scores", "charts", "provenance"):
            assert "<script>" not in report_part_html(report, part)
        for pair in report.pairs():
            differences_html(report, pair, "x")
        assert list_reports(folder)[0].problem == ""


def test_what_is_shown_of_a_report(folder):
    write(folder, "one")
    report = read_report(folder, "one")
    assert report.index == "mine"
    scores = report_part_html(report, "scores")
    assert "dense" in scores and "75.0" in scores and "65.0–85.0" in scores
    assert "<svg" in report_part_html(report, "charts")
    assert "~/index/mine" in report_part_html(report, "provenance")
    assert report_title(report.results) == "Evaluation on sample"


def test_names_of_pipelines_are_only_text(folder):
    """Charts are drawn without the browser's sanitizer between."""
    name = '<img src=x onerror="alert(1)">\u202e</text></svg>'
    measured = {"measures": {"accuracy@20": {"mean": 0.5}}, "latency": {"total": {"p50": 0.1, "p95": 0.2}}}
    share = {"mean": 0.5, "low": 0.1, "high": 0.9}
    binned = {"label": name, "bins": [{"low": 0, "high": 1, "queries": 3, "pipelines": {name: share}}]}
    told = results(
        pipelines={name: measured, "b": measured},
        baseline=name,
        test_set={"name": name},
        curves={"measure": name, "ks": [1, 2], "pipelines": {name: [0.25, 0.5]}},
        analyses={"overlap": binned, "groups": {name: {"queries": 3, "pipelines": {name: {name: 0.5}}}}},
        comparisons=[{"measure": "accuracy@20", "a": name, "b": "b", "difference": 0.25}],
        provenance={"command": name, name: {name: name}},
        notes=[name],
    )
    write(folder, "one", told)
    report = read_report(folder, "one")
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
