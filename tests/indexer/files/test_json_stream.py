"""Cutting JSON into entries, against a parser that reads it whole."""

from __future__ import annotations

import json
import tracemalloc
from io import BytesIO
from typing import Any, BinaryIO, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkseek.indexer.files import json_stream
from linkseek.indexer.files.json_stream import first_keys, read_entries
from linkseek.indexer.program.errors import InputError

TEXTS = st.text(st.sampled_from('ab ,:[]{}"\\/\n\u2028é𝄞'), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


class Trickle:
    """A stream that gives `size` bytes at a time, so every cut falls somewhere."""

    def __init__(self, data: bytes, size: int) -> None:
        self.stream, self.size = BytesIO(data), size

    def read(self, _: int) -> bytes:
        return self.stream.read(self.size)


def entries(data: bytes, size: int = 1 << 18) -> list[bytes]:
    return list(read_entries(cast(BinaryIO, Trickle(data, size)), "F"))


@settings(deadline=None, max_examples=300)
@given(
    st.lists(VALUES) | st.dictionaries(TEXTS, VALUES),
    st.integers(1, 7),
    st.booleans(),
    st.sampled_from([None, 2]),
)
def test_entries_are_those_of_the_whole(value: Any, size: int, ascii_: bool, indent: int | None) -> None:
    data = json.dumps(value, ensure_ascii=ascii_, indent=indent).encode()
    found = entries(b"\xef\xbb\xbf \n" + data + b"\n ", size)
    if isinstance(value, list):
        assert [json.loads(entry) for entry in found] == value
    else:
        assert [json.loads(b"{%b}" % entry) for entry in found] == [{k: v} for k, v in value.items()]
    if isinstance(value, dict):
        assert first_keys(data) == {json.dumps(key, ensure_ascii=ascii_)[1:-1] for key in value}


def test_what_is_broken_inside_is_cut_out_all_the_same() -> None:
    data = b'[{"id": }, {"id": 1], {"a" "b"} , "\xff", nul, , {"id": 2}]'
    assert entries(data, 5) == [b'{"id": }', b'{"id": 1]', b'{"a" "b"}', b'"\xff"', b"nul", b"", b'{"id": 2}']


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "F: neither a JSON array nor"),
        (b"  \n", "F: neither a JSON array nor"),
        (b'"a"', "F: neither a JSON array nor"),
        (b"[", "F, after entry 0: the JSON ends early"),
        (b'[{"a": 1}, {"a": 2}', "F, after entry 1: the JSON ends early"),
        (b'[1, "]', "F, after entry 1: the JSON ends early"),
        (b'[1, "\\"]', "F, after entry 1: the JSON ends early"),
        (b"[1, 2]\n [3]", "F, after entry 2: text after the end of the JSON"),
        (b"[1, 2]]", "F, after entry 2: text after the end of the JSON"),
    ],
)
def test_a_broken_whole(data: bytes, problem: str) -> None:
    for size in (1, 3, 1000):
        with pytest.raises(InputError) as caught:
            entries(data, size)
        assert caught.value.message.startswith(problem)
        assert caught.value.hint


def test_what_is_before_the_break_is_given() -> None:
    reading = read_entries(BytesIO(b'[1, [2, 3], {"a'), "F")
    assert [next(reading), next(reading)] == [b"1", b"[2, 3]"]
    with pytest.raises(InputError, match="after entry 2"):
        next(reading)


def test_an_entry_without_end_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "MAX_RECORD", 1 << 20)
    data = b'[1, "' + b"x" * (3 << 20) + b'"]'
    with pytest.raises(InputError, match="after entry 1: an entry of more than 1,048,576 bytes") as caught:
        entries(data)
    assert "quotation mark" in caught.value.hint
    assert len(entries(data[:1000] + b'"]')) == 2


def test_memory_is_that_of_an_entry() -> None:
    data = (
        b"[" + b",\n".join(b'{"id": "%d", "contents": "%b"}' % (n, b"x" * 200) for n in range(40_000)) + b"]"
    )
    assert len(data) > 9_000_000
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_entries(BytesIO(data), "F")) == 40_000
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("head", "keys"),
    [
        (b' \xef\xbb\xbf{"a": 1, "b" : {"c": [{"d": 2}]}, "e": ":"}\n{"f": 1}', {"a", "b", "e"}),
        (b'{"a": "b\\": {", "c": "cut off \\"d\\": 1', {"a", "c"}),
        (b'{"a": {"b": 1', {"a"}),
        (b'[{"a": 1}]', {"a"}),
        (b'"a": 1', set()),
        (b"", set()),
    ],
)
def test_first_keys(head: bytes, keys: set[str]) -> None:
    assert first_keys(head) == keys
