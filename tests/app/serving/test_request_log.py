"""The log of requests on a disk that is full for a while."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest

from linkseek.app.serving import monitoring
from linkseek.app.serving.monitoring import RequestLog


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_loses_lines_alone_and_is_reported_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lost: list[None] = []
    path = tmp_path / "log"
    log = RequestLog(path, lambda: lost.append(None))
    log.write({"n": 0})
    with files_of_at_most(path.stat().st_size):
        for n in range(1, 50):
            log.write({"n": n})
    assert len(lost) == 49
    for n in range(50, 60):
        log.write({"n": n})
    with files_of_at_most(1):
        log.write({"n": 60})
        log.close()
    assert len(lost) == 50 and capsys.readouterr().err.count(f"{path}: ") == 1
    assert [orjson.loads(line)["n"] for line in path.read_bytes().splitlines()] == [0, *range(50, 60)]


def test_a_file_is_renewed_after_a_renewal_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitoring, "_BYTES", 150)
    lost: list[None] = []
    path = tmp_path / "log"
    log = RequestLog(path, lambda: lost.append(None))
    log.write({"n": 0, "text": "x" * 80})
    with files_of_at_most(0):
        log.write({"n": 1})
        log.write({"n": 2})
    assert len(lost) == 2
    for n in range(3, 7):
        log.write({"n": n, "text": "x" * 80})
    log.close()
    files = [path, *(tmp_path / f"log.{n}" for n in range(1, 6) if (tmp_path / f"log.{n}").exists())]
    lines = [orjson.loads(line)["n"] for file in files for line in file.read_bytes().splitlines()]
    assert sorted(lines) == [0, 3, 4, 5, 6] and len(lost) == 2


@pytest.mark.parametrize("cut", [1, 20, 40])
def test_a_line_that_was_cut_is_ended_before_the_next(tmp_path: Path, cut: int) -> None:
    lost: list[None] = []
    path = tmp_path / "log"
    log = RequestLog(path, lambda: lost.append(None))
    log.write({"n": 0})
    with files_of_at_most(path.stat().st_size + cut):
        log.write({"n": 1})
        log.write({"n": 2})
    assert len(lost) == 2 and not path.read_bytes().endswith(b"\n")
    log.write({"n": 3})
    log.close()
    path.write_bytes(path.read_bytes() + b'{"time')  # a process that was killed
    again = RequestLog(path)
    again.write({"n": 4})
    again.close()
    first, fragment, third, other, last = path.read_bytes().splitlines()
    assert [orjson.loads(line)["n"] for line in (first, third, last)] == [0, 3, 4]
    assert len(fragment) == cut and other == b'{"time'
