"""Commands as users run them: in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
WITH_TESTS = os.environ | {"PYTHONPATH": str(ROOT / "tests")}
"""The environment of a process that imports what tests share, such as `fake_encoder`."""

Done = subprocess.CompletedProcess[str]


def run(script: str, *arguments: object, cwd: Path = ROOT, limit: float = 240) -> Done:
    """Run `python SCRIPT ARGUMENTS` without a network, SCRIPT being in the repository."""
    return subprocess.run(
        [sys.executable, ROOT / script, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=limit,
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
    )
