"""The cards of trained re-rankers: README.md, with data, settings and licence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from linkseek.reranker.kinds import DEFAULT_KIND
from linkseek.reranker.training.config import FinetuneConfig, PretrainConfig
from linkseek.retriever.training.card import card, public_name

_ABOUT = {
    "finetune": "fine-tuned on labelled queries.",
    "pretrain": "pre-trained to score pairs above worse ones. It has seen no labelled query: fine-tune it\n"
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
This folder holds low-rank adapters and the head. A full folder, which `CrossEncoder(path)` opens:

```sh
linkseek export-reranker {folder} --output {folder}-full
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
