"""Commands as users run them: in a process of their own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
WITH_TESTS = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
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


_KILLED = """
import os, runpy, signal, sys
from retriever.training.log import Log

stage, limit, *sys.argv = sys.argv[1:]
write_losses = Log.write_losses

def write_and_end(self, step, values):
    write_losses(self, step, values)
    if self._stage == stage and step >= int(limit):
        os.kill(os.getpid(), signal.SIGKILL)

Log.write_losses = write_and_end
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def kill_at(step: int, module: str, *arguments: object, stage: str = "") -> None:
    """Run the training `python -m MODULE ARGUMENTS`, which SIGKILL ends when it has logged a step."""
    done = subprocess.run(
        [sys.executable, "-c", _KILLED, stage, str(step), module, *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=400,
        env=WITH_TESTS | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


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
