"""The running application, by both commands that start it: whom it answers, and that it connects to nothing.

Requests are written to a socket by hand, as clients of HTTP do not write hostile ones. The folder that the
application is started from, and the home folder, hold settings of Streamlit that would switch its checks off.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from psutil import Process

from tests.support.command import ROOT, free_port, python
from tests.support.connections import Connections

DOORS = {
    "linkseek": ["-m", "linkseek", "app"],
    "streamlit": ["-m", "streamlit", "run", str(ROOT / "app" / "main.py")],
}
WEAK_SETTINGS = """
[server]
address = "0.0.0.0"
enableCORS = false
enableXsrfProtection = false
corsAllowedOrigins = ["http://evil.example"]
[browser]
gatherUsageStats = true
[logger]
hideWelcomeMessage = false
"""


@dataclass(frozen=True)
class Server:
    process: subprocess.Popen[str]
    port: int
    connections: Connections

    def send(self, *lines: str, target: str = "GET / HTTP/1.1") -> tuple[int, str]:
        """A request of these header lines: the status of the response, and its head in lower case."""
        request = "\r\n".join([target, *lines, "", ""]).replace("PORT", str(self.port))
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(request.encode("latin-1"))
            head = b""
            while b"\r\n\r\n" not in head and (received := connection.recv(65536)):
                head += received
        text = head.partition(b"\r\n\r\n")[0].decode("latin-1")
        return int(text.split(" ", 2)[1]), text.lower()

    def open(self, host: str, *origins: str) -> int:
        """The status of an upgrade to the WebSocket through which a page shows and does everything."""
        lines = [f"Host: {host}", *(f"Origin: {origin}" for origin in origins)]
        lines += ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"]
        lines += ["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
        return self.send(*lines, target="GET /_stcore/stream HTTP/1.1")[0]


def start(folder: Path, door: str, *options: str, own: tuple[str, ...] = ()) -> Server:
    (folder / ".streamlit").mkdir()
    (folder / ".streamlit" / "config.toml").write_text(WEAK_SETTINGS)
    connections, port = Connections(folder / "connections"), free_port()
    words = [*DOORS[door], "--server.port", str(port), *options, *(["--"] * (door == "streamlit")), *own]
    process = subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": connections.python_path(ROOT), "HOME": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    server = Server(process, port, connections)
    for _ in range(600):
        assert process.poll() is None, process.communicate()[0]
        try:
            server.send("Host: localhost", target="GET /_stcore/health HTTP/1.1")
            return server
        except OSError:
            time.sleep(0.1)
    process.kill()
    raise AssertionError("the application does not answer")


@pytest.fixture(scope="module", params=DOORS)
def local(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """As it is started by default, with one allowed name; it says where it is, and ends when asked."""
    own = ("--allow-host", "search.example.org")
    server = start(tmp_path_factory.mktemp("local"), request.param, own=own)
    ports = [(one.laddr, one.status) for one in Process(server.process.pid).net_connections()]
    assert {at.ip for at, status in ports if status == "LISTEN" and at.port == server.port} == {"127.0.0.1"}
    yield server
    server.process.send_signal(signal.SIGINT if request.param == "linkseek" else signal.SIGTERM)
    output = server.process.communicate(timeout=60)[0]
    assert re.search(rf"^Linkseek is at http://localhost:{server.port}\. Ctrl-C ends it\.$", output, re.M)
    assert "Traceback" not in output and server.process.returncode == 0
    assert server.connections.recorded() == ""


# tests/app/rendering/test_hosts.py has all kinds of them
OWN = ["localhost:PORT", "[::1]:PORT", "search.example.org"]
FOREIGN = ["evil.example:PORT", "", "10.1.2.3:PORT"]
PATHS = ["GET /", "GET /_stcore/health", "GET /static/x", "GET /_stcore/agent/openapi.json"]
PATHS += ["PUT /_stcore/upload_file/a/b"]


def test_its_own_pages_work(local):
    for host in OWN:
        status, head = local.send(f"Host: {host}")
        assert status == 200
        assert "frame-ancestors 'self'" in head and "x-content-type-options: nosniff" in head
        scheme = "https" if host == "search.example.org" else "http"
        assert local.open(host, f"{scheme}://{host}".lower().replace("port", "PORT")) == 101
        assert local.open(host) == 101  # programs send no origin


def test_a_name_that_was_made_to_resolve_to_this_machine_is_not_answered(local):
    for host in FOREIGN:
        for path in PATHS:
            assert local.send(f"Host: {host}", "Content-Length: 0", target=f"{path} HTTP/1.1")[0] == 421
        assert local.open(host, f"http://{host}") == local.open(host) == 403
    assert local.send(target="GET / HTTP/1.0")[0] == 421
    assert local.send("Host: localhost", "Host: evil.example")[0] in (400, 421)
    assert local.send("Host: evil.example", target="GET http://localhost/ HTTP/1.1")[0] == 421


def test_pages_of_other_sites_are_refused_and_nobody_is_asked(local):
    for origin in ("http://evil.example", "http://localhost:3000", "null"):
        assert local.open("localhost:PORT", origin) == 403
        assert local.open("localhost:PORT", "http://localhost:PORT", origin) in (400, 403)
        assert local.send("Host: localhost:PORT", f"Origin: {origin}")[0] == 403
    assert local.open("localhost:PORT", "https://search.example.org:8443") == 101  # a proxy replaced the host
    assert local.open("localhost:PORT", "https://other.example.org") == 403


def test_settings_of_other_folders_do_not_switch_checks_off(local):
    status, head = local.send("Host: localhost:PORT", target="GET /_stcore/health HTTP/1.1")
    assert status == 200 and "access-control-allow-origin" not in head
    for path in ("/_stcore/upload_file/a/b", "/_stcore/upload_file/../upload_file/a/b"):
        refused = local.send("Host: localhost:PORT", "Content-Length: 0", target=f"PUT {path} HTTP/1.1")
        assert refused[0] in (400, 403) and "access-control-allow-origin: *" not in refused[1]


def test_for_other_machines_addresses_and_the_name_of_this_one_are_answered(tmp_path):
    server = start(tmp_path, "linkseek", "--server.address", "0.0.0.0")
    for host in ("10.1.2.3:PORT", f"{socket.gethostname()}:PORT"):
        assert server.send(f"Host: {host}")[0] == 200
        assert server.open(host, f"http://{host}") == 101
        assert server.open(host, "http://evil.example") == 403
    assert server.send("Host: evil.example:PORT")[0] == 421
    server.process.kill()
    server.process.communicate()


def test_options_are_checked_before_it_starts(tmp_path):
    words = [*DOORS["streamlit"], "--", "--allow-host=http://a"]
    done = python(*words, cwd=tmp_path)
    assert done.returncode == 2 and "error: " in done.stderr and "Traceback" not in done.stderr
