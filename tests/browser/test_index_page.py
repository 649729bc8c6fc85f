"""Indexes in a real browser: described, built from files and folders, and none at all."""

from __future__ import annotations

import json

from tests.support.tiny.index import HOSTILE_TITLE


def test_an_index_is_described(application, page, settled):
    page.goto(application("index"))
    page.get_by_role("heading", name="Contents").wait_for()
    settled(page)
    told = page.locator(".ls-index-page").inner_text()
    for words in ("documents\t150", "150", "linkseek-sample.xml.bz2", "all-MiniLM-L6-v2", "other namespace"):
        assert words.replace("documents\t", "") in told


def test_building_from_a_folder_of_hostile_names(application, page, settled, tmp_path):
    wiki = tmp_path / "wiki"
    wiki.mkdir()
    (wiki / "one.md").write_text(f"# {HOSTILE_TITLE}\n\nA volcano near [two](two.md).\n", "utf-8")
    (wiki / "two.md").write_text("# Two\n\nBack to [one](one.md).\n", "utf-8")
    (wiki / "<img src=x onerror=alert(6)>.png").write_bytes(b"x")
    page.goto(application("index"))
    page.get_by_text("Build an index from your own files").click()
    page.get_by_text("A folder", exact=True).click()
    page.locator('input[type="file"][webkitdirectory]').wait_for(state="attached")
    settled(page)
    page.locator('input[type="file"][webkitdirectory]').set_input_files(str(wiki))
    page.get_by_text("two.md").wait_for()
    page.get_by_role("button", name="all-MiniLM-L6-v2").click()
    settled(page)
    page.get_by_label("Name of the new index").fill("../escaped")
    page.get_by_role("button", name="Build", exact=True).click()
    page.get_by_text("may contain only letters").wait_for()
    page.get_by_label("Name of the new index").fill("from-folder")
    page.keyboard.press("Tab")
    settled(page)
    page.get_by_role("button", name="Build", exact=True).click()
    job = page.locator(".ls-job", has_text="Build from-folder")
    job.get_by_role("link", name="from-folder: 2 documents").click()
    page.locator(".ls-section", has_text="from-folder").wait_for()
    settled(page)
    skipped = page.locator("details.ls-skipped", has_text=".png")
    skipped.locator("summary").click()
    assert "<img src=x onerror=alert(6)>.png" in skipped.inner_text()
    assert not (application.indexes.parent / "escaped").exists()

    page.goto(application(index="from-folder", q="volcano", pipelines=["bm25"]))
    page.locator(".ls-answer h3").first.wait_for()
    assert page.locator(".ls-answer h3").first.inner_text().startswith("alert(1)")  # tags are no text here


def test_without_an_index_one_is_built(start, page, settled, tmp_path):
    """The sample with one click, which is cancelled here since it takes long; then one of a file."""
    application = start(tmp_path / "index" / "sample")
    page.goto(application("index"))
    page.get_by_role("heading", name="There is no index yet").wait_for()
    settled(page)
    page.get_by_role("button", name="Build the sample").click()
    page.locator(".ls-job", has_text="Build the sample").locator(".ls-progress").wait_for()
    page.get_by_role("button", name="Cancel").click()
    page.locator(".ls-state.ls-cancelled").wait_for()
    settled(page)

    corpus = tmp_path / "notes.jsonl"
    link = {"start": 9, "end": 13, "target": "Moon"}
    rows = [
        {"id": "Earth", "title": "The Earth", "text": "It has a moon.", "links": [link]},
        {"id": "Moon", "title": "The Moon", "text": "It is grey.", "links": []},
        {"id": "Moon", "title": "Again", "text": "The same id.", "links": []},
    ]
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows))
    page.locator('input[type="file"]').set_input_files(str(corpus))
    page.get_by_text("notes.jsonl").wait_for()
    page.get_by_role("button", name="all-MiniLM-L6-v2").click()
    settled(page)
    page.get_by_label("Name of the new index").fill("sample")
    page.keyboard.press("Tab")
    settled(page)
    page.get_by_role("button", name="Build", exact=True).click()
    page.get_by_role("heading", name="Contents").wait_for()  # it is opened as soon as it is there
    skipped = page.locator("details.ls-skipped", has_text="duplicate id")
    skipped.locator("summary").click()
    assert "notes.jsonl, line 3: duplicate id 'Moon'" in skipped.inner_text()
    settled(page)
    page.goto(application("article", id="Earth"))
    page.locator("p.ls-text a", has_text="moon").wait_for()
