"""Encoding on a Ray cluster: actors, with an encoder each, get one missing shard after another.

    this process   hands out numbers of shards, checks each by its hash, and links it into its place
    actor          one a GPU, or one a machine without GPUs; writes shards into a folder of its own

A shard has the bytes that it has without Ray, so whoever made it does not matter. The shard of an actor that
died is handed out again, and the actor replaced. A shard that takes several times as long as any before is
given to an idle actor as well; the first that finishes counts.

The folder of the build lies on a file system that all machines share, or shards travel through an object
store: each is sent with its texts, and published there under the hash of what it is made from, its record
last. So a build that was interrupted finds what its actors had finished.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import orjson

from linkseek.indexer.base.cluster import connected
from linkseek.indexer.base.errors import LinkseekError, MachineError
from linkseek.indexer.base.log import log_line
from linkseek.indexer.encoding.batches import Parallel
from linkseek.indexer.encoding.encode import Encoder, OnRows, encode_shards
from linkseek.indexer.encoding.facts import EncoderFacts
from linkseek.indexer.encoding.shards import Shard, adopt_shard, read_shard
from linkseek.indexer.encoding.tokenizing import Texts
from linkseek.indexer.files.object_store import ObjectStore

_DEATHS = 3
"""Actors that one shard may end: it is then its fault, not theirs."""
_LATE = 4.0
_PATIENCE = 30.0
"""A shard is late that takes `_LATE` times as long as the slowest before it, and so many seconds more."""
_FOLDER = "ray-"


@contextmanager
def on_ray(
    address: str | None,
    open_encoder: Callable[[str, bool], Encoder],
    device: str,
    store: ObjectStore | None = None,
) -> Iterator[Callable[[str, bool], Encoder]]:
    """`open_encoder` on a Ray cluster at an address; the function itself without one.

    device: cpu for an actor a machine, even if there are GPUs. store: through which shards travel; without it
    the folder of the build is on all machines. Raises the errors of `connected`; those of an actor are raised
    here.
    """
    if address is None:
        yield open_encoder
        return
    actors: list[_Actors] = []

    def open_there(name: str, title: bool) -> Encoder:
        for earlier in actors:  # whose resources the next ones need
            earlier.stop()
        actors.append(_Actors(ray, partial(open_encoder, name, title), store, gpus=device != "cpu"))
        return actors[-1].encoder()

    with connected(address) as ray:
        yield open_there


@dataclass(frozen=True)
class _Part:
    """The texts of one shard, as `Texts` of all rows, of which only these are read."""

    rows: int
    first: int
    titles: Sequence[str]
    texts: Sequence[str]

    def __len__(self) -> int:
        return self.rows

    def read(self, start: int, stop: int) -> tuple[Sequence[str], Sequence[str]]:
        chosen = slice(start - self.first, stop - self.first)
        return self.titles[chosen], self.texts[chosen]


@dataclass(frozen=True)
class _Parcel:
    """One shard in an object store: its array, and its record, which is there only with the array."""

    store: ObjectStore
    name: str

    def send(self, shard: Shard) -> None:
        for suffix in (".npy", ".json"):
            self.store.put(shard.path.with_suffix(suffix), self.name + suffix)

    def fetch(self, folder: Path, number: int) -> None:
        for suffix in (".npy", ".json"):
            self.store.get(self.name + suffix, folder / f"{number:05d}{suffix}")

    def remove(self) -> None:
        for suffix in (".json", ".npy"):
            self.store.remove(self.name + suffix)


class _Worker:
    """The actor."""

    def __init__(self, open_encoder: Callable[[], Encoder]) -> None:
        self._open = open_encoder

    @cached_property
    def _encoder(self) -> Encoder:
        return self._open()

    def facts(self) -> EncoderFacts:
        return EncoderFacts.of(self._encoder)

    def encode(self, texts: Texts, target: Path | _Parcel, number: int) -> None:
        """Write one shard into a folder, or send it."""
        if isinstance(target, _Parcel):
            with TemporaryDirectory() as own:
                [shard] = encode_shards(self._encoder, texts, Path(own), iter([number]))
                target.send(shard)
            return
        if not target.is_dir():
            raise MachineError(
                f"{target}: not on every machine of the cluster",
                "Choose an --index on a file system that all machines share, or use --store.",
            )
        for _ in encode_shards(self._encoder, texts, target, iter([number])):
            pass


@dataclass(frozen=True)
class _Task:
    """A shard that an actor encodes, or the opening of its encoder (number None)."""

    number: int | None
    texts: Texts | None = None
    folder: Path | None = None
    parcel: _Parcel | None = None
    actor: Any = None
    started: float = 0.0

    def take(self, folder: Path) -> Shard | None:
        """Move the finished shard into `folder`; None if it was altered on its way."""
        if self.folder is None or self.number is None:
            return None
        if self.parcel:
            self.parcel.fetch(self.folder, self.number)
        shard = read_shard(self.folder, self.number)
        if shard:
            adopt_shard(shard, folder)
        self.forget()
        return shard

    def forget(self) -> None:
        """Remove what the store has of it."""
        if self.parcel:
            self.parcel.remove()


class _Actors:
    """The actors of one encoder."""

    def __init__(
        self, ray: Any, open_encoder: Callable[[], Encoder], store: ObjectStore | None, *, gpus: bool
    ) -> None:
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        cores = [int(node["CPU"]) for node in nodes if node.get("CPU", 0) >= 1]
        devices = int(sum(node.get("GPU", 0) for node in nodes)) if gpus else 0
        if not devices and not cores:
            raise MachineError("--ray: the cluster has neither GPUs nor cores", "Add machines to it.")
        needs = {"num_gpus": 1, "num_cpus": 0} if devices else {"num_cpus": min(cores)}
        self._ray = ray
        self._class = ray.remote(**needs)(_Worker)
        self._open = open_encoder
        self._store = store
        self._running: dict[Any, _Task] = {}
        self._idle: list[Any] = []
        self._facts: EncoderFacts | None = None
        self._lost: Counter[int | None] = Counter()
        self.count = devices or len(cores)
        for _ in range(self.count):
            self._start()

    def encoder(self) -> Encoder:
        """The encoder, as the first actor that has opened it describes it."""
        while self._facts is None:
            self._finished()
        log_line(f"--ray: {self.count} encoders on the cluster")
        return replace(self._facts, parallel=Parallel(elsewhere=self.encode))

    def encode(self, texts: Texts, folder: Path, missing: Sequence[int], on_rows: OnRows) -> None:
        """Have all missing shards written into `folder`. Raises the first error of an actor."""
        for leftover in folder.glob(f"{_FOLDER}*"):  # of a build that was killed
            shutil.rmtree(leftover)
        if sent := self._store.names() if self._store else set():
            missing = [
                number for number in missing if not self._sent_before(sent, texts, folder, number, on_rows)
            ]
        waiting, left, slowest = deque(missing), set(missing), 0.0
        try:
            while left:
                while self._idle and (waiting or self._late(slowest)):
                    number = waiting.popleft() if waiting else self._late(slowest)[0]
                    self._submit(self._task(texts, folder, number))
                for task, lost in self._finished():
                    if task.number not in left:
                        task.forget()
                    elif lost:
                        waiting.appendleft(task.number)
                    elif shard := task.take(folder):
                        left.remove(task.number)
                        slowest = max(slowest, time.monotonic() - task.started)
                        on_rows(shard.rows)
                    else:
                        waiting.append(task.number)  # altered on its way
                on_rows(0)  # raises if another stage has failed
        finally:
            late = [task for task in self._running.values() if task.number not in left]
            self.stop()
            for task in late:
                task.forget()
            for own in folder.glob(f"{_FOLDER}*"):
                shutil.rmtree(own, ignore_errors=True)

    def stop(self) -> None:
        """End all actors, also those that are busy."""
        for actor in [*self._idle, *(task.actor for task in self._running.values())]:
            self._ray.kill(actor)
        self._idle, self._running = [], {}

    def _start(self) -> None:
        actor = self._class.remote(self._open)
        self._running[actor.facts.remote()] = _Task(None, actor=actor)

    def _task(self, texts: Texts, folder: Path, number: int) -> _Task:
        own = folder / f"{_FOLDER}{uuid4().hex}"
        own.mkdir()
        if self._store is None:
            return _Task(number, texts, own)
        assert self._facts is not None
        first = number * self._facts.shard_rows
        stop = min(first + self._facts.shard_rows, len(texts))
        part = _Part(len(texts), first, *texts.read(first, stop))
        made_from = [self._facts.identity, self._facts.execution, first, part.titles, part.texts]
        name = hashlib.sha256(orjson.dumps(made_from)).hexdigest()
        return _Task(number, part, own, _Parcel(self._store, name))

    def _sent_before(self, sent: set[str], texts: Texts, folder: Path, number: int, on_rows: OnRows) -> bool:
        """Whether an earlier run has left a shard in the store; it is taken from there."""
        task = self._task(texts, folder, number)
        shard = task.take(folder) if task.parcel and f"{task.parcel.name}.json" in sent else None
        if shard:
            on_rows(shard.rows)
        return shard is not None

    def _submit(self, task: _Task) -> None:
        actor = self._idle.pop()
        reference = actor.encode.remote(task.texts, task.parcel or task.folder, task.number)
        self._running[reference] = replace(task, actor=actor, started=time.monotonic())

    def _late(self, slowest: float) -> list[int]:
        """The shards that take far too long and that one actor alone has."""
        limit = time.monotonic() - _LATE * slowest - _PATIENCE
        late = {task.number for task in self._running.values() if slowest and task.started < limit}
        numbers = Counter(task.number for task in self._running.values())
        return [number for number in late if number is not None and numbers[number] == 1]

    def _finished(self) -> list[tuple[_Task, bool]]:
        """The tasks that have ended since the last call, and whether their actor died; waits for a moment."""
        done, _ = self._ray.wait(list(self._running), num_returns=1, timeout=0.5)
        ended = []
        for reference in done:
            task = self._running.pop(reference)
            try:
                result = self._ray.get(reference)
            except self._ray.exceptions.RayActorError as error:
                self._replace(task, " ".join(str(error).split()))
                ended.append((task, True))
                continue
            except self._ray.exceptions.RayTaskError as error:
                if isinstance(error.cause, LinkseekError):
                    raise error.cause from None
                raise
            if task.number is None:
                self._check(result)
            self._idle.append(task.actor)
            ended.append((task, False))
        return ended

    def _replace(self, task: _Task, reason: str) -> None:
        self._ray.kill(task.actor)  # it may only be out of reach, and would keep its cores
        self._lost[task.number] += 1
        what = "its opening" if task.number is None else f"shard {task.number}"
        log_line(f"--ray: an actor died during {what}, another one takes its place")
        if self._lost[task.number] >= _DEATHS:
            raise MachineError(
                f"--ray: {_DEATHS} actors died during {what} (out of memory?): {reason[-400:]}",
                "See Ray's logs; run the same command to resume.",
            )
        self._start()

    def _check(self, facts: EncoderFacts) -> None:
        if self._facts is None:
            self._facts = facts
        if facts != self._facts:
            raise MachineError(
                f"the machines of the cluster differ: {facts.execution}, {self._facts.execution}",
                "Use machines of one kind, with the same versions and the same model.",
            )
