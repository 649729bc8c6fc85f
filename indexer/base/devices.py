"""The memory and the GPUs of this machine, without importing a torch that is built for CPUs."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from indexer.base.errors import UsageError


def memory_bytes() -> int:
    """The memory of this machine, or of this container where it has a limit."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):
        memory = min(memory, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return memory


def cuda_devices(device: str) -> list[str]:
    """The GPUs to use, such as ["cuda:0", "cuda:1"]; none for a CPU.

    device: auto (all GPUs, else the CPU), cpu, cuda (all GPUs), or one GPU as "cuda:1". The environment
    variable CUDA_VISIBLE_DEVICES chooses among them. Raises `UsageError` for a missing GPU.
    """
    if device == "cpu" or (device == "auto" and version("torch").endswith("+cpu")):
        return []  # without the seconds that importing torch takes
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    gpus = [f"cuda:{number}" for number in range(count)]
    if device in ("auto", "cuda") and (gpus or device == "auto"):
        return gpus
    if device in gpus:
        return [device]
    available = ", ".join(gpus) or "no CUDA device"
    raise UsageError(f"device {device}: torch finds {available}", "Use --device cpu.")
