"""Indexes that change under load: updated, built again, damaged, gone; and processes that die."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from linkseek.app.serving import indexes as module
from linkseek.app.serving.indexes import NoSuchNameError, ServedIndexes
from linkseek.app.serving.options import IndexOptions
from linkseek.indexer.building.plan import BuildPlan
from linkseek.indexer.building.updating.changes import Changes
from linkseek.indexer.building.updating.growth import update_index
from linkseek.indexer.building.updating.mirror import Mirror, mirror_index
from linkseek.indexer.program.errors import DamagedIndexError, UsageError
from linkseek.indexer.readers.choices import ReadingOptions
from linkseek.indexer.readers.formats import open_reader
from tests.support.asynchronous import wait_until
from tests.support.command import ROOT, WITH_TESTS, free_port
from tests.support.damage import here
from tests.support.served import Client, build_planets, planet_rows, running, word_models
from tests.support.tiny.corpus import write_jsonl
from tests.support.tiny.index import WordEncoder


@contextmanager
def load(client: Client, threads: int = 4) -> Iterator[list[str]]:
    """Questions whose answers are checked, until the block ends; what went wrong."""
    over, wrong, asked = threading.Event(), [], []

    def ask(first: int) -> None:
        own, number = Client(client.url), first
        while not over.is_set():
            number = (number + 7) % 100
            try:
                answer = own.post("/retrieve", {"queries": [f"number{number}"], "topk": 1})
                texts = [hit["contents"] for hit in answer.json()["result"][0]]
                if answer.status_code != 200 or f"number{number} " not in texts[0]:
                    wrong.append(f"{number}: {answer.status_code} {texts}")
            except (OSError, KeyError, IndexError) as error:
                wrong.append(f"{number}: {error!r}")
            asked.append(number)

    workers = [threading.Thread(target=ask, args=(n,)) for n in range(threads)]
    for worker in workers:
        worker.start()
    try:
        yield wrong
        before = len(asked)
        wait_until(lambda: len(asked) > before + 20)
    finally:
        over.set()
        for worker in workers:
            worker.join()


def has(client: Client, word: str) -> bool:
    return bool(client.post("/retrieve", {"queries": [word], "topk": 1}).json()["result"][0])


def test_a_changed_index_is_picked_up_without_a_lost_request(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(module, "_SECONDS", 0.05)
    index = build_planets(tmp_path / "own", more=100)
    with running(index=[index], pipeline="hybrid") as client, load(client, 12) as wrong:
        for more in (110, 120):
            assert not client.get(f"/documents/n{more - 1}").ok
            build_planets(index, more=more)
            wait_until(lambda more=more: client.get(f"/documents/n{more - 1}").ok)
            assert f"number{more - 1} " in client.post("/retrieve", {"queries": [f"number{more - 1}"]}).text
        rows = planet_rows(119)
        rows[-1]["text"] = "The word renewed names it."
        corpus = write_jsonl(index.with_suffix(".jsonl"), rows)
        mirror = Mirror(corpus, ReadingOptions())
        mirror_index(index, mirror, BuildPlan(index), lambda name, title: WordEncoder())
        wait_until(lambda: not client.get("/documents/n119").ok)
        [hits] = client.post("/retrieve", {"queries": ["renewed"], "topk": 1}).json()["result"]
        assert "The word renewed names it." in hits[0]["contents"]
        for more in (121, 122):
            added = write_jsonl(tmp_path / "added.jsonl", planet_rows(more)[-1:])
            changes = Changes(open_reader(added), [])
            update_index(index, changes, BuildPlan(index), lambda name, title: WordEncoder())
            wait_until(lambda more=more: client.get(f"/documents/n{more - 1}").ok)
            assert f"number{more - 1} " in client.post("/retrieve", {"queries": [f"number{more - 1}"]}).text
    assert not wrong


def test_a_damaged_or_missing_new_version_leaves_the_old_one(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(module, "_SECONDS", 0.05)
    monkeypatch.setattr(module, "_AGAIN", 0.1)
    index, better = build_planets(tmp_path / "own", more=100), build_planets(tmp_path / "better", more=101)
    damaged = Path(shutil.copytree(better, tmp_path / "damaged"))
    (damaged / "links" / "target.npy").write_bytes(b"no array")
    errors = []
    with running(index=[index], pipeline="bm25") as client, load(client) as wrong:
        index.rename(tmp_path / "gone")
        assert has(client, "number99")
        damaged.rename(index)
        wait_until(lambda: errors.append(capsys.readouterr().err) or "cannot be opened" in "".join(errors))
        assert has(client, "number99") and not client.get("/documents/n100").ok
        index.rename(tmp_path / "damaged again")
        better.rename(index)
        wait_until(lambda: client.get("/documents/n100").ok)
    assert not wrong


def test_a_version_is_closed_after_its_last_request(tmp_path: Path) -> None:
    class Actors:
        missing = ()

        def __init__(self, index) -> None:  # type: ignore[no-untyped-def]
            self.index, self.stopped = index, False
            started.append(self)

        def stop(self) -> None:
            self.stopped = True

    started: list[Actors] = []
    index = build_planets(tmp_path / "own")
    indexes = ServedIndexes(IndexOptions(index=[index]), Actors, word_models())  # type: ignore[arg-type]
    served = indexes.named("own")
    old = served.service
    build_planets(index, more=1)
    served.refresh()
    assert served.service is not old and not started[0].stopped
    assert len(old.index.passages) + 1 == len(served.service.index.passages)
    del old
    assert [one.stopped for one in started] == [True, False]
    indexes.close()
    assert started[1].stopped


def test_a_part_opened_after_a_change_is_that_of_the_new_version(tmp_path: Path) -> None:
    index = build_planets(tmp_path / "own")
    served = ServedIndexes(IndexOptions(index=[index]), models=word_models()).named()
    build_planets(index, more=5)  # before anything has opened Lucene's part
    count = served.with_newest(lambda service: service.index.lucene().count)
    assert count == len(planet_rows(5))


def test_names_are_unique_and_known(tmp_path: Path, planets: Path) -> None:
    copied = shutil.copytree(planets, tmp_path / planets.name)
    with pytest.raises(UsageError, match="two indexes have the name planets"):
        ServedIndexes(IndexOptions(index=[planets, copied]))
    with pytest.raises(NoSuchNameError, match="planets"):
        ServedIndexes(IndexOptions(index=[planets])).named("planet")
    with pytest.raises(UsageError, match='no pipeline "bm52"'):
        ServedIndexes(IndexOptions(index=[planets], pipeline="bm52"))
    with pytest.raises(DamagedIndexError):
        ServedIndexes(IndexOptions(index=[tmp_path / "none"]))


# --- processes ---------------------------------------------------------------------------------------


@contextmanager
def process(*options: object, **environment: str) -> Iterator[tuple[subprocess.Popen[bytes], Client]]:
    port = free_port()
    started = subprocess.Popen(
        [sys.executable, "-m", "linkseek", "serve", *map(str, options)],
        env=WITH_TESTS | {"LINKSEEK_PORT": str(port), "LINKSEEK_PIPELINE": "bm25"} | environment,
        cwd=ROOT,
        stderr=subprocess.PIPE,
    )
    client = Client(f"http://127.0.0.1:{port}")

    def is_ready() -> bool:
        assert started.poll() is None, started.stderr and started.stderr.read()
        try:
            return client.get("/ready").ok
        except OSError:
            return False

    threading.Thread(target=lambda: started.stderr and [*started.stderr], daemon=True).start()
    try:
        wait_until(is_ready)
        yield started, client
    finally:
        if started.poll() is None:
            started.terminate()
        started.wait(150)


def test_sigterm_ends_it_with_success_after_what_it_took(planets: Path) -> None:
    with process("--index", planets) as (server, client):
        results: list[object] = []
        body = {"queries": [f"number{n}" for n in range(100)], "topk": 1}

        def ask() -> None:
            try:
                results.append(Client(client.url).post("/retrieve", body).status_code)
            except requests.exceptions.ConnectionError:
                results.append("refused")

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(results) > 0)
        server.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join()
        assert server.wait(30) == 0
        assert 200 in results and set(results) <= {200, "refused"}


def test_it_ends_whatever_runs(tmp_path: Path) -> None:
    """A native function that neither ends nor looks whether anybody waits for it."""
    program = tmp_path / "program.py"
    program.write_text("""
import asyncio, ctypes, threading
from linkseek.app.serving import server
from linkseek.app.serving.batches import RequestBatches
from linkseek.app.serving.options import ServeOptions

batches = RequestBatches(10)

def never_end(items):
    print("begun", flush=True)
    ctypes.CDLL(None).sleep(600)

async def answer(scope, receive, send):
    if scope["type"] != "lifespan":
        await batches.run("lane", "kind", [1], never_end)
    for word in ("startup", "shutdown"):
        await receive()
        if word == "shutdown":
            batches.close()
        await send({"type": f"lifespan.{word}.complete"})

options = ServeOptions(port=0, time_limit=1)
listening = server.listen(options)
print(server.address(listening), flush=True)
server.run(answer, listening, options)
""")
    with subprocess.Popen(
        [sys.executable, program], env=WITH_TESTS, cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as ended:
        assert ended.stdout
        url = ended.stdout.readline().strip()
        asked: list[object] = []

        def ask() -> None:
            try:
                asked.append(requests.get(url, timeout=600))
            except requests.exceptions.ConnectionError as error:
                asked.append(error)

        asking = threading.Thread(target=ask)
        asking.start()
        assert ended.stdout.readline() == "begun\n" and not asked
        ended.terminate()
        assert ended.wait(300) == 0  # the native function sleeps for 600 seconds
        asking.join(60)
        assert not asking.is_alive()


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--index", "none"], 4, "none"),
        (["--host", "0.0.0.0"], 2, "--token-file"),
        (["--pipelne", "x"], 2, "--pipeline"),
        (["--token-file", "none"], 3, "no such file"),
        (["--max-k", "0"], 2, "max-k"),
    ],
)
def test_what_cannot_be_served_is_an_error_of_the_command(options, code, message):
    done = here("serve", *options)
    assert done.returncode == code and message in done.stderr
