"""What a web site that a user visits can do with the application of the same machine, in a real browser."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest

FRAME = '<iframe src="{0}"></iframe>'
SOCKET = """<script>
const socket = new WebSocket("{0}".replace("http", "ws") + "/_stcore/stream", ["streamlit"]);
socket.onopen = () => document.title = "open";
socket.onerror = () => document.title = "refused";
</script>"""
POST = '<form method="post" action="{0}/"><button>Send</button></form>'


@pytest.fixture(scope="module")
def address(start: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An application without an index."""
    return str(start(tmp_path_factory.mktemp("sites") / "index" / "none").address)


@pytest.fixture
def site(browser: Any, address: str) -> Iterator[Any]:
    """Opens a page of another site, which names the application's address where it says {0}.

    The site is served on this machine too, since browsers themselves restrict sites of other machines.
    """
    pages: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(pages[-1])

    context = browser.new_context()
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def site(html: str) -> Any:
            pages.append(html.replace("{0}", address).encode())
            page = context.new_page()
            page.goto(f"http://127.0.0.1:{server.server_port}/")
            return page

        yield site
        server.shutdown()
    context.close()


def test_a_name_that_the_site_made_resolve_to_this_machine_shows_nothing(browser, address):
    """DNS rebinding: to the browser, the site and the application are of one origin."""
    context = browser.new_context()
    page = context.new_page()
    response = page.goto(f"http://evil.example:{urlsplit(address).port}/index")
    assert response.status == 421 and "--allow-host NAME" in page.inner_text("body")
    statuses = page.evaluate("""async () => {
        const answer = await fetch("/_stcore/health");
        const socket = new WebSocket(`ws://${location.host}/_stcore/stream`, ["streamlit"]);
        return [answer.status, await new Promise((done) => {
            socket.onopen = () => done("open");
            socket.onerror = () => done("refused");
        })];
    }""")
    assert statuses == [421, "refused"]
    context.close()


def test_the_same_page_opens_under_its_own_name(page, address, settled):
    page.goto(address)
    settled(page)
    assert page.locator(".stApp").count() == 1


def test_a_site_cannot_open_the_connection_of_a_page(site):
    page = site(SOCKET)
    page.wait_for_function("document.title")
    assert page.title() == "refused"


def test_a_site_cannot_show_the_application_in_a_frame(site, address):
    page = site(FRAME)
    page.wait_for_function("frames.length === 1")
    page.wait_for_load_state("networkidle")
    (frame,) = page.main_frame.child_frames
    assert not frame.url.startswith(address) and frame.locator(".stApp").count() == 0


def test_a_form_of_a_site_is_refused(site, address):
    page = site(POST)
    with page.expect_response(f"{address}/") as answer:
        page.click("button")
    assert answer.value.status == 403
