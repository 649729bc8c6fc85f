"""Fixtures around one small index that is really built."""

import shutil
from pathlib import Path

import pytest
from small_index import WordEncoder, WordScorer, build

from linkseek.app.pipelines import Models, Pipelines
from linkseek.indexer.index import Index


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
    """Pipelines open the index's encoder without a model; the locations that were asked for."""
    opened = []

    def open_encoder(location):
        opened.append(location)
        return WordEncoder()

    monkeypatch.setattr("linkseek.app.pipelines._open_biencoder", open_encoder)
    monkeypatch.setattr("linkseek.reranker.models.scoring.open_scorer", lambda *wanted: WordScorer())
    return opened


@pytest.fixture
def make_pipelines(built_index, tmp_path):
    """Pipelines of the small index, with a TOML text of one's own."""
    index = Index.open(built_index)

    def make(toml=None) -> Pipelines:
        path = None
        if toml is not None:
            path = tmp_path / "pipelines.toml"
            path.write_text(toml, "utf-8")
        return Pipelines(index, path, Models(lambda location: WordEncoder(), lambda *wanted: WordScorer()))

    return make
