"""The files of deploy/ for nginx and Caddy, in front of a service, where they are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from tests.support.asynchronous import wait_until
from tests.support.command import ROOT, free_port
from tests.support.served import Client, running

HOST = "search.example.org"
# nginx ignores the user if it is not started by root
NGINX = "user root;\nevents {{}}\npid {0}/pid;\nhttp {{\naccess_log off;\n{1}}}"


@contextmanager
def proxy(*command: object, folder: Path, url: str) -> Iterator[requests.Session]:
    if not shutil.which(str(command[0])):
        pytest.skip(f"{command[0]} is not installed")
    session = requests.Session()
    session.headers["Host"], session.verify, session.trust_env = HOST, False, False

    def answers() -> bool:
        assert started.poll() is None, (folder / "errors").read_text()
        try:
            return session.get(f"{url}/none", timeout=9).status_code > 0
        except requests.ConnectionError:
            return False

    environment = os.environ | {"XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    with (folder / "errors").open("wb") as errors:
        started = subprocess.Popen([*map(str, command)], stderr=errors, env=environment, cwd=folder)
    try:
        wait_until(answers)
        yield session
    finally:
        started.terminate()
        started.wait(30)


@pytest.fixture(scope="module")
def behind(planets: Path) -> Iterator[Client]:
    with running(index=[planets], pipeline="bm25", allow_host=[HOST]) as client:
        yield client


def check(session: requests.Session, url: str, path: str) -> None:
    """Search, tools, description and page of the service below a path."""
    found = session.post(f"{url}{path}/search", json={"questions": ["red planet"]}, timeout=30)
    assert found.json()["answers"][0]["hits"][0]["id"] == "Mars#0"
    described = session.get(f"{url}{path}/openapi.json", timeout=30).json()
    assert described.get("servers") == ([{"url": path}] if path else None)
    assert "openapi.json" in session.get(f"{url}{path}/", timeout=30).text
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    accept = {"Accept": "application/json, text/event-stream"}
    assert session.post(f"{url}{path}/mcp", json=ping, headers=accept, timeout=30).json()["id"] == 1
    assert session.get(f"{url}{path}/documents/a%2Fb%20%3F%23c", timeout=30).json()["id"] == "a/b ?#c"


@pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")
def test_nginx(behind: Client, tmp_path: Path) -> None:
    """With TLS and the page's login; at the root and below a path."""
    port, address = free_port(), behind.url.removeprefix("http://")
    if shutil.which("openssl"):
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={HOST}"]
        files = ["-keyout", tmp_path / "search.key", "-out", tmp_path / "search.pem"]
        subprocess.run([*command, *files], check=True, capture_output=True)
    (tmp_path / "page.users").write_text("me:{PLAIN}secret")
    text = (ROOT / "deploy" / "nginx.conf").read_text()
    below = text.replace("location / {", "location /api/ { proxy_set_header X-Forwarded-Prefix /api;")
    for path, written in (
        ("", text),
        ("/api", below.replace("proxy_pass http://linkseek;", "proxy_pass http://linkseek/;")),
    ):
        for old, new in (
            ("443", f"127.0.0.1:{port}"),
            ("10.0.0.1:8000", address),
            ("server 10.0.0.2:8000;", ""),
            ("127.0.0.1:8501", address),
            ("/etc/ssl/certs", tmp_path),
            ("/etc/ssl/private", tmp_path),
            ("/etc/nginx", tmp_path),
        ):
            assert old in written
            written = written.replace(old, str(new))
        (tmp_path / "conf").write_text(NGINX.format(tmp_path, written))
        url = f"https://127.0.0.1:{port}"
        command = ["nginx", "-p", tmp_path, "-c", tmp_path / "conf", "-g", "daemon off; error_log stderr;"]
        with proxy(*command, folder=tmp_path, url=url) as session:
            check(session, url, path)
            assert session.get(f"{url}/page/", timeout=30).status_code == 401
            assert (
                session.get(f"{url}/page/", auth=("me", "secret"), timeout=30).status_code == 404
            )  # of ours


def test_caddy(behind: Client, tmp_path: Path) -> None:
    port = free_port()
    text = (ROOT / "deploy" / "Caddyfile").read_text().replace("127.0.0.1:8000", behind.url)
    text = text.replace(f"\n{HOST} {{", f"\nhttp://{HOST}:{port} {{")
    (tmp_path / "Caddyfile").write_text(f"{{\n\tadmin off\n}}\n{text}")
    url = f"http://127.0.0.1:{port}"
    command = ["caddy", "run", "--adapter", "caddyfile", "--config", tmp_path / "Caddyfile"]
    with proxy(*command, folder=tmp_path, url=url) as session:
        session.headers["Host"] = f"{HOST}:{port}"
        check(session, url, "/api")
        assert session.get(f"{url}/api", timeout=30, allow_redirects=False).headers["location"] == "/api/"
        assert session.get(f"{url}/page/", timeout=30).status_code == 401
