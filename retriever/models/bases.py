"""What a model is trained from: a sentence-transformers folder, a bare transformer, or adapters on either.

Adapters (Hu et al. 2021) are small weights beside those of their base, and hold a hash of the base that they
belong to. They are merged into it when a model is opened, so nothing else needs to know of them.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from indexer.base.errors import DamagedIndexError, InputError, LinkseekError
from indexer.store.artifacts import combined_sha256, file_sha256, read_json
from retriever.models.locations import (
    ADAPTER,
    BI_ENCODER,
    find_model,
    load_library_model,
    load_sentence_transformer,
    quiet,
)

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


def open_base(name: str) -> SentenceTransformer:
    """A sentence-transformers model, or a bare transformer with [CLS] as its vector.

    name: a folder, or a name of the Hugging Face Hub. Raises `InputError` if it cannot be had or read.
    """
    folder = find_base(name)
    is_bare = not (folder / BI_ENCODER.marker).is_file()
    return _open_bare(folder, name) if is_bare else load_sentence_transformer(folder, name)


def find_base(name: str) -> Path:
    """The folder of what `open_base` opens. Raises `InputError` if it cannot be had."""
    if Path(name).is_dir() and not (Path(name) / BI_ENCODER.marker).is_file():
        return Path(name)
    try:
        return find_model(name)
    except LinkseekError:
        bare = _fetched_transformer(name)
        if bare is None:
            raise
        return bare


def _fetched_transformer(name: str) -> Path | None:
    """Where a bare transformer lies that is in the Hub's cache, such as one that was fetched just now."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        config = try_to_load_from_cache(name, "config.json")
        modules = try_to_load_from_cache(name, "modules.json")
    except HFValidationError:
        return None
    return Path(config).parent if isinstance(config, str) and not isinstance(modules, str) else None


def _open_bare(folder: Path, name: str) -> SentenceTransformer:
    with quiet():
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

        try:
            transformer = Transformer(str(folder), model_kwargs={"use_safetensors": True, "dtype": "float32"})
            pooling = Pooling(transformer.get_embedding_dimension(), pooling_mode="cls")
            return SentenceTransformer(modules=[transformer, pooling], device="cpu", similarity_fn_name="dot")
        except Exception as error:  # whatever a broken folder makes transformers raise
            reason = str(error).splitlines()[0] if str(error) else ""
            raise InputError(
                f"base {name}: cannot be loaded ({type(error).__name__}: {reason})",
                "Expected a sentence-transformers folder, or a transformer's with config.json, "
                "model.safetensors and tokenizer.json.",
            ) from None


def open_merged(folder: Path) -> SentenceTransformer:
    """Adapters merged into the weights of their base. Raises `InputError` if that is another one."""
    from peft import PeftModel

    name = base_name(folder)
    check_base(folder, name)
    base: Any = open_base(name)[0]
    with tempfile.TemporaryDirectory() as scratch:
        plain = Path(scratch) / "model"  # the modules around the transformer, and its tokenizer
        shutil.copytree(folder, plain, ignore=shutil.ignore_patterns("adapter_*"))
        with quiet():
            base.model.save_pretrained(plain)
        model: SentenceTransformer = load_library_model(BI_ENCODER, plain, str(folder))
    with must_fit(folder, name), quiet():
        merged: Any = PeftModel.from_pretrained(base.model, str(folder)).merge_and_unload()
    transformer: Any = model[0]
    transformer.model.load_state_dict(merged.state_dict())
    return model


def base_folder(folder: Path) -> Path:
    """Where the base of adapters lies. Raises `InputError` if it cannot be had or they do not name it."""
    return find_base(base_name(folder))


def base_name(folder: Path) -> str:
    """What adapters call their base. Raises `InputError` if they do not."""
    try:
        name = read_json(folder / ADAPTER)["base_model_name_or_path"]
    except (DamagedIndexError, KeyError, TypeError):
        name = None
    if not isinstance(name, str):
        raise InputError(f'{folder / ADAPTER}: "base_model_name_or_path" is missing', "Train it again.")
    return name


# --- adapters and the weights that they belong to ---------------------------------------------------

ADAPTER_WEIGHTS = "adapter_model.safetensors"
_BASE_SHA256 = "base_sha256"


def weights_sha256(folder: Path) -> str:
    """One hash of the weights of a folder; of adapters, also of their base's."""
    hashes = [file_sha256(path) for path in sorted(folder.rglob("*.safetensors"))]
    if (folder / ADAPTER).is_file():
        hashes.append(weights_sha256(base_folder(folder)))
    return combined_sha256(hashes)


def bind_adapters(folder: Path, base_sha256: str, *, in_16_bits: bool = False) -> None:
    """Write the hash of their base's weights into adapters that were saved just now."""
    import torch
    from safetensors.torch import load_file, save_file

    path = folder / ADAPTER_WEIGHTS
    weights = load_file(path)
    if in_16_bits:
        weights = {name: tensor.to(torch.float16) for name, tensor in weights.items()}
    save_file(weights, path, metadata={_BASE_SHA256: base_sha256})  # several would be in random order
    path.chmod(0o644)  # the library writes for its user alone, and this file is given to others


def check_base(folder: Path, name: str) -> None:
    """Raises `InputError` if adapters belong to another base than the one of this name that is here."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(folder / ADAPTER_WEIGHTS, "pt") as file:
            expected = (file.metadata() or {}).get(_BASE_SHA256)
    except (OSError, SafetensorError) as error:
        raise InputError(f"{folder / ADAPTER_WEIGHTS}: cannot be read ({error})", "Train it again.") from None
    if expected and expected != weights_sha256(find_base(name)):
        raise InputError(
            f"{folder}: its adapters belong to another base than the {name} that is here",
            f"The weights of the base must have the combined SHA-256 {expected}.",
        )


@contextmanager
def must_fit(folder: Path, name: str) -> Iterator[None]:
    """What the libraries raise for adapters of another shape, as `InputError`."""
    try:
        yield
    except (ValueError, RuntimeError, OSError, KeyError) as error:
        raise InputError(
            f"{folder}: its adapters do not fit {name} ({str(error).splitlines()[0]})",
            "They must be those of this base.",
        ) from None
