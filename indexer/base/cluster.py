"""A Ray cluster, for the commands with `--ray`. Ray is imported here, and only when asked for."""

from __future__ import annotations

import ctypes
import logging
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

from indexer.base.errors import MachineError

LOCAL = "local"


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """The module `ray`, connected to a cluster. `local` starts one on this machine, and ends it afterwards.

    A cluster runs any code that its members send each other: connect to those of people you trust.
    Raises `MachineError` if Ray is not installed, or no cluster answers.
    """
    try:
        import ray
    except ImportError as error:
        problem = f"--ray: Ray is not installed ({error})"
        raise MachineError(problem, "Install it: pip install 'linkseek[ray]'") from None
    with TemporaryDirectory(prefix="linkseek-") as folder:
        own = {"include_dashboard": False, "_temp_dir": folder} if address == LOCAL else {}
        try:
            _check_answers(address)
            with _own_handlers_of_faults():
                ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **own)
        except (OSError, ValueError, RuntimeError) as error:
            raise MachineError(
                f"--ray {address}: no Ray cluster answers there ({' '.join(str(error).split())[:200]})",
                "Start one by `ray start --head`, and give its address; or --ray local.",
            ) from None
        try:
            yield ray
        finally:
            with _own_handlers_of_faults():
                ray.shutdown()


def _check_answers(address: str) -> None:
    """Raises `OSError` if nothing answers at an address with a port: Ray would try for minutes."""
    if match := re.fullmatch(r"(?:ray://)?(.+):(\d{1,5})", address):
        socket.create_connection((match[1], int(match[2])), timeout=10).close()


_FAULTS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)


@contextmanager
def _own_handlers_of_faults() -> Iterator[None]:
    """Keep the handlers of faults: Java uses faults of memory, which Ray would take for crashes."""
    library = ctypes.CDLL(None)
    before = [(fault, ctypes.create_string_buffer(_SIGACTION_BYTES)) for fault in _FAULTS]
    for fault, action in before:
        library.sigaction(fault, None, action)
    try:
        yield
    finally:
        for fault, action in before:
            library.sigaction(fault, action, None)


_SIGACTION_BYTES = 512  # more than a `struct sigaction` takes anywhere
