"""The indexes of a service. One that changes is opened next to its old version, then replaces it.

Requests keep the version that they began with; it is closed when the last of them drops it. A version
that cannot be opened is logged, and the old one goes on answering.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from typing_extensions import TypedDict

from linkseek.app.pipelines.open_models import Models
from linkseek.app.service import SearchService
from linkseek.app.serving.options import IndexOptions
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.partition_actors import PartitionActors
from linkseek.indexer.program.errors import DamagedIndexError, LinkseekError, UsageError, log_line
from linkseek.indexer.program.text import nearest
from linkseek.indexer.store.artifacts import index_stamp

T = TypeVar("T")

Cluster = Callable[[OpenIndex], PartitionActors]
"""Starts the actors that search an index."""

_SECONDS = 0.5
"""The interval between checks of the indexes."""
_AGAIN = 10.0
"""Seconds until an index that could not be opened is tried again."""


class NoSuchNameError(UsageError):
    """A request names a pipeline, a passage or a document that is not here."""


class NoSuchIndexError(NoSuchNameError):
    """A request names an index that is not here."""


class PipelinesReply(TypedDict):
    """The pipelines of each index, the default first, each with a short description."""

    indexes: dict[str, dict[str, str]]


@dataclass
class ServedIndex:
    """One index, in its newest version.

    service: of that version. pipelines: the names of pipelines that can answer.
    """

    name: str
    path: Path
    options: IndexOptions
    models: Models
    cluster: Cluster | None = None
    service: SearchService = field(init=False)
    pipelines: tuple[str, ...] = field(init=False)
    _refreshing: threading.Lock = field(default_factory=threading.Lock)
    _failed: tuple[tuple[int, int, int], float] = ((0, 0, 0), 0.0)
    stop: Callable[[], object] = lambda: None
    """ends the actors of the cluster"""

    def __post_init__(self) -> None:
        self._use(self._open())
        self.pipeline_name(None)  # raises

    def _use(self, service: SearchService) -> None:
        self.service, self.pipelines = service, tuple(service.pipelines.available())

    def pipeline_name(self, name: str | None) -> str:
        """A pipeline that this index can run, or the default. Raises `NoSuchNameError` for any other."""
        available = self.pipelines
        chosen = name or self.options.pipeline or self.service.pipelines.recommended
        if chosen not in available:
            raise NoSuchNameError(
                f'the index {self.name} has no pipeline "{chosen[:100]}"', nearest(chosen, available)
            )
        return chosen

    def with_newest(self, use: Callable[[SearchService], T]) -> T:
        """The result of a function of the newest version, also if a part of an older one was replaced."""
        service = self.service
        try:
            return use(service)
        except DamagedIndexError:
            if service.stamp == index_stamp(self.path):
                raise
            self.refresh(now=True)
        return use(self.service)

    def refresh(self, *, now: bool = False) -> None:
        """Open the index again if it has changed, with the pipelines that were open; errors are logged."""
        with self._refreshing:
            stamp = index_stamp(self.path)
            failed, when = self._failed
            if stamp in ((0, 0, 0), self.service.stamp):
                return
            if stamp == failed and not now and time.monotonic() < when + _AGAIN:
                return
            try:
                service = self._open()
                for name in service.pipelines.available():
                    if self.service.pipelines.is_ready(name):
                        service.pipelines.start(name).result()
            except (LinkseekError, OSError) as error:
                self._failed = (stamp, time.monotonic())
                log_line(f"{self.path}: changed, but cannot be opened; the old one stays in use ({error})")
                return
            self._use(service)
            log_line(f"{self.path}: changed and reopened")

    def _open(self) -> SearchService:
        index = OpenIndex.open(self.path)
        if self.cluster is None:
            return SearchService(index, self.options.pipelines_file, self.models)
        actors = self.cluster(index)
        service = SearchService(index.searched_by(actors), self.options.pipelines_file, self.models)
        self.stop = weakref.finalize(service, actors.stop)
        return service


class ServedIndexes:
    """All indexes of a service, by the names of their folders."""

    def __init__(
        self, options: IndexOptions, cluster: Cluster | None = None, models: Models | None = None
    ) -> None:
        """Raises `UsageError` for two folders of one name and an unknown pipeline, and errors of opening."""
        self._served: dict[str, ServedIndex] = {}
        models = models or Models()
        for path in options.index:
            name = path.resolve().name
            if name in self._served:
                raise UsageError(f"two indexes have the name {name}", "Requests select by folder name.")
            self._served[name] = ServedIndex(name, path, options, models, cluster)
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="indexes", daemon=True)

    def named(self, name: str | None = None) -> ServedIndex:
        """An index by its name, by default the first. Raises `NoSuchIndexError`."""
        if name is None:
            return next(iter(self._served.values()))
        if name not in self._served:
            raise NoSuchIndexError(f'there is no index "{name[:100]}"', nearest(name, self._served))
        return self._served[name]

    def described(self) -> PipelinesReply:
        """The pipelines of each index, the default first, each with a short description."""
        listed = {}
        for name, served in self._served.items():
            names = dict.fromkeys([served.pipeline_name(None), *served.pipelines])
            listed[name] = {pipeline: served.service.pipelines.describe(pipeline) for pipeline in names}
        return {"indexes": listed}

    def start(self) -> None:
        """Open the pipelines of requests that name none, in threads, and begin to watch for changes."""
        for served in self._served.values():
            served.service.pipelines.warm([served.pipeline_name(None)])
        self._watcher.start()

    @property
    def is_ready(self) -> bool:
        """Whether these pipelines are open."""
        return all(s.service.pipelines.is_ready(s.pipeline_name(None)) for s in self._served.values())

    def _watch(self) -> None:
        while not self._over.wait(_SECONDS):
            for served in self._served.values():
                try:
                    served.refresh()
                except Exception as error:  # the watcher has to go on
                    log_line(f"{served.path}: {error}")

    def close(self) -> None:
        """End the watcher and the actors."""
        self._over.set()
        if self._watcher.is_alive():
            self._watcher.join()
        for served in self._served.values():
            served.stop()
