"""The report of an evaluation: report.html and report.md, the same content in both.

results.py       results.json as records
summary.py, scores.py, analyses.py, latency.py, differences.py, origin.py       records -> sections
document.py      what a report is made of
html.py, markdown.py       a document -> text
line_chart.py, bar_chart.py, svg.py, scales.py       charts
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.report.analyses import curves_section, kinds_section
from app.report.differences import differences_section
from app.report.document import Document
from app.report.html import to_html
from app.report.latency import latency_section
from app.report.markdown import to_markdown
from app.report.origin import origin_section
from app.report.results import read_results
from app.report.scores import scores_section, significance_section
from app.report.summary import opening, title_of
from indexer.store.artifacts import write_atomically

_SECTIONS = (
    scores_section,
    significance_section,
    curves_section,
    kinds_section,
    latency_section,
    differences_section,
    origin_section,
)


def write_report(results: Mapping[str, Any], folder: Path) -> None:
    """Write FOLDER/report.html and FOLDER/report.md.

    results: what the runner returned, or results.json.
    """
    write_document(report(results), folder, "report")


def report(results: Mapping[str, Any]) -> Document:
    """The report of these results. A section whose data are missing is left out."""
    read = read_results(results)
    sections = tuple(section for build in _SECTIONS if (section := build(read)) is not None)
    return Document(title_of(read), opening(read), sections)


def write_document(document: Document, folder: Path, name: str) -> None:
    """Write FOLDER/NAME.html and FOLDER/NAME.md, each whole or not at all."""
    texts = {"html": to_html(document), "md": to_markdown(document)}
    folder.mkdir(parents=True, exist_ok=True)
    for suffix, text in texts.items():
        write_atomically(folder / f"{name}.{suffix}", text.encode())
