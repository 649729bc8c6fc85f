"""Poolings in place of the library's, where its own fix a shape or join texts of a batch."""

from __future__ import annotations

from typing import Any

from torch import nn

from linkseek.retriever.models.facts import POOLED


class TermPooling(nn.Module):
    """The library's SpladePooling with the maximum first: the same numbers, no shape that a trace fixes."""

    def __init__(self, pooling: Any) -> None:
        super().__init__()
        self._is_max = pooling.pooling_strategy == "max"
        self._logarithms = 2 if pooling.activation_function == "log1p_relu" else 1

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        """Features with logits [B, L, V] and masks [B, L] -> with the term weights [B, V]."""
        weights = features["token_embeddings"] * features["attention_mask"][:, :, None]
        if self._is_max:
            weights = weights.amax(1)
        weights = weights.relu()
        for _ in range(self._logarithms):
            weights = weights.log1p()
        return features | {"sentence_embedding": weights if self._is_max else weights.sum(1)}


class PromptFreePooling(nn.Module):
    """The library's Pooling over the tokens of `POOLED` alone: a prompt is read, but not averaged.

    For models with `include_prompt` false, such as INSTRUCTOR's.

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
