"""Test sets by name: their questions and judgements, checked against their known counts and texts.

`sets/*.toml` and `corpora.toml` describe the test sets; each kind of source is a module (`files`, `irds`,
`letor`, `multi_hop`, `bioasq`). Nothing is downloaded unless that was asked for.
"""

from app.testsets.definition import Corpus, LoadedTestSet, TestSet
from app.testsets.registry import all_test_sets, find_test_set, open_test_set, places
from app.testsets.sources import Places

__all__ = [
    "Corpus",
    "LoadedTestSet",
    "Places",
    "TestSet",
    "all_test_sets",
    "find_test_set",
    "open_test_set",
    "places",
]
