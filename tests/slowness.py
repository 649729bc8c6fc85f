"""Which tests are slow: those that reach a process, a training, a browser, a JVM or a real model.

A test is followed through its fixtures and the helpers of the tests to the names that it uses. What it
reaches decides, so a new test needs no mark of its own. `make check` runs the others.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from command import Forked

TESTS = Path(__file__).parent

ON_RAY = (
    "indexer/test_partition_actors.py",
    "indexer/test_on_ray.py",
    "indexer/test_cluster.py",
    "benchmarks/test_partitions.py",
    "app/serving/test_served_ray.py",
    "retriever/test_labels.py",
)
"""The files that use a Ray cluster: one after another and in one process, so that it starts once."""

LONGEST = (
    "end_to_end/test_docs.py",
    *ON_RAY,
    "benchmarks/test_benchmarks.py",
    "browser/test_index_page.py",
    "browser/test_search_page.py",
    "browser/test_first_visit.py",
    "end_to_end/test_wheel.py",
    "end_to_end/test_realdata.py",
    "end_to_end/test_killed.py",
    "reranker/test_pretrain.py",
    "browser/test_evaluation_page.py",
    "reranker/test_opening_at_once.py",
    "end_to_end/test_notebooks.py",
    "reranker/test_finetune.py",
    "retriever/test_training_runs.py",
    "end_to_end/test_portable.py",
    "indexer/test_faiss.py",
    "indexer/test_lucene.py",
    "end_to_end/test_damage_builds.py",
)
"""The files that take longest, which several processes take first, so that none works alone at the end."""

SLOW_MODULES = (
    "linkseek.app.evaluate",
    "linkseek.app.evaluation.runner",
    "concurrent.futures",
    "experiments.baselines",
    "experiments.tables.cells",
    "hypothesis",
    "linkseek.indexer.search.jvm",
    "linkseek.indexer.search.lucene_index",
    "multiprocessing",
    "openvino",
    "playwright",
    "linkseek.reranker.commands.finetune",
    "linkseek.reranker.models",
    "linkseek.reranker.commands.pretrain",
    "linkseek.reranker.training",
    "linkseek.retriever.commands.mlm",
    "linkseek.retriever.models.biencoder",
    "linkseek.retriever.models.engine",
    "linkseek.retriever.commands.train",
    "sentence_transformers",
    "signal",
    "streamlit.testing",
    "subprocess",
    "tracemalloc",
    "transformers",
    "uvicorn",
)
"""They start a process, server, JVM, page or model, train, evaluate, draw examples, or measure memory."""

SLOW_TESTS = {
    "test_a_great_many_of_anything",
    "test_a_manifest_altered_anywhere_causes_no_other_exception_than_ours",
    "test_a_mining_process_that_ends_is_the_machines_fault",
    "test_a_parsing_process_that_is_ended_is_told",
    "test_a_resumed_run_ends_with_the_same_bytes",
    "test_an_altered_default_encoder_is_refused",
    "test_any_order_of_builds_ends_as_a_fresh_one",
    "test_any_part_may_be_missing_or_wrong",
    "test_approximate_indexes_find_most_of_what_brute_force_finds",
    "test_damage_read_ahead_by_several_processes_is_counted_once_after_resuming",
    "test_damaged_leftovers_are_written_again",
    "test_deep_folders_do_not_recurse",
    "test_each_process_begins_as_told",
    "test_ict_keeps_the_sentence_once_in_ten_times",
    "test_opening_while_indexes_change_places_gives_one_or_the_other",
    "test_pathological_input_takes_seconds",
    "test_pyserini_folder_as_anserini_reads_it",
    "test_run_entries_end_to_end",
    "test_several_processes_give_the_same_file",
    "test_several_processes_stop_at_the_limit",
    "test_several_processes_write_the_same_as_one",
    "test_the_number_of_words_is_poisson_without_zero",
    "test_tokens_of_every_character_are_the_plain_ones",
    "test_tokens_show_the_same_as_the_tree_of_the_whole_page",
    "test_two_anchors_are_drawn_by_their_shares",
}
"""Tests of more than a second each that work hard without any of these modules; measured."""


def is_slow(item: pytest.Item) -> bool:
    """Whether a test, one of its fixtures, or what they call uses one of the slow modules."""
    if not isinstance(item, pytest.Function):
        return False
    if item.function.__name__ in SLOW_TESTS or hasattr(item.function, "hypothesis"):
        return True
    fixtures = item._fixtureinfo.name2fixturedefs.values()
    functions = [item.function, *(definition.func for group in fixtures for definition in group[-1:])]
    return any(reaches_slow(function) for function in functions)


def longest_first(items: list[pytest.Item]) -> None:
    """Put the tests of the longest files before all others, each file in its order."""
    place = {str(TESTS / name): number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(str(item.path), len(LONGEST)))


def unit_of(nodeid: str) -> str:
    """What a process of the suite takes at a time, of tests by their ids: a file, or all on Ray."""
    file = nodeid.partition("::")[0]
    return "on Ray" if file.endswith(ON_RAY) else file


@cache
def reaches_slow(function: Callable[..., Any]) -> bool:
    """Whether the code of a function of the tests uses a slow module, itself or through others."""
    seen: set[int] = set()
    open_functions = [function]
    while open_functions:
        for value in used(open_functions.pop()):
            if value is Forked or module_of(value).startswith(SLOW_MODULES):
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
