"""Fixtures around one small index that is really built."""

import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import orjson
import pytest
from streamlit import cache_resource

from linkseek.app.background.jobs import Jobs
from linkseek.app.background.services import Services
from linkseek.app.pipelines.catalogue import Pipelines
from linkseek.app.pipelines.open_models import Models
from linkseek.indexer.index import OpenIndex
from tests.support.pages import PAGE, new_page, run
from tests.support.tiny.index import WordEncoder, WordScorer, build


@pytest.fixture(scope="session")
def built_index(tmp_path_factory) -> Path:
    """For reading only."""
    return build(tmp_path_factory.mktemp("indexes") / "tiny")


@pytest.fixture
def own_index(built_index, tmp_path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(built_index, tmp_path / "indexes" / "own"))


@pytest.fixture
def word_encoder(monkeypatch):
    """Pipelines open the index's encoder without a model; the locations that were asked for.

    What still opens in the background at the end is waited for: it would ask the next test's encoder.
    """
    opened = []

    def open_encoder(location):
        opened.append(location)
        return WordEncoder()

    monkeypatch.setattr("linkseek.app.pipelines.open_models._open_encoder", open_encoder)
    monkeypatch.setattr("linkseek.reranker.models.scoring.open_scorer", lambda *wanted: WordScorer())
    with ThreadPoolExecutor(1_000, "opening") as threads:
        monkeypatch.setattr("linkseek.app.pipelines.catalogue._THREADS", threads)
        yield opened


@pytest.fixture
def make_pipelines(built_index, tmp_path):
    """Pipelines of the small index, with a TOML text of one's own."""
    index = OpenIndex.open(built_index)

    def make(toml=None) -> Pipelines:
        path = None
        if toml is not None:
            path = tmp_path / "pipelines.toml"
            path.write_text(toml, "utf-8")
        return Pipelines(index, path, Models(lambda location: WordEncoder(), lambda *wanted: WordScorer()))

    return make


@pytest.fixture
def open_page(word_encoder, monkeypatch, tmp_path):
    """Open a page with an index and an address."""
    cache_resource.clear()
    monkeypatch.setattr("linkseek.app.background.services.SERVICES", Services())

    def open_page(name, index, /, *options, **address):
        arguments = ["--index", str(index), "--results", str(tmp_path / "results"), *options]
        monkeypatch.setattr(sys, "argv", [PAGE, *arguments])
        return run(new_page(name, **address))

    return open_page


@pytest.fixture
def without_charts(monkeypatch):
    """Reports are written in no time; a few tests draw their charts."""
    monkeypatch.setattr("vl_convert.vegalite_to_svg", lambda chart: "")


@pytest.fixture
def started(monkeypatch):
    """Jobs are noted and done at once."""
    orders = []

    def launch(self, order, draft):
        orders.append(order)
        about = {name: getattr(order, name) for name in ("kind", "key", "title", "subject")}
        about |= {"command": list(order.command)}
        (draft / "job.json").write_bytes(orjson.dumps(about))
        (draft / "state.json").write_bytes(orjson.dumps({"state": "done", "began": 1.0, "ended": 2.0}))

    monkeypatch.setattr(Jobs, "_launch", launch)
    return orders
