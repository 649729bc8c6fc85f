"""The card of a pre-trained cross-encoder: README.md, with data, settings and licence."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from indexer.base.settings import settings_text
from reranker.training.card import card_text, use_of
from reranker.training.pretraining.config import PretrainConfig
from retriever.training.card import public_name


def pretrained_card(config: PretrainConfig, facts: Mapping[str, Any]) -> str:
    """The text. facts: name to value, in the order of their table, such as contrasts and their hash."""
    folder, model = config.output.folder.name, config.model
    stages = ", then ".join(stage.name for stage in config.stages)
    beside = " and to predict masked tokens" if config.mlm.weight else ""
    use = use_of(folder, model)
    if config.mlm.weight and model.train == "all":
        use += _MASKED.format(folder=folder)
    shown = config.model_copy(
        update={
            "model": model.model_copy(update={"base": public_name(model.base)}),
            "stages": [
                stage.model_copy(update={"contrasts": [Path(path.name) for path in stage.contrasts]})
                for stage in config.stages
            ],
            "output": config.output.model_copy(update={"folder": Path(folder)}),
        }
    )
    return card_text(
        config,
        f"A cross-encoder from {public_name(model.base)}, pre-trained to score pairs above worse ones"
        f"{beside} ({stages}).\nIt has seen no labelled query: fine-tune it (`python -m reranker.finetune`).",
        use,
        facts,
        settings_text(shown),
        program="reranker.pretrain",
    )


_MASKED = """
`AutoModelForMaskedLM.from_pretrained("{folder}")` has the other head, and `AutoModel` the encoder alone.
"""
