"""The contents of a model's folder: the kind of the model, and a hash of everything that decides its outputs.

A folder of adapters (Hu et al. 2021) contains small weights that belong to a base, which it names.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from linkseek.indexer.files.hashes import combined_sha256, model_file_sha256
from linkseek.indexer.program.errors import DamagedIndexError, InputError, raise_of_machine
from linkseek.retriever.models.checks.only_data import read_settings
from linkseek.retriever.models.locations import (
    ADAPTER,
    BI_ENCODER,
    PASSAGES,
    QUERIES,
    check_is_here,
    decisive_files,
    find_base,
)

HEAD = "TOKEN_VECTORS"
"""The task of adapters that are a layer over token vectors."""
_TOWERS = "router_config.json"
_HEADED = ("ForSequenceClassification", "ForCausalLM")  # the latter as sentence-transformers reads them


def holds_two_towers(folder: Path) -> bool:
    """Whether queries and passages have separate encoders."""
    return (folder / _TOWERS).is_file()


def is_cross_encoder(folder: Path) -> bool:
    """Whether a folder's weights, or its adapters, have a head that scores pairs."""
    if (folder / ADAPTER).is_file():
        return bool(_setting(folder / ADAPTER, "task_type") == "SEQ_CLS")
    architectures = _setting(folder / "config.json", "architectures")
    return isinstance(architectures, list) and "".join(map(str, architectures[:1])).endswith(_HEADED)


def _setting(path: Path, key: str) -> Any:
    """None if the file is damaged: the library that opens it explains."""
    try:
        return read_settings(path).get(key)
    except InputError:
        return None


def is_head(folder: Path) -> bool:
    """Whether a folder contains a layer over the token vectors of a base."""
    return (folder / ADAPTER).is_file() and _setting(folder / ADAPTER, "task_type") == HEAD


def makes_vectors(folder: Path) -> bool:
    """Whether a sentence-transformers folder pools tokens into one vector."""
    return is_static(folder) or _has_module(folder, "Pooling")


def is_static(folder: Path, tower: str = PASSAGES) -> bool:
    """Whether a sentence-transformers folder is a static encoder: a vector for each token, no layers.

    tower: of two towers, the one that is asked about.
    """
    if holds_two_towers(folder):
        structure = _setting(folder / _TOWERS, "structure")
        modules = structure.get(tower) if isinstance(structure, dict) else None
        return isinstance(modules, list) and "StaticEmbedding" in str(modules[:1])
    return _has_module(folder, "StaticEmbedding")


def weighs_terms(folder: Path) -> bool:
    """Whether a folder contains a model of SparseEncoder, or one of masked words, which it reads as such."""
    names = "SpladePooling|SparseAutoEncoder|SparseStaticEmbedding"
    if any(_has_module(folder, names, file) for file in (BI_ENCODER.marker, _TOWERS)):
        return True
    architectures = _setting(folder / "config.json", "architectures")
    is_bare = not (folder / BI_ENCODER.marker).is_file()
    return is_bare and "ForMaskedLM" in str(architectures)


def _has_module(folder: Path, name: str, file: str = BI_ENCODER.marker) -> bool:
    try:
        return bool(re.search(rf'[."]({name})"', (folder / file).read_text("utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        raise_of_machine(error)
        return False


def base_name(folder: Path) -> str:
    """The name of the base of adapters. Raises `InputError` if it is missing."""
    name = _setting(folder / ADAPTER, "base_model_name_or_path")
    if not isinstance(name, str):
        raise InputError(f'{folder / ADAPTER}: "base_model_name_or_path" is missing', "Train it again.")
    return name


def base_folder(folder: Path) -> Path:
    """The folder of the base of adapters, which may be adapters again.

    Raises `InputError` if a base is not named, not on this machine, or among those that need it.
    """
    chain = [folder.resolve()]
    while (chain[-1] / ADAPTER).is_file():
        name = base_name(chain[-1])
        check_is_here(name, f"{folder}: the base of its adapters")
        chain.append(find_base(name).resolve())
        if chain[-1] in chain[:-1]:
            raise InputError(f"{folder}: the base of its adapters needs them itself", "Train it again.")
    return chain[1]


def model_sha256(folder: Path, tower: str = "") -> str:
    """One hash of everything that may decide a model's numbers: all files except `NOT_DECISIVE`.

    For adapters, their base included. tower: of two towers, this one alone, so that vectors of passages stay
    valid when the tower of queries is trained further.
    """
    other = {QUERIES: PASSAGES, PASSAGES: QUERIES}.get(tower)
    names = sorted(decisive_files(folder))
    if other and holds_two_towers(folder):
        names = [name for name in names if not name.startswith(f"{other}_")]
    try:
        lines = [f"{name} {model_file_sha256(folder / name)}" for name in names]
    except OSError as error:
        raise_of_machine(error)
        raise DamagedIndexError(f"{folder}: {error}", "Check the model's folder.") from None
    if (folder / ADAPTER).is_file():
        lines.append(f"base {model_sha256(base_folder(folder), tower)}")
    return combined_sha256(lines)
