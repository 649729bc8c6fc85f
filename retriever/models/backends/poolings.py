"""Poolings in place of the library's, where its own fix a shape or join texts of a batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from linkseek.retriever.models.facts import POOLED


class TermPooling(nn.Module):
    """The library's SpladePooling with the maximum first: the same numbers, no shape that a trace fixes."""

    def __init__(self, pooling: Any) -> None:
        super().__init__()
        self._is_max = pooling.pooling_strategy == "max"
        self._logarithms = 2 if pooling.activation_function == "log1p_relu" else 1

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        """Features with logits [B, L, V] and masks [B, L] -> with the term weights [B, V]."""
        logits = features["token_embeddings"] * features["attention_mask"][:, :, None]
        weights = self._weights(logits.amax(1) if self._is_max else logits)
        return features | {"sentence_embedding": weights if self._is_max else weights.sum(1)}

    def _weights(self, logits: Tensor) -> Tensor:
        weights = logits.relu()
        for _ in range(self._logarithms):
            weights = weights.log1p()
        return weights


class ProjectedTermPooling(TermPooling):
    """The maximum over tokens, from the hidden states that precede the projection to the vocabulary.

    The logits of a batch, [B, L, V], are never in memory, nor are their gradients computed: terms with a
    gradient have one token each.
    """

    def __init__(self, pooling: Any, projection: nn.Linear) -> None:
        """projection: the last layer, which the model no longer applies."""
        super().__init__(pooling)
        self._projection = projection

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        """Features with hidden states [B, L, d] and masks [B, L] -> with the term weights [B, V]."""
        layer = self._projection
        hidden = features["token_embeddings"].to(layer.weight.dtype)
        bias = hidden.new_zeros(layer.out_features) if layer.bias is None else layer.bias
        largest_logits: Any = _LargestLogits.apply
        largest = largest_logits(hidden, features["attention_mask"] > 0, layer.weight, bias)
        return features | {"sentence_embedding": self._weights(largest)}


def project_in_pooling(model: Any) -> None:
    """Let the pooling of a SPLADE model project hidden states, if the projection is the model's last step."""
    if [type(module).__name__ for module in model] != ["Transformer", "SpladePooling"]:
        return
    layer: Any = model[0].model.get_output_embeddings()
    pooling: Any = model[1]
    if pooling.pooling_strategy != "max" or type(layer).__name__ != "Linear":
        return
    features = model.preprocess(["a b c", "a"])
    with torch.no_grad():
        expected = model(dict(features))["sentence_embedding"]
        # The modules stay, with their parameters and places; only what these two compute changes.
        layer.forward, pooling.forward = nn.Identity().forward, ProjectedTermPooling(pooling, layer).forward
        if not torch.allclose(model(dict(features))["sentence_embedding"], expected, rtol=1e-4, atol=1e-5):
            del layer.forward, pooling.forward


class _LargestLogits(torch.autograd.Function):
    """Hidden states [B, L, d], kept [B, L], weight [V, d], bias [V] -> largest logits over tokens [B, V]."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, kept: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(hidden, kept, weight)
        texts = (text[own] for text, own in zip(hidden, kept, strict=True))
        zeros = torch.zeros_like(bias)  # for a text without tokens
        rows = [torch.addmm(bias[:, None], weight, t.T).amax(1).float() if len(t) else zeros for t in texts]
        return torch.stack(rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradients: Tensor) -> tuple[Tensor | None, ...]:
        hidden, kept, weight = ctx.saved_tensors
        of_hidden, of_weight = torch.zeros_like(hidden), torch.zeros_like(weight)
        for text, own, target, gradient in zip(hidden, kept, of_hidden, gradients, strict=True):
            terms, tokens = gradient.nonzero()[:, 0], own.nonzero()[:, 0]
            if len(terms) and len(tokens):
                best = tokens[(weight[terms] @ text[tokens].T).argmax(1)]  # [T], the token of each term
                factors = gradient[terms, None]
                target.index_add_(0, best, factors * weight[terms])
                of_weight.index_add_(0, terms, factors * text[best])
        return of_hidden, None, of_weight, gradients.sum(0)


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
