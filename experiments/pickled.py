"""Pickled weights, read without running what they contain.

A torch file is a pickle, a program for a small machine that can call anything. torch's `weights_only` builds
tensors and plain values alone, and refuses all else.
"""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from linkseek.indexer.program.errors import InputError, raise_of_machine
from linkseek.indexer.program.paths import check_file
from linkseek.indexer.program.text import byte_size

_VIEWS = 4
_SMALL = 1 << 20


def load_pickled(path: Path, expected: str) -> Any:
    """The tensors, texts and numbers of a torch file. expected: a hint.

    Raises `InputError` for a file of another kind, and for one that contains any other object.
    """
    import torch

    check_file(path)
    try:
        with warnings.catch_warnings(action="ignore"):
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        match = re.search(r"GLOBAL ([\w.]+)", str(error))  # torch's text goes on to advise unpickling it
        held = match.group(1) if match else "other objects than tensors"
        raise InputError(
            f"{path}: not read, because it holds {held}",
            "Only tensors and plain values are read; other objects can run code.",
        ) from None
    except Exception as error:  # a damaged pickle makes torch raise anything
        raise_of_machine(error)
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(f"{path}: not a torch file, or damaged ({reason})", expected) from None
    _check_tensors(path, loaded, expected)
    return loaded


def _check_tensors(path: Path, loaded: Any, expected: str) -> None:
    """Raises `InputError` for tensors of other kinds than lists of numbers, or larger than their file.

    A tensor may repeat one number at no cost in the file (a stride of 0), or be one of many views of the same
    numbers, until something copies it. Tied weights are two views.
    """
    import torch

    rest, seen, size = [loaded], set(), 0
    while rest:
        value = rest.pop()
        if isinstance(value, torch.Tensor):
            is_plain = value.layout == torch.strided and value.device.type == "cpu"
            if not is_plain or value.is_quantized or value.is_nested or value.is_complex():
                raise InputError(f"{path}: it holds a tensor that is sparse, or no list of numbers", expected)
            own = value.numel() * value.element_size()
            size += own
            if own > value.untyped_storage().nbytes() or size > _VIEWS * path.stat().st_size + _SMALL:
                raise InputError(
                    f"{path}: its tensors of {byte_size(size)} or more are larger than the file", expected
                )
        elif isinstance(value, Mapping | list | tuple | set) and id(value) not in seen:
            seen.add(id(value))
            rest += value.values() if isinstance(value, Mapping) else value
