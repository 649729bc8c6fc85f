"""Which files of tests reach a file of the code by their imports: `make check NEAR=FILE`."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import grimp

TESTS = Path(__file__).parent

CACHE = TESTS.parent / ".import_linter_cache"


@cache
def near(file: Path) -> set[Path]:
    """The files of tests that import a file, directly or through others.

    file: of the code, or of tests. Raises `ValueError` for another one. Tests that start a command as a
    process import nothing of it.
    """
    path = file.resolve().relative_to(TESTS.parent)
    helpers = {_dotted(test): test for test in TESTS.rglob("*.py")}
    reached: set[str] = set()
    if path.parts[0] == "tests":
        reached = {_dotted(file.resolve())}
    else:
        graph = grimp.build_graph("linkseek", "experiments", cache_dir=str(CACHE))
        # Only to find its place: the package itself imports all others.
        graph.remove_import(importer="linkseek.indexer.program.bundled", imported="linkseek")
        names = [part for part in path.with_suffix("").parts if part != "__init__"]
        module = ".".join(names if names[0] in ("linkseek", "experiments") else ["linkseek", *names])
        if module not in graph.modules:
            raise ValueError(f"{file}: not a file of the code or of tests")
        reached = {module, *graph.find_downstream_modules(module)}
    imports = {name: imported(test) for name, test in helpers.items()}
    while more := {name for name, names in imports.items() if names & reached} - reached:
        reached |= more
    return {test for name, test in helpers.items() if name in reached and test.name.startswith("test_")}


def _dotted(path: Path) -> str:
    return ".".join(path.relative_to(TESTS.parent).with_suffix("").parts)


def imported(path: Path) -> set[str]:
    """The names that a file imports: of modules, and of what could be one."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names
