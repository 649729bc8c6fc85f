"""Background jobs: Linkseek's commands as processes, each with a folder that records its state.

    FOLDER/ID/job.json        the job: kind, key, title, subject, command; written before it starts
    FOLDER/ID/state.json      its state, written by its watcher
    FOLDER/ID/progress.json   the progress of its stages, written by the command (`indexer.program.progress`)
    FOLDER/ID/log             the output of the command
    FOLDER/ID/starting        held while the watcher starts
    FOLDER/ID/lock            held by the watcher as long as it lives
    FOLDER/ID/cancel          present once somebody has cancelled the job
    FOLDER/slot-N             held by the watcher of a running command: others wait

Each command has a watcher (`app.background.watcher`), a process of its own session, which outlives the page,
the browser and the server. Nothing is kept in memory, so every reader of the folder sees the same. Whether a
watcher lives is read from its lock, which the system releases however a process ends; a process id could
belong to another process by then.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import orjson

from linkseek.app.evaluation.records import new_folder
from linkseek.indexer.machine.locks import holding, is_held
from linkseek.indexer.program.errors import BusyError, LinkseekError, MachineError, UsageError
from linkseek.indexer.program.text import byte_size
from linkseek.indexer.store.artifacts import write_json

State = Literal["waiting", "running", "done", "failed", "cancelled"]

MAX_RUNNING = 2
"""Commands that run at a time; others wait for their turn."""
MAX_LIVE = 10
"""Jobs that run and wait; a further one is refused."""
MAX_ENDED = 20
"""Ended jobs that are kept; older ones are removed when the next job starts."""

JOB, STATE, PROGRESS, LOG = "job.json", "state.json", "progress.json", "log"
LOCK, STARTING, CANCEL = "lock", "starting", "cancel"
UPLOAD, FILES = "upload", "files"
"""Where a job keeps files that were uploaded for it, in UPLOAD/FILES, or UPLOAD/ROLE/FILES; removed when it
has ended."""

READ_ONLY = "this application is read-only"
READ_ONLY_HINT = "Start one without --read-only to build, evaluate, judge or delete."

_LIVE: tuple[State, ...] = ("waiting", "running")
_STATES: tuple[State, ...] = (*_LIVE, "done", "failed", "cancelled")
_DAY = 86_400.0  # seconds
_MAX_LOG = 200_000  # bytes that are read from the end of a log
NEW_GROUP: int = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
"""Windows: Ctrl-C in the console of the server ends no process of such a group."""
_WATCHER = Path(__file__).with_name("watcher.py")
_ID = re.compile(r"\d{8}-\d{6}(-\d{1,3})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class JobStage:
    """A stage of a command. `first` of the `done` units were reused; times are seconds since 1970."""

    label: str
    unit: str
    total: float | None
    first: float
    done: float
    began: float
    ended: float | None

    @property
    def share(self) -> float | None:
        """The part that is done, from 0 to 1; None where its size is not known."""
        if self.ended is not None:
            return 1.0
        return min(self.done / self.total, 1.0) if self.total else None

    def seconds_left(self, now: float) -> float | None:
        """The remaining time at the speed so far; None where that is not known."""
        done, seconds = self.done - self.first, now - self.began
        if self.ended is not None or not self.total or done <= 0 or seconds <= 0:
            return None
        return max(self.total - self.done, 0.0) * seconds / done


@dataclass(frozen=True, slots=True)
class Order:
    """A command to run. subject: the name of the index or report that it is about.

    key: of two orders with the same key, the second is not started while the first lives. same: whether the
    same key means the same work, so that the first serves both. output: a folder that was made for the
    command (`new_folder`); its files there are removed unless the job is done.
    """

    kind: str
    key: str
    title: str
    subject: str
    command: Sequence[str]
    same: bool = False
    output: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """An order that was taken, as its folder records it.

    began, ended: seconds since 1970, None where that has not happened. message, hint: why it failed.
    """

    id: str
    order: Order
    state: State
    began: float | None = None
    ended: float | None = None
    message: str = ""
    hint: str = ""
    stages: tuple[JobStage, ...] = ()

    @property
    def live(self) -> bool:
        """Whether it is waiting or running."""
        return self.state in _LIVE


class Jobs:
    """The jobs of one folder."""

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        """read_only: whether they are only listed: every other method raises `UsageError`."""
        self.folder = folder
        self.read_only = read_only

    @classmethod
    def next_to(cls, index: Path, *, read_only: bool = False) -> Jobs:
        """The jobs of the folder that an index is in."""
        return cls(index.parent / ".jobs", read_only=read_only)

    def _check_changes(self) -> None:
        if self.read_only:
            raise UsageError(READ_ONLY, READ_ONLY_HINT)

    def as_sent(self, text: str) -> str:
        """A message in the words of the page: with the names of uploaded files that their sender knows."""
        files = rf"{re.escape(str(self.folder))}[/\\][^/\\]+[/\\]{UPLOAD}[/\\](?:\w+[/\\])?{FILES}[/\\]?"
        return _SAME_COMMAND.sub(
            lambda found: ("S" if found[0][0] == "R" else "s") + "tart it again", re.sub(files, "", text)
        )

    def list(self, kind: str | None = None) -> list[Job]:
        """The jobs of a kind, or all, the newest first."""
        try:
            names = sorted((path.name for path in self.folder.iterdir()), reverse=True)
        except OSError:
            return []
        jobs = [job for name in names if (job := self._read(name)) is not None]
        return [job for job in jobs if kind is None or job.order.kind == kind]

    def find(self, id_: str) -> Job:
        """One job. Raises `UsageError` if no job has this id."""
        job = self._read(id_)
        if job is None:
            raise UsageError("there is no such job", "It may have been removed; look at the list.")
        return job

    @contextmanager
    def draft(self) -> Iterator[Path]:
        """The folder of a new job, for files that its command reads; removed unless the job has started.

        Raises `BusyError` if there are `MAX_LIVE` jobs, `MachineError` if the folder cannot be made.
        """
        self._check_changes()
        if (live := sum(job.live for job in self.list())) >= MAX_LIVE:
            raise BusyError(f"{live} jobs are running or waiting", "Wait until one has ended, or cancel one.")
        draft = new_folder(self.folder, datetime.now(UTC).strftime("%Y%m%d-%H%M%S"))
        try:
            yield draft
        finally:
            if not (draft / JOB).exists():
                shutil.rmtree(draft, ignore_errors=True)

    def start(self, order: Order, draft: Path | None = None) -> Job:
        """Start a command, or return the job that runs it already: two visitors may press the same button.

        Raises `BusyError` if another command with the same key waits or runs, `MachineError` if the system
        does not let it start.
        """
        self._check_changes()
        if draft is None:
            with self.draft() as draft:
                return self.start(order, draft)
        with holding(self.folder / LOCK):  # one start at a time, in all processes
            for job in self.list():
                if job.live and job.order.key == order.key:
                    if order.same or [*job.order.command] == [*order.command]:
                        return job
                    title = job.order.title
                    raise BusyError(f"{title}: already in progress", "Wait for it, or cancel it.")
            self._remove_old()
            try:
                self._launch(order, draft)
            except OSError as error:
                raise MachineError(
                    f"the job could not be started ({error.strerror})",
                    "Free some space or memory, and try again.",
                ) from None
        return self.find(draft.name)

    def cancel(self, id_: str) -> None:
        """Have a job end; its watcher ends the command within a second, by force after a few."""
        self._check_changes()
        if self.find(id_).live:
            (self.folder / id_ / CANCEL).touch()

    def remove(self, id_: str) -> None:
        """Remove a job that has ended, and its log."""
        self._check_changes()
        if not self.find(id_).live:
            shutil.rmtree(self.folder / id_, ignore_errors=True)

    def log(self, id_: str) -> str:
        """The end of a command's output."""
        return read_log(self.folder / self.find(id_).id)

    def _launch(self, order: Order, draft: Path) -> None:
        with holding(draft / STARTING):
            write_json(draft / JOB, asdict(order) | {"command": list(order.command)})
            watcher = subprocess.Popen(
                [sys.executable, str(_WATCHER), str(draft)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                creationflags=NEW_GROUP,
            )
            assert watcher.stdout is not None
            with watcher.stdout:
                watcher.stdout.read(1)  # it writes a byte once it holds its lock

    def _remove_old(self) -> None:
        old = [self.folder / job.id for job in self.list() if not job.live][MAX_ENDED:]
        for path in self.folder.iterdir():  # an upload during which the server ended
            ours = _ID.fullmatch(path.name) and not (path / JOB).exists()
            if ours and path.is_dir() and time.time() - path.stat().st_mtime > _DAY:
                old.append(path)
        for path in old:
            shutil.rmtree(path, ignore_errors=True)

    def _read(self, id_: str) -> Job | None:
        """A job from its folder; None if no job has this id, or its job.json is not written yet.

        An id comes from a page: its form is checked, so that it cannot be a path.
        """
        if not _ID.fullmatch(id_):
            return None
        folder = self.folder / id_
        # Before the state, which a watcher writes before it ends; in the order in which they are taken.
        alive = is_held(folder / STARTING) or is_held(folder / LOCK)
        try:
            fields = orjson.loads((folder / JOB).read_bytes())
            kind, key, title, subject = (str(fields[n]) for n in ("kind", "key", "title", "subject"))
            order = Order(kind, key, title, subject, tuple(map(str, fields["command"])))
        except (OSError, ValueError, TypeError, KeyError):
            return None
        state: dict[str, Any] = {"state": "waiting", "began": None, "ended": None, "message": "", "hint": ""}
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):  # not written yet
            written = orjson.loads((folder / STATE).read_bytes())
            if written["state"] in _STATES:
                state |= {name: written.get(name, value) for name, value in state.items()}
        if state["state"] in _LIVE and not alive:
            state |= {
                "state": "failed",
                "message": "it was ended from outside, or could not write its result",
                "hint": "Start it again; a build reuses its finished parts. "
                + free_space(self.folder.parent),
            }
        state["message"] = self.as_sent(str(state["message"])).removeprefix(": ")
        state["hint"] = self.as_sent(str(state["hint"]))
        return Job(id_, order, stages=read_stages(folder), **state)


def read_stages(folder: Path) -> tuple[JobStage, ...]:
    """The stages of a job, the first one first; empty where no progress can be read."""
    try:
        entries = orjson.loads((folder / PROGRESS).read_bytes())
        return tuple(JobStage(**entry) for entry in entries)
    except (OSError, ValueError, TypeError):
        return ()


def read_log(folder: Path) -> str:
    """The end of the output of a job's command; bytes that are not UTF-8 are replaced."""
    try:
        with (folder / LOG).open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - _MAX_LOG, 0))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


_SAME_COMMAND = re.compile(r"[Rr]un the same command(?: again)?")
_ERROR = re.compile(r"^[a-z][a-z ._-]*: error: (?P<message>.+)(?:\n  (?P<hint>.+))?", re.MULTILINE)


def free_space(folder: Path) -> str:
    """A sentence on the free space of a folder; empty where that is unknown."""
    with suppress(OSError):
        return f"The folder {folder.name} has {byte_size(shutil.disk_usage(folder).free)} of free space."
    return ""


def error_in(log: str, exit_code: int, folder: Path) -> tuple[str, str]:
    """Why a command failed, and a hint: its own message (`exit_on_error`), or its exit code.

    folder: where it wrote to.
    """
    errors = list(_ERROR.finditer(log))
    if errors:
        return errors[-1]["message"], errors[-1]["hint"] or ""
    if exit_code < 0:
        return (
            f"the system ended the command (signal {-exit_code})",
            "This machine may have run out of memory. Start it again; a build resumes.",
        )
    kinds = [kind for kind in LinkseekError.__subclasses__() if kind.exit_code > 1]
    words = {kind.exit_code: kind.__doc__ or "" for kind in reversed(kinds)}
    why = words.get(exit_code, f"A bug in Linkseek (exit code {exit_code})").partition(" (exit code")[0]
    details = "The log has the details." if log.strip() else f"It left no log. {free_space(folder)}"
    return f"the command failed: {why[:1].lower()}{why[1:]}", details.strip()
