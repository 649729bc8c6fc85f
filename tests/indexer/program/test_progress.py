"""Progress on a terminal and in a log file."""

from __future__ import annotations

import json
import re

import pytest

from linkseek.indexer.program import progress as progress_module
from linkseek.indexer.program.progress import part_of, progress

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")


def last_lines(said: str) -> list[str]:
    """What stays on the screen: of a display that moves, its last state."""
    return [line.rstrip() for line in _ESCAPES.sub("", said.rpartition("\r")[2]).splitlines() if line.strip()]


def test_bars_that_overlap_share_one_display(terminal, capsys):
    with progress("outer", 10, "passages") as outer:
        outer(4)
        with progress("inner", 2_000_000, "bytes") as inner:
            inner(1_000_000)
            with progress("opening"):
                pass
        outer(6)
    lines = last_lines(capsys.readouterr().err)
    assert len(lines) == 3
    assert lines[0].startswith("outer ") and "100% 10/10 passages" in lines[0]
    assert lines[1].startswith("inner ") and "50%" in lines[1] and "bytes" not in lines[1]
    assert lines[2].startswith("opening ") and "100%" in lines[2]


def test_after_the_last_bar_a_new_display_begins(terminal, capsys):
    for label in ("first", "second"):
        with progress(label, 1) as advance:
            advance(1)
        assert [line.split()[0] for line in last_lines(capsys.readouterr().err)] == [label]


def test_a_bar_that_an_error_leaves_does_not_stay_alive(terminal, capsys):
    with pytest.raises(RuntimeError), progress("outer", 2), progress("inner", 2):
        raise RuntimeError
    assert progress_module._display._bars is None
    assert len(last_lines(capsys.readouterr().err)) == 2


def test_in_a_log_it_is_a_line_now_and_then(monkeypatch, capsys):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    clock = iter([0.0, 5.0, 12.0, 13.0])
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: next(clock))
    with progress("encoding", 100, "passages", done=40) as advance:
        for _ in range(3):
            advance(10)
    assert capsys.readouterr().err == "encoding: 60 of 100 passages, 60 %, 24 s left\n"


def test_another_program_reads_it_from_a_file(monkeypatch, capsys, tmp_path):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    path = tmp_path / "progress.json"
    monkeypatch.setenv(progress_module.NOTES, str(path))
    monkeypatch.setattr(progress_module, "_notes", progress_module._Notes())
    monkeypatch.setattr(progress_module, "_NOTE_SECONDS", 0.0)
    with progress("reading", 100, "bytes") as outer, progress("encoding", None, "passages", done=3) as inner:
        outer(40)
        inner(2)
        first, second = json.loads(path.read_text())
        assert (first["label"], first["unit"], first["total"], first["done"]) == ("reading", "bytes", 100, 40)
        assert (second["total"], second["first"], second["done"]) == (None, 3, 5)
        assert first["ended"] is None and first["began"] <= second["began"]
    assert all(entry["ended"] >= entry["began"] for entry in json.loads(path.read_text()))
    path.unlink()
    tmp_path.rmdir()
    with progress("nowhere", 1) as advance:  # who looks on must not stop the work
        advance(1)


def test_bars_within_a_part_advance_the_outer_one(monkeypatch, tmp_path):
    """One line a stage, and a remaining time from the first batch on."""
    monkeypatch.setattr(progress_module, "_notes", progress_module._Notes())
    monkeypatch.setenv("LINKSEEK_PROGRESS", str(tmp_path / "progress.json"))
    seen = []
    with progress("outer", total=20, unit="questions") as advance:
        for _ in range(2):
            with part_of(lambda count: (seen.append(count), advance(count)), 10):
                with progress("inner", total=4) as inner:
                    inner(1), inner(3)
                with progress("another", total=2) as inner:
                    inner(2)
    assert seen == [2.5, 7.5, 0.0, 0.0] * 2
    [entry] = json.loads((tmp_path / "progress.json").read_bytes())
    assert (entry["label"], entry["done"]) == ("outer", 20.0) and entry["ended"]
