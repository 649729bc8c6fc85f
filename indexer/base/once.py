"""Values that are made once, whichever thread asks first."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, MutableMapping
from typing import Generic, TypeVar

V = TypeVar("V")


class Once(Generic[V]):
    """Values by key, made when they are first asked for; threads that ask for the same one wait for it.

    Different keys do not wait for each other. A value that could not be made is tried again.
    """

    def __init__(self, make: Callable[..., V], made: MutableMapping[Hashable, V] | None = None) -> None:
        """make: from the parts of a key to its value. made: holds the values, such as a weak dictionary."""
        self.made: MutableMapping[Hashable, V] = {} if made is None else made
        self._make = make
        self._locks: dict[Hashable, threading.Lock] = {}

    def __call__(self, *key: Hashable) -> V:
        """The value of a key. Raises whatever making it raises."""
        with self._locks.setdefault(key, threading.Lock()):
            value = self.made.get(key)
            if value is None:
                value = self.made[key] = self._make(*key)
            return value
