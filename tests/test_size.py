"""The counter of lines, and the budget of CONTRIBUTING.md."""

from __future__ import annotations

import tomllib

from size import PACKAGES, ROOT, code_lines, sources

SOURCE = '''"""A module
of two lines."""
# comment

NAME = """counted
also counted"""
"""A docstring of NAME."""
'''


def test_lines_of_code():
    assert code_lines(SOURCE) == 2


def test_no_line_is_longer_than_110():
    longest = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["ruff"]["line-length"]
    lines = [line for source in sources(*PACKAGES, "tests") for line in source.split("\n")]
    assert max(map(len, lines)) <= longest == 110
