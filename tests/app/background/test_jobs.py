"""Background work: commands as processes, told by their folders."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import orjson
import pytest

from linkseek.app.background import jobs as jobs_module
from linkseek.app.background.jobs import MAX_ENDED, MAX_RUNNING, Jobs, JobStage, Order, error_in
from linkseek.app.background.watcher import end_tree
from linkseek.indexer.program.errors import BusyError, MachineError, UsageError
from tests.support.asynchronous import wait_until


@pytest.fixture
def jobs(tmp_path):
    found = Jobs(tmp_path / "index" / ".jobs")
    yield found
    for job in found.list():
        found.cancel(job.id)
    wait_until(lambda: not any(job.live for job in found.list()))


def order(code, key="key", **more):
    """An order whose command is a piece of Python."""
    return Order("build", key, f"Title {key}", "subject", [sys.executable, "-c", code], **more)


def ended(jobs, job):
    wait_until(lambda: not jobs.find(job.id).live)
    return jobs.find(job.id)


def running(jobs, job):
    wait_until(lambda: jobs.find(job.id).state == "running")
    return jobs.find(job.id)


SLEEP = "import time; time.sleep(600)"


# --- from beginning to end ------------------------------------------------------------------------


def test_a_command_runs_to_its_end(jobs):
    job = jobs.start(order("print('hello')"))
    assert (job.order.kind, job.order.title, job.order.subject) == ("build", "Title key", "subject")
    assert job.live
    done = ended(jobs, job)
    assert done.state == "done" and done.message == ""
    assert done.began <= done.ended <= time.time()
    assert jobs.log(job.id) == "hello\n"
    assert Jobs(jobs.folder).list() == [done]  # as another server sees it


def test_an_error_is_told_in_the_commands_own_words(jobs):
    code = (
        "from linkseek.indexer.program.errors import InputError, exit_on_error\n"
        "with exit_on_error('build'): raise InputError('a.md: <b>broken', 'Mend it.')"
    )
    failed = ended(jobs, jobs.start(order(code)))
    assert (failed.state, failed.message, failed.hint) == ("failed", "a.md: <b>broken", "Mend it.")


def test_a_traceback_stays_in_the_log(jobs):
    failed = ended(jobs, jobs.start(order("1 / 0")))
    assert failed.message == "the command failed: a bug in Linkseek"
    assert "ZeroDivisionError" in jobs.log(failed.id) and "Traceback" not in failed.hint


def test_a_command_that_cannot_be_started(jobs, tmp_path):
    failed = ended(jobs, jobs.start(Order("build", "key", "t", "s", [str(tmp_path / "none")])))
    assert failed.state == "failed" and "No such file" in failed.message


def test_progress_is_read_while_it_runs(jobs, tmp_path):
    code = (
        "import time; from linkseek.indexer.program.progress import progress\n"
        "with progress('reading', 8, 'documents') as advance:\n"
        "    time.sleep(.3); advance(2); time.sleep(600)"
    )
    job = jobs.start(order(code))
    wait_until(lambda: any(stage.done == 2 for stage in jobs.find(job.id).stages))
    [stage] = jobs.find(job.id).stages
    assert (stage.label, stage.unit, stage.total) == ("reading", "documents", 8)
    assert (stage.share, stage.ended) == (0.25, None)
    assert jobs.find(job.id).state == "running"


# --- how it can end otherwise ---------------------------------------------------------------------


def test_a_cancelled_command_ends_with_all_that_it_started(jobs, tmp_path):
    child = tmp_path / "child"
    code = (
        "import subprocess, sys, pathlib\n"
        f"child = subprocess.Popen([sys.executable, '-c', {SLEEP!r}])\n"
        f"pathlib.Path({str(child)!r}).write_text(str(child.pid)); child.wait()"
    )
    job = jobs.start(order(code))
    wait_until(lambda: child.exists() and child.read_text())
    jobs.cancel(job.id)
    cancelled = ended(jobs, job)
    assert cancelled.state == "cancelled" and cancelled.message == ""
    wait_until(lambda: not alive(int(child.read_text())))


def alive(pid):
    """Whether a process is there and no zombie."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def test_without_process_groups_a_command_is_ended_with_all_that_it_started():
    started = f"subprocess.Popen([sys.executable, '-c', {SLEEP!r}])"
    code = f"import subprocess, sys; print({started}.pid, flush=True); {SLEEP}"
    command = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    child = int(command.stdout.readline())
    end_tree(command.pid)
    assert command.wait(10) != 0
    wait_until(lambda: not alive(child))
    end_tree(command.pid)  # it has ended


def test_a_command_that_does_not_want_to_end(jobs, monkeypatch):
    code = (
        f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); {SLEEP}"
    )
    job = jobs.start(order(code))
    wait_until(lambda: "ready" in jobs.log(job.id))
    jobs.cancel(job.id)
    assert ended(jobs, job).state == "cancelled"


def test_a_killed_command_is_told(jobs):
    job = running(jobs, jobs.start(order("import os; print(os.getpid(), flush=True); " + SLEEP)))
    wait_until(lambda: jobs.log(job.id).strip())
    os.kill(int(jobs.log(job.id)), signal.SIGKILL)
    failed = ended(jobs, job)
    assert failed.state == "failed" and "signal 9" in failed.message and "memory" in failed.hint


@pytest.mark.skipif(sys.platform != "linux", reason="the system ends the command with its watcher on Linux")
def test_a_killed_watcher_is_noticed_and_takes_its_command_with_it(jobs):
    code = "import os; print(os.getppid(), os.getpid(), flush=True); " + SLEEP
    job = running(jobs, jobs.start(order(code)))
    wait_until(lambda: len(jobs.log(job.id).split()) == 2)  # printed one by one
    watcher, command = map(int, jobs.log(job.id).split())
    os.kill(watcher, signal.SIGKILL)
    failed = ended(jobs, job)
    assert failed.state == "failed" and "ended from outside" in failed.message
    wait_until(lambda: not alive(command))


def test_it_outlives_the_process_that_started_it(jobs):
    """A server that is stopped with Ctrl-C, or killed, takes no job with it."""
    code = (
        "import sys; from pathlib import Path; from linkseek.app.background.jobs import Jobs, Order\n"
        f"print(Jobs(Path({str(jobs.folder)!r})).start(Order('build', 'k', 't', 's', "
        f"[sys.executable, '-c', {SLEEP!r}])).id)"
    )
    started = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    [job] = jobs.list()
    assert job.id == started.stdout.strip()
    assert running(jobs, job).live


# --- several --------------------------------------------------------------------------------------


def test_two_visitors_start_the_same(jobs):
    first = jobs.start(order(SLEEP))
    assert jobs.start(order(SLEEP)).id == first.id
    assert jobs.start(order("other", same=True)).id == first.id
    with pytest.raises(BusyError, match="already in progress"):
        jobs.start(order("other"))
    assert len(jobs.list()) == 1
    assert len([path for path in jobs.folder.iterdir() if path.is_dir()]) == 1  # no draft stays


def test_a_key_is_free_again_when_its_job_has_ended(jobs):
    first = ended(jobs, jobs.start(order("pass")))
    assert jobs.start(order("pass")).id != first.id


def test_others_wait_for_their_turn_and_come_in_order(jobs):
    first = [jobs.start(order(SLEEP, f"{n}")) for n in range(MAX_RUNNING)]
    for job in first:
        running(jobs, job)
    second, third = jobs.start(order(SLEEP, "second")), jobs.start(order(SLEEP, "third"))
    time.sleep(0.6)
    assert [jobs.find(job.id).state for job in (second, third)] == ["waiting", "waiting"]
    jobs.cancel(first[0].id)
    assert running(jobs, second).state == "running"
    assert jobs.find(third.id).state == "waiting"
    jobs.cancel(third.id)
    assert ended(jobs, third).state == "cancelled" and jobs.find(third.id).began is None


def test_no_more_than_so_many_wait(jobs, monkeypatch):
    monkeypatch.setattr(jobs_module, "MAX_LIVE", 2)
    started = [jobs.start(order("import time; time.sleep(60)", key=str(number))) for number in range(2)]
    with pytest.raises(BusyError, match="2 jobs are running or waiting"):
        jobs.start(order("", key="2"))
    assert len(jobs.list()) == 2 and len([path for path in jobs.folder.iterdir() if path.is_dir()]) == 2
    for job in started:
        jobs.cancel(job.id)
    assert [ended(jobs, job).state for job in started] == ["cancelled"] * 2
    assert ended(jobs, jobs.start(order("", key="2"))).state == "done"


def test_the_folder_of_a_job_that_is_not_done_is_removed(jobs, tmp_path):
    outputs = [tmp_path / name for name in ("done", "failed")]
    for number, output in enumerate(outputs):
        code = f"import os, sys; os.makedirs({str(output / 'runs')!r}); sys.exit({number})"
        ended(jobs, jobs.start(order(code, key=str(number), output=str(output))))
    assert [output.exists() for output in outputs] == [True, False]
    (outputs[0] / "thesis.txt").write_text("years")
    ended(jobs, jobs.start(order("1 / 0", output=str(outputs[0]))))
    assert [path.name for path in outputs[0].iterdir()] == ["thesis.txt"]  # no file of ours


def test_old_ones_are_forgotten(jobs, kept, monkeypatch):
    monkeypatch.setattr(jobs_module, "MAX_ENDED", 2)
    assert MAX_ENDED > 2
    for n in range(4):
        shutil.copytree(kept[1], jobs.folder / f"20000101-00000{n}")
    (jobs.folder / "19990101-000000").mkdir()  # of an upload that nobody finished
    os.utime(jobs.folder / "19990101-000000", (1.0, 1.0))
    new = jobs.start(order("pass"))
    assert [job.id for job in jobs.list()] == [new.id, "20000101-000003", "20000101-000002"]
    assert not (jobs.folder / "19990101-000000").exists()


def test_removing(jobs):
    job = jobs.start(order(SLEEP))
    jobs.remove(job.id)
    assert jobs.find(job.id).live  # not while it runs
    jobs.cancel(job.id)
    ended(jobs, job)
    jobs.remove(job.id)
    assert jobs.list() == []
    with pytest.raises(UsageError, match="no such job"):
        jobs.log(job.id)


@pytest.mark.parametrize("id_", ["../outside", "..", "", "/etc", "a/../../outside"])
def test_an_id_is_no_path(jobs, id_):
    outside = jobs.folder.parent / "outside"
    outside.mkdir(parents=True)
    (outside / "job.json").write_text('{"kind": "", "key": "", "title": "", "subject": "", "command": []}')
    for act in (jobs.find, jobs.cancel, jobs.remove, jobs.log):
        with pytest.raises(UsageError):
            act(id_)
    assert sorted(path.name for path in outside.iterdir()) == ["job.json"]


# --- files ----------------------------------------------------------------------------------------


def test_uploads_are_there_for_the_command_and_gone_afterwards(jobs):
    with jobs.draft() as draft:
        (draft / "upload").mkdir()
        (draft / "upload" / "a.txt").write_text("content")
        code = f"print(open({str(draft / 'upload' / 'a.txt')!r}).read())"
        job = jobs.start(order(code), draft)
    assert ended(jobs, job).state == "done"
    assert jobs.log(job.id) == "content\n"
    assert not (draft / "upload").exists()


def test_a_draft_that_fails_leaves_nothing(jobs):
    with pytest.raises(ZeroDivisionError), jobs.draft() as draft:
        (draft / "half").write_text("x")
        raise ZeroDivisionError
    assert not draft.exists() and jobs.list() == []


def test_a_full_disk(jobs, monkeypatch):
    def full(path, value):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(jobs_module, "write_json", full)
    with pytest.raises(MachineError, match="could not be started"):
        jobs.start(order("pass"))
    assert jobs.list() == [] and not [path for path in jobs.folder.iterdir() if path.is_dir()]


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match="Not a directory"), Jobs(tmp_path / "file" / ".jobs").draft():
        pass
    assert Jobs(tmp_path / "none").list() == []


@pytest.fixture
def kept(tmp_path):
    """A job that has ended, as it lies on disk, and its folder."""
    jobs = Jobs(tmp_path / ".jobs")
    with jobs.draft() as draft:
        about = {"kind": "build", "key": "k", "title": "t", "subject": "s", "command": ["c"]}
        (draft / "job.json").write_bytes(orjson.dumps(about))
        (draft / "state.json").write_bytes(orjson.dumps({"state": "done", "began": 2.0, "ended": 3.0}))
        stage = {"label": "a", "unit": "", "total": 1, "first": 0, "done": 1, "began": 2.0, "ended": 3.0}
        (draft / "progress.json").write_bytes(orjson.dumps([stage]))
    [job] = jobs.list()
    assert (job.state, job.began, job.ended, len(job.stages)) == ("done", 2.0, 3.0, 1)
    return jobs, draft


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"state": 5}', b'[{"label": "x"}]', b"\xff\0", None])
def test_damaged_files(kept, content):
    jobs, folder = kept

    def damage(file):
        (folder / file).unlink()
        if content is not None:
            (folder / file).write_bytes(content)

    damage("progress.json")
    assert [(job.state, job.stages) for job in jobs.list()] == [("done", ())]
    damage("state.json")
    assert [(job.state, job.live) for job in jobs.list()] == [("failed", False)]
    damage("job.json")
    assert jobs.list() == []


def test_messages_name_uploads_as_they_were_sent(kept):
    jobs, folder = kept
    message = f"{folder}/upload/files/a b.md: damaged; {folder}/upload/files, {folder}/log"
    (folder / "state.json").write_bytes(orjson.dumps({"state": "failed", "message": message}))
    assert jobs.list()[0].message == f"a b.md: damaged; , {folder}/log"


def test_a_log_is_read_from_its_end(kept):
    jobs, folder = kept
    (folder / "log").write_bytes(b"\xff" + b"x" * 300_000 + b"end")
    assert len(jobs.log(folder.name)) == 200_000 and jobs.log(folder.name).endswith("xend")
    (folder / "log").write_bytes(b"a\xffb")
    assert jobs.log(folder.name) == "a\N{REPLACEMENT CHARACTER}b"


# --- what is read off -----------------------------------------------------------------------------


def test_remaining_time_by_hand():
    stage = JobStage("encoding", "passages", total=100, first=40, done=60, began=1000.0, ended=None)
    assert stage.share == 0.6
    assert stage.seconds_left(now=1010.0) == 20.0  # 20 in 10 s, 40 are left
    over = JobStage("encoding", "passages", total=100, first=0, done=130, began=1000.0, ended=None)
    assert over.share == 1.0 and over.seconds_left(1010.0) == 0.0


@pytest.mark.parametrize(
    "stage",
    [
        JobStage("a", "", total=None, first=0, done=5, began=0.0, ended=None),
        JobStage("a", "", total=10, first=4, done=4, began=0.0, ended=None),
        JobStage("a", "", total=10, first=0, done=5, began=0.0, ended=3.0),
        JobStage("a", "", total=10, first=0, done=5, began=9.0, ended=None),
    ],
)
def test_no_remaining_time_where_it_is_not_known(stage):
    assert stage.seconds_left(now=5.0) is None


@pytest.mark.parametrize(
    "log, code, message, hint",
    [
        ("a\nbuild: error: first\n  do\nbuild: error: second\nmore\n", 2, "second", ""),
        ("evaluate: error: bad\n  Do this.\nTraceback\n", 3, "bad", "Do this."),
        ("nothing", -15, "the system ended the command (signal 15)", None),
        ("note: error", 1, "the command failed: a bug in Linkseek", "The log has the details."),
        (
            "\n",
            4,
            "the command failed: an index that is incomplete, altered, or of another format version",
            "It left no log.",
        ),
    ],
)
def test_why_a_command_failed(log, code, message, hint):
    found = error_in(log, code, Path("/nowhere"))
    assert found[0] == message
    assert found[1] if hint is None else found[1] == hint


def test_a_full_disk_leaves_no_log(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)._replace(free=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    message, hint = error_in("", 6, tmp_path / "index")
    assert message == "the command failed: the machine lacks something: disk space, permission, a library"
    assert hint == "It left no log. The folder index has 0 bytes of free space."


def test_hints_are_in_the_words_of_the_page(tmp_path):
    sent = Jobs(tmp_path).as_sent
    assert sent("Free some space and run the same command: it resumes.").endswith(
        "and start it again: it resumes."
    )
    assert sent("Run the same command again when it does.") == "Start it again when it does."
