"""Files for the user: never one of theirs is replaced, never two writers at once."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from linkseek.indexer.machine import locks
from linkseek.indexer.program.errors import BusyError, UsageError
from linkseek.indexer.store.outputs import (
    check_replaceable,
    locked,
    output_file,
    remove_outputs,
    remove_written,
    write_output,
)
from tests.support.command import python


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_of_ours_is_replaced_and_one_of_the_user_is_not(tmp_path):
    write_output(tmp_path / "out" / "a.txt", b"first")
    write_output(tmp_path / "out" / "a.txt", b"second")
    (tmp_path / "out" / "b.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"b\.txt: exists already"):
        write_output(tmp_path / "out" / "b.txt", b"ours")
    assert names(tmp_path / "out") == [".linkseek.json", "a.txt", "b.txt"]
    assert (tmp_path / "out" / "a.txt").read_text() == "second"
    assert (tmp_path / "out" / "b.txt").read_text() == "mine"


def test_a_file_of_ours_that_the_user_changed_is_theirs(tmp_path):
    path = tmp_path / "report.md"
    write_output(path, b"ours")
    path.write_text("ours, with my notes")
    with pytest.raises(UsageError, match="was changed since"):
        check_replaceable(path)
    remove_outputs(path, tmp_path / "missing")
    assert path.read_text() == "ours, with my notes"


def test_a_link_a_folder_and_a_device_are_never_replaced(tmp_path):
    (tmp_path / "link").symlink_to("nothing")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "link", tmp_path / "folder", Path("/dev/null")):
        with pytest.raises(UsageError, match=r"exists already|is a folder"):
            check_replaceable(path)


@pytest.mark.parametrize("record", ["", "[]", '{"a.txt": null}', "{"])
def test_a_damaged_record_makes_all_files_the_users(tmp_path, record):
    write_output(tmp_path / "a.txt", b"ours")
    (tmp_path / ".linkseek.json").write_text(record)
    with pytest.raises(UsageError):
        write_output(tmp_path / "a.txt", b"again")
    write_output(tmp_path / "b.txt", b"ours")
    write_output(tmp_path / "b.txt", b"again")


def test_an_interrupted_write_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "a.txt"
    write_output(path, b"old")
    with pytest.raises(KeyboardInterrupt), output_file(path) as file:
        file.write(b"new")
        raise KeyboardInterrupt
    assert (names(tmp_path), path.read_text()) == ([".linkseek.json", "a.txt"], "old")


def test_a_full_disk_is_told_with_the_file(tmp_path):
    with (
        pytest.raises(OSError, match=r"No space left on device: '.*/a\.txt'"),
        output_file(tmp_path / "a.txt"),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")  # as write() does


def test_a_second_writer_is_refused_by_name(tmp_path):
    busy = rf"a: another process is writing it \(process {os.getpid()}, "
    with locked(tmp_path / "a"), locked(tmp_path / "b"):
        with pytest.raises(BusyError, match=busy), locked(tmp_path / "a"):
            raise AssertionError
        assert names(tmp_path) == ["a.linkseek-lock", "b.linkseek-lock"]
    assert not names(tmp_path)


def test_a_lock_that_a_killed_process_left_is_taken_and_a_file_of_the_user_is_not(tmp_path):
    lock = tmp_path / "a.linkseek-lock"
    lock.write_text("linkseek: process 1, killed")
    with locked(tmp_path / "a"):
        assert f"process {os.getpid()}, " in lock.read_text()
    lock.write_text("mine")
    with pytest.raises(UsageError, match="not a lock of Linkseek"), locked(tmp_path / "a"):
        raise AssertionError
    assert lock.read_text() == "mine"


def test_where_a_locked_file_cannot_be_read_or_removed_the_writer_is_named_all_the_same(
    tmp_path, monkeypatch
):
    """As on Windows: the first byte of a locked file is its holder's, and an open file cannot be removed."""
    monkeypatch.setattr(locks, "_POSIX", False)
    read = os.read

    def refuse_the_first_byte(handle, size):
        if os.lseek(handle, 0, os.SEEK_CUR) == 0 and os.fstat(handle).st_size:
            raise PermissionError
        return read(handle, size)

    monkeypatch.setattr(os, "read", refuse_the_first_byte)
    with locked(tmp_path / "a"):
        busy = rf"a: another process is writing it \(process {os.getpid()}, "
        with pytest.raises(BusyError, match=busy), locked(tmp_path / "a"):
            raise AssertionError
    assert not names(tmp_path)


def test_writers_of_one_folder_at_the_same_time_are_all_recorded(tmp_path):
    paths = [tmp_path / f"{number}.txt" for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda path: write_output(path, b"ours"), paths))
    check_replaceable(*paths)
    assert names(tmp_path) == sorted([".linkseek.json", *(path.name for path in paths)])


def test_what_we_wrote_is_removed_and_files_of_the_user_stay(tmp_path):
    ours, mixed = tmp_path / "ours", tmp_path / "mixed"
    for folder in (ours, mixed):
        for name in ("results.json", "report.html", "runs/a.trec"):
            write_output(folder / name, b"ours")
        (folder / "runs" / "b.trec.linkseek-tmp").touch()
        (folder / "results.json.linkseek-lock").touch()
        (folder / "empty").mkdir()
    (mixed / "report.html").write_text("edited by the user")
    (mixed / "thesis.txt").write_text("years")
    (mixed / "link").symlink_to(ours)
    remove_written(mixed)
    assert sorted(path.name for path in mixed.iterdir()) == ["link", "report.html", "thesis.txt"]
    assert (ours / "results.json").exists()  # no link is followed
    remove_written(ours)
    assert not ours.exists()
    remove_written(ours)


def test_two_threads_do_not_write_the_same_file(tmp_path):
    """The lock of one thread is no leave for another."""
    with ThreadPoolExecutor(1) as other, output_file(tmp_path / "a") as file:
        with pytest.raises(BusyError, match="is writing it"):
            other.submit(write_output, tmp_path / "a", b"theirs").result(60)
        file.write(b"ours")
    assert (tmp_path / "a").read_bytes() == b"ours"
    write_output(tmp_path / "a", b"later")
    assert (tmp_path / "a").read_bytes() == b"later"


_STOPPED = """
import errno, os, signal, sys
from pathlib import Path
from linkseek.indexer.store.outputs import write_output

place, how = Path(sys.argv[1]), sys.argv[2]
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.truncate"}

def stop_at(moment):
    def stop(event, arguments):
        nonlocal moment
        if event in CHANGES or event == "open" and arguments[2] & os.O_CREAT:
            moment -= 1
            if moment == 0 and how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            elif moment == 0 and event != "os.remove":
                raise OSError(errno.ENOSPC, "No space left on device")
    sys.addaudithook(stop)

moment, status = 0, 1
while status:
    moment += 1
    folder = place / str(moment)
    for name in ("a.txt", "b.txt"):
        write_output(folder / name, b"old")
    if not (child := os.fork()):
        stop_at(moment)
        try:
            for name in ("a.txt", "b.txt"):
                write_output(folder / name, b"newer")
        except OSError:
            os._exit(6)
        os._exit(how == "full" and moment < 60)  # which may be caught, so the last moment is not known
    status = os.waitpid(child, 0)[1]
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="each moment is tried in a fork")
@pytest.mark.parametrize("how", ["killed", "full"])
def test_stopped_at_each_change_of_the_disk_the_same_writes_succeed_afterwards(tmp_path, how):
    done = python("-c", _STOPPED, tmp_path, how)
    assert (done.returncode, done.stderr) == (0, "")
    folders = list(tmp_path.iterdir())
    contents = [(folder / "b.txt").read_bytes() for folder in folders]
    assert len(folders) > 20 and set(contents) == {b"old", b"newer"}
    for folder in folders:
        for name in ("a.txt", "b.txt"):
            assert (folder / name).read_bytes() in {b"old", b"newer"}
            write_output(folder / name, b"newer")
        assert names(folder) == [".linkseek.json", "a.txt", "b.txt"]
        (folder / "a.txt").write_text("mine")
        with pytest.raises(UsageError, match="exists already"):
            write_output(folder / "a.txt", b"ours")
