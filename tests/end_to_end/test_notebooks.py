"""The notebooks of docs/notebooks/: executed as they are, and committed without what they print."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support.command import ROOT, WITH_TESTS

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))

PRINTED = {
    "tour": ["Mars, the red planet", "Mercury (planet)", "nDCG@10", "'dual-link'", "hybrid-static"],
    "objectives": ["query:", "shared: ", "better:", "worse:", "'Mercury (mythology)'"],
}
"""Some of what each must show."""


def test_each_notebook_says_what_it_must_show() -> None:
    assert {path.stem for path in NOTEBOOKS} == PRINTED.keys()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_start_to_end(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", WITH_TESTS["PYTHONPATH"])
    before = set(path.parent.iterdir())
    notebook = nbformat.read(path, nbformat.NO_CONVERT)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(path.parent)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    shown = "\n".join(o.get("text") or str(o.get("data", {}).get("text/plain", "")) for o in outputs)
    for text in PRINTED[path.stem]:
        assert text in shown
    assert set(path.parent.iterdir()) == before  # it writes to a temporary folder


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_uses_the_public_names_alone(path: Path) -> None:
    notebook = nbformat.read(path, nbformat.NO_CONVERT)
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    imports = [line for source in code for line in source.splitlines() if "import" in line.split()[:3]]
    assert [line for line in imports if "linkseek" in line] == ["import linkseek"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)
