"""JSON values that cannot be changed, so that threads share them."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class FrozenDict(dict[K, V]):
    """A dictionary that cannot be changed; `|` gives an ordinary one."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a frozen dictionary cannot be changed")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)


def frozen(value: Any, levels: int = 100) -> Any:
    """A JSON value that cannot be changed: lists become tuples.

    Raises `RecursionError` for a value nested deeper than `levels`, even where Python could go deeper.
    """
    if not levels:
        raise RecursionError("nested too deeply")
    if isinstance(value, dict):
        return FrozenDict({key: frozen(item, levels - 1) for key, item in value.items()})
    return tuple(frozen(item, levels - 1) for item in value) if isinstance(value, list | tuple) else value
