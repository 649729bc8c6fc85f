"""Downloads from a server on this machine: complete, cut off, altered, refused."""

import errno
import hashlib
import random
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from linkseek.app.testsets import download as module
from linkseek.app.testsets.definition import Places
from linkseek.app.testsets.download import WebFile, check, download
from linkseek.indexer.program.errors import InputError, MachineError
from tests.support.command import free_port

CONTENT = random.Random(7).randbytes(300_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves CONTENT; the attributes set its faults."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = CONTENT
        self.stop_after = None  # bytes of the body, then the connection ends
        self.length = True
        self.status = 200
        self.location = ""
        self.requests = []

    def file(self, **known):
        return WebFile(url=f"http://127.0.0.1:{self.server_port}/nq-test.qa.csv", **known)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        server.requests.append(dict(self.headers))
        if server.location:
            self.send_response(302)
            self.send_header("Location", server.location)
            self.end_headers()
            return
        if server.status != 200:
            self.send_error(server.status)
            return
        self.send_response(200)
        body = server.content
        if server.length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: server.stop_after])

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(module, "_SCHEMES", frozenset({"https", "http"}))
    with Server() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cache/nq-test.qa.csv"


def left(path):
    return sorted(p.name for p in path.parent.iterdir())


def test_a_complete_file_and_its_size_printed_first(server, path, capsys):
    download(server.file(size=len(CONTENT), sha256=SHA256), path)
    assert path.read_bytes() == CONTENT
    assert left(path) == ["nq-test.qa.csv", "nq-test.qa.csv.sha256"]
    assert f"downloading {server.file().url} (300.0 kB) to {path}" in capsys.readouterr().err
    assert server.requests[0]["Accept-Encoding"] == "identity"


def test_the_noted_hash_is_what_sha256sum_reads(server, path):
    download(server.file(), path)
    done = subprocess.run(["sha256sum", "-c", path.name + ".sha256"], cwd=path.parent, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_a_file_without_a_length_is_taken_as_it_comes(server, path, capsys):
    server.length = False
    download(server.file(), path)
    assert path.read_bytes() == CONTENT
    assert "size unknown" in capsys.readouterr().err


@pytest.mark.parametrize("known", [{}, {"size": len(CONTENT), "sha256": SHA256}])
def test_a_connection_that_ends_early_leaves_nothing(server, path, known):
    server.stop_after = 100_000
    with pytest.raises(MachineError) as caught:
        download(server.file(**known), path)
    assert "connection broke off" in caught.value.message
    assert "same command" in caught.value.hint
    assert f"put it at {path}" in caught.value.hint
    assert left(path) == []
    server.stop_after = None
    download(server.file(**known), path)
    assert path.read_bytes() == CONTENT


def test_progress_reaches_the_total(server, path, monkeypatch):
    counts = []

    @contextmanager
    def progress(label, total, unit):
        assert (label, total, unit) == ("nq-test.qa.csv", len(CONTENT), "bytes")
        yield counts.append

    monkeypatch.setattr(module, "progress", progress)
    download(server.file(), path)
    assert sum(counts) == len(CONTENT)


def test_a_full_disk_is_not_taken_for_a_network_error(server, path, monkeypatch):
    def full(*arguments, **keywords):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "atomic_file", full)
    with pytest.raises(OSError, match="No space left"):
        download(server.file(), path)


def test_what_a_killed_download_left_is_cleared(server, path, monkeypatch):
    download(server.file(), path)
    complete = ["nq-test.qa.csv", "nq-test.qa.csv.sha256"]
    path.with_name("nq-test.qa.csv.linkseek-tmp").mkdir()  # killed after the file was complete
    path.with_name("nq-test.qa.csv.linkseek-lock").touch()
    assert server.file().checked(Places(None, path.parent)) == path
    assert left(path) == complete


def test_a_wrong_hash_is_refused(server, path):
    with pytest.raises(InputError) as caught:
        download(server.file(sha256="0" * 64), path)
    assert SHA256 in caught.value.message and "0" * 64 in caught.value.message
    assert left(path) == []
    assert not path.exists()


def test_a_wrong_length_is_refused_before_the_transfer(server, path):
    with pytest.raises(InputError, match="the server has 300,000 bytes, expected 299,999"):
        download(server.file(size=299_999), path)
    assert left(path) == []


def test_a_wrong_length_without_content_length_is_refused(server, path):
    server.length = False
    with pytest.raises(MachineError, match="300,000 bytes arrived, expected 300,001"):
        download(server.file(size=300_001), path)
    assert not path.exists()


@pytest.mark.parametrize(("status", "reason"), [(404, "404 Client Error: Not Found"), (503, "503")])
def test_an_error_of_the_server(server, path, status, reason):
    server.status = status
    with pytest.raises(InputError) as caught:
        download(server.file(), path)
    assert reason in caught.value.message
    assert f"put it at {path}" in caught.value.hint
    assert left(path) == []


def test_no_network(monkeypatch, path):
    monkeypatch.setattr(module, "_SCHEMES", frozenset({"http"}))
    with pytest.raises(MachineError) as caught:
        download(WebFile(url=f"http://127.0.0.1:{free_port()}/a.csv"), path)
    assert "Connection refused" in caught.value.message
    assert f"put it at {path}" in caught.value.hint


@pytest.mark.parametrize("url", ["http://127.0.0.1/a.csv", "file:///etc/hostname", "ftp://127.0.0.1/a.csv"])
def test_only_https(url, path):
    with pytest.raises(InputError, match="only https"):
        download(WebFile(url=url), path)


def test_a_redirect_to_something_else_is_not_followed(server, path):
    server.location = "ftp://127.0.0.1/a.csv"
    with pytest.raises(InputError, match="only https"):
        download(server.file(), path)


def test_a_file_is_checked_at_every_use(server, path):
    download(server.file(), path)
    check(server.file(), path)
    path.write_bytes(CONTENT + b"!")
    with pytest.raises(InputError, match="the file was altered"):
        check(server.file(), path)


def test_a_removed_file_must_come_back_the_same(server, path):
    download(server.file(), path)
    path.unlink()
    server.content = b"another version"
    with pytest.raises(InputError, match=SHA256):
        download(server.file(), path)
    path.with_name(path.name + ".sha256").unlink()
    download(server.file(), path)
    assert path.read_bytes() == b"another version"


def test_a_file_that_was_put_there_by_hand_is_noted(path):
    path.parent.mkdir()
    path.write_bytes(CONTENT)
    check(WebFile(url="https://localhost/nq-test.qa.csv"), path)
    assert path.with_name(path.name + ".sha256").read_text() == f"{SHA256}  nq-test.qa.csv\n"
    path.write_bytes(b"")
    with pytest.raises(InputError, match="altered"):
        check(WebFile(url="https://localhost/nq-test.qa.csv"), path)
