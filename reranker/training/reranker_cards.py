"""The cards of trained re-rankers: README.md, with data, settings and licence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from linkseek.reranker.kinds import DEFAULT_KIND
from linkseek.reranker.training.config import (
    CrossEncoderSettings,
    FinetuneConfig,
    PairTextSettings,
    PretrainConfig,
)
from linkseek.retriever.training.card import card, public_name

_LOSSES = {
    "lce": "each relevant text against others of the same query (LCE)",
    "pointwise": "each pair on its own (pointwise cross-entropy)",
    "hinge": "each relevant text by 1 above others of the same query (hinge)",
}

_OURS = """```python
from linkseek.reranker.models.scoring import open_scorer

# LINKSEEK_PLUGINS names the plug-in that adds this kind of re-ranker.
scores = open_scorer("{folder}").score(["who wrote it"], ["She wrote it."])
```
"""

_MASKED = """
`AutoModelForMaskedLM.from_pretrained("{folder}")` has the other head, and `AutoModel` the encoder alone.
"""


def finetuned_card(config: FinetuneConfig, facts: Mapping[str, Any]) -> str:
    """The card of a fine-tuned re-ranker. facts: name to value, in the order of their table."""
    folder, base = config.output.folder.name, public_name(config.model.base)
    is_cross_encoder = config.model.kind == DEFAULT_KIND
    kind = "A cross-encoder" if is_cross_encoder else f"A re-ranker of the kind {config.model.kind}"
    about = f"{kind} from {base}, fine-tuned on labelled queries: {_LOSSES[config.loss.kind]}."
    return card(
        config,
        tags=["reranker"],
        pipeline="text-ranking" if is_cross_encoder else None,
        about=f"{about} {_texts(config.texts)}",
        usage=_usage(folder, config.model) if is_cross_encoder else _OURS.format(folder=folder),
        facts=facts,
        word="finetune",
    )


def pretrained_card(config: PretrainConfig, facts: Mapping[str, Any]) -> str:
    """The card of a pre-trained cross-encoder. facts: name to value, in the order of their table."""
    folder = config.output.folder.name
    stages = ", then ".join(stage.name for stage in config.stages)
    second_head = " and to predict masked tokens" if config.mlm.weight else ""
    usage = _usage(folder, config.model)
    if config.mlm.weight and config.model.train == "all":
        usage += _MASKED.format(folder=folder)
    return card(
        config,
        tags=["reranker"],
        pipeline="text-ranking",
        about=f"A cross-encoder from {public_name(config.model.base)}, pre-trained to score pairs above "
        f"worse ones{second_head} ({stages}).\nIt has seen no labelled query: fine-tune it "
        f"(`linkseek finetune`). {_texts(config.texts)}",
        usage=usage,
        facts=facts,
        word="pretrain",
    )


def _texts(settings: PairTextSettings) -> str:
    title = "with their title before them" if settings.title else "without their title"
    return f"Texts were read\n{title}, {settings.tokens} tokens of query and text together."


def _usage(folder: str, model: CrossEncoderSettings) -> str:
    """How a folder of all weights, or of adapters, is opened."""
    if model.train == "all":
        return f"""```python
from sentence_transformers import CrossEncoder

scores = CrossEncoder("{folder}").predict([("who wrote it", "She wrote it.")])
```
"""
    return f"""This folder holds low-rank adapters and the head; Linkseek opens it together with its base:

{_OURS.format(folder=folder)}
A full folder, which `CrossEncoder(path)` opens:

```sh
linkseek export-reranker {folder} --output {folder}-full
```
"""
