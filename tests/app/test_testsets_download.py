"""Downloads from a server on this machine: whole, interrupted, gone on with, altered, refused."""

import fcntl
import hashlib
import random
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from command import free_port

from app.testsets import download as module
from app.testsets.download import WebFile, check, download
from indexer.base.errors import BusyError, InputError, MachineError

CONTENT = random.Random(7).randbytes(300_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Gives CONTENT; the attributes say how badly."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = CONTENT
        self.etag = '"one"'
        self.ranges = True
        self.stop_after = None  # bytes of the body, then the connection ends
        self.length = True
        self.status = 200
        self.location = ""
        self.requests = []

    def file(self, **known):
        return WebFile(f"http://127.0.0.1:{self.server_port}/nq-test.qa.csv", **known)


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
        start = 0
        wanted = self.headers.get("Range", "")
        if server.ranges and wanted and self.headers.get("If-Range") == server.etag:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(server.content):
                self.send_error(416)
                return
            self.send_response(206)
            self.send_header(
                "Content-Range", f"bytes {start}-{len(server.content) - 1}/{len(server.content)}"
            )
        else:
            self.send_response(200)
        body = server.content[start:]
        if server.length:
            self.send_header("Content-Length", str(len(body)))
        if server.etag:
            self.send_header("ETag", server.etag)
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


def test_a_whole_file_with_its_size_told_first(server, path, capsys):
    download(server.file(size=len(CONTENT), sha256=SHA256), path)
    assert path.read_bytes() == CONTENT
    assert left(path) == ["nq-test.qa.csv", "nq-test.qa.csv.sha256"]
    told = capsys.readouterr().err
    assert f"downloading {server.file().url} (300.0 kB) to {path}" in told
    assert server.requests[0]["Accept-Encoding"] == "identity"
    assert "Range" not in server.requests[0]


def test_the_noted_hash_is_what_sha256sum_reads(server, path):
    download(server.file(), path)
    done = subprocess.run(["sha256sum", "-c", path.name + ".sha256"], cwd=path.parent, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_a_file_without_a_length_is_taken_as_it_comes(server, path, capsys):
    server.length = False
    download(server.file(), path)
    assert path.read_bytes() == CONTENT
    assert "size unknown" in capsys.readouterr().err


def interrupted(server, path, after=100_000):
    server.stop_after = after
    with pytest.raises(MachineError, match=f"ended after {after:,} of 300,000 bytes|broke off"):
        download(server.file(), path)
    server.stop_after = None
    assert not path.exists()
    return path.with_name(path.name + ".part")


def test_an_interrupted_download_goes_on(server, path, capsys):
    part = interrupted(server, path)
    assert part.read_bytes() == CONTENT[:100_000]
    download(server.file(sha256=SHA256), path)
    assert path.read_bytes() == CONTENT
    assert server.requests[1]["Range"] == "bytes=100000-"
    assert server.requests[1]["If-Range"] == '"one"'
    assert "100.0 kB of it are here" in capsys.readouterr().err
    assert left(path) == ["nq-test.qa.csv", "nq-test.qa.csv.sha256"]


def test_the_error_of_an_interruption_says_what_to_do(server, path):
    server.stop_after = 5
    with pytest.raises(MachineError) as caught:
        download(server.file(), path)
    assert "same command" in caught.value.hint
    assert f"put it at {path}" in caught.value.hint


def test_another_version_on_the_server_begins_anew(server, path):
    interrupted(server, path)
    server.content, server.etag = CONTENT[::-1], '"two"'
    download(server.file(), path)
    assert path.read_bytes() == CONTENT[::-1]


def test_a_server_without_ranges_begins_anew(server, path):
    interrupted(server, path)
    server.ranges = False
    download(server.file(sha256=SHA256), path)
    assert path.read_bytes() == CONTENT
    assert "Range" in server.requests[1]


def test_without_a_name_for_the_version_nothing_is_joined(server, path):
    server.etag = ""
    interrupted(server, path)
    download(server.file(sha256=SHA256), path)
    assert "Range" not in server.requests[1]
    assert path.read_bytes() == CONTENT


def test_a_weak_etag_does_not_name_a_version(server, path):
    server.etag = 'W/"one"'
    interrupted(server, path)
    download(server.file(sha256=SHA256), path)
    assert "Range" not in server.requests[1]
    assert path.read_bytes() == CONTENT


def test_a_part_that_is_already_whole_begins_anew(server, path):
    part = interrupted(server, path)
    part.write_bytes(CONTENT)
    download(server.file(sha256=SHA256), path)
    assert path.read_bytes() == CONTENT
    assert len(server.requests) == 3


def test_a_part_that_was_altered_is_found_out(server, path):
    part = interrupted(server, path)
    part.write_bytes(b"x" * 100_000)
    with pytest.raises(InputError, match=f"expected {SHA256}"):
        download(server.file(sha256=SHA256), path)
    assert not part.exists()
    assert not path.exists()
    download(server.file(sha256=SHA256), path)
    assert path.read_bytes() == CONTENT


def test_a_wrong_hash_is_refused(server, path):
    with pytest.raises(InputError) as caught:
        download(server.file(sha256="0" * 64), path)
    assert f"is {SHA256}, expected {'0' * 64}" in caught.value.message
    assert not path.exists()


def test_a_wrong_length_is_refused_before_anything_comes(server, path):
    with pytest.raises(InputError, match="the server has 300,000 bytes, expected 299,999"):
        download(server.file(size=299_999), path)
    assert left(path) == []


def test_a_wrong_length_without_content_length_is_refused(server, path):
    server.length = False
    with pytest.raises(MachineError, match="ended after 300,000 of 300,001 bytes"):
        download(server.file(size=300_001), path)
    assert not path.exists()


@pytest.mark.parametrize(("status", "reason"), [(404, "404 (Not Found)"), (503, "503")])
def test_what_the_server_refuses(server, path, status, reason):
    server.status = status
    with pytest.raises(InputError) as caught:
        download(server.file(), path)
    assert reason in caught.value.message
    assert f"put it at {path}" in caught.value.hint
    assert left(path) == []


def test_no_network(monkeypatch, path):
    monkeypatch.setattr(module, "_SCHEMES", frozenset({"http"}))
    with pytest.raises(MachineError) as caught:
        download(WebFile(f"http://127.0.0.1:{free_port()}/a.csv"), path)
    assert "Connection refused" in caught.value.message
    assert f"put it at {path}" in caught.value.hint


@pytest.mark.parametrize("url", ["http://127.0.0.1/a.csv", "file:///etc/hostname", "ftp://127.0.0.1/a.csv"])
def test_only_https(url, path):
    with pytest.raises(InputError, match="only https"):
        download(WebFile(url), path)


def test_a_redirect_to_something_else_is_not_followed(server, path):
    server.location = "ftp://127.0.0.1/a.csv"
    with pytest.raises(InputError, match="which is not https"):
        download(server.file(), path)


def test_another_process_that_downloads_it(server, path):
    path.parent.mkdir(parents=True)
    with path.with_name(path.name + ".part").open("ab") as part:
        fcntl.flock(part, fcntl.LOCK_EX)
        with pytest.raises(BusyError, match="another process"):
            download(server.file(), path)


def test_a_file_is_checked_ever_after(server, path):
    download(server.file(), path)
    check(server.file(), path)
    path.write_bytes(CONTENT + b"!")
    with pytest.raises(InputError, match="the file was altered"):
        check(server.file(), path)


def test_a_removed_file_must_come_back_the_same(server, path):
    download(server.file(), path)
    path.unlink()
    server.content = b"another version"
    with pytest.raises(InputError, match=f"expected {SHA256}"):
        download(server.file(), path)
    path.with_name(path.name + ".sha256").unlink()
    download(server.file(), path)
    assert path.read_bytes() == b"another version"


def test_a_file_that_was_put_there_by_hand_is_noted(path):
    path.parent.mkdir()
    path.write_bytes(CONTENT)
    check(WebFile("https://localhost/nq-test.qa.csv"), path)
    assert path.with_name(path.name + ".sha256").read_text() == f"{SHA256}  nq-test.qa.csv\n"
    path.write_bytes(b"")
    with pytest.raises(InputError, match="altered"):
        check(WebFile("https://localhost/nq-test.qa.csv"), path)


def test_parts_of_two_versions_are_never_joined(server, path):
    interrupted(server, path)
    server.content, server.etag = CONTENT[::-1], '"two"'
    part = interrupted(server, path, after=50_000)
    assert part.read_bytes() == CONTENT[::-1][:50_000]
    download(server.file(), path)
    assert server.requests[-1]["Range"] == "bytes=50000-"
    assert path.read_bytes() == CONTENT[::-1]
