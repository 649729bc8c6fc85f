"""The card of a trained re-ranker: README.md, with data, settings and licence."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from indexer.base.settings import settings_text
from reranker.training.config import CrossEncoderSettings, FinetuneConfig
from retriever.training.card import public_name

if TYPE_CHECKING:
    from reranker.training.pretraining.config import PretrainConfig

_LOSSES = {
    "lce": "each right text against wrong ones of the same query (LCE)",
    "pointwise": "each pair on its own (pointwise cross-entropy)",
    "hinge": "each right text by 1 above wrong ones of the same query (hinge)",
}


def reranker_card(config: FinetuneConfig, facts: Mapping[str, Any]) -> str:
    """The text. facts: name to value, in the order of their table, such as queries and the data's hash."""
    folder, base = config.output.folder.name, public_name(config.model.base)
    what = f"A cross-encoder from {base}"
    if config.model.kind != "cross-encoder":
        what = f"A re-ranker of the kind {config.model.kind}"
    return card_text(
        config,
        f"{what}, fine-tuned on labelled queries: {_LOSSES[config.loss.kind]}.",
        use_of(folder, config.model) if config.model.kind == "cross-encoder" else _OURS.format(folder=folder),
        facts,
        settings_text(_without_folders(config)),
        library=config.model.kind == "cross-encoder",
    )


def card_text(
    config: FinetuneConfig | PretrainConfig,
    what: str,
    use: str,
    facts: Mapping[str, Any],
    settings: str,
    *,
    program: str = "reranker.finetune",
    library: bool = True,
) -> str:
    """A card. what: the model in a sentence. use: how it is opened. library: whether it is a CrossEncoder."""
    rows = "\n".join(f"| {name} | {value} |" for name, value in facts.items())
    opened_by = "library_name: sentence-transformers\npipeline_tag: text-ranking\n" if library else ""
    return f"""---
license: {config.output.licence}
base_model: {public_name(config.model.base)}
{opened_by}tags:
- reranker
---

# {config.output.folder.name}

{what} Texts were read
{"with their title before them" if config.texts.title else "without their title"}, {config.texts.tokens} \
tokens of query and text together.

{use}
| | |
|---|---|
{rows}

Settings, with which `python -m {program}` makes it again:

```toml
{settings}```
"""


def use_of(folder: str, model: CrossEncoderSettings) -> str:
    """How a folder of all weights, or of adapters, is opened."""
    if model.train == "all":
        return f"""```python
from sentence_transformers import CrossEncoder

scores = CrossEncoder("{folder}").predict([("who wrote it", "She wrote it.")])
```
"""
    return f"""This folder holds low-rank adapters and the head; Linkseek opens it where the base is found:

{_OURS.format(folder=folder)}
A full folder, which `CrossEncoder(path)` opens:

```sh
python -m reranker.export {folder} --output {folder}-full
```
"""


_OURS = """```python
from reranker.models.scoring import open_scorer

scores = open_scorer("{folder}").score(["who wrote it"], ["She wrote it."])
```
"""


def _without_folders(config: FinetuneConfig) -> FinetuneConfig:
    def name(path: Path | None) -> Path | None:
        return Path(path.name) if path else None

    data, model = config.data, config.model
    files = {key: name(getattr(data, key)) for key in ("index", "run", "queries", "qrels")}
    update = {
        "model": model.model_copy(
            update={"base": public_name(model.base), "embeddings": name(model.embeddings)}
        ),
        "data": data.model_copy(update=files | {"pairs": [Path(path.name) for path in data.pairs]}),
        "dev": config.dev.model_copy(update={"pairs": [Path(path.name) for path in config.dev.pairs]}),
        "output": config.output.model_copy(update={"folder": Path(config.output.folder.name)}),
    }
    return config.model_copy(update=update)
