"""A process seen from outside: its time and memory, and its children's."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from benchmarks.support.watch import BenchmarkWatch
from linkseek.indexer.machine.watch import Watch

_WORKS = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "x = bytearray(60_000_000); import time; time.sleep(1.2)"])
x = bytearray(120_000_000)
start = time.process_time()
while time.process_time() - start < 0.5:
    pass
child.wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_time_and_memory_of_a_process_and_its_child():
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", _WORKS])
    with BenchmarkWatch(process.pid) as watch:
        process.wait()
    assert 0.4 < watch.cpu(began, time.perf_counter()) < 5
    assert 114 < watch.peak("main") < 180  # 120 million bytes, and Python
    assert watch.peak("together") > watch.peak("main") + 50
    assert watch.mapped > watch.peak("main")
    assert watch.peak("main", end=began - 1) == 0


_THREADS = """
import threading, time
start = time.monotonic()
while time.monotonic() - start < 1.5:
    threads = [threading.Thread(target=time.sleep, args=(0.0005,)) for _ in range(20)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_threads_that_end_do_not_end_the_watch():
    process = subprocess.Popen([sys.executable, "-c", _THREADS])
    began = time.perf_counter()
    with Watch(process.pid, interval=0.001) as watch:
        process.wait()
        ended = time.perf_counter()
    assert watch.samples[-1].moment - began > 0.8 * (ended - began)
