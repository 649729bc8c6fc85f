"""The report of an evaluation: report.html.

sections.py                  results -> sections: the data that their templates show
templates/NAME.j2            the words of a section
templates/html.j2            the blocks that the words are set in (tables, figures, lists)
tables.py, charts.py         tables and charts of results
render.py                    documents -> HTML; escaping
text.py                      numbers as a report shows them
finished.py                  the reports in a folder, and their questions, for the pages
console.py                   tables on the terminal
"""

from __future__ import annotations

from pathlib import Path

from linkseek.app.evaluation.results import Results
from linkseek.app.report.render import ReportDocument, html_page
from linkseek.app.report.sections import opening, sections
from linkseek.indexer.store.outputs import write_output


def write_report(results: Results, folder: Path) -> None:
    """Write FOLDER/report.html, atomically."""
    write_output(folder / "report.html", to_html(results).encode())


def to_html(results: Results) -> str:
    """The report as one HTML page."""
    return html_page(report(results))


def report(results: Results) -> ReportDocument:
    """The report of these results; a section without data is omitted."""
    return ReportDocument(report_title(results), opening(results), tuple(sections(results)))


def report_title(results: Results) -> str:
    """The title of a report as text, with the first of its pipelines."""
    more = len(results.names) - 3
    names = ", ".join(results.names[:3]) + (f" and {more} more" if more > 0 else "")
    return f"{names} on {results.title}" if results.title else names
