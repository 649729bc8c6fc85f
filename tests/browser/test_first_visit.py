"""A first question to a new application: no model has been converted, and one may be damaged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks.sessions import running_application
from linkseek.app.service import SAMPLE_ENCODERS
from tests.browser.application import ROOT, Application
from tests.support.command import run

QUESTION = "Which sickness killed the lady who foresaw software?"


@pytest.fixture(scope="module")
def index(browser, sample_index, tmp_path_factory) -> Path:
    """The index of the sample as the demo builds it."""
    index = tmp_path_factory.mktemp("first-visit") / "index" / "sample"
    shutil.copytree(sample_index, index)
    encoders = [word for name in SAMPLE_ENCODERS for word in ("--encoder", name)]
    done = run("indexer/build.py", "--index", index, *encoders)
    assert done.returncode == 0, done.stderr
    return index


@pytest.fixture
def empty_cache(monkeypatch, tmp_path) -> Path:
    """For applications that the test starts."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "linkseek"


def column(page, pipeline):
    return page.get_by_role("region", name=f"Results of {pipeline}")


def test_four_columns_on_an_empty_cache(index, empty_cache, tmp_path, page, settled):
    """Two encoders and a re-ranker are converted while the page waits, and no column has a notice."""
    with running_application(index, "--results", str(tmp_path / "results")) as address:
        page.goto(Application(f"http://{address}", index.parent, tmp_path)(q=QUESTION))
        page.get_by_role("region", name="bm25").wait_for()
        names = ("bm25", "dense", "hlp", "best")
        for name in names:
            column(page, name).locator("h3").nth(9).wait_for()
        column(page, "best").locator(".ls-other").nth(29).wait_for()  # the last to come: all are compared
        settled(page)
        assert page.locator(".ls-notice").count() == 0
        assert page.locator(".ls-waiting").count() == 0
        for name in names:
            assert column(page, name).locator("h3").count() == 10
            assert column(page, name).locator(".ls-other").count() == 30
        assert column(page, "best").locator("h3 a").first.inner_text().startswith("Ada Lovelace")
    assert len([*empty_cache.glob("*-openvino-*/facts.json")]) == 3


def test_one_column_fails_and_is_tried_again(index, tmp_path, page, settled):
    """The notice stands in its column, next to the results of others, and a button opens the model again."""
    model, weights = tmp_path / "model", tmp_path / "model" / "adapter_model.safetensors"
    shutil.copytree(ROOT / "reranker" / "adapters" / "answers", model)
    intact = weights.read_bytes()
    weights.write_bytes(intact[:1000])
    table = f'[damaged]\nrerank = "{model}"\nof = "bm25"\ndepth = 5\n'
    (tmp_path / "mine.toml").write_text(table, "utf-8")
    options = ("--results", str(tmp_path / "results"), "--pipelines-file", str(tmp_path / "mine.toml"))
    with running_application(index, *options) as address:
        three = ["bm25", "damaged", "ql"]
        page.goto(Application(f"http://{address}", index.parent, tmp_path)(q=QUESTION, pipelines=three, k=5))
        again = page.get_by_role("button", name="Try again")
        again.wait_for()
        settled(page)
        failed = page.get_by_role("region", name="damaged, failed")
        assert "cannot be read" in failed.get_by_role("alert").inner_text()
        assert page.locator(".ls-waiting").count() == 0 and page.locator(".ls-notice").count() == 1
        for name in ("bm25", "ql"):
            assert column(page, name).locator(".ls-other").count() == 5  # compared with each other
        top = column(page, "bm25").locator("h3").first.bounding_box()["y"]
        assert failed.get_by_role("alert").bounding_box()["y"] < top + 100
        assert again.bounding_box()["y"] < top + 200

        weights.write_bytes(b"")  # damaged still, in another way
        again.press("Enter")
        settled(page)
        assert "cannot be read" in failed.get_by_role("alert").inner_text()
        weights.write_bytes(intact)
        again.press("Enter")
        column(page, "damaged").locator(".ls-other").nth(9).wait_for()
        settled(page)
        assert again.count() == 0 and page.locator(".ls-notice").count() == 0
        assert column(page, "bm25").locator(".ls-other").count() == 10
