"""Values that are made once, whichever thread asks first."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, MutableMapping
from concurrent.futures import Executor, Future
from functools import cached_property
from typing import Any, Generic, Self, TypeVar, overload

V = TypeVar("V")


class Once(Generic[V]):
    """Values by key, made when they are first asked for; threads that ask for the same one wait for it.

    Different keys do not wait for each other. A value that could not be made is tried again by the next
    thread that asks; threads waiting for it get its error.
    """

    def __init__(self, make: Callable[..., V], made: MutableMapping[Hashable, V] | None = None) -> None:
        """make: from the parts of a key to its value. made: holds the values, such as a weak dictionary."""
        self.made: MutableMapping[Hashable, V] = {} if made is None else made
        self._make = make
        self._making: dict[Hashable, Future[V]] = {}
        self._lock = threading.Lock()

    def __call__(self, *key: Hashable) -> V:
        """The value of a key. Raises the errors of `make`."""
        future, is_new = self._future(key)
        if is_new:
            self._run(key, future)
        return future.result()

    def start(self, executor: Executor, *key: Hashable) -> Future[V]:
        """The value of a key, made by a thread of an executor unless it is made or being made."""
        future, is_new = self._future(key)
        if is_new:
            try:
                executor.submit(self._run, key, future)
            except RuntimeError as error:  # the program ends
                self._fail(key, future, error)
        return future

    def _future(self, key: Hashable) -> tuple[Future[V], bool]:
        """The future of a value, and whether the caller is to make it."""
        with self._lock:
            if future := self._making.get(key):
                return future, False
            future = Future()
            if (value := self.made.get(key)) is not None:
                future.set_result(value)
                return future, False
            self._making[key] = future
            return future, True

    def _run(self, key: tuple[Hashable, ...], future: Future[V]) -> None:
        try:
            value = self._make(*key)
        except BaseException as error:
            self._fail(key, future, error)
        else:
            with self._lock:
                self.made[key] = value
                del self._making[key]
            future.set_result(value)

    def _fail(self, key: Hashable, future: Future[V], error: BaseException) -> None:
        with self._lock:  # before anybody sees the failure, and tries again
            del self._making[key]
        future.set_exception(error)


class shared_property(cached_property[V]):  # noqa: N801 - a decorator
    """A `cached_property` of an object that threads share: computed once, and the others wait for it.

    That of Python 3.12 and later lets each thread compute it; before, all objects of a class share a lock.
    """

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> V: ...
    def __get__(self, instance: object, owner: type[Any] | None = None) -> Self | V:
        if instance is None:
            return self
        values, name, lock = instance.__dict__, str(self.attrname), f"{self.attrname} lock"
        with values.setdefault(lock, threading.RLock()):  # `setdefault` is atomic
            if name not in values:
                values[name] = self.func(instance)
            values.pop(lock, None)  # so that the object can be pickled
            value: V = values[name]
            return value
