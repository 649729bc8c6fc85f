"""Reports as things: named, run again, deleted, and two next to each other."""

import copy
import io
import shutil
from pathlib import Path

import orjson
import pytest

from linkseek.app import evaluate
from linkseek.app.background.job_requests import Workplace, start_evaluation
from linkseek.app.background.jobs import UPLOAD, Jobs
from linkseek.app.background.uploads import kept_uploads
from linkseek.app.evaluation.by_question import changes, moved_questions
from linkseek.app.evaluation.results import parse_results
from linkseek.app.report.finished import Label, read_label, read_report, remove_report, write_label
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import BusyError, InputError, UsageError
from linkseek.indexer.program.options import as_words, parse_options
from linkseek.indexer.store.outputs import locked, write_output_json
from tests.app.report.test_reports import HOSTILE, results, write
from tests.support.pages import address, bodies, button, labels, notices, run


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "results"


def made(folder, name, content=None):
    """A report as the command writes it."""
    write_output_json(folder / name / "results.json", content or results())
    write_output_json(folder / name / "report.html", "x")


def later():
    """The same with question 1 of dense no longer answered, and question 3 of bm25 answered."""
    content = copy.deepcopy(results())
    for name, question, value in (("dense", "1", 0), ("bm25", "3", 1)):
        score = content["pipelines"][name]["measures"]["accuracy@20"]
        score["per_query"] = score["per_query"] | {question: value}
    return content


def test_a_name_and_a_note(folder):
    made(folder, "one")
    assert read_label(folder, "one") == Label()
    write_label(folder, "one", "  My\n run ", " Why.\nBecause. ")
    assert read_label(folder, "one") == Label(name="My run", note="Why.\nBecause.")
    (folder / "one" / "label.json").write_bytes(b"{")
    assert read_label(folder, "one") == Label()  # damaged: the report is shown all the same
    (folder / "one" / "label.json").unlink()
    write_label(folder, "one", "x", "")
    write_label(folder, "one", " ", "")
    assert not (folder / "one" / "label.json").exists()
    with pytest.raises(UsageError, match="too long"):
        write_label(folder, "one", "x" * 101, "")


def test_only_what_the_evaluation_made_is_removed(folder):
    for name in ("one", "two"):
        made(folder, name)
        write_label(folder, name, "x", "y")
    (folder / "one" / "notes.txt").write_text("mine")
    remove_report(folder, "one")
    remove_report(folder, "two")
    assert [path.name for path in folder.rglob("*")] == ["one", "notes.txt"]
    write(folder, "copied")
    with pytest.raises(UsageError, match="was copied here"):
        remove_report(folder, "copied")


def test_a_report_in_use_and_a_link_are_refused(folder, tmp_path):
    made(folder, "one")
    with locked(folder / "one" / "results.json"), pytest.raises(BusyError):
        remove_report(folder, "one")
    made(tmp_path / "elsewhere", "two")
    (folder / "two").symlink_to(tmp_path / "elsewhere" / "two")
    for act in (remove_report, lambda *given: write_label(*given, "x", "")):
        with pytest.raises(InputError, match="leads out"):
            act(folder, "two")
    assert (tmp_path / "elsewhere" / "two" / "results.json").exists() and (folder / "one").exists()


def test_two_reports_by_hand():
    first, second = (parse_results(orjson.dumps(of), "x") for of in (results(), later()))
    bm25, dense = changes(first, second, "accuracy@20")
    for change, name, *expected in ((bm25, "bm25", 0.5, 0.75, 1, 0, 3), (dense, "dense", 0.75, 0.5, 0, 1, 3)):
        pair = change.pair
        assert [change.before, change.after, pair.wins, pair.losses, pair.ties] == expected
        assert change.name == name and pair.p_randomisation == 1.0
    [moved] = moved_questions(first, second, "dense", "accuracy@20")
    assert moved.values == {"before": 1, "after": 0} and moved.text.startswith("Who?")
    other = later()
    other["questions"] = [each | {"text": "Something else"} for each in other["questions"]]
    assert changes(first, parse_results(orjson.dumps(other), "x"), "accuracy@20") == []


def test_a_report_is_named_and_deleted_on_its_page(open_page, own_index, folder):
    made(folder, "one")
    test = open_page("evaluation", own_index, report="one")
    test.text_input(key="report_name").set_value("<b>Mine</b>")
    test.text_area(key="report_note").set_value(HOSTILE)
    button(test, "Save").click()
    run(test)
    assert "&lt;b&gt;Mine" in bodies(test) and "<script>alert" not in bodies(test)
    assert "&lt;b&gt;Mine" in bodies(open_page("evaluation", own_index))
    button(test, "Delete it").click()
    run(test)
    assert not (folder / "one").exists() and "report" not in address(test)


def test_run_again_with_one_more_pipeline(open_page, own_index, folder, started):
    ours = results()
    for of in ours["pipelines"].values():
        of["source"] = "pipeline"
    ours["provenance"]["files"] = {}
    made(folder, "one", ours)
    test = open_page("evaluation", own_index, report="one")
    test.pills(key="added").set_value(["ql"])
    button(test, "Run it").click()
    assert not notices(run(test))
    [order] = started
    assert order.title == "sample on own: bm25, dense, ql, 4 questions, depth 20"
    assert "report" not in address(test) and order.title in bodies(test)


@pytest.mark.parametrize("file", ["queries", "qrels", "run x.trec", "a run of an old report"])
def test_files_without_copies_are_not_left_out_of_another_run(folder, file):
    ours = results(**{"test_set": None} if file == "queries" else {})
    old = file.startswith("a run")
    for of in ours["pipelines"].values():
        of["source"] = "file" if old else "pipeline"
    ours["provenance"]["files"] = {} if old else {file: {"path": "x", "sha256": "a" * 64}}
    made(folder, "one", ours)
    report = read_report(folder, "one")
    with (
        pytest.raises(UsageError, match="no copies of its files"),
        kept_uploads(folder / "one", report.results, {"queries": [], "qrels": [], "run": []}),
    ):
        pass


@pytest.fixture
def of_uploads(request, own_index, folder, started):
    """A finished evaluation of uploaded files, which are not with its job any more; or with a limit."""
    document = OpenIndex.open(own_index).documents[0].id
    runs = [("theirs.trec", 3), ("another.trec", 2)]  # not in the order of their names
    files = {
        "queries": [("same.jsonl", io.BytesIO(b'{"id": "1", "text": "What is it?"}\n'))],
        "qrels": [("same.jsonl", io.BytesIO(f"1 0 {document} 1\n".encode()))],
        "run": [(name, io.BytesIO(f"1 Q0 {document} 1 {score} x\n".encode())) for name, score in runs],
    }
    limit = getattr(request, "param", None)
    choices = {"test_set": None, "pipeline": ["bm25"], "depth": 20, "limit": limit}
    jobs = Jobs.next_to(own_index)
    start_evaluation(Workplace(jobs, folder, own_index, ["bm25"], None), choices, files)
    [report] = folder.iterdir()
    command = started[0].command
    evaluate.main(command[command.index("evaluate") + 1 :])
    for job in jobs.list():
        shutil.rmtree(jobs.folder / job.id / UPLOAD)
    return report


def asked(order):
    """The options of a command, with the names and contents of the files that were uploaded for it."""
    options = parse_options(evaluate.EvaluateOptions, order.command[order.command.index("--config") :], "")
    found, flag = {}, ""
    for word in as_words(options):
        if word.startswith("--"):
            flag, found[word] = word, []
        elif flag in ("--queries", "--qrels", "--run"):
            found[flag].append((Path(word).name, Path(word).read_bytes()))
        else:
            found[flag].append(word)
    return found


@pytest.mark.parametrize("of_uploads", [None, 1], indirect=True)
def test_uploads_are_asked_again_with_one_more_pipeline(open_page, own_index, folder, started, of_uploads):
    test = open_page("evaluation", own_index, report=of_uploads.name)
    test.pills(key="added").set_value(["ql"])
    button(test, "Run it").click()
    assert not notices(run(test))
    again = asked(started[1])
    assert started[1].title == started[0].title.replace("bm25", "bm25, ql")
    assert ("--limit" in again) == ("1 question," in started[0].title)
    assert again["--pipeline"] == ["bm25", "ql"] and again["--depth"] == ["20"]
    assert [name for name, _ in again["--run"]] == ["theirs.trec", "another.trec"]
    assert [name for name, _ in again["--queries"] + again["--qrels"]] == ["same.jsonl", "same.jsonl"]
    assert b"What is it?" in again["--queries"][0][1] and again["--qrels"][0][1].startswith(b"1 0 ")
    [second] = {*folder.iterdir()} - {of_uploads}
    assert started[1].output == str(second)
    kept = [
        {path.relative_to(of): path.read_bytes() for path in of.glob("uploads/*/[!.]*")}
        for of in (of_uploads, second)
    ]
    assert kept[0] == kept[1] and len(kept[0]) == 4
    remove_report(folder, of_uploads.name)
    assert not of_uploads.exists()


def test_copies_that_are_not_what_was_asked(open_page, own_index, folder, started, of_uploads):
    found = read_report(folder, of_uploads.name).results
    copy = of_uploads / "uploads" / "queries" / "same.jsonl"
    names = {"queries": ["same.jsonl"], "qrels": ["same.jsonl"], "run": ["theirs.trec", "another.trec"]}
    with (
        pytest.raises(InputError, match="No such file"),
        kept_uploads(of_uploads, found, names | {"qrels": ["x"]}),
    ):
        pass
    copy.rename(folder.parent / "outside")
    with pytest.raises(InputError, match="No such file"), kept_uploads(of_uploads, found, names):
        pass
    copy.symlink_to(folder.parent / "outside")
    with pytest.raises(InputError, match="leads out"), kept_uploads(of_uploads, found, names):
        pass
    copy.unlink()
    copy.write_bytes(b"other")
    test = open_page("evaluation", own_index, report=of_uploads.name)
    button(test, "Run it").click()
    assert "has no copies" in notices(run(test))[0] and len(started) == 1
    assert [*folder.iterdir()] == [of_uploads]


def test_two_reports_on_the_page(open_page, own_index, folder):
    made(folder, "one")
    assert "no other report" in bodies(open_page("evaluation", own_index, report="one", part="changes"))
    made(folder, "two <b>", later())
    values = {"report": ["one"], "part": ["changes"], "other": ["two <b>"], "measure": ["accuracy@20"]}
    test = open_page("evaluation", own_index, "--read-only", **{name: of[0] for name, of in values.items()})
    assert address(test) == values | {"index": ["own"]}
    assert bodies(test).count("1 question changed sides") == 2
    assert "<script>alert" not in bodies(test) and "two &lt;b&gt;" in bodies(test)
    assert not labels(test) and test.selectbox(key="other_report").options == ["two <b>"]
    odd = open_page("evaluation", own_index, report="one", part="changes", other="../x", measure="<b>")
    assert address(odd) == values | {"index": ["own"]}
