"""A watched process for benchmarks: also its memory with mapped files, and processor time between moments."""

from __future__ import annotations

import numpy as np

from linkseek.indexer.machine.watch import UsageSample, Watch


class BenchmarkWatch(Watch):
    """Samples a process until it ends. Use as a context manager.

    mapped: the peak of the memory of the process in MB, with the pages of mapped files.
    """

    mapped = 0.0

    def take(self) -> UsageSample:
        """Take a sample now. Raises `psutil.NoSuchProcess` if the process has ended."""
        self.mapped = max(self.mapped, self._process.memory_info().rss / (1 << 20))
        return super().take()

    def cpu(self, start: float, end: float) -> float:
        """Processor seconds between two moments, child processes included; between samples in proportion."""
        moments, cpu = zip(*((sample.moment, sample.cpu) for sample in self.samples), strict=True)
        return float(np.diff(np.interp((start, end), moments, cpu))[0])
