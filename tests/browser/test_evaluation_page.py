"""A whole evaluation in a real browser: chosen, run, watched, read, and on to Search."""

from __future__ import annotations

import re


def test_a_whole_evaluation(application, page, settled):
    page.goto(application("evaluation"))
    page.get_by_text("Nothing has been evaluated yet").wait_for()
    settled(page)
    page.get_by_label("Limit of questions").fill("12")
    page.keyboard.press("Tab")
    settled(page)
    page.get_by_role("button", name="Evaluate", exact=True).click()
    job = page.locator(".ls-job")
    job.wait_for()
    title = "sample on sample: bm25, dense, hybrid-weighted, 12 questions"
    assert job.get_by_role("heading").inner_text() == title

    page.get_by_role("link", name="Articles").click()  # it goes on while we look elsewhere
    page.get_by_role("heading", name="Read an article").wait_for()
    page.get_by_role("link", name="Evaluation").click()
    finished = page.get_by_role("region", name="Finished evaluations").get_by_role("link")
    job.or_(finished).first.wait_for()  # on a busy machine it may be over by now
    page.reload()
    finished.first.click()
    page.get_by_role("heading", name="bm25, dense, hybrid-weighted on sample").wait_for()
    settled(page)
    assert re.search(r"report=sample-\d{8}-\d{6}", page.url)
    scores = page.get_by_role("region", name="Measures of each pipeline")
    assert scores.get_by_role("row").count() == 4  # the head and three pipelines
    assert page.get_by_role("heading", name="Differences between pipelines").is_visible()

    page.get_by_text("Charts", exact=True).click()
    page.locator("svg.chart >> visible=true").first.wait_for()
    assert page.locator("svg.chart:visible path[aria-roledescription='line mark']").count() >= 3
    settled(page)
    page.get_by_text("Questions", exact=True).click()
    rows = page.get_by_role("region", name="Questions").locator("tbody tr")
    rows.first.wait_for()
    settled(page)
    page.wait_for_function(
        "location.search.includes('part=questions') && location.search.includes('pair=bm25')"
    )
    assert rows.count() == 12

    page.get_by_role("button", name="Export").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="report.html").click()
    html = download.value.path().read_text("utf-8")
    assert html.startswith("<!doctype html>") and "<script" not in html
    page.keyboard.press("Escape")

    case = rows.locator("a").first
    question = case.inner_text()
    case.click()
    page.locator('section[aria-label^="Results of"]').nth(1).wait_for()
    settled(page)
    assert page.get_by_label("Question", exact=True).input_value() == question
    page.wait_for_function("location.search.includes('pipelines=bm25&pipelines=')")
