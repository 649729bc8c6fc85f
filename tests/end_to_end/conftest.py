"""What tests of the whole share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from filelock import FileLock

from tests.support.command import ROOT
from tests.support.wheels import built_wheel


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, once for all processes of the suite."""
    folder = tmp_path_factory.getbasetemp()
    folder = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    with FileLock(folder / "wheel.lock"):
        return next((folder / "wheel").glob("*.whl"), None) or built_wheel(ROOT, folder / "wheel")
