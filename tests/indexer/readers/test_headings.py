"""Headings through a build: indexed, in titles, in addresses; on and off."""

from __future__ import annotations

from pathlib import Path

import pytest

from linkseek.indexer.build import main
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.search.lucene_index import BM25
from tests.support.tiny.corpus import write_jsonl

GUIDE = """# Guide

Read this first, then go on with the parts below.

## Install

### Zebrafish

Run the file that came with it, and wait for its end.

## Café *au* [lait](other.md)

Nothing else is needed for a first try of it.
"""


def build(folder: Path, *options: str) -> OpenIndex:
    docs = folder / "docs"
    (docs / "a b").mkdir(parents=True, exist_ok=True)
    (docs / "a b" / "guide.md").write_text(GUIDE, "utf-8")
    (docs / "a b" / "other.md").write_text("# Other\n\nA page of its own.", "utf-8")
    (docs / "index.md").write_text("# Home\n\nSee [the guide](a%20b/guide.md).", "utf-8")
    common = ["--corpus", str(docs), "--index", str(folder / "index"), "--no-dense", "--processes", "1"]
    main([*common, "--min-words", "0", *options])
    return OpenIndex.open(folder / "index")


def test_headings_are_found_and_shown_and_lead_to_their_section(tmp_path):
    index = build(tmp_path, "--base-url", "https://docs.example.org/v1")
    assert index.manifest.text.headings
    titles = {passage.title: row for row, passage in enumerate(index.passages)}
    assert list(titles) == ["Guide", "Guide > Install > Zebrafish", "Guide > Café au lait", "Other", "Home"]
    [ids] = [ids for ids, _ in index.lucene().search(["zebrafish"], 5, BM25())]
    assert ids == ["a b/guide.md#1"]
    page = "https://docs.example.org/v1/a%20b/guide/"
    assert [index.passage_url(row) for row in titles.values()] == [
        page, f"{page}#zebrafish", f"{page}#caf%C3%A9-au-lait",
        "https://docs.example.org/v1/a%20b/other/", "https://docs.example.org/v1/",
    ]  # fmt: skip
    counts = index.manifest.counts
    assert (counts.between_documents, counts.cut) == (2, 0)  # also the one in a heading


def test_without_headings_passages_are_as_in_dpr(tmp_path):
    index = build(tmp_path, "--headings", "off")
    assert "headings" not in index.manifest.text.to_json()
    assert [passage.title for passage in index.passages] == ["Guide", "Other", "Home"]
    assert index.lucene().search(["zebrafish"], 5, BM25())[0][0] == []
    assert index.passage_url(0) == "a b/guide.md"


@pytest.mark.parametrize("headings", ["auto", "on"])
def test_json_lines_have_headings_where_they_are_asked_for(tmp_path, headings):
    text = "one two three four five six"
    sections = [{"start": 8, "heading": "Second", "level": 2, "anchor": "second"}]
    row = {"id": "d", "title": "D", "text": text, "links": [], "sections": sections}
    row["url"] = "https://x.org/d#top"
    corpus = write_jsonl(tmp_path / "c.jsonl", [row])
    options = ["--passage-words", "4", "--min-words", "0", "--headings", headings, "--no-dense"]
    main(["--corpus", str(corpus), "--index", str(tmp_path / "i"), "--processes", "1", *options])
    index = OpenIndex.open(tmp_path / "i")
    expected = [("D", "one two"), ("D > Second", "three four five six")]
    if headings == "auto":
        expected = [("D", "one two three four"), ("D", "five six")]
    assert [(passage.title, passage.text) for passage in index.passages] == expected
    assert index.passage_url(1) == ("https://x.org/d#second" if headings == "on" else "https://x.org/d#top")
