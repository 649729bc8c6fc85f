"""The counter of lines, the budget of CONTRIBUTING.md, and how code is laid out."""

from __future__ import annotations

import re
import tomllib
from collections import Counter

from tests.size import PACKAGES, ROOT, code_lines, rows, sources
from tests.support.command import tracked

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


def test_a_class_has_a_name_of_its_own_and_a_folder_at_most_20_files():
    folders = Counter(name.rpartition("/")[0] for name in tracked("*.py"))
    assert [folder for folder, count in folders.items() if count > 20] == []
    ours = [(ROOT / name).read_text("utf-8") for name in tracked("*.py", ":!tests", ":!samples")]
    names = Counter(re.findall(r"^class (\w+)", "\n".join(ours), re.M))
    assert [name for name, count in names.items() if count > 1] == []
