"""Advice to the system on memory-mapped files, where it takes any (not on Windows)."""

from __future__ import annotations

import mmap
from typing import Any


def read_at_random(mapping: Any) -> None:
    """Have only the pages read that are used, none around them. mapping: an `mmap.mmap`."""
    if hasattr(mmap, "MADV_RANDOM"):
        mapping.madvise(mmap.MADV_RANDOM)


def read_soon(mapping: Any, start: int, stop: int) -> None:
    """Have the bytes from start to stop read in the background."""
    if hasattr(mmap, "MADV_WILLNEED"):
        first = start - start % mmap.PAGESIZE
        mapping.madvise(mmap.MADV_WILLNEED, first, stop - first)
