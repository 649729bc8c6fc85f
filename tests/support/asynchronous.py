"""Coroutines in tests, and waiting for what other threads and processes do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def finished(coroutine: Coroutine[Any, Any, Any], seconds: float = 100.0) -> Any:
    """The result of a coroutine, which gets a thread: Playwright's loop stays in that of the tests."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, asyncio.wait_for(coroutine, seconds)).result()


def wait_until(is_so: Callable[[], object], seconds: float = 120) -> None:
    """Wait for something that a thread or a process does."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "it does not come about"
        time.sleep(0.02)
