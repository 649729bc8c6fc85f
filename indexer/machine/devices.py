"""Memory, cores, GPUs and precisions of this machine, without importing a torch that is built for CPUs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import psutil

from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.program.limits import address_space

Precision = Literal["auto", "bfloat16", "float32"]
"""The number format in which a model computes; auto: bfloat16 where the processor or GPU multiplies it."""

_CGROUP, _CGROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def memory_bytes() -> int:
    """The memory of this machine, or of this process or container where it has a limit."""
    limits: list[int] = [psutil.virtual_memory().total]
    if (space := address_space()) is not None:
        limits.append(space)
    for file in _memory_limits():
        with suppress(OSError, ValueError):  # ValueError: "max"
            limits.append(int(file.read_text("ascii")))
    return min(limits)


def usable_cores() -> int:
    """The cores that this process may use; all cores where the system does not say."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _memory_limits() -> Iterator[Path]:
    """The files with the limits of the control groups, of either version, that this process is in."""
    with suppress(OSError):
        for line in _CGROUP.read_text("utf-8", "replace").splitlines():
            _, controllers, group = line.split(":", 2)
            if controllers in ("", "memory"):
                top = _CGROUPS / controllers
                name = "memory.limit_in_bytes" if controllers else "memory.max"
                path = top / group.lstrip("/")
                yield from (folder / name for folder in (path, *path.parents) if folder.is_relative_to(top))


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
