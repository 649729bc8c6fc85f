"""report.html as a file in a real browser: everything in its tables can be seen."""

from __future__ import annotations

import pytest

from linkseek.app.report.render import ReportDocument, ReportSection, html_page
from linkseek.app.report.tables import Cell, ReportTable, columns
from tests.support.command import ROOT

MEASURES = [f"accuracy@{k} %" for k in (1, 5, 20, 100)] + ["nDCG@10", "MRR@10", "R@20", "R@100"]
ROW = (Cell("hybrid-weighted"), *(Cell("100.0", best=True, mark="\u2021") for _ in MEASURES))
SCORES = ReportTable("Measures", columns(["pipeline"], MEASURES), (ROW,) * 3)


@pytest.mark.parametrize("width", [1440, 390])
def test_marks_stay_within_their_table(page, tmp_path, width):
    """The last column's too, which hang out to the right of their digits."""
    templates = ROOT / "experiments" / "tables" / "templates"
    data = {"source": "", "caption": "", "note": ""}
    opening = ReportSection("", "", "experiment.j2", data, templates)
    scores = ReportSection("scores", "Scores", "column.j2", {"table": SCORES}, templates)
    (tmp_path / "report.html").write_text(html_page(ReportDocument("Report", opening, (scores,))), "utf-8")
    page.set_viewport_size({"width": width, "height": 900})
    page.goto((tmp_path / "report.html").as_uri())
    marks, table = (
        page.locator(selector).evaluate_all("all => all.map(one => one.getBoundingClientRect().right)")
        for selector in ("sup", "table")
    )
    assert len(marks) == 3 * len(MEASURES)
    assert max(marks) <= table[0]
    assert page.evaluate("document.documentElement.scrollWidth") == width
