"""One small Ray cluster for all files of tests that use one; a process of the suite gets all of them."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from linkseek.indexer.machine.cluster import without_dashboard
from tests.slowness import ON_RAY, TESTS
from tests.support.command import QUICK_JAVA, ROOT


class RayCluster:
    """Two machines (processes here) of one core each, which start when a test asks for their address."""

    def __init__(self) -> None:
        self._running = ExitStack()
        self._address = ""

    def address(self) -> str:
        """Where the cluster answers; starts it unless it runs."""
        self._address = self._address or self._start()
        return self._address

    def _start(self) -> str:
        utils = pytest.importorskip("ray.cluster_utils")
        small = {"num_cpus": 1, "object_store_memory": 80 << 20}
        with (
            pytest.MonkeyPatch.context() as patch,
            without_dashboard(),
        ):  # its processes import files of tests
            patch.setenv("PYTHONPATH", os.pathsep.join(map(str, (ROOT, TESTS, TESTS / "indexer"))))
            patch.setenv("JAVA_TOOL_OPTIONS", " ".join(QUICK_JAVA))
            started = utils.Cluster(initialize_head=True, head_node_args=small)
            self._running.callback(self._end, started)
            started.add_node(**small)
        return str(started.address)

    def _end(self, started: object) -> None:
        """None of its processes outlives the tests."""
        running = (node.all_processes.values() for node in started.list_all_nodes())
        processes = [one.process for node in running for several in node for one in several]
        started.shutdown()
        assert all(process.poll() is not None for process in processes)

    def end_before(self, following: pytest.Item | None) -> None:
        """End it unless the next test is of a file that uses it."""
        if self._address and (following is None or not uses_ray(following.path)):
            self._address = ""
            self._running.close()


def uses_ray(path: Path) -> bool:
    """Whether a file of tests is one of `ON_RAY`."""
    return path.as_posix().endswith(ON_RAY)
