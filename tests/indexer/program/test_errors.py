"""The outer door: however a command ends, with a sentence and a documented exit code."""

from __future__ import annotations

import errno
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from linkseek.indexer.program.errors import (
    DamagedIndexError,
    InputError,
    LinkseekError,
    MachineError,
    UsageError,
    exit_on_error,
    raise_of_machine,
)
from tests.support.command import ROOT, WITH_TESTS, python


class SafetensorError(Exception):
    """As a library in Rust raises it, in the middle of a file."""


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "/proc/x"), 6, "/proc/x"),
        (IsADirectoryError(errno.EISDIR, "Is a directory", "x"), 6, "There is a folder"),
        (OSError(errno.EBUSY, "Device or resource busy", "/mnt"), 6, "mount point"),
        (OSError(errno.ELOOP, "Too many levels of symbolic links", "x"), 6, "circle"),
        (OSError(errno.ENOLCK, "No locks available"), 6, "The system refused this"),
        (OSError("a library's words"), 6, "could not be read or written (a library's words)"),
        (SafetensorError("I/O error: No space left on device (os error 28)"), 6, "The disk is full"),
        (RuntimeError("can't start new thread"), 6, "memory"),
        (RuntimeError("Could not determine home directory."), 6, "HOME"),
        (ImportError("libgomp.so.1: cannot open shared object file"), 6, "libgomp"),
        (ImportError("libx.so: failed to map segment from shared object"), 6, "memory of this machine"),
        (ImportError("libx.so: cannot open shared object file: Too many open files"), 6, "ulimit -n"),
        (RuntimeError("could not open /i/index for reading: Too many open files"), 6, "ulimit -n"),
        (TypeError("str is not valid UTF-8: surrogates not allowed"), 3, "not UTF-8"),
        (RecursionError("maximum recursion depth exceeded"), 3, "nested too deeply"),
        (OverflowError("can't convert negative int to unsigned"), 3, "too large"),
        (UnicodeEncodeError("utf-8", "\udcff", 0, 1, "surrogates not allowed"), 3, "not UTF-8"),
        (UsageError("what", "how"), 2, "build: error: what\n  how\n"),
        (InputError("what", "how"), 3, "build: error: what\n  how\n"),
        (DamagedIndexError("what", "how"), 4, "build: error: what\n  how\n"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (BrokenPipeError(), 141, ""),
    ],
)
def test_whatever_is_not_our_mistake_is_told(error, code, words, capsys):
    with pytest.raises(SystemExit) as ended, exit_on_error("build"):
        raise error
    assert ended.value.code == code
    assert words in capsys.readouterr().err


def test_a_library_that_ends_at_a_closed_pipe_ends_as_all_commands_do(capsys):
    with pytest.raises(SystemExit) as ended, exit_on_error("build"):
        try:
            raise BrokenPipeError
        except BrokenPipeError:
            raise SystemExit(1)  # noqa: B904  as rich does
    assert ended.value.code == 141
    with pytest.raises(SystemExit) as ended, exit_on_error("build"):
        raise SystemExit(1)
    assert ended.value.code == 1


def test_our_own_mistake_leaves_a_report(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(SystemExit) as ended, exit_on_error("build"):
        raise ZeroDivisionError("division\nby zero")
    assert ended.value.code == LinkseekError.exit_code == 1
    message = capsys.readouterr().err
    assert message.startswith("build: error: internal error (ZeroDivisionError: division)\n")
    [report] = tmp_path.iterdir()
    assert str(report) in message and "Traceback" not in message
    assert "raise ZeroDivisionError" in report.read_text()


def test_a_report_that_cannot_be_written_is_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(SystemExit), exit_on_error("build"):
        raise ZeroDivisionError
    assert "raise ZeroDivisionError" in capsys.readouterr().err


COMMAND = [sys.executable, "-m", "linkseek"]


@pytest.mark.parametrize(
    ("script", "library"), [(["-m", "linkseek", "search"], "regex"), (["app/search.py"], "pydantic")]
)
def test_ctrl_c_during_the_import_of_a_library(script, library, tmp_path):
    (tmp_path / f"{library}.py").write_text("""
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # of a shell's background it would be ignored
signal.raise_signal(signal.SIGINT)
""")
    done = python(*script, "question", PYTHONPATH=f"{tmp_path}:{WITH_TESTS['PYTHONPATH']}")
    assert (done.returncode, done.stderr.strip()) == (130, "search: interrupted")


SWALLOWS = """
import signal
try:
    {raised}
except BaseException:  # as libraries do where another one is optional
    pass
"""


@pytest.mark.parametrize("raised", ["signal.raise_signal(signal.SIGINT)", "from late import x"])
def test_ctrl_c_is_not_lost_in_an_import_within_a_command(raised, tmp_path):
    (tmp_path / "late.py").write_text("import signal; signal.raise_signal(signal.SIGINT)")
    (tmp_path / "library.py").write_text(SWALLOWS.format(raised=raised))
    code = """
import signal
from linkseek.indexer.program.errors import exit_on_error

signal.signal(signal.SIGINT, signal.default_int_handler)  # of a shell's background it would be ignored
with exit_on_error("build", resumes=True):
    import library
    print("goes on")
"""
    done = python("-c", code, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "\nbuild: interrupted; run the same command to resume\n"


STAYS = """
import signal, time
from linkseek.indexer.program.errors import exit_on_error

signal.signal(signal.SIGINT, signal.default_int_handler)  # of a shell's background it would be ignored
with exit_on_error("build"):
    for said in ("began", "stays"):
        try:
            print(said, flush=True)
            time.sleep(60)
        except KeyboardInterrupt:
            pass
"""


def test_a_second_sigterm_ends_at_once():
    process = subprocess.Popen(
        [sys.executable, "-c", STAYS], stdout=subprocess.PIPE, text=True, env=WITH_TESTS
    )
    for said in ("began\n", "stays\n"):
        assert process.stdout.readline() == said
        process.terminate()
    assert process.communicate(timeout=50) == ("", None)
    assert process.returncode == -signal.SIGTERM


@pytest.mark.parametrize(
    ("redirection", "code", "said"),
    [(">&-", 0, ""), ("> /dev/full", 6, "The disk is full"), ("2>&-", 0, ""), ("<&-", 0, "")],
)
def test_closed_and_full_standard_streams(redirection, code, said):
    line = f'"$@" --help {redirection}'
    done = subprocess.run(["sh", "-c", line, "sh", *COMMAND], capture_output=True, text=True, env=WITH_TESTS)
    assert done.returncode == code and said in done.stderr and "Exception" not in done.stderr


def test_a_file_never_takes_the_place_of_a_closed_stream(tmp_path):
    code = """
from linkseek.indexer.program.errors import exit_on_error
with exit_on_error("x"):
    number = open("a", "w").fileno()
    open("b", "w").write(str(number > 2))
"""
    words = ["sh", "-c", '"$@" >&- 2>&-', "sh", sys.executable, "-c", code]
    subprocess.run(words, cwd=tmp_path, env=WITH_TESTS, check=True)
    assert (tmp_path / "b").read_text() == "True"


def test_a_deleted_folder_and_too_little_memory_are_told(tmp_path):
    for line, said in (
        (f"mkdir {tmp_path}/d; cd {tmp_path}/d; rmdir ../d", "the current folder has been deleted"),
        ("ulimit -v 900000", "the memory of a process is limited"),
    ):
        words = ["bash", "-c", f'{line}; "$@" --help', "sh", *COMMAND]
        done = subprocess.run(words, capture_output=True, text=True, env=WITH_TESTS)
        assert done.returncode == 6 and re.match(f"linkseek: error: {said}", done.stderr), done.stderr


NUMBERS = ("EMFILE", "ENFILE", "ENOMEM", "EIO", "ESTALE", "EACCES", "ENOSPC", "EDQUOT", "ETIMEDOUT")
OF_THE_MACHINE = [
    *(OSError(getattr(errno, name), "words") for name in NUMBERS),
    SafetensorError("I/O error: Too many open files (os error 24)"),
    RuntimeError("Error in FileIOReader: could not open /i/index for reading: Too many open files"),
    OSError("java.nio.file.FileSystemException: /i/segments_1: Too many open files"),
    OSError("could not mmap: Cannot allocate memory"),
]


@pytest.mark.parametrize("error", OF_THE_MACHINE, ids=str)
def test_errors_of_the_machine_are_none_of_a_file(error):
    with pytest.raises(MachineError) as raised:
        raise_of_machine(error)
    assert raised.value.exit_code == 6 and raised.value.hint


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(errno.ENOENT, "No such file or directory"),
        IsADirectoryError(errno.EISDIR, "Is a directory"),
        NotADirectoryError(errno.ENOTDIR, "Not a directory"),
        OSError("Invalid data stream"),
        ValueError("mmap length is greater than file size"),
        SafetensorError("No such file or directory (os error 2)"),
        SafetensorError("Error while deserializing header: invalid header"),
    ],
    ids=str,
)
def test_errors_of_a_file_are_left_to_its_reader(error):
    raise_of_machine(error)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(("arguments", "code"), [(["--index", "none", "q"], 4), (["--none"], 2)])
def test_an_error_that_cannot_be_printed_keeps_its_exit_code(arguments, code):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*COMMAND, "search", *arguments], stderr=full, cwd=ROOT, env=WITH_TESTS)
    assert done.returncode == code
