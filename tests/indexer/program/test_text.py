"""Text for people, and lines of a log that stay in one piece."""

from __future__ import annotations

import pytest

from linkseek.indexer.program.text import (
    byte_size,
    counted,
    duration,
    escaped,
    harmless,
    printable,
    short_duration,
    without_hidden,
)
from tests.support.command import python

_THREADS = """
import sys
from concurrent.futures import ThreadPoolExecutor
from linkseek.indexer.program.errors import log_line
sys.setswitchinterval(1e-6)
with ThreadPoolExecutor(8) as pool:
    list(pool.map(log_line, (f"line {n}" for n in range(4000))))
"""


def test_lines_of_threads_stay_in_one_piece():
    done = python("-c", _THREADS)
    assert sorted(done.stderr.splitlines()) == sorted(f"line {n}" for n in range(4000))


def test_what_a_terminal_obeys_becomes_a_space():
    assert printable("a\x1b[31mb\nc\u202ed\u2066e\x9bf") == "a [31mb c d e f"
    assert printable("é 日本") == "é 日本"


def test_pages_show_neither_overrides_nor_controls_nor_surrogates():
    assert harmless("a\x1bb\nc\u202ed\u2066e\u2028f\udc80g") == "a b cde f\N{REPLACEMENT CHARACTER}g"


def test_hidden_characters_are_removed_and_joiners_stay():
    assert without_hidden("a\xadb\u200bc\u202ad\u2063e\ufefff\u200dg") == "abcdef\u200dg"


def test_names_of_files_are_escaped():
    assert escaped("a\nb\x7fc\u2029d\udcff é\u202e") == "a\\nb\\x7fc\\u2029d\\udcff é\u202e"


def test_counts():
    assert [counted(n, "question") for n in (0, 1, 3610)] == ["0 questions", "1 question", "3,610 questions"]
    assert counted(2, "index", "indexes") == "2 indexes"


@pytest.mark.parametrize(
    "count, text",
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (12_345_678, "12.3 MB"), (5e12, "5,000.0 GB")],
)
def test_sizes(count, text):
    assert byte_size(count) == text


@pytest.mark.parametrize(
    "seconds, text",
    [(-1, "0 s"), (7.6, "8 s"), (59.6, "1 min 00 s"), (125, "2 min 05 s"), (12_000, "3 h 20 min")],
)
def test_times_of_jobs(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    "seconds, text",
    [(0.0042, "4.2 ms"), (0.096, "96 ms"), (0.9994, "999 ms"), (0.9995, "1.0 s")],
)
def test_times_of_searches(seconds, text):
    assert short_duration(seconds) == text
