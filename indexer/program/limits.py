"""What a process may ask of its system: the limits that it has, and advice on mapped files.

A system without these, such as Windows, has no limits and takes no advice.
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import Any

_ENOUGH = 1 << 20  # some systems call a limit that no process may have, and some programs count up to it


def address_space() -> int | None:
    """The memory that this process may map, in bytes (ulimit -v); None without a limit."""
    try:
        import resource
    except ImportError:
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def allow_open_files() -> None:
    """Raise this process's limit of open files as far as the system allows it (from ulimit -Sn to -Hn).

    A mapped file stays open. 21 million vectors are up to 5,000 shards, an index of a hundred partitions has
    some 2,000 files; the usual limit is 1,024.
    """
    try:
        import resource
    except ImportError:
        return
    limit, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if allowed == resource.RLIM_INFINITY else min(allowed, _ENOUGH)
    if limit != resource.RLIM_INFINITY and limit < wanted:
        with suppress(ValueError, OSError):  # macOS refuses more than its own maximum
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, allowed))


def read_at_random(mapping: Any) -> None:
    """Have only the pages read that are used, none around them. mapping: an `mmap.mmap`."""
    if hasattr(mmap, "MADV_RANDOM"):
        mapping.madvise(mmap.MADV_RANDOM)


def read_soon(mapping: Any, start: int, stop: int) -> None:
    """Have the bytes from start to stop read in the background."""
    if hasattr(mmap, "MADV_WILLNEED"):
        first = start - start % mmap.PAGESIZE
        mapping.madvise(mmap.MADV_WILLNEED, first, stop - first)
