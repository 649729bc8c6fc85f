"""Any few pieces of markup, repeated: read, or refused by name, in little time; and any address of a page.

The examples are the same in every run. A longer search: `make fuzz`. What it finds becomes a pattern in
`test_bounds.py`.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks.doubling import PIECES, read
from linkseek.app.rendering.addresses import read_article_view, read_evaluation_view, read_search_view
from linkseek.indexer.program.errors import InputError
from tests.support.fuzzing import examples

SIZE = 4_000  # characters: the square of it, at a microsecond each, would be 16 seconds


@pytest.mark.parametrize("name", PIECES)
def test_repeated_markup_takes_little_time(name: str, tmp_path: Path) -> None:
    @examples(20)
    @given(st.lists(st.sampled_from(PIECES[name]), min_size=1, max_size=6).map("".join).filter(bool))
    def run(pattern: str) -> None:
        started = time.process_time()
        try:
            read(name, pattern * (SIZE // len(pattern)), tmp_path / "text")
        except InputError as error:
            assert error.hint
        assert time.process_time() - started < 5, repr(pattern)

    run()


_VALUES = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ["", "1", "-1", "9" * 5000, "٣", "²", "1e9", "nan", "a\0b", "\udcff", "../x", "pairs", "bm25"]
    ),
)
_NAMES = (
    "q pipelines k grouped chart why id passage find show first objectives contrasts report part measure pair"
)
_PARAMS = st.dictionaries(
    st.sampled_from(f"{_NAMES} pair shown sort index".split()), st.lists(_VALUES, max_size=4), max_size=5
)


@examples(150)
@given(_PARAMS)
@example({"first": ["0"]})
def test_any_address_of_a_page_is_a_view(params: dict[str, list[str]]) -> None:
    view = read_search_view(params, ["bm25", "dense"], ("bm25", "dense"))
    assert set(view.pipelines) <= {"bm25", "dense"} and view.k > 0
    article = read_article_view(params)
    assert article.first >= 1
    assert read_evaluation_view(params).first >= 1
