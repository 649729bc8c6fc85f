"""bzip2 files of many streams give what one thread makes of them, and the same errors."""

from __future__ import annotations

import bz2
import random
import re
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkseek.indexer.files import bzip2
from linkseek.indexer.files.bzip2 import decompress_ahead
from linkseek.indexer.files.sources import ByteSource
from linkseek.indexer.program.errors import InputError

CONTENTS = st.lists(st.binary(max_size=300) | st.sampled_from([b"", b"a" * 50_000]), max_size=12)


def read(path: Path) -> bytes:
    with ByteSource(path) as source:
        return source.readall()


def many_streams(count: int = 40, seed: int = 0) -> tuple[bytes, list[bytes]]:
    draw = random.Random(seed)
    contents = [draw.randbytes(draw.randint(0, 5000)) for _ in range(count)]
    return b"".join(contents), [bz2.compress(content) for content in contents]


@given(CONTENTS, st.integers(1, 400))
@settings(max_examples=60, deadline=None)
def test_pieces_are_the_file_and_their_contents_what_it_holds(contents, chunk):
    streams = [bz2.compress(content) for content in contents]
    data = b"".join(streams)
    found = list(decompress_ahead(data[at : at + chunk] for at in range(0, len(data), chunk)))
    assert [piece for piece, _ in found] == streams
    assert [content for _, content in found] == contents


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("_MAX_COMPRESSED", 300),  # no piece is a whole stream
        ("_MAX_COMPRESSED", 3000),
        ("_MAX_CONTENT", 1000),
        ("_START", re.compile(rb"[\x00-\x03]")),  # a stream seems to begin everywhere
        ("_START", re.compile(rb"BZ|Ah")),
        ("_THREADS", 1),
    ],
)
def test_whatever_is_no_whole_stream_is_read_in_order(tmp_path, monkeypatch, name, value):
    monkeypatch.setattr(bzip2, name, value)
    content, streams = many_streams()
    (tmp_path / "a.bz2").write_bytes(b"".join(streams) + bytes(100))  # padding
    assert read(tmp_path / "a.bz2") == content


def test_several_threads_decompress(monkeypatch):
    threads: set[int] = set()
    both = threading.Barrier(2, timeout=60)

    def watched(piece: bytes) -> bytes:
        if threading.get_ident() not in threads:
            threads.add(threading.get_ident())
            both.wait()
        return bz2.decompress(piece)

    monkeypatch.setattr(bzip2, "_decompress", watched)
    monkeypatch.setattr(bzip2.os, "cpu_count", lambda: 2)
    content, streams = many_streams()
    assert b"".join(found or b"" for _, found in decompress_ahead(streams)) == content
    assert len(threads) == 2


@pytest.mark.parametrize("at", [0.001, 0.3, 0.6, 0.999])
def test_what_is_cut_off_or_damaged_is_told_and_what_comes_before_is_read(tmp_path, at):
    content, streams = many_streams()
    data = b"".join(streams)
    place = int(at * len(data)) + 12
    for name, spoilt, reason in [
        ("cut.bz2", data[:place], "cut off"),
        ("damaged.bz2", data[:place] + b"\xff" * 30 + data[place + 30 :], ""),
    ]:
        (tmp_path / name).write_bytes(spoilt)
        pieces = []
        with pytest.raises(InputError, match=rf"{name}: .*{reason}"), ByteSource(tmp_path / name) as source:
            while piece := source.read(1000):
                pieces.append(piece)
        found = b"".join(pieces)
        assert content.startswith(found)
        whole = [len(stream) for stream in streams]
        until = sum(1 for n in range(len(whole)) if sum(whole[: n + 1]) <= at * len(data))
        assert len(found) >= sum(len(bz2.decompress(stream)) for stream in streams[:until])


def test_a_reader_that_stops_early_leaves_no_threads_and_waits_for_none(tmp_path, monkeypatch):
    content, streams = many_streams(400)
    (tmp_path / "a.bz2").write_bytes(b"".join(streams))
    started, waited = {*threading.enumerate()}, list[bool]()
    with ByteSource(tmp_path / "a.bz2") as source, monkeypatch.context() as patched:
        assert source.read(10) == content[:10]
        started = {*threading.enumerate()} - started
        assert started
        patched.setattr(threading.Thread, "join", lambda *_: waited.append(True))
        source.close()
    assert not waited
    for thread in started:
        thread.join(60)
        assert not thread.is_alive()
