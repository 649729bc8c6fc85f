"""Encoding on a Ray cluster: actors, with an encoder each, get one missing shard after another.

    this process   hands out numbers of shards, checks each by its hash, and links it into its place
    actor          one a GPU, or one a machine without GPUs; writes shards into a folder of its own

A shard has the bytes that it has without Ray, so it does not matter which actor made it, nor how often one
that died or hung was replaced (`indexer.machine.cluster`).

The folder of the build lies on a file system that all machines share, or shards travel through an object
store: each is sent with its texts, and published there under the hash of what it is made from, its record
last. So a build that was interrupted finds what its actors had finished.
"""

from __future__ import annotations

import hashlib
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, as_completed, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import orjson

from linkseek.indexer.encoding.batches import Parallel
from linkseek.indexer.encoding.encode import Encoder, EncoderFacts, OnRows, encode_shards
from linkseek.indexer.encoding.shards import Shard, adopt_shard, read_shard
from linkseek.indexer.encoding.tokenizing import Texts
from linkseek.indexer.files.object_store import ObjectStore
from linkseek.indexer.machine.cluster import Actors, ClusterQuestion, connected
from linkseek.indexer.program.errors import MachineError
from linkseek.indexer.program.log import log_line
from linkseek.indexer.store.manifests import Reading

_PATIENCE = 30.0
_FOLDER = "ray-"


@contextmanager
def on_ray(
    address: str | None,
    open_encoder: Callable[[str, bool], Encoder],
    device: str,
    store: ObjectStore | None = None,
) -> Iterator[Callable[[str, bool], Encoder]]:
    """`open_encoder` on a Ray cluster at an address; the function itself without one.

    device: cpu for one actor per machine, even if there are GPUs. store: through which shards travel; without
    it the folder of the build is on all machines. Raises the errors of `connected` and of the actors.
    """
    if address is None:
        yield open_encoder
        return
    actors: list[_Encoders] = []

    def open_there(name: str, title: bool) -> Encoder:
        for earlier in actors:  # whose resources the next ones need
            earlier.stop()
        actors.append(_Encoders(ray, partial(open_encoder, name, title), store, gpus=device != "cpu"))
        return actors[-1].encoder()

    with connected(address) as ray:
        yield open_there


@dataclass(frozen=True)
class _EncodedPart:
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


class _OpenEncoder:
    """The encoder of an actor."""

    def __init__(self, open_encoder: Callable[[], Encoder]) -> None:
        self._encoder = open_encoder()

    def facts(self) -> EncoderFacts:
        return EncoderFacts.of(self._encoder)

    def reading(self, texts: Sequence[str]) -> Reading:
        return self._encoder.reading(texts)

    def encode(self, texts: Texts, target: Path | _Parcel, number: int) -> tuple[EncoderFacts, str]:
        """Send one shard, or write it into a new folder in the target, whose name is returned."""
        if isinstance(target, _Parcel):
            with TemporaryDirectory() as own:
                [shard] = encode_shards(self._encoder, texts, Path(own), iter([number]))
                target.send(shard)
            return self.facts(), ""
        if not target.is_dir():
            raise MachineError(
                f"{target}: not on every machine of the cluster",
                "Choose an --index on a file system that all machines share, or use --store.",
            )
        attempt = target / uuid4().hex  # one that is only out of reach may still write into its own
        attempt.mkdir()
        for _ in encode_shards(self._encoder, texts, attempt, iter([number])):
            pass
        return self.facts(), attempt.name


@dataclass(frozen=True)
class _Task:
    """A shard that an actor encodes, and a folder for it."""

    number: int
    texts: Texts
    folder: Path
    parcel: _Parcel | None = None

    def take(self, folder: Path, attempt: str = "") -> Shard | None:
        """Move the finished shard into `folder`; None if it was altered on its way."""
        if self.parcel:
            self.parcel.fetch(self.folder, self.number)
        shard = read_shard(self.folder / attempt, self.number)
        if shard:
            adopt_shard(shard, folder)
        if self.parcel:
            self.parcel.remove()
        return shard


class _Encoders:
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
        self._count = devices or len(cores)
        self._actors = Actors(
            ray, self._count, _OpenEncoder, [open_encoder], patience=_PATIENCE, any_first=True, **needs
        )
        self._store = store

    def encoder(self) -> Encoder:
        """The encoder, as the first actor that has opened it describes it."""
        question = ClusterQuestion(_OpenEncoder.facts)
        opening = [self._actors.ask(question, "the encoder") for _ in range(self._count)]
        self._facts: EncoderFacts = next(as_completed(opening)).result()
        log_line(f"--ray: {self._count} encoders on the cluster")
        elsewhere = Parallel(elsewhere=self.encode)
        encoder: EncoderFacts = replace(self._facts, parallel=elsewhere, reading=self.reading)
        return encoder

    def reading(self, texts: Sequence[str]) -> Reading:
        """How the encoder reads texts. Before `encode`, which ends the actors."""
        reading: Reading = self._actors.ask(
            ClusterQuestion(_OpenEncoder.reading, (texts,)), "the encoder"
        ).result()
        return reading

    def encode(self, texts: Texts, folder: Path, missing: Sequence[int], on_rows: OnRows) -> None:
        """Have all missing shards written into `folder`. Raises the first error of an actor."""
        self._remove_folders(folder)  # of a build that was killed
        sent = self._store.names() if self._store else set()
        waiting, running = deque(missing), dict[Future[tuple[EncoderFacts, str]], _Task]()
        try:
            while waiting or running:
                while waiting and len(running) < 2 * self._count:
                    task = self._task(texts, folder, waiting.popleft())
                    before = task.parcel and f"{task.parcel.name}.json" in sent  # by an earlier run
                    if before and (shard := task.take(folder)):
                        on_rows(shard.rows)
                    else:
                        running[self._submit(task)] = task
                for future in wait(running, timeout=0.5, return_when=FIRST_COMPLETED).done:
                    task, (facts, attempt) = running.pop(future), future.result()
                    self._check(facts)
                    if shard := task.take(folder, attempt):
                        on_rows(shard.rows)
                    else:  # altered on its way
                        waiting.append(task.number)
                on_rows(0)  # raises if another stage has failed
        finally:
            self.stop()
            self._remove_folders(folder)

    def stop(self) -> None:
        """End all actors, also those that are busy."""
        self._actors.shutdown(cancel_futures=True)

    def _task(self, texts: Texts, folder: Path, number: int) -> _Task:
        own = folder / f"{_FOLDER}{uuid4().hex}"
        own.mkdir()
        if self._store is None:
            return _Task(number, texts, own)
        first = number * self._facts.shard_rows
        stop = min(first + self._facts.shard_rows, len(texts))
        part = _EncodedPart(len(texts), first, *texts.read(first, stop))
        made_from = [self._facts.identity, self._facts.execution, first, part.titles, part.texts]
        name = hashlib.sha256(orjson.dumps(made_from)).hexdigest()
        return _Task(number, part, own, _Parcel(self._store, name))

    def _submit(self, task: _Task) -> Future[tuple[EncoderFacts, str]]:
        arguments = (task.texts, task.parcel or task.folder, task.number)
        return self._actors.ask(ClusterQuestion(_OpenEncoder.encode, arguments), f"shard {task.number}")

    def _check(self, facts: EncoderFacts) -> None:
        if facts != self._facts:
            raise MachineError(
                f"the machines of the cluster differ: {facts.execution}, {self._facts.execution}",
                "Use machines of one kind, with the same versions and the same model.",
            )

    @staticmethod
    def _remove_folders(folder: Path) -> None:
        for own in folder.glob(f"{_FOLDER}*"):
            shutil.rmtree(own, ignore_errors=True)
