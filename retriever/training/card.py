"""The card of a trained model: README.md, with data, settings and licence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from indexer.base.settings import settings_text
from retriever.training.config import TrainConfig

_STAGES = {
    "pretrain": "pre-trained on pairs that were mined from hyperlinks",
    "finetune": "fine-tuned on labelled pairs",
}


def model_card(config: TrainConfig, facts: Mapping[str, Any]) -> str:
    """The text. facts: name to value, in the order of their table, such as pairs and their hash."""
    rows = "\n".join(f"| {name} | {value} |" for name, value in facts.items())
    folder, base = config.output.folder.name, public_name(config.model.base)
    merge = ""
    if config.model.train == "lora":
        merge = (
            f"\nThis folder holds low-rank adapters on top of {base}. A full folder:\n\n"
            f"```sh\npython -m retriever.export {folder} --output {folder}-full\n```\n"
        )
    return f"""---
license: {config.output.licence}
base_model: {base}
library_name: sentence-transformers
pipeline_tag: sentence-similarity
tags:
- sentence-transformers
- dense-retrieval
---

# {folder}

A bi-encoder for retrieval, {_STAGES[config.stage.kind]}, from {base}.
Queries and passages are compared by dot product; passages were read
{"with their title before the text" if config.texts.title else "without their title"}.

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("{folder}")
scores = model.encode_query(["who wrote it"]) @ model.encode_document(["She wrote it."]).T
```
{merge}
| | |
|---|---|
{rows}

Settings, with which `python -m retriever.train` makes it again:

```toml
{_without_folders(config)}```
"""


def public_name(base: str) -> str:
    """A name as it is; of a path its last part: where a folder lies on some machine is no news."""
    return base.rstrip("/").rpartition("/")[2] if base.startswith((".", "/", "~")) else base


def _without_folders(config: TrainConfig) -> str:
    shown = config.model_copy(
        update={
            "model": config.model.model_copy(update={"base": public_name(config.model.base)}),
            "data": config.data.model_copy(update={"pairs": [path.name for path in config.data.pairs]}),
            "dev": config.dev.model_copy(update={"pairs": [path.name for path in config.dev.pairs]}),
            "output": config.output.model_copy(update={"folder": config.output.folder.name}),
        }
    )
    return settings_text(shown)
