"""What a terminal is shown."""

from __future__ import annotations

import subprocess
import sys

from command import WITH_TESTS

from indexer.base.terminal import printable, say

_THREADS = """
import sys
from concurrent.futures import ThreadPoolExecutor
from indexer.base.terminal import say
sys.setswitchinterval(1e-6)
with ThreadPoolExecutor(8) as pool:
    list(pool.map(say, (f"line {n}" for n in range(4000))))
"""


def test_lines_of_threads_stay_whole():
    done = subprocess.run([sys.executable, "-c", _THREADS], capture_output=True, text=True, env=WITH_TESTS)
    assert sorted(done.stderr.splitlines()) == sorted(f"line {n}" for n in range(4000))


def test_a_line_is_said_at_once(capsys):
    say("one")
    assert capsys.readouterr().err == "one\n"


def test_what_a_terminal_obeys_is_a_space():
    assert printable("a\x1b[31mb\nc\u202ed\u2066e\x9bf") == "a [31mb c d e f"
    assert printable("é 日本") == "é 日本"
