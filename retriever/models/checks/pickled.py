"""Pickled weights, read without running what they hold, and copied to safetensors.

`pytorch_model.bin` is a pickle, a program for a small machine that can call anything. torch's `weights_only`
builds tensors and plain values alone, and refuses all else.
"""

from __future__ import annotations

import pickle
import re
import shutil
import tempfile
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from linkseek.indexer.files.hashes import file_sha256
from linkseek.indexer.files.sharing import share
from linkseek.indexer.program.errors import InputError, raise_of_machine
from linkseek.indexer.program.paths import check_file
from linkseek.indexer.program.text import byte_size
from linkseek.retriever.models.checks.only_data import model_files

PICKLED, SAFE = "pytorch_model.bin", "model.safetensors"


def load_pickled(path: Path, expected: str) -> Any:
    """The tensors, texts and numbers of a torch file. expected: a hint.

    Raises `InputError` for a file of another kind, and for one that holds any other object.
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


_VIEWS = 4
_SMALL = 1 << 20


def with_safetensors(folder: Path, cache: Path) -> Path:
    """A base's folder, or a copy in the cache where its weights are pickled only.

    The copy has a name of its own for other files of the folder, and appears complete. Raises `InputError` as
    `load_pickled`, and for weights that are no tensors by name.
    """
    if not (folder / PICKLED).is_file() or (folder / SAFE).is_file():
        return folder
    from linkseek.indexer.store.artifacts import value_sha256  # models open without what it imports

    files = [path for path in model_files(folder) if path.suffix in (".json", ".txt", ".model", ".bin")]
    hashes = {path.relative_to(folder).as_posix(): file_sha256(path) for path in sorted(files)}
    copy = cache / f"safetensors-{value_sha256(hashes)[:16]}"
    if not copy.is_dir():
        expected = "Expected the weights of a transformer, by name."
        weights = load_pickled(folder / PICKLED, expected)
        _check_weights(folder / PICKLED, weights, expected)
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            _write(Path(scratch), folder, files, weights)
            share(Path(scratch) / "model")
            with suppress(FileExistsError, OSError):  # another process was faster
                (Path(scratch) / "model").rename(copy)
        if not copy.is_dir():
            raise InputError(f"{copy}: cannot be written", "Set XDG_CACHE_HOME to another folder.")
    return copy


def _check_weights(path: Path, weights: Any, expected: str) -> None:
    import torch

    if not isinstance(weights, Mapping) or not weights:
        raise InputError(f"{path}: it holds no weights by name", expected)
    for name, value in weights.items():
        if not isinstance(name, str) or not isinstance(value, torch.Tensor):
            raise InputError(f'{path}: "{str(name)[:80]}" is not a tensor', expected)


def _write(scratch: Path, folder: Path, files: list[Path], weights: Mapping[str, Any]) -> None:
    from safetensors.torch import save_file

    for path in files:
        if path.suffix != ".bin":
            target = scratch / "model" / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    separate = {name: weight.clone().contiguous() for name, weight in weights.items()}  # tied ones share
    save_file(separate, scratch / "model" / SAFE, metadata={"format": "pt"})
