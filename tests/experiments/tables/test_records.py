"""Records of tables: what they omit, and the figures of docs/ that rest on them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from experiments.tables import records
from experiments.tables.definition import ExperimentTable
from experiments.tables.records import RECORDS, quoted_figures, without_folders
from linkseek.indexer.program.errors import InputError
from tests.support.command import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FIGURES = r"<!-- figures of ([^:\s]+)(?:: .+)? -->"
FOLDERS = rf'{re.escape(str(Path.home()))}|{re.escape(str(ROOT.parent))}|"/'

PAGE = """
<!-- figures of tiny: Rivers -->
| | accuracy@1 % | nDCG@5 | seconds |
|---|---|---|---|
| `bm25` | **24.0 (22.7-25.4)** | .447 | 3 |
| query likelihood | 24.1 | .5 | 4 |
| `dense` | 99.0 | .999 | 5 |

| `bm25` | accuracy@1 % |
|---|---|
| `bm25` | 1.0 |
"""


def figure(mean: float, low: float = 0.0, high: float = 1.0) -> dict[str, float]:
    return {"expected": None, "mean": mean, "low": low, "high": high}


@pytest.fixture
def record(tmp_path, monkeypatch) -> None:
    """Two pipelines that were measured, and one that was not."""
    rows = [
        ("BM25", "bm25", {"accuracy@1": figure(0.24037, 0.2271, 0.2538), "nDCG@5": figure(0.4472)}),
        ("query likelihood", "ql", {"accuracy@1": figure(0.2449), "nDCG@5": figure(0.46)}),
        ("MiniLM", "dense", {"accuracy@1": {"expected": None}}),
    ]
    table = {
        "columns": [{"title": "Lakes"}, {"title": "Rivers"}],
        "rows": [
            {
                "name": name,
                "pipeline": pipeline,
                "group": "",
                "cells": [{"measures": {}}, {"measures": measures}],
            }
            for name, pipeline, measures in rows
        ],
    }
    monkeypatch.setattr(records, "RECORDS", tmp_path)
    (tmp_path / "tiny.json").write_text(json.dumps(table))


def test_figures_are_compared_to_their_last_digit(record):
    """.5 is .46 to one digit; 24.1 is not 24.49; what the record lacks is no figure, nor another table's."""
    found = [(quoted.row, quoted.measure, quoted.agrees) for quoted in quoted_figures(PAGE)]
    assert found == [
        ("bm25", "accuracy@1", True),
        ("bm25", "nDCG@5", True),
        ("query likelihood", "accuracy@1", False),
        ("query likelihood", "nDCG@5", True),
    ]


def test_a_table_of_several_columns(record):
    page = """
<!-- figures of tiny -->
| | Rivers, accuracy@1 % | Rivers, nDCG@5 | Lakes, nDCG@5 | Seas, nDCG@5 | average |
|---|---|---|---|---|---|
| `bm25` | **24.0\\*** (22.7-25.4) | .460* | .1 | .2 | .3 |
"""
    assert [(quoted.measure, quoted.agrees) for quoted in quoted_figures(page)] == [
        ("accuracy@1", True),
        ("nDCG@5", False),
    ]


@pytest.mark.parametrize(
    "shown", ["24.0 (22.6-25.4)", "24.0 (22.7-25.3)", "24.1", "24.0* (22.7-25.3)", "2.4", "", "about 24.0"]
)
def test_a_figure_or_a_limit_that_differs(record, shown):
    [first, *_] = quoted_figures(PAGE.replace("**24.0 (22.7-25.4)**", shown))
    assert first == ("bm25", "accuracy@1", shown, False)


def test_unknown_records_and_columns_are_named(record):
    with pytest.raises(InputError, match=r"tinny.json: no such record") as caught:
        [*quoted_figures(PAGE.replace("tiny", "tinny"))]
    assert caught.value.hint == "Did you mean tiny?"
    with pytest.raises(InputError, match='the record tiny has no column "River"'):
        [*quoted_figures(PAGE.replace("Rivers", "River"))]


def test_a_record_names_no_folder_of_the_machine():
    home = Path.home()
    table = ExperimentTable.model_validate(
        {
            "title": "a / b", "source": "s", "note": "", "depth": 5, "differences": [], "columns": [],
            "indexes": {"a": "index/a", "b": "/secret/index b"},
            "rows": [
                {
                    "name": "r", "pipeline": "p", "group": "",
                    "cells": [{
                        "status": "missing", "seeds": 1, "measures": {},
                        "reason": "/secret/data/q.gz: no such file; expected a/b",
                    }],
                }
            ],
            "provenance": {
                "a": {
                    "date": "d", "versions": {}, "machine": {"processor": "p", "cores": 1, "system": "s"},
                    "command": "experiments x --data \"$HOME\"/d --index='/secret/index b' --seeds 1",
                    "index": {"path": "~/secret/i", "manifest_sha256": "x", "parts_sha256": {"dense": "y"}},
                    "files": {"experiment": {"path": f"{home}/secret/x.toml", "sha256": "z"}},
                    "models": {"/secret/model": {"sha256": "m"}, "late:/secret/x": {}},
                }
            },
        }
    )  # fmt: skip
    record = without_folders(table)
    text = json.dumps(record)
    assert "secret" not in text and "HOME" not in text and str(home) not in text
    origin = record["provenance"]["a"]
    assert origin["command"] == "experiments x --data d '--index=index b' --seeds 1"
    assert record["indexes"] == {"a": "index/a", "b": "index b"}
    assert record["title"] == "a / b"
    assert record["rows"][0]["cells"][0]["reason"] == "q.gz: no such file; expected a/b"
    assert (origin["index"]["path"], origin["files"]["experiment"]["path"]) == ("i", "x.toml")
    assert origin["models"] == {"model": {"sha256": "m"}, "late:x": {}}


def test_figures_of_docs_are_those_of_their_records() -> None:
    quoted = [(page.name, one) for page in PAGES for one in quoted_figures(page.read_text("utf-8"))]
    assert len(quoted) >= 1000
    assert not [(page, *one) for page, one in quoted if not one.agrees]


def test_records_are_of_tables_and_are_quoted() -> None:
    pages = "".join(page.read_text("utf-8") for page in PAGES)
    assert {path.stem for path in RECORDS.glob("*.json")} == set(re.findall(FIGURES, pages))
    for path in RECORDS.glob("*.json"):
        text = path.read_text("utf-8")
        assert (ROOT / f"experiments/{path.stem.removesuffix('-small')}.toml").is_file()
        assert '"mean"' in text and not re.search(FOLDERS, text), path


ANCHORS = (
    'The anchors of "Wikipedia for Schools" are reconstructed: '
    "a link stands at the first mention of its target's title."
)


def test_pages_that_conclude_about_links_say_where_anchors_come_from() -> None:
    for name in ("results", "results-links", "results-pipelines", "results-reranking", "mining-read"):
        text = (ROOT / f"docs/results/{name}.md").read_text("utf-8")
        assert ANCHORS in " ".join(text.split()), name
    for page in PAGES:
        text = " ".join(page.read_text("utf-8").split())
        if "Wikipedia for Schools" in text and re.search(r"\b[Ll]inks (?:teach|help|pay|gain)\b", text):
            assert "reconstructed" in text, page
