"""Requests become commands or are refused; uploads stay where they belong, within limits."""

import io
from datetime import datetime
from pathlib import Path, PurePosixPath

import orjson
import pytest

from linkseek.app.background.job_requests import (
    Workplace,
    checked_index_name,
    encoders,
    runnable_test_sets,
    start_build,
    start_comparison,
    start_evaluation,
    start_sample,
)
from linkseek.app.background.jobs import Jobs
from linkseek.app.background.uploads import safe_path, save_files, save_uploads
from linkseek.app.commands.compare import CompareOptions
from linkseek.app.evaluate import EvaluateOptions
from linkseek.app.testsets import all_test_sets
from linkseek.indexer.build import BuildOptions
from linkseek.indexer.program.errors import InputError, MachineError, UsageError
from linkseek.indexer.program.options import as_words, parse_options
from tests.support.tiny.manifests import index_manifest

OPTIONS_OF = {"build": BuildOptions, "evaluate": EvaluateOptions, "compare": CompareOptions}


class Recorded(Jobs):
    """Notes what would be started, and the files that were there for it."""

    def __init__(self, folder):
        super().__init__(folder)
        self.orders, self.asked, self.files = [], [], []

    def start(self, order, draft=None):
        self.orders.append(order)
        self.asked.append(options(order))
        found = (draft / "upload").rglob("*") if draft else ()
        self.files.append({str(p.relative_to(draft)): p.read_bytes() for p in found if p.is_file()})


@pytest.fixture
def jobs(tmp_path):
    return Recorded(tmp_path / "index" / ".jobs")


def upload(name, content=b'{"id": "a", "title": "A", "text": "Words.", "links": []}\n'):
    return name, io.BytesIO(content)


def options(order):
    """The options of a command, also in its file: flag -> its values."""
    name, words = order.command[4], order.command[5:]
    if words[0] == "--config":
        words = as_words(parse_options(OPTIONS_OF[name], words, name))
    found, flag = {}, ""
    for argument in words:
        if argument.startswith("--"):
            flag = argument
            found[flag] = []
        else:
            found[flag].append(argument)
    return found


# --- uploads --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, path",
    [
        ("a.md", "a.md"),
        ("docs/guide/a.md", "docs/guide/a.md"),
        ("docs\\guide\\a.md", "docs/guide/a.md"),
        (".ssh/.config", ".ssh/.config"),
        ("e\u0301.md", "\u00e9.md"),
        ("<script>alert(1)<script>.md", "<script>alert(1)<script>.md"),
        ("\u6771" * 60 + ".html", "\u6771" * 60 + ".html"),
    ],
)
def test_names_of_uploads(tmp_path, name, path):
    assert safe_path(name) == safe_path(path) == PurePosixPath(path)
    [file] = save_files([upload(name)], tmp_path)
    assert file == tmp_path / path and file.is_file()


REFUSED = [
    "../../etc/passwd", "/etc/passwd", "C:\\Users\\me\\a.md", "..\\..\\a.md", "a/../../b", "...", "", "/",
    "/abs/x", "C:x", "x.", ". ../. ../. ../victim/x",
    ". ../. ../x", "a/. ./b", "\u2024\u2024/x", "\uff0e\uff0e/x", "a/../b", "a//b/./c", "a\0b\n\u202ec.md",
    "\ud800.md", "x/nul.md", "a.md ", "a.md.", "x" * 5000 + ".md", "\u6771" * 200 + ".html",
    "a/" * 500 + "b.md",
]  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_uploads_that_are_refused_leave_nothing(jobs, tmp_path, name):
    uploads = [upload("a.md"), upload(name)]
    with pytest.raises(UsageError, match="cannot name a file") as caught:
        start_build(jobs, tmp_path / "index", "x", uploads)
    assert str(tmp_path) not in caught.value.message + caught.value.hint
    for files in ({"questions": upload(name, QUESTIONS)}, {"qrels": [upload(name)]}, {"run": [upload(name)]}):
        with pytest.raises(UsageError, match="cannot name a file"):
            evaluate(jobs, tmp_path, choices_of("sample", ("bm25",)), **files)
    assert not jobs.orders and [*jobs.folder.iterdir()] == []
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not (tmp_path / "results").exists() or [*(tmp_path / "results").iterdir()] == []


@pytest.mark.parametrize("again", ["a.md", "A.MD"])
def test_two_uploads_of_one_name(tmp_path, again):
    with pytest.raises(UsageError, match=f'two files are named "{again}"'):
        save_files([upload("a.md"), upload("b/a.md"), upload(again)], tmp_path)
    assert [*tmp_path.iterdir()] == []


def test_one_file_several_files_a_folder(tmp_path):
    assert save_uploads([upload("a.jsonl")], tmp_path / "one").relative_to(tmp_path) == Path(
        "one/files/a.jsonl"
    )
    several = save_uploads([upload("a.md", b"1"), upload("b.md", b"3")], tmp_path / "two")
    assert {p.name: p.read_bytes() for p in several.iterdir()} == {"a.md": b"1", "b.md": b"3"}
    folder = save_uploads([upload("wiki/a.md"), upload("wiki/b/c.md")], tmp_path / "three")
    assert folder == tmp_path / "three" / "files" / "wiki" and (folder / "b" / "c.md").is_file()
    assert save_uploads([upload("wiki/a.md")], tmp_path / "four").name == "wiki"  # a folder of one file


def test_a_folder_that_became_a_link_is_not_written_through(tmp_path):
    folder, outside = tmp_path / "upload", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (folder / "wiki").symlink_to(outside)
    with pytest.raises(UsageError, match="a link that leads out of its folder"):
        save_files([upload("wiki/a.md")], folder)
    assert [*outside.iterdir()] == []


def test_nothing_and_a_full_disk(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="no file to read"):
        save_uploads([], tmp_path)

    def full(source, target, length):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("linkseek.app.background.uploads.shutil.copyfileobj", full)
    with pytest.raises(MachineError, match="could not be stored"):
        save_uploads([upload("a.md")], tmp_path)


def test_a_file_where_a_folder_should_be(tmp_path):
    with pytest.raises(MachineError, match="could not be stored"):
        save_uploads([upload("a"), upload("a/b")], tmp_path)


# --- building -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["notes", "My-notes_2", "0", "x" * 64])
def test_names_of_indexes(tmp_path, name):
    assert checked_index_name(f" {name} ", tmp_path) == name


@pytest.mark.parametrize(
    "name",
    ["", " ", "a b", "a\0", "a\n", "x" * 65, *". .. ../x /etc a/b a\\b .jobs a.building -rf ä".split()],
)
def test_names_that_are_none(tmp_path, name):
    with pytest.raises(UsageError, match="name"):
        checked_index_name(f"{name}x" if name == "a\n" else name, tmp_path)


def test_a_name_that_is_taken(tmp_path):
    (tmp_path / "notes").mkdir()
    with pytest.raises(UsageError, match="there is already an index"):
        checked_index_name("notes", tmp_path)


def test_building_from_a_file(jobs, tmp_path):
    start_build(jobs, tmp_path / "index", "notes", [upload("a.jsonl")])
    [order], [files] = jobs.orders, jobs.files
    assert list(files) == ["upload/files/a.jsonl"]
    [asked] = jobs.asked
    assert order.command[1:5] == ["-P", "-m", "linkseek", "build"]
    assert asked["--index"] == [str(tmp_path / "index" / "notes")]
    assert asked["--corpus"][0].endswith("/upload/files/a.jsonl")
    assert "--format" not in asked  # recognised by the command
    assert asked["--on-error"] == ["skip"] and "--no-dense" not in asked
    assert (order.kind, order.subject, order.title) == ("build", "notes", "Build notes")


def test_building_a_folder_without_vectors(jobs, tmp_path):
    pages = [upload("wiki/a.md", b"# A\n"), upload("wiki/b.md", b"# B\n"), upload("wiki/c.png", b"x")]
    start_build(jobs, tmp_path / "index", "wiki", pages, "markdown", ())
    asked = jobs.asked[0]
    assert asked["--format"] == ["markdown"]
    assert "--no-dense" in asked and "--encoder" not in asked


def test_a_large_upload_is_refused(jobs, tmp_path, monkeypatch):
    monkeypatch.setattr("linkseek.app.background.uploads.MAX_BYTES", 10)
    with pytest.raises(UsageError, match="1 file of 57 bytes together"):
        start_build(jobs, tmp_path / "index", "x", [upload("a.jsonl")])
    assert [*jobs.folder.iterdir()] == []


def test_encoders_that_the_form_offers(jobs, tmp_path):
    chosen = ("all-MiniLM-L6-v2", "hlp")
    start_build(jobs, tmp_path / "index", "x", [upload("a.jsonl")], None, chosen)
    assert jobs.asked[0]["--encoder"] == ["all-MiniLM-L6-v2", "hlp"] == encoders()[:2]


@pytest.mark.parametrize(
    "name, uploads, choices, message",
    [
        ("../x", [upload("a.jsonl")], (), "contain only letters"),
        ("x", [], (), "no file to read"),
        ("x", [upload("a.jsonl")], ("../x",), '"../x" is not known'),
        ("x", [upload("a.jsonl")], (None, ("/etc",)), '"/etc" is not known'),
        ("x", [upload(f"{n}.md", b"") for n in range(10_001)], (), "10,001 files of 0 bytes"),
    ],
)
def test_what_is_not_built(jobs, tmp_path, name, uploads, choices, message):
    with pytest.raises((UsageError, InputError), match=message) as caught:
        start_build(jobs, tmp_path / "index", name, uploads, *choices)
    assert not jobs.orders and jobs.list() == []
    assert str(tmp_path) not in caught.value.message + caught.value.hint  # where we keep it is our business
    assert not jobs.folder.exists() or [*jobs.folder.iterdir()] == []


def test_the_sample(jobs, tmp_path):
    start_sample(jobs, tmp_path / "index" / "sample")
    [sample] = jobs.asked
    assert sample["--corpus"][0].endswith("linkseek-sample.xml.bz2")
    assert sample["--index"] == [str(tmp_path / "index" / "sample")]


# --- evaluations ----------------------------------------------------------------------------------

QUESTIONS = b'{"id": "1", "text": "who?", "answers": ["she"]}\n'
KNOWN = ["bm25", "dense"]


def choices_of(test_set, pipelines, **others):
    return {"test_set": test_set, "pipeline": [*pipelines], **others}


def evaluate(jobs, tmp_path, choices, questions=None, pipelines_file=None, **more):
    index = tmp_path / "index" / "sample"
    files = {"queries": [questions] if questions else [], **more}
    place = Workplace(jobs, tmp_path / "results", index, KNOWN, pipelines_file)
    return start_evaluation(place, choices, files)


def test_a_comparison(jobs, tmp_path):
    where = Workplace(jobs, tmp_path / "results", tmp_path / "index" / "sample", KNOWN, None)
    start_comparison(where, ("bm25", "dense"), ["who", " who  ", "", "when?"], "from people", "mine")
    [asked], [files], [order] = jobs.asked, jobs.files, jobs.orders
    assert asked["--pipeline"] == ["bm25", "dense"] and asked["--origin"] == ["from people"]
    assert asked["--judged"] == ["mine"] and order.title == "2 questions on sample: bm25 or dense"
    lines = files["upload/files/questions.jsonl"].splitlines()
    assert [orjson.loads(line)["text"] for line in lines] == ["who", "when?"]
    for pair, questions in ((("bm25", "none"), ["who"]), (("bm25", "dense"), []), (("bm25",) * 2, ["who"])):
        with pytest.raises(UsageError):
            start_comparison(where, pair, questions, "")


def test_an_evaluation_of_a_test_set(jobs, tmp_path):
    choices = choices_of("sample", ("bm25", "dense"), depth=20, limit=7)
    evaluate(jobs, tmp_path, choices, pipelines_file=tmp_path / "own.toml")
    [order] = jobs.orders
    [asked] = jobs.asked
    assert asked["--test-set"] == ["sample"] and asked["--pipeline"] == ["bm25", "dense"]
    assert (asked["--depth"], asked["--limit"]) == (["20"], ["7"])
    assert asked["--pipelines-file"] == [str(tmp_path / "own.toml")]
    assert asked["--output"] == [str(tmp_path / "results" / order.subject)] and order.subject.startswith(
        "sample-2"
    )
    assert order.title == "sample on sample: bm25, dense, 7 questions, depth 20"
    assert order.same


def test_equal_evaluations_have_equal_keys(jobs, tmp_path):
    for choices, questions in (
        (choices_of("sample", ("bm25",)), None),
        (choices_of("sample", ("bm25",)), None),
        (choices_of("sample", ("dense",)), None),
        (choices_of(None, ("bm25",)), upload("q.jsonl", QUESTIONS)),
        (choices_of(None, ("bm25",)), upload("q.jsonl", QUESTIONS)),
        (
            choices_of(None, ("bm25",)),
            upload("q.jsonl", QUESTIONS + b'{"text": "x", "id": "2"}\n'),
        ),
    ):
        evaluate(jobs, tmp_path, choices, questions)
    keys = [order.key for order in jobs.orders]
    assert keys[0] == keys[1] and keys[3] == keys[4] and len(set(keys)) == 4


def test_questions_of_ones_own(jobs, tmp_path):
    evaluate(jobs, tmp_path, choices_of(None, ("bm25",)), upload("<b>my questions</b>.jsonl", QUESTIONS))
    asked = jobs.asked[0]
    assert list(jobs.files[0].values()) == [QUESTIONS]
    assert asked["--queries"][0].startswith(str(jobs.folder))
    assert jobs.orders[0].subject.startswith("b-2")


def test_judgements_and_runs_of_ones_own(jobs, tmp_path):
    more = {
        "qrels": [upload("same.txt", b"1 0 a 1\n")],
        "run": [upload("x.trec", b"x"), upload("y.trec", b"y")],
    }
    evaluate(jobs, tmp_path, choices_of(None, ()), upload("same.txt", QUESTIONS), **more)
    asked = jobs.asked[0]
    names = {flag: [Path(path).name for path in asked[flag]] for flag in ("--queries", "--qrels", "--run")}
    assert names == {"--queries": ["same.txt"], "--qrels": ["same.txt"], "--run": ["x.trec", "y.trec"]}
    assert "--pipeline" not in asked and jobs.orders[0].title == "same.txt on sample: x.trec, y.trec"
    evaluate(jobs, tmp_path, choices_of("sample", ("bm25",)), run=[upload("x.trec", b"x")])
    assert {"--test-set", "--run", "--pipeline"} <= jobs.asked[1].keys()


@pytest.mark.parametrize(
    "choices, questions, message",
    [
        (choices_of("sample", ()), None, "no pipeline is selected"),
        (choices_of("sample", ("--json",)), None, 'no pipeline "--json"'),
        (choices_of("../sample", ("bm25",)), None, "no questions are chosen"),
        (choices_of(None, ("bm25",)), None, "no questions are chosen"),
    ],
)
def test_what_is_not_evaluated(jobs, tmp_path, choices, questions, message):
    with pytest.raises((UsageError, InputError), match=message) as caught:
        evaluate(jobs, tmp_path, choices, questions)
    assert not jobs.orders and str(tmp_path) not in caught.value.message


def test_two_servers_in_the_same_second_have_folders_of_their_own(jobs, tmp_path, monkeypatch):
    """Jobs of other indexes share the results, and a folder that is there is never taken."""
    taken = tmp_path / "results"
    others = Jobs(tmp_path / "other" / ".jobs")
    monkeypatch.setattr(Jobs, "start", lambda self, order, draft: (draft / "job.json").touch() or order)
    outputs = []
    with monkeypatch.context() as patched:
        patched.setattr("linkseek.app.background.jobs.datetime", Stopped)
        (taken / "sample-20260101-000000").mkdir(parents=True)
        (taken / "sample-20260101-000000" / "thesis.txt").write_text("years")
        for one in (Jobs(jobs.folder), others):
            order = evaluate(one, tmp_path, choices_of("sample", ("bm25",)))
            outputs.append(order.output)
            assert options(order)["--output"] == [order.output] and Path(order.output).name == order.subject
    assert [Path(output).name for output in outputs] == [f"sample-20260101-000000-{n}" for n in (2, 3)]
    assert all(Path(output).is_dir() for output in outputs)


class Stopped:
    """A clock."""

    @staticmethod
    def now(zone):
        return datetime(2026, 1, 1, tzinfo=zone)


def test_the_folder_of_an_evaluation_that_runs_already_is_not_left(jobs, tmp_path):
    evaluate(jobs, tmp_path, choices_of("sample", ("bm25",)))  # recorded, not started
    evaluate(jobs, tmp_path, choices_of(None, ("bm25",)), upload("q.jsonl", QUESTIONS))
    assert [*(tmp_path / "results").iterdir()] == []


@pytest.mark.parametrize("asked, used", [(0, "1"), (-3, "1"), (10**9, "1000")])
def test_a_depth_out_of_range(jobs, tmp_path, asked, used):
    evaluate(jobs, tmp_path, choices_of("sample", ("bm25",), depth=asked))
    assert jobs.asked[0]["--depth"] == [used]


def test_test_sets_that_can_run_here(monkeypatch, tmp_path):
    monkeypatch.delenv("LINKSEEK_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    choices = runnable_test_sets(index_manifest(corpus={"file": "x.jsonl"}), "mine")
    sample, is_of_this_index = choices["sample"]
    assert sample.queries == 200 and not is_of_this_index
    assert choices.keys() < all_test_sets().keys()
    by_file = runnable_test_sets(index_manifest(corpus={"file": "linkseek-sample.xml.bz2"}), "mine")
    by_name = runnable_test_sets(index_manifest(), "sample")
    assert next(iter(by_file)) == next(iter(by_name)) == "sample"
    assert by_file["sample"][1] and by_name["sample"][1]
    monkeypatch.setenv("LINKSEEK_DATA", str(tmp_path / "none"))
    assert runnable_test_sets(index_manifest(), "sample") == {}
