"""The search page in a real browser: comparing, why, sharing, what can go wrong, hostile texts."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from application import SECONDS
from results_records import RESULTS
from small_index import build

from benchmarks.sessions import visit

CHART = ".stVegaLiteChart svg.marks"
QUESTION = "Which sickness killed the lady who foresaw software?"


def titles(page, pipeline):
    return page.locator(f'section[aria-label="Results of {pipeline}"] h3').all_inner_texts()


def test_comparing_and_sharing_and_going_back(application, page, settled):
    page.goto(application(pipelines=["bm25", "hybrid-weighted"]))
    page.get_by_role("button", name="Other questions").wait_for()
    page.get_by_label("Question", exact=True).fill(QUESTION)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="bm25").wait_for()
    settled(page)
    found = {name: titles(page, name) for name in ("bm25", "hybrid-weighted")}
    assert all(len(names) == 10 for names in found.values()) and found["bm25"] != found["hybrid-weighted"]
    assert found["hybrid-weighted"][0] == "Ada Lovelace"
    hybrid = page.get_by_role("region", name="Results of hybrid-weighted")
    assert hybrid.locator("mark.ls-said").first.inner_text() == "cancer"
    assert "first answer at rank 1" in hybrid.inner_text()
    assert re.search(r"encode question\s+[\d.]+ ms", hybrid.inner_text())
    assert hybrid.locator(".ls-other").count() == 10

    page.locator("label", has_text="Chart of ranks").click()
    page.locator(CHART).wait_for()
    settled(page)
    shared = page.url
    assert "chart=1" in shared and "pipelines=bm25&pipelines=hybrid-weighted" in shared

    page.go_back()  # to the view without the chart
    page.locator(CHART).wait_for(state="detached")
    assert titles(page, "hybrid-weighted") == found["hybrid-weighted"]

    other = page.context.new_page()  # somebody else opens what was shared
    other.goto(shared)
    other.locator(CHART).wait_for()
    settled(other)
    assert {name: titles(other, name) for name in found} == found
    assert other.get_by_label("Question", exact=True).input_value() == QUESTION


def test_questions_of_an_evaluation_are_recognised(application, page, settled):
    """As those of an upload are, which stay in the report; with and without the question mark."""
    report = application.results / "own"
    report.mkdir(parents=True)
    question = {"id": "1", "text": "Which metal was the sweat of the sun?", "answers": ["gold"]}
    try:
        (report / "results.json").write_text(json.dumps(RESULTS | {"questions": [question]}), "utf-8")
        for text in (question["text"], question["text"].lower().removesuffix("?")):
            page.goto(application(q=text, pipelines=["bm25"], k=5))
            page.locator("mark.ls-said").first.wait_for()
            settled(page)
            assert page.locator("mark.ls-said").first.inner_text().lower() == "gold"
            assert page.locator(".ls-rank :is(.ls-relevant, .ls-irrelevant)").count() == 5
    finally:
        shutil.rmtree(report)


def test_a_passage_in_the_chart_opens_its_evidence(application, page, settled):
    page.goto(application(q=QUESTION, pipelines=["bm25", "hybrid"], k=5, chart=1))
    chart = page.locator(CHART)
    chart.wait_for()
    settled(page)
    chart.locator("text", has_text="Ada Lovelace · 3").last.click()
    page.get_by_role("dialog").locator(".ls-reason h3", has_text="Ada Lovelace").wait_for()
    page.wait_for_function("location.search.includes('why=Ada')")


def test_why_by_keyboard_and_on_to_an_article(application, page, settled):
    page.goto(application(q=QUESTION, pipelines=["hybrid"], k=5))
    page.locator("h3").first.wait_for()
    settled(page)
    loaded = page.evaluate("window.linkseekLoaded = Math.random()")
    page.get_by_role("link", name="Why Ada Lovelace, rank 1 of hybrid").press("Enter")
    dialog = page.get_by_role("dialog")
    dialog.locator("svg.ls-graph").wait_for()
    settled(page)
    page.wait_for_function("location.search.includes('why=Ada')")
    assert "Dual links" in dialog.inner_text() and dialog.locator("mark.ls-said").inner_text() == "cancer"
    node = dialog.locator("a.node.own")
    edges = dialog.locator(".edge").first
    before = edges.evaluate("edge => getComputedStyle(edge).stroke")
    node.focus()
    page.wait_for_timeout(300)
    assert edges.evaluate("edge => getComputedStyle(edge).stroke") != before

    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    page.wait_for_function("!location.search.includes('why')")
    settled(page)

    page.go_back()
    dialog.locator("svg.ls-graph").wait_for()
    dialog.locator("svg.ls-graph a.node").first.press("Enter")
    page.wait_for_url("**/article?**")
    dialog.wait_for(state="detached")
    settled(page)
    # no page was loaded anew on the way
    assert page.evaluate("window.linkseekLoaded") == loaded
    page.get_by_role("link", name="Search", exact=True).click()
    page.locator("h3", has_text="Ada Lovelace").first.wait_for()


def test_a_way_back_keeps_its_place_and_tabs_have_titles(application, page, settled):
    page.goto(application(q=QUESTION, pipelines=["bm25"], k=20))
    page.locator("h3").nth(19).wait_for()
    settled(page)
    assert page.title() == f"{QUESTION} · Linkseek"
    main = page.locator(".stMain")
    main.evaluate("main => main.scrollTo(0, 1500)")
    page.get_by_role("textbox", name="Question").wait_for()  # widgets grow when their code arrives
    page.wait_for_timeout(300)
    title = page.locator("h3 a").nth(11)
    name = title.inner_text()
    place = main.evaluate("main => main.scrollTop")
    title.evaluate("link => link.click()")  # pressed where it stands, without scrolling to it
    page.get_by_role("heading", name=name).first.wait_for()
    page.wait_for_function("document.title.endsWith(' · Articles · Linkseek')")
    settled(page)
    assert main.evaluate("main => main.scrollTop") == 0
    page.go_back()
    page.locator("h3").nth(19).wait_for()
    settled(page)
    page.wait_for_function(f"Math.abs(document.querySelector('.stMain').scrollTop - {place}) < 20")
    page.locator(".st-key-k").get_by_text("20", exact=True).click()  # which is chosen, and stays so
    settled(page)
    assert page.locator("h3").count() == 20


def test_the_graph_has_its_size_and_scrolls_on_a_phone(application, page, settled):
    page.goto(application(q="dog", pipelines=["bm25"], why="Ada_Lovelace#2"))
    graph = page.get_by_role("dialog").locator("svg.ls-graph")
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 844})
        graph.wait_for()
        settled(page)
        assert graph.bounding_box()["width"] == pytest.approx(float(graph.get_attribute("width")), abs=1)
    around = graph.locator("xpath=..")
    assert around.evaluate("box => box.scrollWidth > box.clientWidth")
    assert around.evaluate("box => getComputedStyle(box, '::-webkit-scrollbar').height") == "8px"


@pytest.mark.parametrize("width", [1440, 390])
def test_the_page_is_as_wide_as_the_window(application, page, settled, width):
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(application(q=QUESTION, pipelines=["bm25", "ql", "dense", "hybrid"], k=5, chart=1, grouped=1))
    page.get_by_role("heading", name="dense").wait_for()
    page.locator(CHART).wait_for()
    settled(page)
    lefts = {round(box.bounding_box()["x"]) for box in page.locator(".ls-answer").all()}
    assert len(lefts) == (4 if width == 1440 else 1)
    assert page.locator(".ls-grouped h3").first.bounding_box()["height"] < 60  # two lines at most
    assert page.evaluate("document.querySelector('.stMain').scrollWidth <= innerWidth")
    assert not page.locator(f"{CHART} text", has_text="…").count()  # no title is cut
    grey = "of => new Set(of.map(each => getComputedStyle(each).color)).size"
    assert page.locator(".ls-part, .ls-part > span").evaluate_all(grey) == 1  # none is fainter


def test_hostile_texts_are_only_text(application, page, settled):
    """Titles and passages with scripts, Markdown, LaTeX and an override of direction; so is the question."""
    question = "<script>alert(9)</script> [volcano](http://evil.example) $x^2$ \u202evolcano :red[x]"
    two = ["bm25", "ql"]
    page.goto(application(index="hostile", q=question, pipelines=two, chart=1, why="Hostile#0"))
    page.get_by_role("dialog").locator(".ls-reason").wait_for()
    page.locator(CHART).wait_for(state="attached")
    settled(page)
    text = page.get_by_role("dialog").inner_text()
    assert "<script>alert(1)</script> [title](javascript:alert(2)) :red[title] $x^2$" in text
    assert '<img src=x onerror="alert(3)">' in text and "$\\frac{1}{2}$" in text and "\u202e" not in text
    content = page.locator(".stMain")
    for tag in ("img", "script:not(#follow)", ".katex", 'a[href^="http://evil"]', 'a[href^="javascript"]'):
        assert page.get_by_role("dialog").locator(tag).count() == 0, tag
        assert content.locator(f".ls-answer {tag}").count() == 0, tag


def test_a_question_of_100_000_characters(application, page, settled):
    page.goto(application())
    page.get_by_label("Question", exact=True).fill("x" * 100_000)
    page.keyboard.press("Enter")
    page.get_by_text("The question has 100,000 characters").wait_for()
    settled(page)
    assert page.locator(".ls-answer").count() == 0 and len(page.url) < 1_000


def test_an_index_deleted_while_it_is_open(application, page, settled):
    build(application.indexes / "passing", encoders=())
    page.goto(application(index="passing", q="volcano", pipelines=["bm25"]))
    page.locator("h3").first.wait_for()
    settled(page)
    shutil.rmtree(application.indexes / "passing")
    page.locator("label", has_text="Group by article").click()
    page.get_by_text('Index "passing" was not found').wait_for()
    settled(page)
    assert "Traceback" not in page.content()


def test_without_any_index(start, tmp_path_factory, page, settled):
    application = start(tmp_path_factory.mktemp("nothing") / "index" / "sample")
    page.goto(application())
    page.get_by_text("There is no index yet").wait_for()
    page.locator("code", has_text="linkseek build").first.wait_for()
    settled(page)
    build(application.indexes / "sample", encoders=())
    page.get_by_role("button", name="Reload").click()
    page.get_by_label("Question", exact=True).wait_for()


def test_fifty_sessions_at_once(application):
    """Every one of fifty visitors gets each of their answers, and nobody a notice."""
    questions = [f"Who wrote about number {number}?" for number in range(50)]
    asked = visit(application.address.removeprefix("http://"), 50, questions, 2, 0)
    with ThreadPoolExecutor(1) as thread:  # the browser's driver has a loop in this one
        taken = thread.submit(asyncio.run, asked).result()
    assert len(taken) == 100
    assert max(whole for _, whole in taken) <= SECONDS / 1000
    assert all(0 < first <= whole for first, whole in taken)
