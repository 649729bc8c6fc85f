"""Walks through the search page without a mouse."""

from __future__ import annotations

import shutil

import pytest

from tests.support.tiny.index import build

QUESTION = "Which sickness killed the lady who foresaw software?"
AT_QUESTION = "document.activeElement.matches('.st-key-question input')"


@pytest.fixture
def folders(application):
    """An index with two folders, beside the sample, whose articles have none."""
    records = [
        (f"{folder}/{n}", f"{folder} {n}", "A volcano.", "") for folder in ("docs", "wiki") for n in "12"
    ]
    index = build(application.indexes / "folders", records, encoders=())
    yield index
    shutil.rmtree(index)


def test_a_question_is_typed_and_the_one_before_and_after_it_are_asked(application, page, settled):
    page.goto(application(pipelines=["bm25"], k=5))
    page.get_by_text("Or try one of these").wait_for()
    question = page.get_by_label("Question", exact=True)
    question.wait_for()
    settled(page)
    page.locator("body").press("/")
    page.wait_for_function(AT_QUESTION)
    page.keyboard.insert_text("ada lov")
    titles = page.get_by_role("listbox", name="Articles")
    titles.get_by_role("option", name="Ada Lovelace").wait_for()
    page.keyboard.press("ArrowDown")
    page.locator("#ls-titles [aria-selected=true]", has_text="Ada Lovelace").wait_for()
    page.keyboard.press("Escape")
    titles.wait_for(state="hidden")
    assert page.evaluate(AT_QUESTION)

    question.fill(QUESTION)
    page.keyboard.press("Enter")
    place = page.get_by_role("navigation", name="Test question")
    place.get_by_text("Expected answer").wait_for()
    settled(page)
    assert "cancer" in place.inner_text()


def test_a_filter_is_chosen_and_why_gives_the_focus_back(application, folders, page, settled):
    page.goto(application(index="folders", q="volcano", pipelines=["bm25"], k=5))
    page.locator("h3").nth(3).wait_for()
    settled(page)
    page.locator(".ls-controls button").click()
    filters = page.get_by_role("combobox", name="Only documents of")
    filters.wait_for()
    settled(page)
    filters.focus()
    page.keyboard.type("wiki")
    page.get_by_role("option", name="folder wiki").wait_for()
    page.keyboard.press("Enter")
    page.get_by_text("2 of 4 documents are excluded").wait_for()
    settled(page)
    assert "only=folder%3Awiki" in page.url
    assert [title[:4] for title in page.locator("h3 a").all_inner_texts()] == ["wiki"] * 2

    why = page.locator(".ls-why").first
    why.press("Enter")
    page.locator(".ls-opened").wait_for()
    page.wait_for_function("location.search.includes('why=wiki')")
    settled(page)
    page.wait_for_function("document.activeElement.getAttribute('aria-expanded') === 'true'")
    page.keyboard.press("Escape")
    page.locator(".ls-opened").wait_for(state="detached")
    page.wait_for_function("document.activeElement.getAttribute('aria-expanded') === 'false'")
    settled(page)
    assert "only=folder%3Awiki" in page.url
    page.get_by_role("link", name="Search all documents").press("Enter")
    page.locator("h3").nth(3).wait_for()
    settled(page)
    assert "only=" not in page.url
