"""The report of an evaluation: the same numbers in both formats, nothing but text from texts, no crash."""

import copy
import json
import re
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from selectolax.lexbor import LexborHTMLParser

from linkseek.app.evaluation.runner import EvaluationPlan, evaluate
from linkseek.app.report import to_html, to_markdown, write_report
from linkseek.app.report.render import escape
from linkseek.indexer.index import OpenIndex
from linkseek.retriever.ranking import Query
from tests.support.results_records import RESULTS, changed, comparison, record

HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")


@cache
def _html(raw):
    return to_html(record(json.loads(raw)))


def html_of(raw):
    return LexborHTMLParser(_html(json.dumps(raw)))


def markdown_of(raw):
    return to_markdown(record(raw))


def rendered(markdown):
    html = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(markdown)
    return LexborHTMLParser(html)


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

SCORES = [
    ["pipeline", "accuracy@20 %", "nDCG@10"],
    ["bm25", "24.0 (20.0–28.0)", ".762"],
    ["dense", "28.5† (24.5–32.5)", ".500‡"],
    ["mixed_run", "27.0 (23.0–31.0)", "1.000†"],
]
PAIRS = [
    ["pipeline", "compared with", "points", "p", "p, t-test", "p, level", "wins/ties/losses", "d"],
    ["dense", "bm25", "+4.5 (+1.0 to +8.0)", "< .001", "< .001", "-", "30/155/15", ".21"],
    ["mixed_run", "bm25", "+3.0 (−0.5 to +6.5)", ".081", ".121", ".012", "30/155/15", ".21"],
    ["mixed_run", "dense", "−1.5 (−5.0 to +2.0)", ".400", ".600", "-", "30/155/15", "−.05"],
]
CURVES = [
    ["pipeline", "k = 1", "k = 2", "k = 5"],
    ["bm25", "10.0", "12.5", "20.0"],
    ["dense", "5.0", "10.0", "25.0"],
    ["mixed_run", "10.0", "10.0", "10.0"],
]
OVERLAP = [
    ["pipeline", "0–20 %, n = 0", *(f"{20 * i}–{20 * i + 20} %, n = {10 * i}" for i in range(1, 5))],
    ["bm25", *(f"{30 + 10 * i}.0 ({20 + 10 * i}.0–{40 + 10 * i}.0)" for i in range(5))],
    ["dense", "-", *(f"{30 + 10 * i}.0 ({20 + 10 * i}.0–{40 + 10 * i}.0)" for i in range(1, 5))],
]
LENGTH = [
    ["pipeline", "3, n = 80", "4–12, n = 120"],
    ["bm25", "25.0 (15.0–35.0)", "35.0 (25.0–45.0)"],
]
GROUPS = [["pipeline", "bridge, n = 150"], ["bm25", "20.0"], ["dense", "40.0"], ["mixed_run", "-"]]
LATENCY = [
    ["pipeline", "stage", "p50, ms", "p95, ms", "p99, ms", "questions"],
    ["bm25", "search", "1.23", "2.46", "3.69", "100"],
    ["bm25", "total", "12.3", "24.6", "36.9", "100"],
    ["dense", "total", "1,240", "2,480", "3,720", "100"],
]


@pytest.mark.parametrize("page", [html_of, lambda raw: rendered(markdown_of(raw))], ids=["html", "md"])
def test_the_numbers_of_both_formats(page):
    found = tables(page(RESULTS))
    for expected in (SCORES, PAIRS, CURVES, OVERLAP, LENGTH, GROUPS, LATENCY):
        assert expected in found
    by_ndcg = next(table for table in found if table[0][2] == "difference")
    assert [row[2] for row in by_ndcg[1:]] == [
        *("−.262 (−.300 to −.200)", "+.238 (+.200 to +.300)", "+.500 (+.400 to +.600)"),
    ]
    assert [row[3] for row in by_ndcg[1:]] == [".012", ".030", ".001"]


def test_the_best_of_a_measure_is_bold():
    page = html_of(RESULTS)
    bold = [words(cell) for cell in page.css_first("#scores table").css("b")]
    assert bold == ["28.5†", "1.000†"]
    row = next(line for line in markdown_of(RESULTS).splitlines() if line.startswith("| `mixed_run` | 27.0"))
    assert row == "| `mixed_run` | 27.0 (23.0–31.0) | **1.000†** |"


def test_all_that_is_best_is_bold():
    results = changed("pipelines", "mixed_run", "measures", "accuracy@20", "mean", to=0.285)
    bold = [words(cell) for cell in html_of(results).css_first("#scores table").css("b")]
    assert bold == ["28.5†", "28.5", "1.000†"]


def summary(results):
    return words(html_of(results).css_first("p.summary"))


FACTS = r"(?:[+−]?\.?\d[\d.–]*(?: %)?|ahead|behind|equal|not|Neither|No|share|Holm|bm25|dense|mixed_run)\b"
BEST = "28.5 95 24.5–32.5"
AHEAD = "4.5 ahead bm25 95 +1.0 +8.0 .001"
SECOND = "1.5 ahead mixed_run 95 −2.0 +5.0 .400"


def two_pipelines():
    results = changed("comparisons", to=RESULTS["comparisons"][:1])
    results["differences"] = results["differences"][:1]
    del results["pipelines"]["mixed_run"], results["curves"]["pipelines"]["mixed_run"]
    return results


@pytest.mark.parametrize(("results", "facts"), [
    (RESULTS,
     f"dense 3 {BEST} {AHEAD} {SECOND} Holm 3 not not equal"),
    (changed("baseline", to="dense"),
     f"dense 3 {BEST} No dense {SECOND} not Holm 3 not equal"),
    (two_pipelines(),
     f"dense 2 {BEST} {AHEAD}"),
    (changed("pipelines", "mixed_run", "measures", "accuracy@20", "mean", to=0.285),
     f"dense mixed_run share 3 {BEST} dense {AHEAD} Holm 3"),
    (changed("comparisons", 0, "p_randomisation_holm", to=0.05),
     f"dense 3 {BEST} {AHEAD[:-4]}.050 {SECOND} Neither Holm 3 not equal"),
    (changed("comparisons", 0, to=RESULTS["comparisons"][0] | {"difference": -0.01, "queries": 50}),
     f"dense 3 {BEST} 1.0 behind bm25 50 95 +1.0 +8.0 .001 {SECOND} Holm 3 not not equal"),
    (changed("comparisons", to=RESULTS["comparisons"][1:]),
     f"dense 3 {BEST} bm25 {SECOND} not Holm 2 not equal"),
])  # fmt: skip
def test_the_summary_has_the_numbers_of_the_results(results, facts):
    """Its numbers, names and directions; the last sentence says what the measure is."""
    said = summary(results).partition(" accuracy@20 is the share")[0]
    assert " ".join(re.findall(FACTS, said.replace("accuracy@20", ""))) == facts
    assert words(rendered(markdown_of(results)).css("p")[0]) == summary(results)


def test_the_baseline_is_what_others_are_compared_with_wherever_it_stands():
    page = html_of(changed("baseline", to="mixed_run"))
    pairs = tables(page)[1]
    assert [row[:2] for row in pairs[1:]] == [
        ["dense", "bm25"],
        ["bm25", "mixed_run"],
        ["dense", "mixed_run"],
    ]
    assert pairs[2][2] == "−3.0 (−6.5 to +0.5)" and pairs[2][6] == "15/155/30"
    assert tables(page)[0][1] == ["bm25", "24.0 (20.0–28.0)", ".762‡"]


def test_many_pairs_are_folded_but_those_with_the_baseline():
    results = copy.deepcopy(RESULTS)
    many = [f"p{i}" for i in range(7)]
    results["pipelines"] = {name: copy.deepcopy(RESULTS["pipelines"]["dense"]) for name in many}
    results |= {
        "baseline": "p0",
        "differences": [],
        "curves": {"measure": "accuracy", "ks": [], "pipelines": {}},
    }
    results["analyses"] = {"length": {"label": "words", "bins": []}}
    results["comparisons"] = [
        comparison("accuracy@20", a, b, 0.0, 0.0, 0.0, 1.0) for i, a in enumerate(many) for b in many[i + 1 :]
    ]
    part = section(html_of(results), "significance")
    shown, folded = tables(part)
    assert [row[1] for row in shown[1:]] == ["p0"] * 6
    assert len(folded) == 1 + 15
    assert words(part.css_first("details summary")) == "accuracy@20: 15 pairs without the baseline"


def test_where_they_differ():
    page = html_of(RESULTS)
    part = section(page, "differences")
    assert [words(node) for node in part.css("summary")] == [
        "dense compared with bm25: 30 better, 15 worse, 155 equal; 1 of the 45 that differ are listed",
        "mixed_run compared with bm25: 30 better, 15 worse, 155 equal; 1 of the 45 that differ are listed",
    ]
    first, second = part.css(".cases > li")
    assert words(first.css_first(".question")) == "who was the first woman to win a Nobel prize"
    assert words(first.css_first(".answers")) == "Answers: Curie; Skłodowska"
    assert [words(side) for side in first.css(".side")] == [
        "bm25 no relevant result in the top 100 ✗ not relevant Marie Curie She was the first.",
        "dense first relevant result at rank 1 ✓ relevant Radium An element.",
    ]
    marks = second.css(".relevant, .irrelevant")
    assert [words(mark) for mark in marks] == ["✓ relevant", "✗ not relevant"]
    cell = "first relevant result at rank 1. ✓ relevant: **Radium** An element."
    assert (
        f"| no relevant result in the top 100. ✗ not relevant: **Marie Curie** She was the first. | {cell} |"
        in (markdown_of(RESULTS))
    )


def test_a_passage_that_was_cut_says_so():
    results = changed("differences", 0, "top_a", "text", to="word " * 47 + "words")
    assert len(results["differences"][0]["top_a"]["text"]) == 240
    assert words(html_of(results).css_first("blockquote")) == "word " * 47 + "…"
    without_blanks = "Python " + "は" * 233
    results = changed("differences", 0, "top_a", "text", to=without_blanks)
    assert words(html_of(results).css_first("blockquote")) == without_blanks + " …"


def values_of(record):
    """All texts and numbers of a record."""
    if isinstance(record, dict | list):
        each = record.values() if isinstance(record, dict) else record
        return [value for one in each for value in values_of(one)]
    return [f"{record:,}" if isinstance(record, int) else record]


def test_provenance_tells_everything():
    page = html_of(RESULTS)
    origin, head = section(page, "origin").text(), words(page.css_first("header"))
    facts = values_of([RESULTS["provenance"], RESULTS["counts"]])
    assert not [fact for fact in facts if fact not in origin]
    assert "with changes that were not committed" in origin and "bm25: 1 question without" in origin
    assert "12345" in origin and RESULTS["notes"][0] in " ".join(origin.split())
    assert all(fact in head for fact in ("Natural Questions", "150", "100", "146,151", "4,598", "16:58 UTC"))


# --- a page that stands alone ---------------------------------------------------------------------


def test_the_page_is_well_built():
    html = to_html(record())
    page = LexborHTMLParser(html)
    assert [words(node) for node in page.css("h1")] == ["Evaluation on nq"]
    assert words(page.css_first("title")) == "Evaluation on nq"
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
        assert len(figure.css("svg.chart")) == 2 and len(figure.css("table")) == 1


def test_nothing_is_loaded_and_nothing_runs():
    html = to_html(record())
    page = LexborHTMLParser(html)
    assert not page.css("script, link, img, iframe, object, embed, form, base, [src], [srcset], [style]")
    assert all(node.attributes["href"].startswith("#") for node in page.css("[href]"))
    policy = page.css_first('meta[http-equiv="Content-Security-Policy"]').attributes["content"]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"
    style = page.css_first("style").text()
    assert "url(" not in style and "@import" not in style and "prefers-color-scheme: dark" in style


def test_the_same_results_give_the_same_files(tmp_path):
    write_report(record(), tmp_path / "new" / "one")
    write_report(record(copy.deepcopy(RESULTS)), tmp_path / "two")
    for name in ("report.html", "report.md"):
        assert (tmp_path / "new" / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert sorted(path.name for path in (tmp_path / "two").glob("[!.]*")) == ["report.html", "report.md"]


def test_a_report_that_fails_leaves_the_earlier_one(tmp_path, monkeypatch):
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
FIXED = ("measure", "measures", "main_measure", "date", "source", "judged_level", "answer_kind")


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
    assert len(page.css("#scores tbody tr")) == 3 and len(page.css(".cases > li")) == 2
    question = words(page.css_first(".question"))
    assert question.startswith(
        "who was the first woman to win a Nobel prize<script>alert(1)</script><img src"
    )
    assert question.endswith("]]> --> {{x}}")
    assert not re.search(
        r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]", html
    )


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
    assert "who was the first woman to win a Nobel prize<script>alert(1)</script><img src=x" in words(
        page.body
    )
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


def test_names_of_any_direction_are_kept_apart():
    results = changed("notes", to=["(abc) \u05e9\u05dc\u05d5\u05dd!"])
    [note] = html_of(results).css("#origin li")
    assert note.css_first("bdi").text() == words(note) == "(abc) \u05e9\u05dc\u05d5\u05dd!"
    assert "\u2068(abc) \u05e9\u05dc\u05d5\u05dd\\!\u2069" in markdown_of(results)


# --- parts of results -----------------------------------------------------------------------------


def anchors(results):
    return [node.attributes["id"] for node in html_of(results).css("main > section")]


def only_bm25():
    """The least that an evaluation can hold: one run file."""
    return changed("comparisons", to=[]) | {
        "pipelines": {"bm25": RESULTS["pipelines"]["bm25"] | {"latency": None}},
        "curves": {"measure": "accuracy", "ks": [], "pipelines": {}},
        "analyses": {"length": {"label": "words", "bins": []}},
        "differences": [],
        "test_set": None,
        "provenance": None,
    }


def test_one_pipeline_has_nothing_to_be_compared_with():
    results = only_bm25()
    assert anchors(results) == ["scores", "kinds", "origin"]
    assert summary(results).startswith(
        "bm25: accuracy@20 of 24.0 % (95 % interval 20.0–28.0). There is no other pipeline to compare"
    )
    assert words(html_of(results).css_first("h1")) == "Evaluation"
    assert not html_of(results).css("#scores b")


def test_run_files_without_latency():
    latency = section(html_of(RESULTS), "latency")
    assert words(latency.css("p.note")[-1]) == (
        "Not timed, for example because they are run files: mixed_run."
    )
    results = copy.deepcopy(RESULTS)
    for pipeline in results["pipelines"].values():
        pipeline["latency"] = None
    assert "latency" not in anchors(results)


def test_the_title_falls_back_to_the_file_of_questions():
    assert words(html_of(changed("test_set", to=None)).css_first("h1")) == "Evaluation on queries.jsonl"


# --- with the runner ------------------------------------------------------------------------------


def test_the_report_of_an_evaluation(built_index, make_pipelines, tmp_path):
    pipelines = make_pipelines()
    queries = [
        Query("1", "deserts of sand", ("sand",)),
        Query("2", "a mountain that spits lava", ("lava", "magma")),
        Query("3", "nothing of this kind", ("unknown",)),
    ]
    plan = EvaluationPlan(
        index=OpenIndex.open(built_index),
        queries=queries,
        pipelines={name: pipelines.open(name) for name in ("bm25", "dense")},
        depth=5,
        measures=["accuracy@1", "accuracy@5"],
        latency=2,
        groups={"first": ("1",), "others": ("2", "3")},
        output=tmp_path,
    )
    results = evaluate(plan)
    assert set(results.analyses.groups) == {"first", "others"}
    raw = results.to_json()
    assert {"scores", "significance", "curves", "kinds", "latency"} <= set(anchors(raw))
    mean = raw["pipelines"]["bm25"]["measures"]["accuracy@1"]["mean"]
    assert tables(html_of(raw))[0][1][1].startswith(f"{mean * 100:.1f}")
