"""The contents of a model's folder: what kind of model it is, and a hash of all that decides its numbers.

A folder of adapters (Hu et al. 2021) holds small weights that belong to those of a base, which it names.
"""

from __future__ import annotations

import json
from pathlib import Path

from indexer.base.errors import DamagedIndexError, InputError
from indexer.files.hashes import combined_sha256, file_sha256
from retriever.models.locations import ADAPTER, BI_ENCODER, PASSAGES, QUERIES, find_base

_TOWERS = "router_config.json"
_HEADED = ("ForSequenceClassification", "ForCausalLM")  # the latter as sentence-transformers reads them
_DECISIVE = {
    ADAPTER,
    _TOWERS,
    "config.json",
    "config_sentence_transformers.json",
    "modules.json",
    "sentence_bert_config.json",
    "tokenizer.json",
}


def holds_two_towers(folder: Path) -> bool:
    """Whether queries and passages have encoders of their own."""
    return (folder / _TOWERS).is_file()


def is_cross_encoder(folder: Path) -> bool:
    """Whether a folder's weights, or its adapters, have a head that scores pairs."""
    try:
        if (folder / ADAPTER).is_file():
            return bool(json.loads((folder / ADAPTER).read_bytes()).get("task_type") == "SEQ_CLS")
        architectures = json.loads((folder / "config.json").read_bytes()).get("architectures")
    except (OSError, ValueError, AttributeError):
        return False
    return bool(architectures) and str(architectures[0]).endswith(_HEADED)


def makes_vectors(folder: Path) -> bool:
    """Whether a sentence-transformers folder pools tokens into one vector."""
    try:
        return "Pooling" in (folder / BI_ENCODER.marker).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return False


def base_name(folder: Path) -> str:
    """The name of the base of adapters. Raises `InputError` if it is missing."""
    try:
        name = json.loads((folder / ADAPTER).read_bytes())["base_model_name_or_path"]
    except (OSError, ValueError, KeyError, TypeError):
        name = None
    if not isinstance(name, str):
        raise InputError(f'{folder / ADAPTER}: "base_model_name_or_path" is missing', "Train it again.")
    return name


def base_folder(folder: Path) -> Path:
    """The folder of the base of adapters. Raises `InputError` if it is not named or not located."""
    return find_base(base_name(folder))


def weights_sha256(folder: Path) -> str:
    """One hash of the weights of a folder; of adapters, also of their base's."""
    hashes = [file_sha256(path) for path in sorted(folder.rglob("*.safetensors"))]
    if (folder / ADAPTER).is_file():
        hashes.append(weights_sha256(base_folder(folder)))
    return combined_sha256(hashes)


def model_sha256(folder: Path, tower: str = "") -> str:
    """One hash of everything that decides a model's numbers: weights, tokenizer, modules and their settings.

    Of adapters, also of their base. tower: of two towers, this one alone, so that vectors of passages stay
    valid when the tower of queries is trained further.
    """
    other = {QUERIES: PASSAGES, PASSAGES: QUERIES}.get(tower)
    names = sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and (path.suffix == ".safetensors" or path.name in _DECISIVE)
    )
    if other and holds_two_towers(folder):
        names = [name for name in names if not name.startswith(f"{other}_")]
    try:
        lines = [f"{name} {file_sha256(folder / name)}" for name in names]
    except OSError as error:
        raise DamagedIndexError(f"{folder}: {error}", "Check the model's folder.") from None
    if (folder / ADAPTER).is_file():
        lines.append(f"base {model_sha256(base_folder(folder), tower)}")
    return combined_sha256(lines)
