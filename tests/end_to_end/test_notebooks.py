"""The notebooks of docs/notebooks/: executed as they are, and committed without what they print."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from tests.support.command import ROOT, run_forked

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))

PRINTED = {
    "tour": ["Mars, the red planet", "Mercury (planet)", "nDCG@10", "'dual-link'", "hybrid-static"],
    "objectives": ["query:", "shared: ", "better:", "worse:", "'Mercury (mythology)'"],
}
"""Some of what each must show."""


_RUN = """
import sys
import nbformat
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
for cell in nbformat.read(sys.argv[1], nbformat.NO_CONVERT).cells:
    if cell.cell_type == "code":
        shell.run_cell(cell.source).raise_error()
"""
"""What a kernel does, in a process that begins with all imports done."""


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_start_to_end(path: Path) -> None:
    before = set(path.parent.iterdir())
    done = run_forked(["-c", _RUN, path], cwd=path.parent)
    assert done.returncode == 0, done.stderr
    for text in PRINTED[path.stem]:
        assert text in done.stdout
    assert set(path.parent.iterdir()) == before  # it writes to a temporary folder


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_uses_the_public_names_alone(path: Path) -> None:
    notebook = nbformat.read(path, nbformat.NO_CONVERT)
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    imports = [line for source in code for line in source.splitlines() if "import" in line.split()[:3]]
    assert [line for line in imports if "linkseek" in line] == ["import linkseek"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)
