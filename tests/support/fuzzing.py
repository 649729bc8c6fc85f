"""What the tests with generated input share: how many examples, and JSON with one value changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import HealthCheck, settings

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "0"))


def examples(count: int) -> Callable[[Any], Any]:
    return settings(
        max_examples=EXAMPLES or count,
        deadline=None,
        derandomize=not EXAMPLES,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def altered(value: Any, way: Sequence[int], new: Any, remove: bool) -> Any:
    """The same JSON with the thing at the end of a way through it replaced or removed."""
    if not way or not isinstance(value, dict | list) or not value:
        return new
    value = value.copy()
    keys = sorted(value) if isinstance(value, dict) else list(range(len(value)))
    key = keys[way[0] % len(keys)]
    if remove and len(way) == 1:
        del value[key]
    else:
        value[key] = altered(value[key], way[1:], new, remove)
    return value
