"""Which GPUs there are, without importing torch where it cannot know of any."""

from __future__ import annotations

from importlib.metadata import version

from indexer.base.errors import UsageError


def cuda_devices(device: str) -> list[str]:
    """The GPUs to work on, such as ["cuda:0", "cuda:1"]; none for a CPU.

    device: auto (all GPUs, else the CPU), cpu, cuda (all GPUs), or one GPU as "cuda:1". The environment
    variable CUDA_VISIBLE_DEVICES chooses among them. Raises `UsageError` for a GPU that is not there.
    """
    if device == "cpu" or (device == "auto" and version("torch").endswith("+cpu")):
        return []  # without the seconds that importing torch takes
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    found = [f"cuda:{number}" for number in range(count)]
    if device in ("auto", "cuda") and (found or device == "auto"):
        return found
    if device in found:
        return [device]
    there = ", ".join(found) if found else "no CUDA device"
    raise UsageError(f"device {device}: torch finds {there}", "Use --device cpu.")
