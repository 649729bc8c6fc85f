"""Commands as users run them: in a process of their own."""

from __future__ import annotations

import os
import socket
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


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def two_ranks(script: str, *arguments: object) -> list[subprocess.Popen[str]]:
    """Start `python -c SCRIPT ARGUMENTS` as both of the processes that train together."""
    environment = WITH_TESTS | {
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "ACCELERATE_USE_CPU": "true",
        "OMP_NUM_THREADS": "1",
    }
    return [
        subprocess.Popen(
            [sys.executable, "-c", script, *map(str, arguments)],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
            env=environment | {"RANK": rank, "LOCAL_RANK": rank},
        )
        for rank in "01"
    ]
