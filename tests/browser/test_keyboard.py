"""Without a mouse: exports and the list of Search; a report.

Filters, titles, Why? and a comparison: test_walks.py and test_search_page.py.
"""

from __future__ import annotations

import shutil

import pytest

from linkseek.app.report.finished import read_label
from linkseek.indexer.store.outputs import write_output_json
from tests.app.report.test_reports import results

QUESTION = "Which sickness killed the lady who foresaw software?"


@pytest.fixture
def reports(application):
    """Two reports."""
    content = results()
    content["provenance"]["files"] = {}
    for of in content["pipelines"].values():
        of["source"] = "pipeline"
    for name in ("first", "second"):
        write_output_json(application.results / name / "results.json", content)
        write_output_json(application.results / name / "report.html", "x")
    yield
    for name in ("first", "second"):
        shutil.rmtree(application.results / name, ignore_errors=True)


def opened(page, name):
    """Open a menu by its button; it must be the one that has the focus."""
    button = page.get_by_role("button", name=name)
    button.press("Enter")
    place = page.get_by_test_id("stPopoverBody")
    place.wait_for()
    return place


def fill_in(page, settled, name, texts, button, result):
    """Open a menu, write texts into its fields, press its button, wait for the result, and close the menu."""
    menu = opened(page, name)
    for field, text in texts.items():
        menu.get_by_role("textbox", name=field).fill(text)
        page.keyboard.press("Tab")
    settled(page)
    menu.get_by_role("button", name=button).press("Enter")
    result.wait_for()
    settled(page)
    page.keyboard.press("Escape")
    menu.wait_for(state="detached")


def test_exports_and_the_list(application, page, settled):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(application(q=QUESTION, pipelines=["bm25", "hybrid-weighted"], k=5))
    page.locator(".ls-other").nth(9).wait_for()
    settled(page)
    menu = opened(page, "Share and export")
    menu.get_by_role("button", name="Copy link").press("Enter")
    menu.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    with page.expect_download() as download:
        menu.get_by_role("button", name="JSON", exact=True).press("Enter")
    assert download.value.suggested_filename == "linkseek.json" and download.value.path().stat().st_size
    page.keyboard.press("Escape")
    menu.wait_for(state="detached")

    page.locator(".ls-controls button").press("Enter")
    page.get_by_role("switch", name="One list").press("Space")
    page.locator(".ls-merged > li").first.wait_for()
    settled(page)
    group = page.get_by_role("group", name="Sort by")
    group.get_by_role("button", name="moved most").press("Enter")
    group.locator("[aria-pressed=true]", has_text="moved most").wait_for()
    assert group.locator("[aria-pressed=true]").count() == 1
    shown = page.get_by_role("group", name="Show")
    shown.get_by_role("button", name="answers").press("Enter")
    page.locator(".ls-shown-count", has_text="of").wait_for()
    assert (
        page.locator(".ls-merged > li").filter(visible=True).count() < page.locator(".ls-merged > li").count()
    )
    shown.get_by_role("button", name="all", exact=True).press("Enter")

    page.locator(".ls-merged .ls-why").filter(visible=True).first.press("Enter")
    page.locator(".ls-opened").wait_for()
    page.wait_for_function("location.search.includes('why=')")
    settled(page)


def test_a_report_is_named_filtered_and_deleted(application, reports, page, settled):
    page.goto(application("evaluation"))
    link = page.get_by_role("link", name="first", exact=True)
    link.wait_for()
    settled(page)
    link.press("Enter")
    page.get_by_role("button", name="Name and note").wait_for()
    settled(page)
    result = page.get_by_role("heading", name="My report")
    texts = {"Name": "My report", "Note": "It was slow."}
    fill_in(page, settled, "Name and note", texts, "Save", result)
    label = read_label(application.results, "first")
    assert (label.name, label.note) == ("My report", "It was slow.")

    parts = page.get_by_role("radiogroup", name="Part of the report")
    parts.get_by_role("radio", name="Questions").press("Space")
    rows = page.get_by_role("region", name="Questions").locator("tbody tr")
    rows.first.wait_for()
    settled(page)
    every = rows.count()
    page.get_by_role("link", name="difference").press("Enter")
    page.locator('th[aria-sort="descending"]').wait_for()
    settled(page)
    words = page.get_by_role("textbox", name="Words")
    words.fill("x" * 200)
    words.press("Enter")
    page.get_by_text("No such question.").wait_for()
    settled(page)
    assert page.evaluate("document.querySelector('.stMain').scrollWidth <= innerWidth")
    words.fill("")
    words.press("Enter")
    rows.first.wait_for()
    settled(page)
    shown = page.get_by_role("radiogroup", name="Questions")
    shown.get_by_role("radio", name="Better").press("Space")
    page.wait_for_function("location.search.includes('shown=better')")
    settled(page)
    assert rows.count() < every

    opened(page, "Delete").get_by_role("button", name="Delete it").press("Enter")
    page.get_by_role("link", name="second", exact=True).wait_for()
    settled(page)
    assert not (application.results / "first").exists() and (application.results / "second").exists()
