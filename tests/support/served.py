"""A service over a small linked index, in this process but on a real socket, and a client."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests
import uvicorn

from linkseek.app.pipelines.open_models import Models
from linkseek.app.serving import server as serving
from linkseek.app.serving.application import create
from linkseek.app.serving.options import ServeOptions
from tests.support.asynchronous import wait_until
from tests.support.tiny.index import WordEncoder, WordScorer, built

PLANETS = {
    "Mars": (
        "Mars",
        "Mars is the red planet. Its moon is Phobos, and it follows Earth.",
        ["Phobos", "Earth"],
    ),
    "Phobos": ("Phobos", "Phobos is a moon that goes around Mars in eight hours.", ["Mars"]),
    "Earth": ("Earth", "Earth is the blue planet, the home of whales and violins.", []),
    "Venus": (
        "Venus\nin two lines",
        "Venus is the hottest planet, and has no moon. Earth is next.",
        ["Earth"],
    ),
    "a/b ?#c": ("", "An id with slashes: a violin without a title, made of maple.", []),
}


def planet_rows(more: int = 0) -> list[dict[str, Any]]:
    rows = []
    for id_, (title, text, targets) in PLANETS.items():
        links = [
            {"start": text.index(one), "end": text.index(one) + len(one), "target": one} for one in targets
        ]
        url = f"https://planets.example/wiki/{id_}" if title else ""
        rows.append({"id": id_, "title": title, "text": text, "links": links, "url": url})
    for n in range(more):
        rows.append(
            {"id": f"n{n}", "title": f"Number {n}", "text": f"The word number{n} names it.", "links": []}
        )
    return rows


def build_planets(folder: Path, more: int = 0) -> Path:
    return built(folder, planet_rows(more), encoders=["words"]).path


def word_models() -> Models:
    return Models(lambda location: WordEncoder(), lambda *wanted: WordScorer())


class Client:
    """Asks a service that runs."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.session = requests.Session()

    def post(self, path: str, body: Any, **more: Any) -> requests.Response:
        return self.session.post(self.url + path, json=body, timeout=30, **more)

    def get(self, path: str, **more: Any) -> requests.Response:
        return self.session.get(self.url + path, timeout=30, **more)

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.url.removeprefix("http://").partition(":")
        return host, int(port)


@contextmanager
def running(models: Models | None = None, **options: Any) -> Iterator[Client]:
    """A service until the block ends; it must have ended by itself then."""
    chosen = ServeOptions(port=0, **options)
    application = create(chosen, models=models or word_models())
    listening = serving.listen(chosen)
    server = uvicorn.Server(serving.configuration(application, chosen))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        client = Client(serving.address(listening))
        wait_until(lambda: client.get("/ready").ok)
        yield client
    finally:
        server.should_exit = True
        thread.join(20)
        listening.close()
        assert not thread.is_alive()
