"""Opens cross-encoders: a folder of their own, another model with a new head on top, or adapters on either.

Any transformer becomes a cross-encoder by a head of one number, which is random until it is trained. Low-rank
adapters (Hu et al. 2021) are stored together with the complete head, in 16 bits, and with a hash of the
weights that they belong to. They are merged when a model is opened, so no other module needs to know about
them.
"""

from __future__ import annotations

import copy
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linkseek.indexer.program.errors import InputError
from linkseek.retriever.models.bases import (
    ADAPTER_WEIGHTS,
    check_base,
    merged,
    open_base,
    read_adapters,
    save_trained,
    set_length,
)
from linkseek.retriever.models.folders import base_folder, base_name, is_cross_encoder, model_sha256
from linkseek.retriever.models.library import ONLY_LOCAL, load_library_model, quiet
from linkseek.retriever.models.locations import ADAPTER, ModelKind, find_base, find_model, shipped_models

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

_SHIPPED = Path(__file__).resolve().parents[1] / "adapters"
CROSS_ENCODER = ModelKind("cross-encoder", "CrossEncoder", "cross-encoder", "config.json", shipped=_SHIPPED)


def open_cross_encoder(folder: Path, name: str) -> CrossEncoder:
    """The model in torch, on the CPU, in float32; adapters are merged into the weights of their base.

    Raises `InputError` for a bi-encoder, which has no head and would get a random one, for adapters of
    another base, and for a folder that cannot be read.
    """
    if not is_cross_encoder(folder):
        raise InputError(
            f"cross-encoder {name}: {folder} contains no head that scores pairs",
            "A bi-encoder or a bare transformer becomes a re-ranker by training: linkseek finetune "
            "with model.base set to it.",
        )
    if (folder / ADAPTER).is_file():
        return _with_rest_of(folder, merged(_open_base_of(folder), folder))
    model: CrossEncoder = load_library_model(CROSS_ENCODER, folder, name)
    return model


def open_start(name: str, max_tokens: int) -> CrossEncoder:
    """The cross-encoder that training starts from: one as it is, or any other transformer with a new head.

    max_tokens: longer pairs are truncated to this length, now and later. The head is drawn from torch's
    generator. Raises `InputError` if the base cannot be located or read, and as `set_length`.
    """
    folder = find_start(name)
    if is_cross_encoder(folder):
        model = open_cross_encoder(folder, name)
    else:
        base: Any = open_base(name)
        if not hasattr(base[0], "model"):
            raise InputError(f"{name} has two towers", "Export one: linkseek export --tower.")
        model = _as_cross_encoder(name, _with_head(base[0].model), base.tokenizer.save_pretrained)
    set_length(model[0], max_tokens, name, "texts.tokens")
    return model


def are_reranker_adapters(folder: Path) -> bool:
    """Whether a folder contains adapters with a head that scores pairs."""
    return (folder / ADAPTER).is_file() and is_cross_encoder(folder)


def open_adapters(folder: Path, max_tokens: int) -> tuple[CrossEncoder, str]:
    """Adapters on their base, not merged, to be trained further; and the hash of the base's weights.

    Raises `InputError` as `open_start`, and if they do not fit.
    """
    from peft import LoraConfig, set_peft_model_state_dict
    from safetensors.torch import load_file

    model = _with_rest_of(folder, _open_base_of(folder))
    set_length(model[0], max_tokens, str(folder), "texts.tokens")
    transformer: Any = model[0].model
    transformer.name_or_path = base_name(folder)

    def add(path: str) -> None:
        weights = {
            key.removeprefix("base_model.model."): tensor.float()
            for key, tensor in load_file(folder / ADAPTER_WEIGHTS).items()
        }
        transformer.add_adapter(LoraConfig.from_pretrained(path))
        set_peft_model_state_dict(transformer, weights)

    read_adapters(add, folder)
    return model, model_sha256(base_folder(folder))


def find_start(name: str) -> Path:
    """The folder of the model that `open_start` opens. Raises `InputError` if it cannot be located."""
    is_named = name in shipped_models(CROSS_ENCODER) or name.startswith(f"{CROSS_ENCODER.namespace}/")
    if is_named and not Path(name).is_dir():
        return find_model(name, CROSS_ENCODER)
    return find_base(name)


def save_cross_encoder(model: Any, folder: Path, base_sha256: str) -> None:
    """Write a folder of all weights, or of adapters and head in 16 bits."""
    save_trained(model, folder, base_sha256, in_16_bits=True)
    if (folder / ADAPTER).is_file():
        model[0].model.config.save_pretrained(folder)


def _with_head(transformer: Any) -> Any:
    """A transformer's weights below a new head of one number."""
    from transformers import AutoModelForSequenceClassification

    config = copy.deepcopy(transformer.config)
    config.num_labels = 1
    with quiet():
        model = AutoModelForSequenceClassification.from_config(config)
    body = model.base_model
    known = body.state_dict()
    weights = {name: value for name, value in transformer.state_dict().items() if name in known}
    missing = body.load_state_dict(weights, strict=False).missing_keys
    missing = [name for name in missing if "pooler" not in name]
    if missing:
        raise InputError(
            f"base {transformer.config.model_type}: {len(missing)} weights are missing, such as {missing[0]}",
            "Choose a transformer that the library supports for classification.",
        )
    return model.eval()


def _as_cross_encoder(name: str, model: Any, save_rest: Callable[[Path], Any]) -> CrossEncoder:
    """A model of the transformers library as one of sentence-transformers; save_rest writes its tokenizer."""
    from safetensors.torch import save_file

    model.config.architectures = [type(model).__name__]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "model"
        with quiet():  # not by the library's `save_pretrained`, which writes only in the first process
            save_rest(folder)
            model.config.save_pretrained(folder)
            weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
            save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        cross_encoder: CrossEncoder = load_library_model(CROSS_ENCODER, folder, name)
    return cross_encoder


def _open_base_of(folder: Path) -> Any:
    """The transformer that adapters belong to. Raises `InputError` if the one of this name is another."""
    check_base(folder)
    return open_start(base_name(folder), 1)[0].model


def _with_rest_of(folder: Path, transformer: Any) -> CrossEncoder:
    """A transformer with the tokenizer and the settings in a folder of adapters."""
    from transformers import AutoConfig

    def save_rest(target: Path) -> None:
        shutil.copytree(folder, target, ignore=shutil.ignore_patterns("*.safetensors", ADAPTER))

    if (folder / "config.json").is_file():  # sentence-transformers leaves it out: the base has it
        transformer.config = read_adapters(AutoConfig.from_pretrained, folder, **ONLY_LOCAL)
    return _as_cross_encoder(str(folder), transformer, save_rest)
