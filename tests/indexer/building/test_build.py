"""linkseek build: its options, its messages and exit codes, what it prints."""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from linkseek.indexer import build as build_command
from linkseek.indexer.building.plan import BuildPlan, Built
from linkseek.indexer.building.workspace import Workspace
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import (
    BusyError,
    DamagedIndexError,
    InputError,
    LinkseekError,
    UsageError,
)
from linkseek.indexer.readers.choices import Choices
from tests.support.command import ROOT, run
from tests.support.tiny.encoder import FakeEncoder

SAMPLE = ROOT / "samples" / "linkseek-sample.xml.bz2"


@pytest.fixture(autouse=True)
def fake_encoders(monkeypatch: pytest.MonkeyPatch) -> None:
    """No model is opened but in the test that says so."""
    monkeypatch.setattr("linkseek.retriever.models.biencoder.find_model", Path)
    monkeypatch.setattr(
        "linkseek.retriever.models.biencoder.open_biencoder",
        lambda name, *, title, device: FakeEncoder(name, title=title),
    )


@pytest.fixture
def command(index_path: Path, corpus: Path):
    """Run the command in this process on the tiny corpus, without Lucene."""

    def call(*argv: object) -> None:
        usual = [("--corpus", corpus), ("--index", index_path)]
        given = [word for option in usual if option[0] not in argv for word in option]
        build_command.main([*map(str, given), "--no-bm25", *map(str, argv)])

    return call


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[BuildPlan]:
    """What would be built, without building."""
    made: list[BuildPlan] = []

    def build(index: Path, plan: BuildPlan, open_encoder: Any, reader: Any) -> Built:
        made.append(plan)
        return Built({})

    monkeypatch.setattr(build_command, "build_index", build)
    monkeypatch.setattr(build_command, "print_summary", lambda index, built: None)
    return made


def test_without_arguments_it_is_the_sample_with_everything(plans):
    build_command.main([])
    assert plans == [
        BuildPlan(
            corpus=build_command.SAMPLE, encoders=["all-MiniLM-L6-v2"], faiss="auto", command="linkseek build"
        )
    ]
    build_command.main(["--corpus", os.path.relpath(build_command.SAMPLE), "--index", "index/sample"])
    assert replace(plans[1], corpus=plans[0].corpus, command=plans[0].command) == plans[0]
    assert build_command.SAMPLE.is_file()


def test_every_option_reaches_the_plan(plans, corpus):
    options = (
        "--index i --format jsonl --encoder a b/c --faiss HNSW32 --no-bm25 --no-title --passage-words 50 "
        "--min-words 7 --limit 9 --on-error skip --device cpu --processes 3 --fresh"
    )
    build_command.main(["--corpus", str(corpus), *options.split()])
    assert plans == [
        BuildPlan(
            corpus=corpus, format="jsonl", passage_words=50, min_words=7,
            reading=Choices(limit=9, on_error="skip"),
            title=False, bm25=False, encoders=["a", "b/c"], faiss="HNSW32", processes=3, fresh=True,
            command=f"linkseek build --corpus {shlex.quote(str(corpus))} {options}",
        )
    ]  # fmt: skip
    build_command.main(["--corpus", str(corpus), "--index", "i", "--no-dense"])
    assert plans[1].encoders == []


def test_the_summary_tells_counts_parts_and_what_was_skipped(command, corpus, capsys, index_path):
    corpus.write_text(f"{corpus.read_text()}[red]nonsense[/red]\n")
    command("--on-error", "skip", "--encoder", "fake")
    out = capsys.readouterr().out
    assert f"{index_path} is ready" in out.replace("\n", " ").replace("  ", " ")
    assert "skipped: 1 malformed" in out and "line 41: not JSON" in out
    for word in ("documents", "passages", "links", "dense/fake", "time: "):
        assert word in out
    assert "reused" not in out
    assert f'linkseek search --index {index_path} "your question"' in out
    command("--on-error", "skip", "--encoder", "fake")
    assert capsys.readouterr().out.count("reused") == 4


def test_verifying_reads_every_file_and_builds_nothing(command, index_path, capsys):
    command("--no-dense")
    capsys.readouterr()
    command("--verify")
    assert capsys.readouterr().out.startswith(
        f"{index_path}: {OpenIndex.open(index_path).bytes:,} bytes, every"
    )
    path = index_path / "links" / "target.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(DamagedIndexError, match=r"target\.npy: altered"):
        command("--verify")
    with pytest.raises(DamagedIndexError, match="no index here"):
        build_command.main(["--verify", "--index", str(index_path / "none")])


@pytest.mark.parametrize(
    ("argv", "kind", "message"),
    [
        ("--corpsu x", UsageError, "Did you mean --corpus?"),
        ("--passage-words -1", UsageError, "--passage-words"),
        ("--limit 0", UsageError, "--limit"),
        ("--processes 0", UsageError, "--processes"),
        ("--on-error ignore", UsageError, "--on-error"),
        ("--device tpu", UsageError, "--device"),
        ("--format nonsense", UsageError, "Known: "),
        ("--format markdwn", UsageError, "Did you mean markdown?"),
        ("--language deutsch", UsageError, "--language: not a code"),
        ("--format mediawiki --no-dense", InputError, "corpus.jsonl"),
        ("--encoder fake --no-dense", UsageError, "Omit one of the two."),
        ("--faiss nonsense --encoder fake", UsageError, "--faiss nonsense"),
        ("--faiss IVF9999,Flat --encoder fake", UsageError, "9,999 centroids for"),
        ("--corpus none.jsonl", InputError, "none.jsonl: no such file"),
        ("--corpus configs", InputError, "no format is known for this folder"),
        ("--limit 1 --limit 2", UsageError, "--limit is given twice, and takes one value"),
        ("--limit 1 x", UsageError, "x: a second value of --limit, which takes one."),
        ("--corpus . --format dpr", InputError, ".: a folder, but dpr is read from a file"),
        ("--config none.toml", InputError, "none.toml: no such file\n  Check the path."),
        ("--index /", UsageError, "not the name of a folder"),
    ],
)
def test_what_does_not_fit_is_told_and_leaves_no_index(command, index_path, argv, kind, message):
    with pytest.raises(LinkseekError) as caught:
        command(*argv.split())
    assert type(caught.value) is kind
    assert message in str(caught.value)
    assert not index_path.exists()


def test_a_corpus_of_ones_own_needs_a_place_and_a_place_of_ones_own_a_corpus(corpus, index_path, plans):
    with pytest.raises(UsageError, match="--index is missing"):
        build_command.main(["--corpus", str(corpus)])
    with pytest.raises(UsageError, match="--corpus is missing"):
        build_command.main(["--index", str(index_path)])
    build_command.main(["--index", "index/sample"])
    assert [plan.corpus for plan in plans] == [build_command.SAMPLE]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("--faiss HNSWx --encoder fake", "--faiss HNSWx: FAISS cannot make it for 32 dimensions"),
        ("--encoder fake answers", "encoder answers: it is a cross-encoder"),
        ("--device cuda", "device cuda: torch finds no CUDA device"),
        ("--headings yes", "--headings: needs auto, on or off (given: 'yes')"),
    ],
)
def test_settings_are_checked_before_the_first_document(command, monkeypatch, index_path, argv, message):
    def find(name: str) -> Path:
        return ROOT / "reranker" / "adapters" / "answers" if name == "answers" else Path(name)

    monkeypatch.setattr("linkseek.retriever.models.biencoder.find_model", find)
    with pytest.raises(LinkseekError) as caught:
        command(*argv.split())
    assert message in str(caught.value)
    assert not list(index_path.parent.glob(f"{index_path.name}*"))


def test_a_second_build_is_told(command, index_path):
    with Workspace(index_path), pytest.raises(BusyError):
        command("--no-dense")


# --- in a process of its own ---------------------------------------------------------------------


def test_help_needs_no_model_and_names_every_option():
    done = run("indexer/build.py", "--help")
    assert done.returncode == 0, done.stderr
    for name, field in build_command.BuildOptions.model_fields.items():
        assert ("--no-" if field.default is True else "--") + (field.alias or name).replace(
            "_", "-"
        ) in done.stdout


def test_the_sample_with_the_real_encoder(sample_index, tmp_path):
    index = OpenIndex.open(shutil.copytree(sample_index, tmp_path / "index"))
    assert index.encoders == ["all-MiniLM-L6-v2"] and index.has_lucene
    assert len(index.documents) == 150 and len(index.passages) > 100
    assert index.dense().manifest.dimension == 384
    again = run("indexer/build.py", "--index", tmp_path / "index", "--corpus", SAMPLE)
    assert again.returncode == 0, again.stderr
    assert again.stdout.count("reused") == 5 and "Traceback" not in again.stderr
