"""python -m experiments archwiki: its steps are commands that are understood; questions and tables."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from fake_encoder import FakeEncoder
from linked_corpus import document

from experiments.studies import archwiki as script
from linkseek.indexer.base.options import parse_config, parse_options
from linkseek.indexer.build import BuildOptions
from linkseek.indexer.building.builder import build_index
from linkseek.indexer.building.plan import Plan
from linkseek.indexer.index import Index
from linkseek.retriever.commands.distill import DistillOptions
from linkseek.retriever.commands.mine import MineOptions, mine_options
from linkseek.retriever.training.config import TrainConfig

OPTIONS = {"build": BuildOptions, "mine": mine_options(), "distill": DistillOptions}


@pytest.fixture
def rows() -> list[dict[str, Any]]:
    """An article that is held out, with six links to it from one that is not."""
    names = [f"page {n}" for n in range(60)]
    held_out = next(name for name in names if script.is_held_out(name))
    kept = next(name for name in names if not script.is_held_out(name))
    anchors = (held_out, "water", "water", "brook", "stream", "pond")
    links = " ".join(f"Mud is in the [{anchor}|{held_out}] here." for anchor in anchors)
    return [document(kept, links), document(held_out, "Mud of a water, brook, stream or pond.")]


@pytest.fixture
def commands(rows, tmp_path, monkeypatch) -> list[Any]:
    """The options of the commands that the script runs; only the index of all passages is really built."""
    found: list[Any] = []
    path = tmp_path / "data" / "archwiki" / "docs.jsonl.zst"
    path.parent.mkdir(parents=True)
    with pa.CompressedOutputStream(str(path), "zstd") as file:
        file.write(b"".join(orjson.dumps(row) + b"\n" for row in rows))

    def run(command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
        name, *words = command[3:]
        options: Any
        if name == "train":
            options, _ = parse_config(TrainConfig, words, name)
            options.output.folder.mkdir(parents=True)
        else:
            options = parse_options(OPTIONS[name], words, name)
            if name == "build" and options.dense:
                plan = Plan(options.corpus, encoders=options.encoder)
                build_index(options.index, plan, lambda name, title: FakeEncoder(name, title=title))
            else:
                (options.index if name == "build" else options.output).mkdir()
        found.append(options)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(script.subprocess, "run", run)
    monkeypatch.setattr(script, "open_biencoder", lambda location: FakeEncoder(Path(location).name))
    return found


def test_the_tables_and_what_they_are_made_of(rows, commands, tmp_path, capsys):
    argv = ["--data", str(tmp_path / "data"), "--output", str(tmp_path / "work")]
    script.main(argv)
    kept = (tmp_path / "work" / "kept.jsonl").read_text().splitlines()
    assert [orjson.loads(line)["id"] for line in kept] == [rows[0]["id"]]
    trained = {c.output.folder.name: c for c in commands if isinstance(c, TrainConfig)}
    assert len(trained) == 7 * 3 and trained["hlp-2"].training.seed == 2
    assert trained["hlp-1"].training.learning_rate == 3e-3
    assert trained["co-mention-1"].training.learning_rate == 1e-3
    assert [p.name for p in trained["hlp-1"].data.pairs] == ["hlp-4000.jsonl"]
    assert len(trained["ict-wlp-bfs-3"].data.pairs) == 3
    mined = {(c.objective, c.pairs) for c in commands if isinstance(c, MineOptions)}
    assert mined == {(name, 4000) for name in script.ROWS if name != "ict-wlp-bfs"} | {
        (name, 1333) for name in script.RIVALS
    }
    assert {c.index.name for c in commands if isinstance(c, MineOptions)} == {"kept"}
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("| | anchors (") and "sentences (" in lines[0]
    shown = [line.split(" | ")[0].removeprefix("| ") for line in lines[2:]]
    start = script.START
    assert shown[:14] == [
        *("BM25", script.MINILM, f"BM25 + {script.MINILM}", start, f"BM25 + {start}"),
        *(*script.ROWS, "BM25 + hlp"),
        "",
    ]
    assert len(shown) == 15 + 1 + len(script.TESTED)
    before = len(commands)
    script.main(argv)
    assert len(commands) == before


def test_questions_are_about_articles_held_out_and_do_not_find_their_own_passage(rows, tmp_path):
    corpus = tmp_path / "c.jsonl"
    corpus.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    plan = Plan(corpus, encoders=[])
    build_index(tmp_path / "index", plan, lambda name, title: None)
    index = Index.open(tmp_path / "index")
    anchors, sentences = (script.Questions(index, kind, {rows[1]["id"]}) for kind in script.KINDS)
    asked = [question.query.text for question in anchors.questions]
    assert asked and len(set(asked)) == len(asked)
    assert set(asked) <= {"water", "brook", "stream", "pond"}  # not the title
    assert {question.query.text for question in sentences.questions} == {"Mud is in the here."}
    for questions in (anchors, sentences):
        ranking = questions.by_words()
        assert (ranking.rows == 0).any(axis=1).all()  # the passage with the links is found
        assert questions.answered(ranking).all()  # and does not count, so the article is first
    assert not [*script.Questions(index, script.KINDS[0], set()).questions]
