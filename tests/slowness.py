"""Which tests are slow: those that reach a process, a training, a browser, a JVM or a real model.

A test is followed through its fixtures and the helpers of the tests to the names that it uses. What it reaches
decides, so a new test needs no mark of its own.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent

SLOW_MODULES = (
    "concurrent.futures",
    "indexer.search.jvm",
    "indexer.search.lucene_index",
    "multiprocessing",
    "playwright",
    "streamlit.testing",
    "signal",
    "subprocess",
    "tracemalloc",
    "reranker.finetune",
    "reranker.pretrain",
    "reranker.training",
    "retriever.mlm",
    "retriever.train",
    "retriever.training",
)
"""They start a process or a JVM, open a page, train, or measure memory."""


def is_slow(item: pytest.Item) -> bool:
    """Whether a test, one of its fixtures, or what they call uses one of the slow modules."""
    if not isinstance(item, pytest.Function):
        return False
    if hasattr(item.function, "hypothesis"):  # a test with generated examples runs as often as there are examples
        return True
    fixtures = item._fixtureinfo.name2fixturedefs.values()
    functions = [item.function, *(definition.func for group in fixtures for definition in group[-1:])]
    return any(reaches_slow(function) for function in functions)


@cache
def reaches_slow(function: Callable[..., Any]) -> bool:
    """Whether the code of a function of the tests uses a slow module, itself or through others."""
    seen: set[int] = set()
    open_functions = [function]
    while open_functions:
        for value in used(open_functions.pop()):
            if module_of(value).startswith(SLOW_MODULES):
                return True
            if isinstance(value, types.FunctionType) and id(value) not in seen and of_tests(value):
                seen.add(id(value))
                open_functions.append(value)
    return False


def used(function: Callable[..., Any]) -> Iterator[Any]:
    """What the names in a function, its inner functions and its closure refer to."""
    function = getattr(function, "__wrapped__", function)
    if not isinstance(function, types.FunctionType):
        return
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
        for name in code.co_names:
            if name in function.__globals__:
                yield function.__globals__[name]
    for cell in function.__closure__ or ():
        yield cell.cell_contents


def module_of(value: Any) -> str:
    """The module that a value is, or comes from."""
    if isinstance(value, types.ModuleType):
        return value.__name__
    return getattr(value, "__module__", None) or type(value).__module__


def of_tests(function: types.FunctionType) -> bool:
    """Whether a function is one of the tests' own."""
    return TESTS in Path(function.__code__.co_filename).parents
