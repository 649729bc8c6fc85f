"""Background work: our own commands as processes, each with a folder that says how it stands.

    FOLDER/ID/job.json        what it is: kind, key, title, subject, command; written before it starts
    FOLDER/ID/state.json      how it stands, written by its watcher
    FOLDER/ID/progress.json   how far its stages are, written by the command (`indexer.base.progress`)
    FOLDER/ID/log             what the command printed
    FOLDER/ID/lock            held by the watcher as long as it lives
    FOLDER/ID/cancel          there once somebody wants it to end
    FOLDER/slot-N             held by the watcher of a command that runs: others wait

Each command has a watcher (`app.background.watcher`), a process of its own session: it outlives a page, a
browser and
the server. Nothing here remembers anything, so whoever looks into the folder sees the same. Whether a
watcher lives, its lock tells, which the system lets go however a process ends; no process id is kept that
another process may have by then.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import orjson

from indexer.base.errors import BusyError, MachineError, UsageError
from indexer.store.artifacts import write_json

State = Literal["waiting", "running", "done", "failed", "cancelled"]

AT_ONCE = 2
"""How many commands run at a time; the others wait for their turn."""
KEPT = 20
"""How many that have ended are kept; older ones are removed when the next one starts."""

JOB, STATE, PROGRESS, LOG, LOCK, CANCEL = (
    "job.json",
    "state.json",
    "progress.json",
    "log",
    "lock",
    "cancel",
)
UPLOAD, FILES = "upload", "files"
"""Where a job keeps files that were uploaded for it, in UPLOAD/FILES; removed when it has ended."""

_LIVE: tuple[State, ...] = ("waiting", "running")
_DAY = 86_400.0  # seconds
_MOST_LOG = 200_000  # bytes of a log that are read: its end
_WATCHER = Path(__file__).with_name("watcher.py")


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of a command. `first` of `done` units were there before; times are seconds since 1970."""

    label: str
    unit: str
    total: float | None
    first: float
    done: float
    began: float
    ended: float | None

    @property
    def share(self) -> float | None:
        """How much of it is done, from 0 to 1; None where its size is not known."""
        if self.ended is not None:
            return 1.0
        return min(self.done / self.total, 1.0) if self.total else None

    def seconds_left(self, now: float) -> float | None:
        """How long it will take from now on at its speed so far; None where that is not known."""
        made, took = self.done - self.first, now - self.began
        if self.ended is not None or not self.total or made <= 0 or took <= 0:
            return None
        return max(self.total - self.done, 0.0) * took / made


@dataclass(frozen=True, slots=True)
class Job:
    """A command that was asked for. subject: the name of the index or report that it is about.

    began, ended: seconds since 1970, None where that has not happened. message, hint: why it failed.
    """

    id: str
    kind: str
    key: str
    title: str
    subject: str
    command: tuple[str, ...]
    state: State
    created: float
    began: float | None = None
    ended: float | None = None
    message: str = ""
    hint: str = ""
    stages: tuple[Stage, ...] = ()

    @property
    def live(self) -> bool:
        """Whether it waits or runs."""
        return self.state in _LIVE


@dataclass(frozen=True, slots=True)
class Draft:
    """The folder of a job that has not started, for files that its command will read."""

    id: str
    folder: Path


@dataclass(frozen=True, slots=True)
class Order:
    """What to run. key: of two orders with the same one, the second is not started while the first lives.

    same: whether the same key means the same work, so that the first does for both.
    """

    kind: str
    key: str
    title: str
    subject: str
    command: Sequence[str]
    same: bool = False


class Jobs:
    """The jobs of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def beside(cls, index: Path) -> Jobs:
        """The jobs about an index and those in the same folder."""
        return cls(index.parent / ".jobs")

    def as_sent(self, text: str) -> str:
        """A message with names of uploaded files as their sender knows them, not where they are kept."""
        return re.sub(rf"{re.escape(str(self.folder))}/[^/]+/{UPLOAD}/{FILES}/?", "", text)

    def list(self, kind: str | None = None) -> list[Job]:
        """The jobs of a kind, the newest first."""
        try:
            names = sorted((path.name for path in self.folder.iterdir() if path.is_dir()), reverse=True)
        except OSError:
            return []
        found = [job for name in names if (job := self._read(name)) is not None]
        return [job for job in found if kind is None or job.kind == kind]

    def find(self, id_: str) -> Job:
        """One job. Raises `UsageError` if there is none: it is looked up among those that there are."""
        for job in self.list():
            if job.id == id_:
                return job
        raise UsageError("there is no such job", "It may have been removed; look at the list.")

    @contextmanager
    def draft(self) -> Iterator[Draft]:
        """A folder for a new job; removed again unless the job has started by the end.

        Raises `MachineError` if the folder cannot be made.
        """
        draft = self._make()
        try:
            yield draft
        finally:
            if not (draft.folder / JOB).exists():
                shutil.rmtree(draft.folder, ignore_errors=True)

    def start(self, order: Order, draft: Draft | None = None) -> Job:
        """Start a command, or find that it has been started: two visitors may press the same button.

        Raises `BusyError` if another command with the same key waits or runs, `MachineError` if the system
        does not let it start.
        """
        if draft is None:
            with self.draft() as draft:
                return self.start(order, draft)
        with self._alone():
            for job in self.list():
                if job.live and job.key == order.key:
                    if order.same or job.command == tuple(order.command):
                        return job
                    raise BusyError(f"{job.title}: this is being done already", "Wait for it, or cancel it.")
            self._forget_old()
            try:
                self._launch(order, draft)
            except OSError as error:
                raise MachineError(
                    f"the job could not be started ({error.strerror})",
                    "Free some space or memory, and try again.",
                ) from None
        return self.find(draft.id)

    def cancel(self, id_: str) -> None:
        """Have a job end; its watcher sees to that within a second, by force after a few."""
        if self.find(id_).live:
            (self.folder / id_ / CANCEL).touch()

    def remove(self, id_: str) -> None:
        """Take a job that has ended off the list, and its log with it."""
        if not self.find(id_).live:
            shutil.rmtree(self.folder / id_, ignore_errors=True)

    def log(self, id_: str) -> str:
        """The end of what a command printed."""
        return read_log(self.folder / self.find(id_).id)

    def _make(self) -> Draft:
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for number in range(1, 1000):
                id_ = stamp if number == 1 else f"{stamp}-{number}"
                try:
                    (self.folder / id_).mkdir()
                except FileExistsError:
                    continue
                return Draft(id_, self.folder / id_)
        except OSError as error:
            raise MachineError(
                f"{self.folder}: {error.strerror}", "Jobs need a folder to write to."
            ) from None
        raise MachineError("too many jobs are started at once", "Try again in a moment.")

    def _launch(self, order: Order, draft: Draft) -> None:
        lock = os.open(draft.folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            write_json(
                draft.folder / JOB,
                {
                    "kind": order.kind,
                    "key": order.key,
                    "title": order.title,
                    "subject": order.subject,
                    "command": list(order.command),
                    "created": time.time(),
                },
            )
            # The lock lives on in the watcher, which has the same open file.
            subprocess.Popen(
                [sys.executable, str(_WATCHER), str(draft.folder)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=(lock,),
            )
        finally:
            os.close(lock)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One start at a time, in whichever process."""
        handle = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _forget_old(self) -> None:
        old = [self.folder / job.id for job in self.list() if not job.live][KEPT:]
        for path in self.folder.iterdir():  # an upload that the server did not live to finish
            if path.is_dir() and not (path / JOB).exists() and time.time() - path.stat().st_mtime > _DAY:
                old.append(path)
        for path in old:
            shutil.rmtree(path, ignore_errors=True)

    def _read(self, id_: str) -> Job | None:
        """A job from its folder; None for a folder that is no job's, or not yet."""
        folder = self.folder / id_
        alive = is_held(folder / LOCK)  # before its state: a watcher writes that before it ends
        try:
            about = orjson.loads((folder / JOB).read_bytes())
            kind, key, title, subject = (str(about[n]) for n in ("kind", "key", "title", "subject"))
            command, created = tuple(map(str, about["command"])), float(about["created"])
        except (OSError, ValueError, TypeError, KeyError):
            return None
        noted = _read_state(folder)
        if noted["state"] in _LIVE and not alive:
            noted |= _ENDED_FROM_OUTSIDE
        noted["message"] = self.as_sent(str(noted["message"]))
        stages = read_stages(folder)
        return Job(id_, kind, key, title, subject, command, created=created, stages=stages, **noted)


_ENDED_FROM_OUTSIDE = {
    "state": "failed",
    "message": "it was ended from outside",
    "hint": "Start it again; a build goes on from what is finished.",
}


def _read_state(folder: Path) -> dict[str, Any]:
    noted: dict[str, Any] = {"state": "waiting", "began": None, "ended": None, "message": "", "hint": ""}
    try:
        found = orjson.loads((folder / STATE).read_bytes())
        if found["state"] in (*_LIVE, "done", "failed", "cancelled"):
            noted |= {name: found.get(name, value) for name, value in noted.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        pass  # the watcher has not come to write it
    return noted


def read_stages(folder: Path) -> tuple[Stage, ...]:
    """The stages of a job in the order of their beginning; none where there is no progress to read."""
    try:
        entries = orjson.loads((folder / PROGRESS).read_bytes())
        return tuple(Stage(**entry) for entry in entries)
    except (OSError, ValueError, TypeError):
        return ()


def read_log(folder: Path) -> str:
    """The end of what a job's command printed, whatever bytes these are."""
    try:
        with (folder / LOG).open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - _MOST_LOG, 0))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


_ERROR = re.compile(r"^[a-z][a-z ._-]*: error: (?P<message>.+)(?:\n  (?P<hint>.+))?", re.MULTILINE)


def error_in(log: str, exit_code: int) -> tuple[str, str]:
    """Why a command failed, and what to do: its own words (`exit_on_error`), or what its end tells."""
    found = list(_ERROR.finditer(log))
    if found:
        return found[-1]["message"], found[-1]["hint"] or ""
    if exit_code < 0:
        return (
            f"the command was ended by the system (signal {-exit_code})",
            "The memory of this machine may be used up. Start it again; a build goes on where it was.",
        )
    return f"the command failed (exit code {exit_code})", "This is a mistake of ours: the log says more."


def is_held(path: Path) -> bool:
    """Whether a process holds the lock of a file."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(handle)
