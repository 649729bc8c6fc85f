"""Errors for users: the problem, its place, and a remedy.

Everything that a user can cause (a damaged file, a misspelt option, a full disk) is raised as a
`LinkseekError`; entry scripts run inside `exit_on_error`, which prints it without a traceback. Any
other exception is a bug and keeps its traceback.
"""

from __future__ import annotations

import errno
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from indexer.base.text import printable


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
    """Run an entry script: a `LinkseekError` ends it with its message and exit code, no traceback.

    So do a full disk, a read-only folder, too little memory and Ctrl-C. Everything else passes through.
    Characters that the standard output's encoding lacks are printed as question marks. resumes: whether the
    same command resumes after an interruption.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    try:
        yield
    except LinkseekError as error:
        _print_error(program, error.message, error.hint)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        hint = "; run the same command to resume" if resumes else ""
        print(f"\n{program}: interrupted{hint}", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has gone
        sys.exit(141)
    except OSError as error:
        # numpy says "1000 requested and 8 written", without a number, when the disk is full
        number = error.errno or (errno.ENOSPC if "requested and" in str(error) else 0)
        if number not in _OS_HINTS:
            raise
        message = str(error) if error.errno else f"a file could not be written ({error})"
        _print_error(program, message, _OS_HINTS[number])
        sys.exit(MachineError.exit_code)
    except MemoryError as error:
        message = f"the memory of this machine is used up ({error or 'no details'})"
        _print_error(program, message, "Close other programs, or use fewer --processes. A build resumes.")
        sys.exit(MachineError.exit_code)


def _print_error(program: str, message: str, hint: str) -> None:
    print(f"{program}: error: {printable(message)}", file=sys.stderr)
    if hint:
        print(f"  {printable(hint)}", file=sys.stderr)


_OS_HINTS = {
    errno.ENOSPC: "The disk is full. Free some space and run the same command: it resumes.",
    errno.EDQUOT: "The disk quota is used up. Free some space and run the same command again.",
    errno.EROFS: "The folder is read-only. Choose another one (for an index: --index DIR).",
    errno.EACCES: "No permission. Choose another folder, or change its permissions.",
    errno.ENOTDIR: "A part of this path is a file. Choose another folder.",
    errno.EEXIST: "A part of this path is a file. Choose another folder.",
    errno.ENAMETOOLONG: "Choose a shorter name.",
    errno.EFBIG: "The file would be larger than the system allows here (ulimit -f). Choose another folder.",
    errno.EIO: "The disk fails at this place. Check the system's log, and copy what can be saved.",
    errno.ESTALE: "The network drive has lost this file. Mount it again, and run the same command.",
    errno.EMFILE: "Too many files are open at once. Raise the limit (ulimit -n).",
    errno.EPERM: "Not permitted. Choose another folder, or change its permissions.",
}
