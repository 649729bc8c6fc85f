"""A re-ranker as training starts: a cross-encoder, whole or by adapters, or a plug-in; and its card."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from linkseek.indexer.program.errors import InputError
from linkseek.reranker.kinds import DEFAULT_KIND, kind_named
from linkseek.reranker.models.bases import (
    are_reranker_adapters,
    find_start,
    open_adapters,
    open_start,
    save_cross_encoder,
)
from linkseek.reranker.models.cross_encoder import cross_encoder_facts
from linkseek.reranker.pair_texts import AFTER_TITLE, TITLE, URL_PLACE, URL_SEPARATOR, UrlPlace
from linkseek.reranker.training.config import (
    CrossEncoderSettings,
    FinetuneConfig,
    PairTextSettings,
    PretrainConfig,
)
from linkseek.reranker.training.run_groups import ADDRESS_SEPARATOR
from linkseek.retriever.models.biencoder import TextFormat
from linkseek.retriever.models.facts import ModelFacts
from linkseek.retriever.models.folders import model_sha256
from linkseek.retriever.models.library import TITLE_SEPARATOR
from linkseek.retriever.training.card import card, public_name
from linkseek.retriever.training.pair_models import add_adapters, set_dropout

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder


@dataclass(frozen=True)
class Trainable:
    """A model as training starts, on the CPU, in float32.

    model: gives {"scores": [P]} for the features of P pairs. save: writes it as a folder that `open_scorer`
    opens.
    """

    model: nn.Module
    facts: ModelFacts
    text_format: TextFormat
    base_sha256: str
    save: Callable[[Path], None]


def open_trainable(config: FinetuneConfig) -> Trainable:
    """The model that the settings name; new weights are drawn from torch's generator.

    Raises `InputError` if its base cannot be found or read, or reads fewer tokens.
    """
    if kind := kind_named(config.model.kind):
        trainable: Trainable = kind.trainable(config)
        return trainable
    return open_trainable_cross_encoder(config.model, config.texts, url=config.texts.url)


def open_trainable_cross_encoder(
    settings: CrossEncoderSettings, texts: PairTextSettings, *, url: UrlPlace = False
) -> Trainable:
    """A cross-encoder whose trained weights need gradients. url: whether and where it reads addresses.

    Adapters upon adapters would need both to be opened, so the base's adapters are trained further instead:
    the result is one set of adapters on their base. Raises as `open_trainable`.
    """
    folder = find_start(settings.base)
    base_sha256 = adapted_sha256 = model_sha256(folder)
    if settings.train == "lora" and are_reranker_adapters(folder):
        model, adapted_sha256 = open_adapters(folder, texts.tokens)
        _check_rank(model, settings)
    else:
        model = open_start(settings.base, texts.tokens)
        if settings.train == "lora":
            transformer: Any = model[0].model
            heads = _head_names(transformer)
            excluded = rf"(.*\.)?({'|'.join(heads)})(\..*)?"
            options = {"task_type": "SEQ_CLS", "exclude_modules": excluded, "modules_to_save": heads}
            add_adapters(transformer, settings, **options)
    set_dropout(model, settings)
    # Scores far from zero still differ where their sigmoids are all 1.
    model.activation_fn = nn.Identity()
    base_prompts = (model.prompts or {}).items()
    prompts = {name: text for name, text in base_prompts if name not in (TITLE, URL_SEPARATOR, URL_PLACE)}
    prompts |= {} if texts.title else {TITLE: "no"}
    prompts |= {TITLE_SEPARATOR: texts.separator} if texts.separator is not None else {}
    prompts |= {URL_SEPARATOR: ADDRESS_SEPARATOR} if url else {}
    prompts |= {URL_PLACE: AFTER_TITLE} if url == AFTER_TITLE else {}
    model.prompts = prompts
    facts = cross_encoder_facts(model, settings.base)
    text_format = TextFormat(facts.title, title_separator=facts.title_separator)
    save = partial(save_cross_encoder, model, base_sha256=adapted_sha256)
    return Trainable(model, facts, text_format, base_sha256, save)


def _check_rank(model: CrossEncoder, settings: CrossEncoderSettings) -> None:
    transformer: Any = model[0].model
    [adapters] = transformer.peft_config.values()
    if (adapters.r, adapters.lora_alpha) != (settings.lora_rank, settings.lora_alpha):
        raise InputError(
            f"{settings.base} is made of adapters of rank {adapters.r} (alpha {adapters.lora_alpha}), and "
            f"the settings say {settings.lora_rank} (alpha {settings.lora_alpha})",
            "They are trained further, so set model.lora_rank and lora_alpha to theirs; for new ones on top "
            "merge them first: linkseek export.",
        )


def _head_names(transformer: Any) -> list[str]:
    """The modules between the last layer and the score, such as BERT's pooler and classifier."""
    pooler = getattr(transformer.base_model, "pooler", None)
    own = [n for n, _ in transformer.named_children() if n != transformer.base_model_prefix]
    children = {"pooler": pooler} | {name: getattr(transformer, name) for name in own}
    return [name for name, child in children.items() if child is not None and list(child.parameters())]


_ABOUT = {
    "finetune": "fine-tuned on labelled queries.",
    "pretrain": "pre-trained to score pairs above worse ones. Not trained on labelled queries: fine-tune it\n"
    "(`linkseek finetune`).",
}
_LIBRARY = """```python
from sentence_transformers import CrossEncoder

scores = CrossEncoder("{folder}").predict([("who wrote it", "She wrote it.")])
```
"""
_OURS = """```python
from linkseek.reranker.models.scoring import open_scorer

# LINKSEEK_PLUGINS names the plug-in that adds this kind of re-ranker, if one does.
scores = open_scorer("{folder}").score(["who wrote it"], ["She wrote it."])
```
"""
_ADAPTERS = """
This folder contains low-rank adapters and the head. A full folder, which `CrossEncoder(path)` opens:

```sh
linkseek export {folder} --output {folder}-full
```
"""
_MASKED = """
`AutoModelForMaskedLM.from_pretrained("{folder}")` has the head that predicts masked tokens.
"""


def reranker_card(config: FinetuneConfig | PretrainConfig, facts: Mapping[str, Any], word: str) -> str:
    """The card of a re-ranker. facts: name to value, in the order of their table. word: the command."""
    kind, is_whole = getattr(config.model, "kind", DEFAULT_KIND), config.model.train == "all"
    is_library = kind == DEFAULT_KIND and is_whole
    usage = _LIBRARY if is_library else _OURS
    usage += "" if is_whole else _ADAPTERS
    if is_library and isinstance(config, PretrainConfig) and config.mlm.weight:
        usage += _MASKED
    return card(
        config,
        tags=["reranker"],
        pipeline="text-ranking" if kind == DEFAULT_KIND else None,
        about=f"A re-ranker ({kind}) from {public_name(config.model.base)}, {_ABOUT[word]}",
        usage=usage.format(folder=config.output.folder.name),
        facts=facts,
        word=word,
    )
