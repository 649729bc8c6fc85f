"""A browser and one running application for all tests of this folder.

The application runs as people run it, on an index of the sample that is really built, with a second index
of hostile texts beside it. Debian's Chromium is used where there is one, or the one that CHROMIUM names, or
Playwright's own; without any, the tests say so and are skipped.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from benchmarks.sessions import running_application
from tests.browser.application import ROOT, SECONDS, Application
from tests.support.connections import Connections

sys.path.append(str(ROOT / "tests" / "app"))

from tests.support.tiny.index import build as build_small

HAS_RUN = """() => {
  const run = document.querySelector(".st-key-follow [data-left]");
  const parts = (address) => {
    const { pathname, searchParams } = new URL(address, document.baseURI);
    searchParams.sort();
    return pathname + "?" + searchParams;
  };
  return run && parts(run.dataset.left) === parts(location.href);
}"""

AT_ONCE = """
const animate = Element.prototype.animate;
Element.prototype.animate = function (...how) {
  const animation = animate.apply(this, how);
  animation.finish();
  return animation;
};
"""
"""What opens, opens at once: a click on a button that is still moving is lost."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, started once."""
    playwright_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    with playwright_api.sync_playwright() as playwright:
        own = Path(playwright.chromium.executable_path)
        names = ("chromium-headless-shell", "chromium")  # the first takes a third less time
        path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
        if path is None and not own.is_file():
            pytest.skip("there is no Chromium: apt-get install chromium, or playwright install chromium")
        args = ["--host-resolver-rules=MAP evil.example 127.0.0.1"]
        args += ["--no-sandbox"] if os.getuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=path, args=args)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def indexes(browser: Any, sample_index: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the index of the sample, and one of hostile texts."""
    folder = tmp_path_factory.mktemp("application") / "index"
    shutil.copytree(sample_index, folder / "sample")
    build_small(folder / "hostile", encoders=())
    return folder


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Application]]:
    """Start an application with an index that need not be there, and other options.

    Fails if one of them, or a job of theirs, connects to anything.
    """
    connections = Connections(tmp_path_factory.mktemp("recorded") / "connections")
    others = [Path(folder) for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    with ExitStack() as running:

        def start(index: Path, *options: str) -> Application:
            results = index.parent.parent / "results"
            with pytest.MonkeyPatch.context() as environment:  # of this application, not of later tests
                environment.setenv("PYTHONPATH", connections.python_path(*others))
                address = running.enter_context(
                    running_application(index, "--results", str(results), *options)
                )
            return Application(f"http://{address}", index.parent, results)

        yield start
    assert connections.recorded() == ""


@pytest.fixture(scope="session")
def application(indexes: Path, start: Callable[..., Application]) -> Application:
    """The application of all tests."""
    return start(indexes / "sample")


@pytest.fixture(scope="session")
def context(browser: Any) -> Iterator[Any]:
    """What all windows share: the scripts of the application are fetched and compiled once."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    context.set_default_timeout(SECONDS)
    context.add_init_script(AT_ONCE)
    context.on("page", lambda page: setattr(page, "runs", Runs(page)))
    yield context
    context.close()


@pytest.fixture
def page(context: Any) -> Iterator[Any]:
    """A new window. Fails if it asked anyone but the application for anything, or a script failed.

    What the policy of the pages has blocked is a failure too.
    """
    page = context.new_page()
    asked: set[str] = set()
    errors: list[str] = []
    page.on("request", lambda request: asked.add(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on(
        "console", lambda said: errors.append(said.text) if "Content Security Policy" in said.text else None
    )
    page.on("dialog", lambda dialog: errors.append(f"a script ran: {dialog.message}"))
    yield page
    for each in context.pages:
        each.close()
    strangers = {url for url in asked if urlsplit(url).hostname not in ("localhost", None)}
    assert not {url for url in strangers if not url.startswith(("data:", "blob:"))}
    assert not errors


class Runs:
    """Whether the script of a page has been asked to run, runs, or rests, by the messages of the page.

    ended: how many runs have ended by themselves. messages: how many the application has sent.
    """

    def __init__(self, page: Any) -> None:
        self.state, self.ended, self.messages = "resting", 0, 0
        page.on("websocket", self._open)

    def _open(self, socket: Any) -> None:
        socket.on("framesent", self._sent)
        socket.on("framereceived", self._received)
        socket.on("close", lambda _: setattr(self, "state", "resting"))

    def _sent(self, message: bytes | str) -> None:
        if BackMsg.FromString(message).WhichOneof("type") == "rerun_script":
            self.state = "asked"

    def _received(self, message: bytes | str) -> None:
        self.messages += 1
        sent = ForwardMsg.FromString(message)
        if sent.WhichOneof("type") == "new_session" and self.state == "asked":
            self.state = "running"
        elif sent.WhichOneof("type") == "script_finished" and self.state == "running":
            early = sent.script_finished == ForwardMsg.FINISHED_EARLY_FOR_RERUN
            self.state = "asked" if early else "resting"
            self.ended += not early


@pytest.fixture
def settled() -> Callable[[Any], None]:
    """Wait until a page stands still: its script has run for all that was done, and nothing is stale.

    A click changes the address at once, and a widget asks for a run at once, but the run starts a moment
    later.
    """

    def settled(page: Any) -> None:
        page.wait_for_function(HAS_RUN)
        page.wait_for_function("() => new Promise(done => requestAnimationFrame(() => done(true)))")
        until = time.monotonic() + SECONDS / 1000
        while page.runs.state != "resting":
            assert time.monotonic() < until, "a script does not end"
            page.wait_for_timeout(20)
        page.wait_for_selector('.stApp[data-test-script-state="notRunning"]')
        page.wait_for_function("!document.querySelector('[data-stale=\"true\"]')")

    return settled
