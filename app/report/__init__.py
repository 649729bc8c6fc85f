"""The report of an evaluation: report.html and report.md, the same content in both.

sections.py                  results -> sections: the data that their templates show
templates/NAME.j2            the words of a section, for both formats
templates/html.j2, md.j2     the blocks that the words are set in (tables, figures, lists), one file a format
tables.py, charts.py         tables and charts of results
render.py                    documents -> HTML and Markdown; escaping
text.py                      numbers as a report shows them
finished.py                  the reports in a folder, and their questions, for the pages
console.py                   tables on the terminal
"""

from __future__ import annotations

from pathlib import Path

from linkseek.app.evaluation.results import Results
from linkseek.app.report.render import ReportDocument, html_page, markdown_page
from linkseek.app.report.sections import opening, sections
from linkseek.indexer.store.outputs import write_output


def write_report(results: Results, folder: Path) -> None:
    """Write FOLDER/report.html and FOLDER/report.md."""
    write_document(report(results), folder, "report")


def to_html(results: Results) -> str:
    """The report as one HTML page."""
    return html_page(report(results))


def to_markdown(results: Results) -> str:
    """The report as GitHub's Markdown."""
    return markdown_page(report(results))


def report(results: Results) -> ReportDocument:
    """The report of these results; a section without data is omitted."""
    return ReportDocument(report_title(results), opening(results), tuple(sections(results)))


def report_title(results: Results) -> str:
    """The title of a report as text."""
    return f"Evaluation on {results.title}" if results.title else "Evaluation"


def write_document(document: ReportDocument, folder: Path, name: str) -> None:
    """Write FOLDER/NAME.html and FOLDER/NAME.md, each atomically."""
    texts = {"html": html_page(document), "md": markdown_page(document)}
    for suffix, text in texts.items():
        write_output(folder / f"{name}.{suffix}", text.encode())
