"""linkseek search: what it prints, and how it fails."""

import io
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from linkseek.app import search as command
from linkseek.app.answers import Answer, AnswerHit
from linkseek.app.pipelines.catalogue import RECOMMENDED, read_pipelines
from linkseek.indexer.program.errors import DamagedIndexError, InputError, UsageError
from linkseek.retriever.search.runs import read_run
from tests.support.command import run_forked
from tests.support.tiny.index import HOSTILE_TITLE, build

HIT = AnswerHit(1, 0.5, "a#0", "a", "A title", "A text of words.", "https://a.example.org/a", ((2, 6),))


@pytest.fixture
def run(built_index, word_encoder, capsysbinary):
    """Run the command on the small index; its standard output."""

    def run(*arguments, index=built_index):
        command.main([*arguments, *([] if "--index" in arguments else ["--index", str(index)])])
        return capsysbinary.readouterr().out.decode()

    return run


def printed(answer, **console):
    out = io.StringIO()
    command.print_answer(answer, Console(file=out, width=80, **console))
    return out.getvalue()


def test_text(run):
    out = run("volcano", "--pipeline", "bm25", "-k", "2")
    assert " 1  " in out and " 2  " in out and " 3  " not in out
    assert "bm25: 2 passages in " in out
    assert "Naples lies below a volcano, which erupted last in 1944.\n" in out
    assert "https://a.example.org/?a=1&b=2\n" in out


def test_a_question_of_several_words(run):
    assert "The Seine is a river." in run("where", "does", "the", "Seine", "flow", "--pipeline", "bm25")


def test_the_default_pipeline_is_the_recommended_one(run):
    assert f"{RECOMMENDED}: 5 passages in " in run("river")


def test_without_vectors_the_default_pipeline_is_bm25(run, tmp_path):
    assert "bm25: 2 passages in " in run("Seine", index=build(tmp_path / "index", encoders=[]))


def test_nothing_found(run):
    assert run("zzz", "--pipeline", "bm25").startswith("bm25: no results in ")


def test_json(run):
    row = json.loads(run("volcano", "--pipeline", "bm25", "--json"))
    assert row["question"] == "volcano"
    assert {hit["document_id"] for hit in row["hits"]} == {"Naples", "Hostile", "Titleless"}
    assert {hit["title"] for hit in row["hits"]} == {"Naples", HOSTILE_TITLE, ""}


def test_a_filter_says_how_many_documents_it_leaves_out(run, tmp_path):
    records = [(f"{folder}/{n}", "T", "A volcano.", "") for folder in ("docs", "wiki", "talk") for n in "12"]
    index = build(tmp_path / "index", records, encoders=[])
    out = run("volcano", "--only", "folder:wiki", "--only", "folder:talk", index=index)
    assert "bm25: 4 passages in " in out and "2 documents excluded by the filter" in out
    row = json.loads(run("volcano", "--only", "folder:wiki", "--json", index=index))
    assert [hit["document_id"] for hit in row["hits"]] == ["wiki/1", "wiki/2"]
    with pytest.raises(UsageError, match="NAME:VALUE"):
        run("volcano", "--only", "wiki", index=index)


def test_the_names_of_pipelines(run, tmp_path):
    of_others = "hlp hlp-finetuned static hybrid-static best-static late sparse hybrid-sparse".split()
    assert run("--pipelines").split() == [name for name in read_pipelines() if name not in of_others]
    words_alone = build(tmp_path / "index", encoders=())
    names = "bm25 ql bm25-answers bm25-squad bm25-prop bm25-harp bm25-php"
    assert run("--pipelines", index=words_alone).split() == names.split()


def test_a_file_of_questions_becomes_a_run(run, built_index, tmp_path, capsysbinary):
    """Neither answers nor judgements are needed; the results are those of single questions."""
    asked = {"q 1": "volcano", "q2": "river", "q3": "zzz"}
    queries, output = tmp_path / "asked.tsv", tmp_path / "runs" / "bm25.trec"
    queries.write_text("".join(f"{id_}\t{text}\n" for id_, text in asked.items()))
    main = ["--queries", str(queries), "--output", str(output), "--pipeline", "bm25"]
    assert run(*main) == "" and read_run(output).keys() == {"q 1", "q2"}
    for id_, results in read_run(output).items():
        hits = json.loads(run(asked[id_], "--pipeline", "bm25", "--json", "-k", "100"))["hits"]
        assert [*results] == [hit["passage_id"] for hit in hits]
    command.main(["--index", str(built_index), *main, "-k", "1"])
    told = capsysbinary.readouterr().err
    assert b"3 questions in " in told and b"note: 1 question has no results, such as 'q3'" in told
    assert [len(results) for results in read_run(output).values()] == [1, 1]


# --- what a terminal shows ------------------------------------------------------------------------


def test_marked_words_in_a_terminal():
    out = printed(Answer("text", "bm25", (HIT,), 0.0123), force_terminal=True, color_system="standard")
    assert "\x1b[1;33mtext\x1b[0m" in out
    assert "bm25: 1 passage in 12 ms" in out


def test_nothing_is_taken_for_markup_or_obeyed():
    text = "[bold]x[/] \x1b]0;evil\x07 \r\x9b2J \u202e\u2028"
    hit = replace(HIT, title="[red]title[/red] \x1b[31m", text=text, url="http://a/\n", marks=())
    out = printed(Answer("x", "bm25", (hit,), 0))
    assert "[red]title[/red]" in out and "[bold]x[/]" in out
    assert not set(out) & {*"\x1b\x07\r\x9b\u202e\u2028"}


def test_a_title_that_is_missing():
    hit = replace(HIT, document_id="the id", title="")
    assert printed(Answer("x", "bm25", (hit,), 0)).startswith(" 1  the id  0.5000\n")


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, error, message, hint",
    [
        ([], UsageError, "question is missing", "Who named oxygen?"),
        ([" "], UsageError, "question is empty", ""),
        (["x" * 100_000], UsageError, "100,000 characters", "At most 10,000"),
        (["x", "--pipelin", "bm25"], UsageError, "unknown option --pipelin. Did you mean --pipeline?", ""),
        (["x", "-k", "0"], UsageError, "-k", ""),
        (["x", "-k", "many"], UsageError, "-k", ""),
        (["x", "-k", "1001"], UsageError, "-k", ""),
        (["x", "--pipelines-file", "none.toml"], InputError, "none.toml: no such file", "Check the path."),
        (["--only", "namespace:x", ""], UsageError, "question is empty", ""),
        (["--only", "volcano"], UsageError, 'the filter "volcano" is not NAME:VALUE', "folder:docs"),
        (["--queries", "asked.tsv"], UsageError, "--output belong together", "and the run"),
        (["x", "--output", "a.trec"], UsageError, "--output belong together", ""),
        (["x", "--queries", "a.tsv", "--output", "a.trec"], UsageError, '"x" is a question', "one name"),
        (["--json", "--queries", "a.tsv", "--output", "a.trec"], UsageError, "writes a run", "Omit"),
        (["--queries", "a.tsv", "--output", "."], UsageError, "is a folder", "Name a file"),
        (["--queries", "none.tsv", "--output", "a.trec"], InputError, "none.tsv", ""),
        (["x", "--index", "none"], DamagedIndexError, "none: no index here", "linkseek build"),
    ],
)
def test_errors(run, arguments, error, message, hint):
    with pytest.raises(error) as caught:
        run(*arguments)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_an_index_instead_of_a_question_is_told(built_index):
    with pytest.raises(UsageError, match=f"Did you mean --index {built_index}?"):
        command.main([str(built_index), "volcano"])


def test_a_filter_that_keeps_nothing_is_told(built_index, capsys, monkeypatch):
    monkeypatch.setattr("linkseek.app.pipelines.filters.offered_conditions", lambda index: ["folder:guide"])
    command.main(["--index", str(built_index), "--pipeline", "bm25", "--only", "folder:guidee", "volcano"])
    assert "note: no document has folder:guidee. Did you mean folder:guide?" in capsys.readouterr().err


def test_as_a_program(built_index):
    program = [sys.executable, str(Path(command.__file__)), "--index", str(built_index)]
    question = [b"\xff volcano", "--pipeline", "bm25", "--json"]
    found = subprocess.run([*program, *question], capture_output=True)
    assert (found.returncode, found.stderr) == (0, b"") and b"\xff" not in found.stdout
    assert len(json.loads(found.stdout)["hits"]) == 3
    wrong = run_forked([*program[1:], "volcano", "--pipeline", "bm52"])
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr == 'search: error: no pipeline "bm52"\n  Did you mean bm25?\n'
