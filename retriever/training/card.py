"""The card of a trained model: README.md, with data, settings and licence."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from linkseek.indexer.program.settings import Settings, settings_text
from linkseek.retriever.models.locations import is_local
from linkseek.retriever.training.config import TrainConfig

T = TypeVar("T", bound=Settings)

_STAGES = {
    "pretrain": "pre-trained on pairs that were mined from hyperlinks",
    "finetune": "fine-tuned on labelled pairs",
}


_FAMILIES = {
    "dense": ("SentenceTransformer", "A bi-encoder", "dense-retrieval"),
    "late": ("MultiVectorEncoder", "A late-interaction model", "late-interaction"),
    "sparse": ("SparseEncoder", "A learned sparse model", "sparse-encoder"),
}
"""The library's class, the model in words, and its tag on the Hub."""


def bi_encoder_card(config: TrainConfig, facts: Mapping[str, Any]) -> str:
    """The text. facts: name to value, in the order of their table, such as pairs and their hash."""
    folder, base = config.output.folder.name, public_name(config.model.base)
    library, is_a, tag = _FAMILIES[config.model.family]
    usage = f"""```python
from sentence_transformers import {library}

model = {library}("{folder}")
scores = model.similarity(model.encode_query(["who wrote it"]), model.encode_document(["She wrote it."]))
```
"""
    if config.model.train == "lora" or (config.model.train == "head" and config.model.dimension):
        holds = "low-rank adapters" if config.model.train == "lora" else "a layer"
        usage += (
            f"\nThis folder contains {holds} on top of {base}. A full folder, which the library opens:\n\n"
            f"```sh\nlinkseek export {folder} --output {folder}-full\n```\n"
        )
    return card(
        config,
        tags=["sentence-transformers", tag],
        pipeline="sentence-similarity" if config.model.family == "dense" else "feature-extraction",
        about=f"{is_a} for retrieval, {_STAGES[config.stage.kind]}, from {base}.",
        usage=usage,
        facts=facts,
        word="train",
    )


def card(
    settings: Settings,
    *,
    tags: list[str],
    pipeline: str | None,
    about: str,
    usage: str,
    facts: Mapping[str, Any],
    word: str,
) -> str:
    """A card of any trained model.

    pipeline: the Hugging Face Hub's word for its use, if sentence-transformers opens it. about: the model in
    a few sentences. usage: how it is opened. word: the command that trains it.
    """
    config: Any = settings
    opened_by = f"library_name: sentence-transformers\npipeline_tag: {pipeline}\n" if pipeline else ""
    rows = "\n".join(f"| {name} | {value} |" for name, value in facts.items())
    tag_lines = "\n".join(f"- {tag}" for tag in tags)
    return f"""---
license: {config.output.licence}
base_model: {public_name(config.model.base)}
{opened_by}tags:
{tag_lines}
---

# {config.output.folder.name}

{about}

{usage}
| | |
|---|---|
{rows}
| licence | {config.output.licence} |

Settings, with which `linkseek {word}` makes it again:

```toml
{settings_text(without_folders(settings))}```
"""


def public_name(base: str) -> str:
    """A model's name, or the last part of its path: folders of one machine mean nothing elsewhere."""
    return Path(base).name or base if is_local(base) else base


def without_folders(settings: T) -> T:
    """The same settings, whose paths are file names alone."""

    def short(name: str, value: Any) -> Any:
        if isinstance(value, Settings):
            return without_folders(value)
        if isinstance(value, list):
            return [short(name, entry) for entry in value]
        if isinstance(value, Path):
            return Path(value.name)
        return public_name(value) if name in ("base", "encoder") else value

    return settings.model_copy(update={name: short(name, value) for name, value in settings})
