"""Test sets by name: their questions and judgements, checked against their known counts and texts.

`sets/*.toml` and `corpora.toml` describe the test sets; each kind of source is a class (in `files`,
`download`, `irds`). Nothing is downloaded unless that was asked for.
"""

from linkseek.app.testsets import download, files, irds  # noqa: F401 - the kinds of sources
from linkseek.app.testsets.definition import LoadedTestSet
from linkseek.app.testsets.registry import add_test_sets, all_test_sets, find_test_set, open_test_set, places

__all__ = ["LoadedTestSet", "add_test_sets", "all_test_sets", "find_test_set", "open_test_set", "places"]
