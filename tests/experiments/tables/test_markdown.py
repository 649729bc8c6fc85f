"""Documents as Markdown: the words and numbers of the HTML page, and nothing but text from texts."""

import re
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from selectolax.lexbor import LexborHTMLParser

from experiments.tables.markdown import escape, markdown_page
from linkseek.app.report import report
from tests.app.report.test_report import CASES, HARMFUL, hostile, html_of, tables, words
from tests.support.golden import assert_golden
from tests.support.results_records import RESULTS, changed, record


def markdown_of(raw):
    return markdown_page(report(record(raw)))


def rendered(markdown):
    html = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(markdown)
    return LexborHTMLParser(html)


@pytest.mark.parametrize("name", CASES)
def test_a_report_is_that_of_its_file_in_both_formats(name):
    markdown = markdown_of(CASES[name])
    assert_golden(Path(__file__).with_name("reports") / f"{name}.md", markdown)
    page, other = html_of(CASES[name]), rendered(markdown)
    assert words(page.css_first("p.summary")) == words(other.css("p")[0])
    best = [words(cell).partition(" ")[0] for cell in other.css("table")[0].css("strong")]
    assert [words(cell) for cell in page.css("#scores table b")] == best
    for drawn in page.css(".bar"):
        drawn.decompose()
    shown, expected = tables(page), tables(other)
    assert shown and all(table in expected for table in shown)


def test_hostile_texts_in_markdown():
    markdown = markdown_of(hostile(RESULTS))
    page = rendered(markdown)
    tags = {node.tag for node in page.css("body *")}
    assert tags <= {"h1", "h2", "h3", "h4", "p", "ul", "li", "table", "thead", "tbody", "tr", "th", "td"} | {
        *("strong", "code")
    }
    assert [len(table) for table in tables(page)] == [
        len(table) for table in tables(rendered(markdown_of(RESULTS)))
    ]
    for table in page.css("table"):
        width = len(table.css("thead th"))
        assert all(len(row.css("td")) == width for row in table.css("tbody tr"))
    assert "who was the first woman to win<script>alert(1)</script><img src=x" in words(page.body)
    assert "http://" not in re.sub("(`+)[^`].*?[^`]\\1(?!`)", "", markdown)  # GitHub would make it a link
    assert not HARMFUL.search(markdown)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a|b", r"a\|b"),
        ("- a", r"\- a"),
        ("12. a", r"12\. a"),
        ("a\nb", "a b"),
        ("www.x.org", r"www\.x.org"),
        ("https://x.org", r"https:\//x.org"),
        ("שלום (x)", "\u2068שלום (x)\u2069"),
        ("nq-test_1", r"nq-test\_1"),
    ],
)
def test_escaping_of_markdown(text, expected):
    assert escape(text) == expected
    shown = rendered(f"- {escape(text)}").css_first("li").text().strip("\n\u2068\u2069")
    assert shown == " ".join(text.split())


def test_texts_of_any_direction_are_kept_apart():
    results = changed("notes", to=["(abc) \u05e9\u05dc\u05d5\u05dd!"])
    assert "\u2068(abc) \u05e9\u05dc\u05d5\u05dd\\!\u2069" in markdown_of(results)
