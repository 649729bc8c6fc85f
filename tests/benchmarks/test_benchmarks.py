"""The benchmarks run, and their report says what was recorded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import report
from benchmarks.harness import Figure, alternate, passages
from benchmarks.report import README, latest

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "samples" / "linkseek-sample.xml.bz2"


def test_the_report_is_that_of_the_recorded_results() -> None:
    assert README.read_text("utf-8") == report.report(), "run python -m benchmarks.report"


def test_the_last_record_with_the_same_settings_counts() -> None:
    lines = [
        json.dumps({"settings": {"n": n}, "value": v}).encode() for n, v in ((1, "a"), (2, "b"), (1, "c"))
    ]
    assert [record["value"] for record in latest(lines)] == ["c", "b"]


def test_two_functions_take_turns() -> None:
    calls: list[str] = []
    alternate(lambda: calls.append("ours"), lambda: calls.append("peer"), rounds=2)
    assert calls == ["peer", "ours", "ours", "peer", "peer", "ours"]


def test_a_small_corpus_is_repeated_under_other_ids() -> None:
    many = passages(SAMPLE, 300)
    assert len(many) == 300 and len({p.id for p in many}) == 300


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("dense", ["--vectors", "800", "--dimension", "16"]),
        ("lucene", ["--passages", "300", "--queries", "5"]),
        ("encoding", ["--passages", "16"]),
        ("parsing", []),
        ("scale", ["--articles", "300"]),
    ],
)
def test_a_benchmark_prints_ours_and_the_peers(name: str, options: list[str]) -> None:
    command = [sys.executable, "-m", f"benchmarks.{name}", "--rounds", "1", "--no-record", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "ratio" in done.stdout and "cores" in done.stdout
    assert not list(ROOT.glob("benchmarks/results/*.tmp"))


def test_a_figure_without_a_peer_has_no_ratio() -> None:
    assert Figure("peak", "MB", 1.0).ratio is None
