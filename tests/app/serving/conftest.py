"""A service for each file of tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.served import Client, build_planets, running


@pytest.fixture(scope="session")
def planets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For reading only."""
    return build_planets(tmp_path_factory.mktemp("served") / "planets", more=300)


PIPELINES = """
[again]
rerank = "words"
of = "bm25"
depth = 20
"""


@pytest.fixture(scope="module")
def service(planets: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    file = tmp_path_factory.mktemp("pipelines") / "pipelines.toml"
    file.write_text(PIPELINES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("linkseek.app.pipelines.pipeline_kinds.scorer_is_here", lambda name: True)
        with running(index=[planets], pipelines_file=file, pipeline="bm25", max_body=1) as client:
            yield client
