"""The indexes that are open in this process: one service each, for all visitors, on the same models."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from weakref import WeakValueDictionary

from linkseek.app.pipelines.open_models import Models
from linkseek.app.report.finished import find_asked
from linkseek.app.service import SearchService
from linkseek.indexer.machine.once import Once
from linkseek.indexer.store.artifacts import index_stamp

MAX_OPEN = 4
"""Indexes that stay open; the one that was used longest ago is closed for another."""


class Services:
    """Open services. One that is dropped here is closed when the last question to it is answered."""

    def __init__(self) -> None:
        self._models = Models()
        # by index, pipelines, results and stamp; as long as anybody uses them
        self._services: Once[SearchService] = Once(self._opened, WeakValueDictionary())
        self._recent: dict[tuple[Path, Path | None], SearchService] = {}  # used last: at the end
        self._lock = threading.Lock()

    def open(self, index: Path, pipelines_file: Path | None, results: Path) -> SearchService:
        """The service of an index, opened again if the index was built again or the pipelines have changed.

        results: the folder of finished evaluations, whose questions are known. The pipelines of a first visit
        are opened in the background. While one index opens, others can be opened and used. Raises the errors
        of `SearchService`.
        """
        stamp = *index_stamp(index), file_stamp(pipelines_file)
        service = self._services(index, pipelines_file, results, stamp)
        with self._lock:
            self._recent.pop((index, pipelines_file), None)
            self._recent[index, pipelines_file] = service
            while len(self._recent) > MAX_OPEN:
                del self._recent[next(iter(self._recent))]
        return service

    def _opened(
        self, index: Path, pipelines_file: Path | None, results: Path, stamp: tuple[int, int, int, int]
    ) -> SearchService:
        asked = partial(find_asked, results, index.name)
        service = SearchService(index, pipelines_file, self._models, asked)
        service.pipelines.warm(service.pipelines.first_visit)
        return service


def file_stamp(file: Path | None) -> int:
    """A value that changes when a file does; 0 without one."""
    return file.stat().st_mtime_ns if file and file.is_file() else 0


SERVICES = Services()
"""The services of this process."""
