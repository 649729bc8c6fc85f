"""python app/background/watcher.py FOLDER: run the command of one job and record its state.

Only `Jobs.start` starts a watcher, and waits until it holds FOLDER/lock, which it does as long as it lives.
The command runs in a process group of its own, so that it can be ended together with its children; on Linux
the system ends the command if the watcher is killed.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from linkseek.indexer.machine.locks import is_held, open_lock, take_lock

if __name__ == "__main__":  # first of all: the server waits
    _own_lock = open_lock(Path(sys.argv[1], "lock"), 0o600)
    take_lock(_own_lock, wait=True)
    with suppress(OSError):  # the server has ended
        os.write(1, b"\n")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

import ctypes
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import Any

import orjson
import psutil

from linkseek.app.background import jobs
from linkseek.indexer.program.progress import NOTES
from linkseek.indexer.store.artifacts import write_json
from linkseek.indexer.store.outputs import remove_written

_INTERVAL = 0.2  # seconds between checks of whether the command has ended, or should
_PATIENCE = 3.0  # seconds for a command to end by itself
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def watch(folder: Path) -> None:
    """Wait for a turn, run the command, and record its end."""
    job = orjson.loads((folder / jobs.JOB).read_bytes())
    state: dict[str, Any] = {"state": "waiting"}
    try:
        write_json(folder / jobs.STATE, state)
        slot = _turn(folder)
        if slot is None:
            state |= {"state": "cancelled"}
        else:
            state |= {"state": "running", "began": time.time()}
            write_json(folder / jobs.STATE, state)
            writes_to = Path(job["output"]).parent if job.get("output") else folder.parents[1]
            state |= _run(job["command"], folder, writes_to)
    finally:
        shutil.rmtree(folder / jobs.UPLOAD, ignore_errors=True)
        if job.get("output") and state["state"] != "done":
            remove_written(Path(job["output"]))
        write_json(folder / jobs.STATE, state | {"ended": time.time()})


def _turn(folder: Path) -> int | None:
    """A slot, held until this process ends; None if the job is cancelled first. First come, first served."""
    while not (folder / jobs.CANCEL).exists():
        if not _waits_before(folder):
            for number in range(jobs.MAX_RUNNING):
                handle = open_lock(folder.parent / f"slot-{number}", 0o600)
                if take_lock(handle):
                    return handle
                os.close(handle)
        time.sleep(_INTERVAL)
    return None


def _waits_before(folder: Path) -> bool:
    """Whether an older job waits for its turn."""
    for other in folder.parent.iterdir():
        is_older = other.name < folder.name and is_held(other / jobs.LOCK)
        if is_older and not (other / jobs.CANCEL).exists():
            with suppress(OSError, ValueError, KeyError):
                if orjson.loads((other / jobs.STATE).read_bytes())["state"] == "waiting":
                    return True
    return False


def _run(command: Sequence[str], folder: Path, writes_to: Path) -> dict[str, Any]:
    """Run the command to its end, and return the state that it ended with."""
    environment = {name: value for name, value in os.environ.items() if name not in _OF_TERMINALS}
    environment |= {NOTES: str(folder / jobs.PROGRESS), "PYTHONUNBUFFERED": "1", "COLUMNS": "110"}
    with (folder / jobs.LOG).open("wb") as log:
        try:
            child = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                process_group=0,
                creationflags=jobs.NEW_GROUP,
                preexec_fn=_end_with_watcher if sys.platform == "linux" else None,
            )
        except OSError as error:
            return {"state": "failed", "message": str(error), "hint": "Install Linkseek again."}
        while child.poll() is None:
            if (folder / jobs.CANCEL).exists():
                _end(child)
            time.sleep(_INTERVAL)
    if child.returncode == 0:
        return {"state": "done"}
    if (folder / jobs.CANCEL).exists():
        return {"state": "cancelled"}
    message, hint = jobs.error_in(jobs.read_log(folder), child.returncode, writes_to)
    return {"state": "failed", "message": message, "hint": hint}


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the command and all processes that it has started."""
    if os.name != "posix":
        end_tree(child.pid)
        return
    for how in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(child.pid, how)
        with suppress(subprocess.TimeoutExpired):
            child.wait(_PATIENCE)
            return


def end_tree(pid: int) -> None:
    """End a process and its children, where there are no process groups to signal."""
    with suppress(psutil.NoSuchProcess):
        command = psutil.Process(pid)
        for process in (*command.children(recursive=True), command):
            with suppress(psutil.NoSuchProcess):
                process.kill()


def _end_with_watcher() -> None:
    """In the child, before the command: have Linux end it with its parent."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


_OF_TERMINALS = frozenset({"FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"})

if __name__ == "__main__":
    watch(Path(sys.argv[1]))
