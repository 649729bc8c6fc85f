"""The indexes that are open in this process: one service each, for all visitors, on the same models."""

from __future__ import annotations

import threading
from pathlib import Path

from linkseek.app.pipelines import Models
from linkseek.app.report.asked_questions import AskedQuestions
from linkseek.app.service import SearchService
from linkseek.indexer.store.artifacts import index_stamp

MAX_OPEN = 4
"""Indexes that stay open; the one that was used longest ago is closed for another."""


class Services:
    """Open services. One that is dropped here is closed when the last question to it is answered."""

    def __init__(self) -> None:
        self._models = Models()
        self._open: dict[tuple[Path, Path | None], SearchService] = {}  # used last: at the end
        self._opening = threading.Lock()

    def open(self, index: Path, pipelines_file: Path | None, results: Path) -> SearchService:
        """The service of an index, opened again if the index was built again.

        results: the folder of finished evaluations, whose questions are known. The pipelines of a first visit
        are opened in the background. Raises what `SearchService` raises.
        """
        with self._opening:
            service = self._open.pop((index, pipelines_file), None)
            if service is None or service.stamp != index_stamp(index):
                service = SearchService(
                    index, pipelines_file, self._models, AskedQuestions(results, index.name).find
                )
                service.warm(service.pipelines.first_visit)
            self._open[index, pipelines_file] = service
            while len(self._open) > MAX_OPEN:
                del self._open[next(iter(self._open))]
            return service


SERVICES = Services()
"""Those of this process."""
