"""The report of an evaluation: nothing but text from texts, no crash."""

import copy
import re
from itertools import pairwise
from pathlib import Path

import pytest
from selectolax.lexbor import LexborHTMLParser

from linkseek.app.report import to_html, write_report
from tests.support.results_records import RESULTS, changed, comparison, record

HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")


def html_of(raw):
    """Without its charts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vl_convert.vegalite_to_svg", lambda chart: "")
        return LexborHTMLParser(to_html(record(raw)))


@pytest.fixture(scope="module")
def page():
    """The whole report, with its charts."""
    return LexborHTMLParser(to_html(record()))


def words(node):
    return " ".join(node.text().split())


def tables(page):
    """Every table as rows of texts; an interval as in Markdown, in brackets."""
    found = []
    for table in page.css("table"):
        for interval in table.css(".interval"):
            interval.replace_with(f" ({interval.text()})")
        found.append([[words(cell) for cell in row.css("th, td")] for row in table.css("tr")])
    return found


def section(page, anchor):
    return page.css_first(f"section#{anchor}")


# --- what it says ---------------------------------------------------------------------------------


def two_pipelines():
    results = changed("comparisons", to=RESULTS["comparisons"][:1])
    del results["pipelines"]["mixed_run"], results["curves"]["pipelines"]["mixed_run"]
    return results


def only_bm25():
    """The least that an evaluation can hold: one run file."""
    return changed("comparisons", to=[]) | {
        "pipelines": {"bm25": RESULTS["pipelines"]["bm25"] | {"latency": None}},
        "curves": {"measure": "accuracy", "ks": [], "pipelines": {}},
        "analyses": {"length": {"label": "words", "without_value": 0, "bins": []}},
        "test_set": None,
        "provenance": None,
    }


def first_pair(**values):
    return changed("comparisons", 0, to=RESULTS["comparisons"][0] | values)


CASES = {
    "three": RESULTS,
    "best-baseline": changed("baseline", to="dense"),
    "last-baseline": changed("baseline", to="mixed_run"),
    "two": two_pipelines(),
    "equal-best": changed("pipelines", "mixed_run", "measures", "accuracy@20", "mean", to=0.285),
    "not-significant": first_pair(p_randomisation_holm=0.05),
    "behind": first_pair(difference=-0.01, queries=50),
    "no-pair": changed("comparisons", to=RESULTS["comparisons"][1:]),
    "one": only_bm25(),
}
"""Results by the names of their reports."""


def test_many_pairs_are_folded_but_those_with_the_baseline():
    results = copy.deepcopy(RESULTS)
    many = [f"p{i}" for i in range(7)]
    results["pipelines"] = {name: copy.deepcopy(RESULTS["pipelines"]["dense"]) for name in many}
    results |= only_bm25() | {"pipelines": results["pipelines"], "baseline": "p0"}
    results["comparisons"] = [
        comparison("accuracy@20", a, b, 0.0, 0.0, 0.0, 1.0) for i, a in enumerate(many) for b in many[i + 1 :]
    ]
    part = section(html_of(results), "significance")
    shown, folded = tables(part)
    assert [row[1] for row in shown[1:]] == ["p0"] * 6
    assert len(folded) == 1 + 15
    assert words(part.css_first("details summary")) == "accuracy@20: 15 pairs without the baseline"


# --- a page that stands alone ---------------------------------------------------------------------


def test_the_page_is_well_built(page):
    assert [words(node) for node in page.css("h1")] == ["bm25, dense, mixed_run on nq"]
    assert words(page.css_first("title")) == "bm25, dense, mixed_run on nq"
    levels = [int(node.tag[1]) for node in page.css(",".join(HEADINGS))]
    assert levels[0] == 1 and all(b <= a + 1 for a, b in pairwise(levels))
    ids = [node.attributes["id"] for node in page.css("[id]")]
    assert len(ids) == len(set(ids))
    assert all(node.attributes["aria-labelledby"] in ids for node in page.css("[aria-labelledby]"))
    links = [node.attributes["href"] for node in page.css("nav a")]
    assert links == [f"#{node.attributes['id']}" for node in page.css("main > section")]
    assert links == ["#scores", "#significance", "#curves", "#kinds", "#latency", "#differences", "#origin"]
    for table in page.css("table"):
        assert table.css_first("caption")
        heads = table.css("thead th")
        assert all(head.attributes["scope"] == "col" for head in heads)
        for row in table.css("tbody tr"):
            cells = row.css("th, td")
            assert len(cells) == len(heads)
            assert cells[0].tag == "th" and cells[0].attributes["scope"] == "row"
    for chart in page.css("svg.chart"):
        assert chart.attributes["role"] == "img" and "the table below" in chart.attributes["aria-label"]
    for figure in page.css("figure"):
        assert len(figure.css("svg.chart")) == 1 and len(figure.css("table")) == 1


def test_nothing_is_loaded_and_nothing_runs(page):
    assert not page.css("script, link, img, iframe, object, embed, form, base, [src], [srcset], [style]")
    assert all(node.attributes["href"].startswith("#") for node in page.css("[href]"))
    policy = page.css_first('meta[http-equiv="Content-Security-Policy"]').attributes["content"]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"
    style = page.css_first("style").text()
    assert "url(" not in style and "@import" not in style and "prefers-color-scheme: dark" in style


def test_the_same_results_give_the_same_files(tmp_path, without_charts):
    write_report(record(), tmp_path / "new" / "one")
    write_report(record(copy.deepcopy(RESULTS)), tmp_path / "two")
    name = "report.html"
    assert (tmp_path / "new" / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert [path.name for path in (tmp_path / "two").glob("[!.]*")] == [name]


def test_a_report_that_fails_leaves_the_earlier_one(tmp_path, monkeypatch, without_charts):
    write_report(record(), tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.setattr(Path, "replace", lambda self, target: (_ for _ in ()).throw(OSError("no space")))
    with pytest.raises(OSError, match="no space"):
        write_report(record(changed("notes", to=["another"])), tmp_path)
    assert {path: path.read_bytes() for path in before} == before


# --- hostile texts --------------------------------------------------------------------------------

HOSTILE = (
    '<script>alert(1)</script><img src=x onerror=alert(1)>" onload="x [a](javascript:alert(1)) '
    "![b](http://evil.example/i.png) | `code` *x* **y** _z_ ~~s~~ &lt; &#60; \\ $x$ http://evil.example "
    "# h \u202eevil\u2066 \x00\x07\x1b[31m\u2028\nline\r\n- item\n\n---\n| a |\n|---|\n]]> --> {{x}}"
)
HARMFUL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\ud800-\udfff]")
OURS = (
    "html head meta title style body header h1 h2 h3 bdi code span wbr dl div dt dd p strong b nav a main "
    "section details summary ul li ol table caption thead tbody tr th td figure figcaption svg g path rect "
    "line text tspan sup cite blockquote"
).split()
HARMFUL_ATTRIBUTES = ("on", "src", "srcset", "style", "action", "formaction", "xlink:href", "data")


OUTSIDE = ("bm25", "dense", "mixed_run", "bridge", "search", "python", "links", "my_mini")
FIXED = ("id", "measure", "measures", "main_measure", "date", "source", "judged_level", "answer_kind")


def hostile(value):
    """Every text of the results and every name of a pipeline or group, made hostile."""
    if isinstance(value, dict):
        names = {key: f"{key}{HOSTILE}" if key in OUTSIDE else key for key in value}
        return {
            names[key]: item if key in FIXED and not isinstance(item, dict) else hostile(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [hostile(item) for item in value]
    return f"{value}{HOSTILE}" if isinstance(value, str) else value


def test_hostile_texts_in_html():
    html = to_html(record(hostile(RESULTS)))
    page = LexborHTMLParser(html)
    assert {node.tag for node in page.css("*")} <= set(OURS)
    for node in page.css("*"):
        assert not [name for name in node.attributes if name.startswith(HARMFUL_ATTRIBUTES)]
    assert all(node.attributes["href"].startswith("#") for node in page.css("[href]"))
    assert len(page.css("#scores tbody tr")) == 3 and len(page.css("#differences tbody tr")) == 2
    question = words(page.css_first("#differences tbody th"))
    assert question.startswith("who was the first woman to win<script>alert(1)</script><img src")
    assert question.endswith("]]> --> {{x}}")
    assert not re.search(
        r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]", html
    )


def test_names_of_any_direction_are_kept_apart():
    results = changed("notes", to=["(abc) \u05e9\u05dc\u05d5\u05dd!"])
    [note] = html_of(results).css("#origin li")
    assert note.css_first("bdi").text() == words(note) == "(abc) \u05e9\u05dc\u05d5\u05dd!"


# --- parts of results -----------------------------------------------------------------------------


def test_the_title_falls_back_to_the_file_of_questions():
    assert (
        words(html_of(changed("test_set", to=None)).css_first("h1"))
        == "bm25, dense, mixed_run on queries.jsonl"
    )
