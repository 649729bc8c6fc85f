"""The lines that contrasts are kept in: there and back, and whatever is wrong with one."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from linkseek.indexer.program.errors import InputError
from linkseek.reranker.contrasts import Contrast, TextPair, contrast_line, number_contrasts
from linkseek.retriever.mining.pairs import write_lines

CONTRAST = Contrast(
    TextPair("the moth's lamp", "It flew.", "Moth", ((4, 8), (11, 15))),
    (TextPair("the moth's lamp", "It crept.", "Bug"), TextPair("a lamp", "It flew.", "Moth", ((2, 6),))),
    "php-hp",
    {"segment": "Moth#0"},
)


def test_a_line_leaves_out_what_a_worse_pair_shares() -> None:
    assert json.loads(contrast_line(CONTRAST)) == {
        "objective": "php-hp",
        "better": {
            "query": "the moth's lamp",
            "title": "Moth",
            "document": "It flew.",
            "anchors": [[4, 8], [11, 15]],
        },
        "worse": [{"title": "Bug", "document": "It crept."}, {"query": "a lamp", "anchors": [[2, 6]]}],
        "evidence": {"segment": "Moth#0"},
    }


@pytest.mark.parametrize("name", ["c.jsonl", "c.jsonl.zst"])
def test_there_and_back(tmp_path: Path, name: str) -> None:
    plain = Contrast(TextPair("q\u2028", "d"), (TextPair("q\u2028", "e"),), "prop")
    assert write_lines(tmp_path / name, map(contrast_line, [CONTRAST, plain])) == 2
    assert list(number_contrasts(tmp_path / name)) == [(1, CONTRAST), (2, plain)]
    assert not list(tmp_path.glob("*.linkseek-*"))


_TEXT = st.text(st.characters(codec="utf-8"), min_size=1).filter(str.strip)


@st.composite
def text_pairs(draw: st.DrawFn) -> TextPair:
    query = draw(_TEXT)
    bounds = draw(st.lists(st.integers(0, len(query)), unique=True, max_size=6).map(sorted))
    spans = tuple(zip(bounds[::2], bounds[1::2], strict=False))
    return TextPair(query, draw(_TEXT), draw(st.sampled_from(["", "Title", "Titel 2"])), spans)


@given(text_pairs(), st.lists(text_pairs(), min_size=1, max_size=3), st.booleans())
def test_any_contrast_comes_back(tmp_path_factory, better, worse, same):
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    if same:
        worse = [TextPair(better.query, pair.document, pair.title, better.anchors) for pair in worse]
    contrast = Contrast(better, tuple(worse), "wlp")
    write_lines(path, [contrast_line(contrast)])
    assert list(number_contrasts(path)) == [(1, contrast)]


def test_an_other_program_reads_it(tmp_path: Path) -> None:
    """zstd's own tool; the texts stand there as they are."""
    write_lines(tmp_path / "c.jsonl.zst", [contrast_line(CONTRAST)])
    try:
        done = subprocess.run(["zstd", "-dc", tmp_path / "c.jsonl.zst"], capture_output=True, check=True)
    except FileNotFoundError:
        pytest.skip("zstd is not installed")
    assert json.loads(done.stdout)["better"]["document"] == "It flew."


def line(**changes: Any) -> str:
    row = {"objective": "prop", "better": {"query": "ab", "document": "d"}, "worse": [{"document": "e"}]}
    return json.dumps({key: value for key, value in (row | changes).items() if value is not ...})


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("{", "line 2: not JSON"),
        ("[]", "line 2: expected a JSON object, found list"),
        (line(objective=...), '"objective" is missing, expected a text'),
        (line(objective="pop"), "\"objective\" is 'pop', which is unknown"),
        (line(better=...), '"better" is NoneType, expected an object'),
        (line(better={"document": "d"}), '"better": "query" is missing, expected a text'),
        (line(better={"query": " ", "document": "d"}), '"better": "query" is empty'),
        (line(better={"query": "a", "document": 5}), '"better": "document" is int, expected a text'),
        (line(better={"query": "a", "document": ""}), '"better": "document" is empty'),
        (line(worse=[]), '"worse" must be a list with at least one pair'),
        (line(worse=["e"]), '"worse" 1 is str, expected an object'),
        (line(worse=[{}, {"title": "t"}]), '"worse" 2: "document" is missing'),
        (line(worse=[{"anchors": [[0, 3]]}]), '"worse" 1: "anchors" contains [0, 3]'),
        (line(worse=[{"anchors": [[1, 2], [0, 1]]}]), '"anchors" contains [0, 1]'),
        (line(worse=[{"anchors": [[1, True]]}]), '"anchors" contains [1, True]'),
        (line(worse=[{"anchors": 7}]), '"anchors" contains 7'),
        (line(evidence=[]), '"evidence" is list, expected an object'),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, bad: str, message: str) -> None:
    (tmp_path / "c.jsonl").write_text(f"{line()}\n{bad}\n", "utf-8")
    found = number_contrasts(tmp_path / "c.jsonl", known=["prop", "php-hp"])
    assert next(found)[1].objective == "prop"
    with pytest.raises(InputError) as caught:
        next(found)
    assert "c.jsonl, line 2" in caught.value.message and message in caught.value.message
    assert caught.value.hint


def test_a_text_of_many_contrasts_takes_its_space_once_where_they_are_compressed(tmp_path):
    draw = random.Random(1)
    other, far = (" ".join(draw.choices("abcdefghij", k=300_000)) for _ in range(2))
    contrasts = [
        Contrast(TextPair(f"q{n}", text), (TextPair(f"q{n}", "x"),), "php-hp")
        for n, text in enumerate([far, *[other + str(n) for n in range(12)], far])
    ]
    path = tmp_path / "c.jsonl.zst"
    write_lines(path, map(contrast_line, contrasts))
    assert list(number_contrasts(path)) == list(enumerate(contrasts, 1))
    both = sum(len(zstandard.compress(text.encode())) for text in (other, far))
    assert path.stat().st_size < 1.1 * both
