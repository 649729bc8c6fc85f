"""The log of requests on a disk that is full for a while."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest

from linkseek.app.context import question_log
from linkseek.app.serving.monitoring import RequestLog
from tests.support.served import running


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_loses_lines_alone_and_is_reported_once(tmp_path, capsys):
    lost: list[None] = []
    path = tmp_path / "log"
    log = RequestLog(path, lambda: lost.append(None))
    log.write({"n": 0})
    with files_of_at_most(path.stat().st_size):
        for n in range(1, 50):
            log.write({"n": n})
    for n in range(50, 60):
        log.write({"n": n})
    assert len(lost) == 49 and capsys.readouterr().err.count(f"{path}: ") == 1
    assert [orjson.loads(line)["n"] for line in path.read_bytes().splitlines()] == [0, *range(50, 60)]


def test_a_file_is_renewed_after_a_renewal_on_a_full_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(question_log, "_BYTES", 150)
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
    files = (tmp_path / "log.1", path)  # of one line each
    lines = [orjson.loads(line)["n"] for file in files for line in file.read_bytes().splitlines()]
    assert lines == [5, 6] and len(lost) == 2


@pytest.mark.parametrize("cut", [1, 20, 40])
def test_no_part_of_a_line_stays(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "log"
    log = RequestLog(path)
    log.write({"n": 0})
    with files_of_at_most(path.stat().st_size + cut):
        log.write({"n": 1})
    log.write({"n": 2})
    assert [orjson.loads(line)["n"] for line in path.read_bytes().splitlines()] == [0, 2]


def test_the_questions_of_slow_requests_are_logged(planets: Path, tmp_path: Path) -> None:
    """With their stages; none of the others."""
    for limit, expected in ((1e-6, ["red planet"]), (600.0, None)):
        log = tmp_path / f"log-{limit}"
        with running(index=[planets], pipeline="bm25", log_file=log, log_slow=limit) as client:
            assert client.post("/search", {"questions": ["red planet"]}).ok
        [line] = [one for one in map(orjson.loads, log.read_bytes().splitlines()) if "stages" in one]
        assert line.get("asked") == expected and "read passages" in line["stages"]
