"""Errors for users: the problem, its place, and a remedy; and lines on stderr while a command runs.

Everything that a user can cause (a damaged file, a misspelt option, a full disk) is raised as a
`LinkseekError`; every command runs inside `exit_on_error`, which prints it without a traceback. Any other
exception that it does not know is a bug, and its traceback goes to a file. Only quick imports are here,
because Ctrl-C is handled from the first instruction on.
"""

from __future__ import annotations

import errno
import io
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar

from linkseek.indexer.program.limits import address_space


class LinkseekError(Exception):
    """A problem (`message`) and its remedy (`hint`)."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class UsageError(LinkseekError):
    """An option, a configuration key or a name that does not exist or does not fit (exit code 2)."""

    exit_code = 2


class InputError(LinkseekError):
    """An input file is missing, cut off or of another kind than expected (exit code 3)."""

    exit_code = 3


class DamagedIndexError(LinkseekError):
    """An index that is incomplete, altered, or of another format version (exit code 4)."""

    exit_code = 4


class NoIndexError(DamagedIndexError):
    """A path that contains no index. `near`: which indexes there are, or which is meant."""

    def __init__(self, message: str, hint: str = "", near: str = "") -> None:
        super().__init__(message, f"{near} {hint}".strip())
        self.near = near


class MismatchError(LinkseekError):
    """Parts that do not belong together, such as an encoder and the vectors of another (exit code 5)."""

    exit_code = 5


class MachineError(LinkseekError):
    """The machine lacks something: disk space, permission, a library (exit code 6)."""

    exit_code = 6


class BusyError(LinkseekError):
    """Another process holds a file that is needed (exit code 7)."""

    exit_code = 7


@contextmanager
def exit_on_error(program: str, *, resumes: bool = False) -> Iterator[None]:
    """Run a command: however it ends, with a sentence and a documented exit code, without a traceback.

    A `LinkseekError` has its own message and code. What the system refuses, too little memory, Ctrl-C and
    SIGTERM have theirs; any other exception is a bug, and leaves a file with a report. Characters
    that the standard output's encoding lacks are printed as question marks. resumes: whether the same command
    resumes after an interruption.
    """
    interrupted = f"\n{program}: interrupted{'; run the same command to resume' if resumes else ''}\n"
    interruption = Interruption(interrupted)
    try:
        with interruption.expected():
            _check_process()
            if isinstance(sys.stdout, io.TextIOWrapper):
                sys.stdout.reconfigure(errors="replace")
            try:
                yield
            except SystemExit:
                sys.stdout.flush()
                raise
            sys.stdout.flush()  # here, since nothing can be said of an error when Python ends
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # rich ends with 1 where the reader has gone
            raise SystemExit(_PIPE_CLOSED) from None
        raise
    except BaseException as error:
        code = _explain(program, error, interruption)
        with suppress(Exception):
            sys.stdout.flush()
        with suppress(Exception):  # what could not be written before cannot be written at the end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(code)


def run_command(module: str, *, resumes: bool = False) -> None:
    """Run a module of Linkseek as a script; its imports, which take time, can be interrupted as well."""
    with exit_on_error(module.rpartition(".")[2], resumes=resumes):
        import_module(module).main(sys.argv[1:])


class Interruption:
    """Ctrl-C and SIGTERM raise `KeyboardInterrupt`, but end the process at once while a library is imported.

    There an exception is lost in the callbacks of Python's import system, or crashes half-loaded modules.
    SIGTERM is how schedulers and containers end a process; temporary files and other processes go, too, and a
    second one ends it at once.
    """

    def __init__(self, message: str) -> None:
        """message: the last line of a command."""
        self.message = message
        self.exit_code = 128 + signal.SIGINT

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        self.exit_code = 128 + number
        if number == signal.SIGTERM:
            signal.signal(number, signal.SIG_DFL)
        while frame is not None:
            if frame.f_code.co_filename.startswith("<frozen importlib"):
                with suppress(OSError):
                    os.write(2, self.message.encode())
                os._exit(self.exit_code)
            frame = frame.f_back
        raise KeyboardInterrupt

    @contextmanager
    def expected(self) -> Iterator[None]:
        """Handle both, in the main thread; not Ctrl-C where it is ignored, as in a shell's background."""
        usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
        before = {number: handler for number, handler in usual.items() if signal.getsignal(number) is handler}
        with handling(self, before):
            yield


@contextmanager
def handling(
    handler: Callable[[int, FrameType | None], None], before: Mapping[signal.Signals, Any]
) -> Iterator[None]:
    """Handle signals, in the main thread. before: their handlers so far, which come back at the end."""
    if threading.current_thread() is not threading.main_thread():
        before = {}
    for number in before:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _check_process() -> None:
    """Open closed standard streams, and check that there is a folder and some memory."""
    while (handle := os.open(os.devnull, os.O_RDWR)) < 3:  # else the next file would be written to by print
        os.set_inheritable(handle, True)
    os.close(handle)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")
    try:
        Path.cwd()
    except FileNotFoundError:
        raise MachineError(
            "the current folder has been deleted", "Change to another folder: cd DIR"
        ) from None
    limit = address_space()
    if limit is not None and limit < _LEAST_MEMORY:
        raise MachineError(
            f"the memory of a process is limited to {limit:,} bytes here, expected {_LEAST_MEMORY:,} or more",
            _RAISE_MEMORY,
        )


def _explain(program: str, error: BaseException, interruption: Interruption) -> int:
    """Print the error, and return the exit code."""
    if isinstance(error, BrokenPipeError):
        return _PIPE_CLOSED
    if isinstance(error, KeyboardInterrupt):
        _to_stderr(interruption.message)
        return interruption.exit_code
    known = error if isinstance(error, LinkseekError) else _as_ours(error)
    if known is None:
        name = f"{type(error).__name__}: {error}".partition("\n")[0][:300]
        known = LinkseekError(f"internal error ({name})", _report(program, error))
    _print_error(program, known.message, known.hint)
    return known.exit_code


def _as_ours(error: BaseException) -> LinkseekError | None:
    """The `LinkseekError` for an error of the machine, a library or the input; None for any other error."""
    text, name = str(error), type(error).__name__
    if isinstance(error, MemoryError) or re.search(_NO_MEMORY, text):
        return _no_memory(text)
    number = _error_number(error)
    if isinstance(error, OSError) or number:
        message = text if number or text.startswith("[") else f"a file could not be read or written ({text})"
        return MachineError(message, _OS_HINTS.get(number, _OS_HINT))
    if isinstance(error, ImportError):
        from linkseek.indexer.program.extras import install_hint

        return MachineError(f"a library cannot be loaded ({text})", install_hint(error.name or ""))
    if name == "BrokenProcessPool":
        return MachineError(f"a process of this command died ({text})", "Use fewer --processes.")
    if "home directory" in text:
        return MachineError("this user has no home folder", "Set the environment variable HOME to a folder.")
    if isinstance(error, RecursionError):
        return InputError("an input is nested too deeply", "Linkseek's formats have fewer than ten levels.")
    if isinstance(error, OverflowError):
        return InputError(f"a number is too large ({text})", "Use a smaller one.")
    if isinstance(error, UnicodeEncodeError) or "surrogates not allowed" in text:  # orjson has a TypeError
        return InputError(f"a name or a text is not UTF-8 ({text})", "Rename the file, or convert it.")
    return None


def raise_of_machine(error: BaseException) -> None:
    """Raise an error of reading as `MachineError` if it says nothing about the file that was read.

    A damaged file has the wrong content, or is missing, or is a folder. Too many open files, no memory, no
    permission and a failing disk are the machine's, however a library reports them: nothing of the user's
    may then be called damaged. To be called first where such errors are caught.
    """
    number = _error_number(error)
    if re.search(_NO_MEMORY, str(error)):
        raise _no_memory(str(error)) from error
    if number and number not in _OF_THE_FILE:
        raise MachineError(str(error), _OS_HINTS.get(number, _OS_HINT)) from error


def _error_number(error: BaseException) -> int:
    """The system's number (errno) of an error, also of a library that only has its words; 0 for others."""
    text = str(error)
    if rust_error := re.search(r"\(os error (\d+)\)", text):
        return int(rust_error[1])
    if isinstance(error, OSError) and error.errno:
        return error.errno
    if isinstance(error, OSError) and "requested and" in text:
        return errno.ENOSPC  # numpy says "1000 requested and 8 written" when the disk is full
    # FAISS, Java and the dynamic linker have only the system's words.
    return next((n for n in _OS_HINTS if n not in _OF_THE_FILE and os.strerror(n) in text), 0)


def _no_memory(text: str) -> MachineError:
    limited = "" if address_space() is None else f"{_RAISE_MEMORY}. "
    return MachineError(
        f"the memory of this machine is used up ({text or 'no details'})",
        f"{limited}Close other programs, or use fewer --processes. A build resumes.",
    )


def _report(program: str, error: BaseException) -> str:
    """Write a report on a bug; returns its place, for people."""
    import tempfile
    import traceback

    lines = [f"linkseek {program}: {sys.argv}", f"Python {sys.version}, {sys.platform}", ""]
    text = "\n".join(lines) + "".join(traceback.format_exception(error))
    try:
        handle, path = tempfile.mkstemp(prefix="linkseek-report-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError:  # nowhere to write
        return f"Please report it with the following lines.\n{text}"
    return f"Please report it, with the file {path}"


def log_line(line: str) -> None:
    """Write a line to stderr in one piece, safe with threads: `print` writes the line end separately."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _print_error(program: str, message: str, hint: str) -> None:
    from linkseek.indexer.program.text import printable

    hints = [f"  {printable(line)}" for line in hint.splitlines()]
    lines = [f"{program}: error: {printable(message)}", *hints]
    _to_stderr("".join(f"{line}\n" for line in lines))


def _to_stderr(text: str) -> None:
    """Print to the standard error. One that cannot be written to, as on a full disk, changes no exit code."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):
        with suppress(Exception):  # Python would write the rest, and fail, when it ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


_PIPE_CLOSED = 128 + 13
"""The exit code when the reader of the output has closed it, as for a program that SIGPIPE ends."""

_LEAST_MEMORY = 1 << 30

_RAISE_MEMORY = "Raise the limit: ulimit -v unlimited"

_NO_MEMORY = (
    r"(?i)out of memory|can(no|')t allocate memory|can't start new thread|bad_alloc|failed to map segment"
)

_OF_THE_FILE = {
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.EINVAL,
    errno.ENXIO,
}
"""The numbers of errors about the kind or absence of a file; all others are the machine's."""

_OS_HINT = "The system refused this. Check the path and the machine."

_OS_HINTS = {
    errno.ENOSPC: "The disk is full. Free some space and run the same command: it resumes.",
    errno.EDQUOT: "The disk quota is used up. Free some space and run the same command again.",
    errno.EROFS: "The folder is read-only. Choose another folder (for an index: --index DIR).",
    errno.EACCES: "No permission. Choose another folder, or change its permissions.",
    errno.ENOENT: "Check this path: some part does not exist, or cannot be created there.",
    errno.ENOTDIR: "A part of this path is a file. Choose another folder.",
    errno.EISDIR: "There is a folder where a file is expected. Choose another name.",
    errno.EEXIST: "A part of this path is a file. Choose another folder.",
    errno.ENOTEMPTY: "The folder is not empty. Choose another folder.",
    errno.ELOOP: "The symbolic links of this path form a circle, or links are not followed there.",
    errno.EBUSY: "It is in use, perhaps as a mount point. Choose another folder.",
    errno.ENAMETOOLONG: "Choose a shorter name.",
    errno.EFBIG: "The file would be larger than the system allows here (ulimit -f). Choose another folder.",
    errno.EIO: "The disk fails at this place. Check the system's log, and copy what can be saved.",
    errno.ESTALE: "The network drive has lost this file. Mount it again, and run the same command.",
    errno.ENOTCONN: "The network drive is not connected. Mount it again, and run the same command.",
    errno.ENFILE: "This machine has too many files open. Close other programs.",
    errno.ETIMEDOUT: "The network drive does not answer. Run the same command again when it does.",
    errno.ENOMEM: "The memory of this machine is used up. Close other programs, or raise ulimit -v.",
    errno.EMFILE: "Too many files are open at once. Raise the limit (ulimit -n).",
    errno.EPERM: "Not permitted. Choose another folder, or change its permissions.",
    errno.EAGAIN: "The system allows no more processes or threads. Close programs, or use fewer --processes.",
    errno.EBADF: "A standard stream is closed or cannot be written to.",
}
