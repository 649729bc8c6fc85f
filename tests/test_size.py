"""The counter of lines, and the budget of CONTRIBUTING.md."""

from __future__ import annotations

import re
import tomllib

from tests.size import PACKAGES, ROOT, code_lines, rows, sources

SOURCE = '''"""A module
of two lines."""
# comment

NAME = """counted
also counted"""
"""A docstring of NAME."""
'''


def test_lines_of_code():
    assert code_lines(SOURCE) == 2


def test_lines_stay_short():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["ruff"]
    ignored = [settings["lint"]["ignore"], *settings["lint"]["per-file-ignores"].values()]
    assert settings["line-length"] == 110 and "E" in settings["lint"]["select"]
    assert not any(code.startswith("E") for codes in ignored for code in codes)
    assert not any(re.search("noqa(:.*E(501|70)|$)", source, re.M) for source in sources(*PACKAGES, "tests"))


def test_the_code_fits_the_budget():
    assert [row for row in rows() if row[1] > row[2]] == []
