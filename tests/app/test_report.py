"""The report of an evaluation: the same numbers in both formats, nothing but text from texts, no crash."""

import copy
import re
from itertools import pairwise
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from selectolax.lexbor import LexborHTMLParser

from app.evaluation.runner import evaluate
from app.report import report, write_report
from app.report.html import to_html
from app.report.markdown import escape, to_markdown
from app.report.results import read_results
from indexer.index import Index
from retriever.ranking import Query

HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")


def score(mean, low=None, high=None):
    return {"mean": mean, "low": low, "high": high, "queries": 200, "per_query": {"q1": mean}}


def comparison(measure, a, b, difference, low, high, p, **changes):
    found = {"measure": measure, "a": a, "b": b, "difference": difference, "low": low, "high": high}
    found |= {"p_randomisation": p / 3, "p_t": p / 2, "p_randomisation_holm": p, "p_t_holm": p * 1.5}
    return found | {"wins": 30, "ties": 155, "losses": 15, "effect_size": 0.214, "queries": 200} | changes


def percentiles(p50):
    return {"p50": p50, "p95": p50 * 2, "p99": p50 * 3, "questions": 100}


def share(mean):
    return {"mean": mean, "low": mean - 0.1, "high": mean + 0.1}


def difference(a, b, question, rank_a, rank_b):
    top = {"title": "Marie Curie", "text": "She was the first.", "right": rank_a == 1}
    other = {"title": "Radium", "text": "An element.", "right": rank_b == 1}
    return {
        "a": a,
        "b": b,
        "query_id": "q1",
        "question": question,
        "answers": ["Curie", "Skłodowska"],
        "rank_a": rank_a,
        "rank_b": rank_b,
        "top_a": top,
        "top_b": other,
    }


RESULTS = {
    "test_set": {"name": "nq", "description": "Natural Questions", "licence": "CC BY-SA", "source": "nq.csv"},
    "baseline": "bm25",
    "pipelines": {
        "bm25": {
            "measures": {"accuracy@20": score(0.24, 0.2, 0.28), "nDCG@10": score(0.762, 0.7, 0.8)},
            "queries_without_results": 1,
            "latency": {"search": percentiles(0.00123), "total": percentiles(0.0123)},
        },
        "dense": {
            "measures": {"accuracy@20": score(0.285, 0.245, 0.325), "nDCG@10": score(0.5, 0.4, 0.6)},
            "latency": {"total": percentiles(1.24)},
        },
        "mixed_run": {
            "measures": {"accuracy@20": score(0.27, 0.23, 0.31), "nDCG@10": score(1.0, 1.0, 1.0)},
            "latency": None,
        },
    },
    "measures": ["accuracy@20", "nDCG@10"],
    "main_measure": "accuracy@20",
    "comparisons": [
        comparison("accuracy@20", "bm25", "dense", 0.045, 0.01, 0.08, 0.0003),
        comparison("accuracy@20", "bm25", "mixed_run", 0.03, -0.005, 0.065, 0.081),
        comparison("accuracy@20", "dense", "mixed_run", -0.015, -0.05, 0.02, 0.4, effect_size=-0.05),
        comparison("nDCG@10", "bm25", "dense", -0.262, -0.3, -0.2, 0.012),
        comparison("nDCG@10", "bm25", "mixed_run", 0.238, 0.2, 0.3, 0.03),
        comparison("nDCG@10", "dense", "mixed_run", 0.5, 0.4, 0.6, 0.001),
    ],
    "curves": {
        "measure": "accuracy",
        "ks": [1, 2, 3, 4, 5],
        "pipelines": {
            "bm25": [0.1, 0.125, 0.15, 0.175, 0.2],
            "dense": [0.05, 0.1, 0.15, 0.2, 0.25],
            "mixed_run": [0.1, 0.1, 0.1, None, 0.1],
        },
    },
    "analyses": {
        "overlap": {
            "label": "share of the question's words",
            "left_out": 7,
            "bins": [
                {
                    "low": i / 5,
                    "high": (i + 1) / 5,
                    "queries": 10 * i,
                    "pipelines": {
                        name: share(0.3 + i / 10) for name in ("bm25", "dense") if i or name == "bm25"
                    },
                }
                for i in range(5)
            ],
        },
        "length": {
            "label": "words of the question",
            "bins": [
                {
                    "low": 3,
                    "high": 3,
                    "queries": 80,
                    "pipelines": {"bm25": share(0.25), "dense": dict.fromkeys(("mean", "low", "high"))},
                },
                {"low": 4, "high": 12, "queries": 120, "pipelines": {"bm25": share(0.35)}},
            ],
        },
        "groups": {
            "bridge": {
                "queries": 150,
                "pipelines": {
                    "bm25": {"accuracy@20": 0.2, "nDCG@10": 0.3},
                    "dense": {"accuracy@20": 0.4, "nDCG@10": None},
                },
            }
        },
    },
    "differences": [
        difference("bm25", "dense", "who was the first woman to win a Nobel prize", None, 1),
        difference("bm25", "mixed_run", "what glows in the dark", 1, 12),
    ],
    "counts": {"queries": 200, "queries_with_answers": 200, "queries_with_judgements": 150},
    "judged_level": "passages",
    "depth": 100,
    "seeds": {"bootstrap": 12345, "randomisation": 54321},
    "notes": ["mixed_run: 3 of its ids are not in the index; they count as wrong"],
    "provenance": {
        "date": "2026-11-20T16:58:14+00:00",
        "command": "python app/evaluate.py --index index/nq",
        "revision": {"commit": "8fff9c8", "changed_since": True},
        "machine": {"processor": "A processor", "cores": 2, "memory_gb": 24, "system": "Linux x86_64"},
        "versions": {"python": "3.11.7", "numpy": "2.4.6"},
        "index": {"path": "index/nq", "manifest_sha256": "aaa", "parts_sha256": {"links": "bbb"}},
        "corpus": {"file": "docs.jsonl", "documents": 4598, "passages": 146151},
        "models": {"my_mini": {"sha256": "ccc", "dimension": 384}},
        "files": {"queries": {"path": "nq/queries.jsonl", "sha256": "ddd"}},
    },
}


def changed(*path, to=None, remove=False):
    """The results with one value replaced or removed."""
    results = copy.deepcopy(RESULTS)
    at = results
    for key in path[:-1]:
        at = at[key]
    if remove:
        del at[path[-1]]
    else:
        at[path[-1]] = to
    return results


def html_of(results):
    return LexborHTMLParser(to_html(report(results)))


def markdown_of(results):
    return to_markdown(report(results))


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
    ["pipeline", "compared with", "points", "p", "p, t-test", "wins/ties/losses", "d"],
    ["dense", "bm25", "+4.5 (+1.0 to +8.0)", "< .001", "< .001", "30/155/15", ".21"],
    ["mixed_run", "bm25", "+3.0 (−0.5 to +6.5)", ".081", ".121", "30/155/15", ".21"],
    ["mixed_run", "dense", "−1.5 (−5.0 to +2.0)", ".400", ".600", "30/155/15", "−.05"],
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


@pytest.mark.parametrize("page", [html_of(RESULTS), rendered(markdown_of(RESULTS))], ids=["html", "md"])
def test_the_numbers_of_both_formats(page):
    found = tables(page)
    for expected in (SCORES, PAIRS, CURVES, OVERLAP, LENGTH, GROUPS, LATENCY):
        assert expected in found
    by_ndcg = next(table for table in found if table[0][2] == "difference")
    assert [row[2] for row in by_ndcg[1:]] == [
        *("−.262 (−.300 to −.200)", "+.238 (+.200 to +.300)", "+.500 (+.400 to +.600)"),
    ]
    assert [row[3] for row in by_ndcg[1:]] == [".012", ".030", ".001"]


def test_curves_are_marked_where_the_table_has_values():
    wide, narrow = section(html_of(RESULTS), "curves").css("svg.chart")
    said = [words(title) for title in wide.css("title")]
    assert said[:3] == ["bm25: 10.0 % at k = 1", "bm25: 12.5 % at k = 2", "bm25: 20.0 % at k = 5"]
    assert len(said) == len(narrow.css("title")) == 9


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


def test_the_summary():
    assert summary(RESULTS) == (
        "dense has the highest accuracy@20 of 3 pipelines: 28.5 % (95 % interval 24.5–32.5). It is 4.5 "
        "percentage points ahead of the baseline, bm25 (95 % interval +1.0 to +8.0, p < .001). It is 1.5 "
        "percentage points ahead of the runner-up, mixed_run (95 % interval −2.0 to +5.0, p = .400). The "
        "difference from the baseline is significant after Holm's correction over 3 pairs; that from the "
        "runner-up is not, which does not show the two to be equal. accuracy@20 is the share of questions "
        "with an answer in one of the first 20 passages."
    )
    assert words(rendered(markdown_of(RESULTS)).css("p")[0]) == summary(RESULTS)


def test_the_summary_when_the_baseline_is_best():
    said = summary(changed("baseline", to="dense"))
    assert "No pipeline scores higher than the baseline, dense. It is 1.5 percentage points ahead of" in said
    assert "The difference is not significant after Holm's correction over 3 pairs, which does not" in said


def test_the_summary_of_two():
    results = changed("pipelines", "mixed_run", remove=True)
    results["comparisons"] = results["comparisons"][:1]
    assert "ahead of the baseline and runner-up, bm25 (95 % interval +1.0 to +8.0, p < .001). The diff" in (
        summary(results)
    )
    assert "The difference is significant. accuracy@20 is" in summary(results)  # one pair, nothing to correct


def test_the_summary_of_equals():
    said = summary(changed("pipelines", "mixed_run", "measures", "accuracy@20", "mean", to=0.285))
    assert said.startswith("dense and mixed_run share the highest accuracy@20 of 3 pipelines: 28.5 %")
    assert "dense is 4.5 percentage points ahead of the baseline and runner-up, bm25" in said


def test_the_summary_of_differences_that_none_is_significant_or_tested():
    results = changed("comparisons", 0, "p_randomisation_holm", to=0.05)
    assert "Neither difference is significant after" in summary(results)
    assert "does not show the pipelines to be equal" in summary(results)
    for found in results["comparisons"]:
        found["p_randomisation_holm"] = None
    assert "The results hold no test of significance." in summary(results)
    assert "p =" not in summary(results) and "significant" not in words(section(html_of(results), "scores"))


def test_a_difference_on_fewer_questions_may_point_the_other_way():
    results = changed("comparisons", 0, "difference", to=-0.01)
    results["comparisons"][0]["queries"] = 50
    assert "It is 1.0 percentage points behind the baseline, bm25 on the 50 questions that both" in (
        summary(results)
    )


def test_the_baseline_is_what_others_are_compared_with_wherever_it_stands():
    page = html_of(changed("baseline", to="mixed_run"))
    pairs = tables(page)[1]
    assert [row[:2] for row in pairs[1:]] == [
        ["dense", "bm25"],
        ["bm25", "mixed_run"],
        ["dense", "mixed_run"],
    ]
    assert pairs[2][2] == "−3.0 (−6.5 to +0.5)" and pairs[2][5] == "15/155/30"
    assert tables(page)[0][1] == ["bm25", "24.0 (20.0–28.0)", ".762‡"]


def test_many_pairs_are_folded_but_those_with_the_baseline():
    results = copy.deepcopy(RESULTS)
    many = [f"p{i}" for i in range(7)]
    results["pipelines"] = {name: copy.deepcopy(RESULTS["pipelines"]["dense"]) for name in many}
    results["baseline"] = "p0"
    results["comparisons"] = [
        comparison("accuracy@20", a, b, 0, 0, 0, 1.0) for i, a in enumerate(many) for b in many[i + 1 :]
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
        "dense beside bm25: 1 question, 1 better and 0 worse",
        "mixed_run beside bm25: 1 question, 0 better and 1 worse",
    ]
    first, second = part.css(".cases > li")
    assert words(first.css_first(".question")) == "who was the first woman to win a Nobel prize"
    assert words(first.css_first(".answers")) == "Answers: Curie; Skłodowska"
    assert [words(side) for side in first.css(".side")] == [
        "bm25 no right result among 100✗ wrong Marie CurieShe was the first.",
        "dense first right result at rank 1✓ right RadiumAn element.",
    ]
    assert [words(mark) for mark in second.css(".right, .wrong")] == ["✓ right", "✗ wrong"]
    cell = "first right result at rank 1. ✓ right: **Radium** An element."
    assert f"| no right result among 100. ✗ wrong: **Marie Curie** She was the first. | {cell} |" in (
        markdown_of(RESULTS)
    )


def test_a_passage_that_was_cut_says_so():
    results = changed("differences", 0, "top_a", "text", to="word " * 47 + "words")
    assert len(results["differences"][0]["top_a"]["text"]) == 240
    assert words(html_of(results).css_first("blockquote")) == "word " * 47 + "…"


def test_provenance_tells_everything():
    page = html_of(RESULTS)
    facts = {
        words(row.css_first("dt")): [words(line) for line in row.css("dd")]
        for row in section(page, "origin").css(".facts > div")
    }
    assert facts == {
        "command": ["python app/evaluate.py --index index/nq"],
        "date": ["2026-11-20T16:58:14+00:00"],
        "revision": ["8fff9c8, with changes that were not committed"],
        "machine": ["A processor, 2 cores, 24 GB of memory, Linux x86_64"],
        "versions": ["python 3.11.7, numpy 2.4.6"],
        "index": ["path: index/nq", "manifest SHA-256: aaa", "SHA-256 of links: bbb"],
        "corpus": ["docs.jsonl, documents 4,598, passages 146,151"],
        "models": ["my_mini: SHA-256 ccc, dimension 384"],
        "test set": ["licence: CC BY-SA", "source: nq.csv"],
        "files": ["queries: nq/queries.jsonl, SHA-256 ddd"],
        "counts": [
            "questions: 200",
            "questions with answers: 200",
            "questions with judgements: 150",
            "bm25: 1 question without any result",
        ],
        "seeds": ["bootstrap: 12345", "randomisation: 54321"],
    }
    notes = [words(note) for note in section(page, "origin").css("ul li")]
    assert notes == RESULTS["notes"]
    head = {words(row.css_first("dt")): words(row.css_first("dd")) for row in page.css("header .facts > div")}
    assert head == {
        "Test set": "Natural Questions",
        "Questions": "200, all with answers, 150 with judgements",
        "Depth": "100 results for each question",
        "Index": "index/nq, 146,151 passages of 4,598 documents",
        "Date": "20 November 2026, 16:58 UTC",
    }


# --- a page that stands alone ---------------------------------------------------------------------


def test_the_page_is_well_built():
    html = to_html(report(RESULTS))
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
    html = to_html(report(RESULTS))
    page = LexborHTMLParser(html)
    assert not page.css("script, link, img, iframe, object, embed, form, base, [src], [srcset], [style]")
    assert all(node.attributes["href"].startswith("#") for node in page.css("[href]"))
    policy = page.css_first('meta[http-equiv="Content-Security-Policy"]').attributes["content"]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"
    style = page.css_first("style").text()
    assert "url(" not in style and "@import" not in style and "prefers-color-scheme: dark" in style


def test_the_same_results_give_the_same_files(tmp_path):
    write_report(RESULTS, tmp_path / "new" / "one")
    write_report(copy.deepcopy(RESULTS), tmp_path / "two")
    for name in ("report.html", "report.md"):
        assert (tmp_path / "new" / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert sorted(path.name for path in (tmp_path / "two").iterdir()) == ["report.html", "report.md"]


def test_a_report_that_fails_leaves_the_earlier_one(tmp_path, monkeypatch):
    write_report(RESULTS, tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.setattr(Path, "replace", lambda self, target: (_ for _ in ()).throw(OSError("no space")))
    with pytest.raises(OSError, match="no space"):
        write_report(changed("notes", to=["another"]), tmp_path)
    assert {path: path.read_bytes() for path in before} == before


# --- hostile texts --------------------------------------------------------------------------------

HOSTILE = (
    '<script>alert(1)</script><img src=x onerror=alert(1)>" onload="x [a](javascript:alert(1)) '
    "![b](http://evil.example/i.png) | `code` *x* **y** _z_ ~~s~~ &lt; &#60; \\ $x$ http://evil.example "
    "# h \u202eevil\u2066 \x00\x07\x1b[31m\u2028\nline\r\n- item\n\n---\n| a |\n|---|\n]]> --> {{x}} \ud800"
)
HARMFUL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\ud800-\udfff]")
OURS = (
    "html head meta title style body header h1 h2 h3 bdi code span wbr dl div dt dd p strong b nav a main "
    "section details summary ul li ol table caption thead tbody tr th td figure figcaption svg g path circle "
    "polygon rect text sup cite blockquote"
).split()
OUR_ATTRIBUTES = (
    "lang charset name content http-equiv href id class aria-label aria-labelledby aria-hidden role tabindex "
    "scope dir viewBox width height d x y cx cy r points font-size text-anchor"
).split()


def hostile(value, keep=("measures", "main_measure", "date")):
    """Every text of the results and every name of a pipeline or group, made hostile."""
    if isinstance(value, dict):
        renamed = {}
        for key, item in value.items():
            outside = key in ("bm25", "dense", "mixed_run", "bridge", "search", "python", "links")
            renamed[f"{key}{HOSTILE}" if outside else key] = item if key in keep else hostile(item)
        if "measures" in value and isinstance(value["measures"], dict):
            renamed["latency"] = hostile(value.get("latency"))
        return renamed
    if isinstance(value, list):
        return [hostile(item) for item in value]
    if isinstance(value, str):
        is_measure = value in ("accuracy@20", "nDCG@10", "accuracy")
        return value if is_measure else f"{value}{HOSTILE}"
    return value


def test_hostile_texts_in_html():
    html = to_html(report(hostile(RESULTS)))
    page = LexborHTMLParser(html)
    found = {node.tag: node for node in page.css("*")}
    assert set(found) <= set(OURS)
    attributes = {name for node in page.css("*") for name in node.attributes}
    assert attributes <= set(OUR_ATTRIBUTES)
    assert page.css_first("script, img, [onerror], [onload]") is None
    assert all(node.attributes["href"].startswith("#") for node in page.css("[href]"))
    assert len(page.css("#scores tbody tr")) == 3 and len(page.css(".cases > li")) == 2
    question = words(page.css_first(".question"))
    assert question.startswith(
        "who was the first woman to win a Nobel prize<script>alert(1)</script><img src"
    )
    assert question.endswith("]]> --> {{x}} \ufffd")
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
    assert "<li><bdi>(abc) \u05e9\u05dc\u05d5\u05dd!</bdi></li>" in to_html(report(results))
    assert "\u2068(abc) \u05e9\u05dc\u05d5\u05dd\\!\u2069" in markdown_of(results)


# --- parts of results -----------------------------------------------------------------------------


def paths(value, prefix=()):
    """Where values stand in the results; of a list, and of pipelines, only the first in full."""
    if prefix:
        yield prefix
    if prefix and prefix[-1] in ("dense", "mixed_run"):
        return
    if isinstance(value, dict):
        for key, item in value.items():
            yield from paths(item, (*prefix, key))
    elif isinstance(value, list) and value:
        yield from paths(value[0], (*prefix, 0))


def test_any_part_may_be_missing_or_wrong():
    every = list(paths(RESULTS))
    assert len(every) > 150
    for number, path in enumerate(every):
        wrong = (None, "text", [], {}, -1, float("nan"), [None], {"x": None})[number % 8]
        for results in (changed(*path, remove=True), changed(*path, to=wrong)):
            document = report(results)
            html, markdown = to_html(document), to_markdown(document)
            assert '<h2 id="origin-title">Provenance</h2>' in html, path
            assert "## Provenance" in markdown, path
            if path[0] != "provenance":  # which is shown as it is
                assert not re.search(r"\b(nan|inf|None)\b", markdown), path


def anchors(results):
    return [node.attributes["id"] for node in html_of(results).css("main > section")]


def test_nothing_at_all():
    page = html_of({})
    assert words(page.css_first("h1")) == "Evaluation"
    assert summary({}) == "The results hold no measured pipeline."
    assert anchors({}) == ["origin"]


def test_one_pipeline_has_nothing_to_be_compared_with():
    results = {"pipelines": {"bm25": RESULTS["pipelines"]["bm25"]}}
    assert anchors(results) == ["scores", "latency", "origin"]
    assert summary(results).startswith(
        "bm25: accuracy@20 of 24.0 % (95 % interval 20.0–28.0). There is no oth"
    )
    assert not html_of(results).css("#scores b")


def test_run_files_without_latency_and_questions_without_answers():
    results = changed("analyses", to={})
    results["curves"] = None
    assert "kinds" not in anchors(results) and "curves" not in anchors(results)
    latency = section(html_of(results), "latency")
    assert words(latency.css("p.note")[-1]) == "Not measured, such as run files are: mixed_run."
    for pipeline in results["pipelines"].values():
        pipeline["latency"] = None
    assert "latency" not in anchors(results)


def test_missing_comparisons_are_said_to_be_missing():
    results = changed("comparisons", remove=True)
    assert "The results hold no comparisons of pairs." in words(section(html_of(results), "significance"))
    assert "The results hold no comparison with the baseline, bm25." in summary(results)


def test_what_is_left_out_is_said():
    results = changed("comparisons", 0, "difference", to=None)
    results["pipelines"]["dense"]["measures"]["nDCG@10"]["mean"] = float("inf")
    notes = [words(note) for note in section(html_of(results), "origin").css("ul li")]
    assert notes[-1] == (
        "Left out of this report, because a value was missing in the results: measures (1), comparisons (1)."
    )
    assert ["dense", "28.5 (24.5–32.5)", "-"] in tables(html_of(results))[0]


def test_the_title_falls_back_to_the_file_of_questions():
    assert words(html_of(changed("test_set", to=None)).css_first("h1")) == "Evaluation on queries.jsonl"


# --- with what the runner gives -------------------------------------------------------------------


def test_everything_that_the_runner_gives_is_read(built_index, make_pipelines, tmp_path):
    pipelines = make_pipelines()
    queries = [
        Query("1", "deserts of sand", ("sand",)),
        Query("2", "a mountain that spits lava", ("lava", "magma")),
        Query("3", "nothing of this kind", ("unknown",)),
    ]
    names = ["bm25", "dense"]
    results = evaluate(
        index=Index.open(built_index),
        queries=queries,
        pipelines={name: pipelines.open(name) for name in names},
        depth=5,
        measures=["accuracy@1", "accuracy@5"],
        latency=2,
        groups={"first": ("1",), "others": ("2", "3")},
        output=tmp_path,
    )
    read = read_results(results)
    assert read.left_out == [] and read.names == names and len(read.comparisons) == 2
    assert read.analyses and read.analyses.length and set(read.analyses.groups) == {"first", "others"}
    assert {"scores", "significance", "curves", "kinds", "latency"} <= set(anchors(results))
    mean = results["pipelines"]["bm25"]["measures"]["accuracy@1"]["mean"]
    assert tables(html_of(results))[0][1][1].startswith(f"{mean * 100:.1f}")
