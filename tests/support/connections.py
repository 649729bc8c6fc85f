"""What a process of ours connects to, and the names it looks up, with the processes that it starts."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_PROGRAM = """
import os, sys

EVENTS = ("connect", "sendto", "sendmsg", "getaddrinfo", "gethostbyname", "gethostbyaddr", "getnameinfo")

def record(event, arguments):
    kind, _, name = event.partition(".")
    if kind == "socket" and name in EVENTS and not isinstance(arguments[-1], (str, bytes, type(None))):
        with open(os.path.join(os.path.dirname(__file__), "connections"), "a") as file:
            print(event, arguments, file=file)

sys.addaudithook(record)
"""


@dataclass(frozen=True)
class Connections:
    """Recorded by a module that Python imports as it starts; libraries in C and Unix sockets are not."""

    folder: Path

    def __post_init__(self) -> None:
        self.folder.mkdir()
        (self.folder / "sitecustomize.py").write_text(_PROGRAM)

    def python_path(self, *others: Path) -> str:
        """The PYTHONPATH of a process to record."""
        return os.pathsep.join(map(str, [self.folder, *others]))

    def recorded(self) -> str:
        """A line for each connection and each look-up so far."""
        file = self.folder / "connections"
        return file.read_text() if file.exists() else ""
