"""The head that predicts masked tokens, of models that also have one that scores pairs: made, read, stored.

A folder of all weights has both heads in one model.safetensors, under the names of the transformers library,
so its classes for either head read their own and ignore the other. A folder of adapters has a file MLM_HEAD
with the same names, in 16 bits. The last layer of the head is the table of word embeddings, which is stored
only once, with them.
"""

from __future__ import annotations

import copy
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from linkseek.indexer.files.sharing import share
from linkseek.indexer.program.errors import InputError
from linkseek.retriever.models.library import ONLY_LOCAL, from_folder, quiet
from linkseek.retriever.models.locations import ADAPTER

if TYPE_CHECKING:
    from torch import Tensor, nn

MLM_HEAD = "mlm_head.safetensors"


class MlmHead(NamedTuple):
    """From the token vectors [m, H] to scores of all words [m, vocabulary].

    name: the library's name for it within its model, such as cls. is_new: whether it is untrained.
    """

    name: str
    module: nn.Module
    own: dict[str, nn.Parameter]
    """Its weights by their names in a folder, without the word embeddings."""
    is_new: bool


def new_mlm_head(transformer: Any) -> MlmHead:
    """A head on a transformer's word embeddings, drawn from torch's generator.

    Raises `InputError` for a kind of transformer without such a head, or with one in several parts.
    """
    from transformers import AutoModelForMaskedLM

    config = copy.deepcopy(transformer.config)
    try:
        with quiet():
            model = AutoModelForMaskedLM.from_config(config)
    except ValueError:
        model = None
    names = [name for name, _ in model.named_children() if name != model.base_model_prefix] if model else []
    if model is None or len(names) != 1:
        raise InputError(
            f"a {config.model_type} has no separate head that predicts masked tokens",
            "Use a base like BERT or RoBERTa, or set mlm.weight = 0.",
        )
    module = getattr(model, names[0])
    embeddings = transformer.get_input_embeddings().weight
    model.get_output_embeddings().weight = embeddings
    own = {f"{names[0]}.{name}": w for name, w in module.named_parameters() if w is not embeddings}
    return MlmHead(names[0], module, own, is_new=True)


def open_mlm_head(transformer: Any, folder: Path) -> MlmHead:
    """The head in a folder, on its transformer, or a new one if the folder has none.

    Raises `InputError` as `new_mlm_head`.
    """
    import torch

    head = new_mlm_head(transformer)
    stored = _stored(folder)
    if not head.own.keys() <= stored.keys():
        return head
    with torch.no_grad():
        for name, weights in head.own.items():
            weights.copy_(stored[name])
    return MlmHead(head.name, head.module, head.own, is_new=False)


def _stored(folder: Path) -> dict[str, Tensor]:
    """Weights of a folder by name; of adapters only the head's, if they have a head."""
    from safetensors.torch import load_file

    if (folder / ADAPTER).is_file():
        return dict(load_file(folder / MLM_HEAD)) if (folder / MLM_HEAD).is_file() else {}
    if not (folder / "config.json").is_file():
        return {}
    from transformers import AutoModelForMaskedLM

    options = ONLY_LOCAL | {"use_safetensors": True, "output_loading_info": True, "dtype": "float32"}
    reader = AutoModelForMaskedLM.from_pretrained  # which knows older names of weights
    model, info = from_folder(reader, folder, f"base {folder}", "Train it again.", **options)
    missing = set(info["missing_keys"])
    return {name: tensor for name, tensor in model.state_dict().items() if name not in missing}


def copy_mlm_head(transformer: Any, folder: Path, target: Path) -> None:
    """Add the head of a folder, if it has one, to another folder of the same weights."""
    with suppress(InputError):  # this kind of transformer has no such head
        head = open_mlm_head(transformer, folder)
        if not head.is_new:
            save_mlm_head(head, target)


def save_mlm_head(head: MlmHead, folder: Path) -> None:
    """Add a head to a folder that `reranker.models.bases.save_cross_encoder` wrote."""
    import torch
    from safetensors.torch import load_file, save_file

    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in head.own.items()}
    if (folder / ADAPTER).is_file():
        path, weights = folder / MLM_HEAD, {name: t.to(torch.float16) for name, t in weights.items()}
    else:
        path = folder / "model.safetensors"
        weights |= load_file(path)
    save_file(weights, path, metadata={"format": "pt"})
    share(path)
