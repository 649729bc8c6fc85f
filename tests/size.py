"""The size of the code: `make size` prints it next to the budget of CONTRIBUTING.md.

A line of code is neither blank, nor a comment, nor part of a statement that is a string alone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

PACKAGES = ("linkseek", "indexer", "retriever", "reranker", "app")


def code_lines(source: str) -> int:
    """The lines of code of a Python file."""
    texts = {
        number
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and type(node.value.value) is str
        for number in range(node.lineno, (node.end_lineno or 0) + 1)
    }
    lines = enumerate(source.split("\n"), 1)
    return sum(number not in texts and line.strip()[:1] not in ("", "#") for number, line in lines)


def sources(*folders: str) -> Iterator[str]:
    """The Python files in folders and below; links are not followed."""
    for folder in folders:
        for file in (ROOT / folder).rglob("*.py"):
            if file == file.resolve():
                yield file.read_text("utf-8")


def measured(*folders: str) -> int:
    """The lines of code in folders."""
    return sum(map(code_lines, sources(*folders)))


def rows() -> Iterator[tuple[str, int, int]]:
    """Name, number and largest allowed number of each row of the budget."""
    numbers = measured(*PACKAGES), measured("tests"), len(list(sources(*PACKAGES)))
    for name, number in zip(("product", "tests", "product files"), numbers, strict=True):
        limit = re.search(rf"^\| {name} \| ([\d,]+) \|$", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.M)
        assert limit, f"CONTRIBUTING.md has no row {name}"
        yield name, number, int(limit[1].replace(",", ""))


if __name__ == "__main__":
    for package in PACKAGES:
        print(f"{package:14}{measured(package):>8,}")
    for name, number, limit in rows():
        print(f"{name:14}{number:>8,} of {limit:,}")
