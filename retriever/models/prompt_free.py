"""Pooling without the prompt (`include_prompt` false, such as INSTRUCTOR's): it is read, but not averaged."""

from __future__ import annotations

from typing import Any

from torch import nn

from linkseek.retriever.models.facts import POOLED


class PromptFreePooling(nn.Module):
    """The library's Pooling over the tokens of `POOLED` alone.

    The library omits the same number of tokens of all texts in a batch; here each text has its own mask, so
    that texts of several prompts may share a batch.
    """

    def __init__(self, pooling: Any) -> None:
        super().__init__()
        self.pooling = pooling

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        """Features with token embeddings [B, L, H] and masks [B, L] -> with the vectors [B, d]."""
        self.pooling._exclude_prompt_from_mask = lambda mask, prompt_length: features[POOLED]
        pooled: dict[str, Any] = self.pooling(features | {"prompt_length": 1})
        return pooled
