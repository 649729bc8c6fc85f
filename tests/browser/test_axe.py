"""All views by axe-core's rules: two widths, light; the wider also dark."""

from __future__ import annotations

import shutil
import time

import pytest

from linkseek.app.preferences import comparison_files as files
from linkseek.app.preferences.record import Disagreement, Preferences
from linkseek.indexer.store.outputs import write_output_json
from tests.app.report.test_reports import results

WIDTHS = (1440, 390)
QUESTION = "Which sickness killed the lady who foresaw software?"
TWO = {"q": QUESTION, "pipelines": ["bm25", "dense"], "k": 5}
REPORT = {"report": "accessible"}
VIEWS = [  # page, parameters of its address, what is there when it is complete
    ("", {}, ".ls-groups"),
    ("", {"q": "Who was galileo galilie?", "pipelines": ["bm25"], "k": 5, "only": ["folder:x"]}, ".ls-meant"),
    (
        "",
        TWO | {"pipelines": ["dense", "hybrid-weighted"], "why": "Ada_Lovelace#3", "turn": "hybrid-weighted"},
        ".ls-turn",
    ),
    ("", TWO | {"merged": 1, "why": "Ada_Lovelace#3"}, ".ls-opened"),
    ("article", {"find": "ma", "id": "Ada_Lovelace"}, ".ls-article"),
    ("compare", {}, "table"),
    ("compare", {"comparison": "open"}, ".ls-judge"),
    ("compare", {"comparison": "ended"}, "table"),
    ("evaluation", {}, "table"),
    ("evaluation", REPORT, "table"),
    ("evaluation", REPORT | {"part": "charts"}, ".ls-report h2"),
    ("evaluation", REPORT | {"part": "questions"}, "table"),
    ("evaluation", REPORT | {"part": "changes", "other": "other"}, "table"),
    ("index", {}, ".ls-index-page"),
]
COLOURS = ["color-contrast", "link-in-text-block"]
"""The rules of axe that depend on colours, which alone differ in the dark."""


@pytest.fixture
def written(application):
    """Two reports, and two comparisons."""
    question = Disagreement(
        id="1", text=QUESTION, first_a="Moon#0", first_b="Ada_Lovelace#2", overlap=0, rbo=0
    )
    names = []
    for name, choices in (("open", {}), ("ended", {"1": "b"})):
        preferences = Preferences(
            index="sample", a="bm25", b="dense", origin="written", created=time.time(),
            ended=bool(choices), judged="", questions=[question], choices=choices,
        )  # fmt: skip
        names.append(files.save_preferences(application.results, name, preferences))
    for name in ("accessible", "other"):
        write_output_json(application.results / name / "results.json", results())
        names.append(name)
    yield
    for name in names:
        shutil.rmtree(application.results / name)


def test_no_view_has_a_serious_violation(application, written, page, settled):
    axe = pytest.importorskip("axe_playwright_python.base", reason="axe-playwright-python is not installed")
    found = []

    def check(view, width, theme, **rules):
        results = page.evaluate("more => axe.run(document, {resultTypes: ['violations'], ...more})", rules)
        assert results["passes"]  # it has looked
        found.extend(
            (
                *view[:2],
                width,
                theme,
                violation["id"],
                [node["html"][:200] for node in violation["nodes"][:3]],
            )
            for violation in results["violations"]
            if violation["impact"] in ("serious", "critical")
        )

    for view in VIEWS:
        name, params, selector = view
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": WIDTHS[0], "height": 900})
        page.goto(application(name, **params))
        page.locator(selector).first.wait_for()
        settled(page)
        page.evaluate(axe.AXE_SCRIPT)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            settled(page)
            check(view, width, "light")
        page.set_viewport_size({"width": WIDTHS[0], "height": 900})
        page.emulate_media(color_scheme="dark")
        page.wait_for_function("getComputedStyle(document.querySelector('.stApp')).colorScheme === 'dark'")
        settled(page)
        check(view, WIDTHS[0], "dark", runOnly=COLOURS)
    assert not found
