"""Computes the last layer of a cross-encoder for [CLS] only, because the score reads nothing else.

In the last layer, only keys and values need the other tokens; its queries, its projection and its
feed-forward part do not, which for six layers saves a seventh of the work. Scores stay the same.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers import BertForSequenceClassification


def read_first_token(model: nn.Module) -> None:
    """Shortens the last layer if the model is a BERT with a head; other models stay unchanged."""
    if isinstance(model, BertForSequenceClassification):
        layers = model.bert.encoder.layer
        layers[-1] = _FirstTokenLayer(layers[-1])


class _FirstTokenLayer(nn.Module):
    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, hidden: Tensor, attention_mask: Any = None, *rest: Any, **options: Any) -> Tensor:
        """[B, L, H] -> [B, 1, H]; for packed sequences, whose mask is a packing, all tokens."""
        if not isinstance(attention_mask, Tensor | None):
            packed: Tensor = self.layer(hidden, attention_mask, *rest, **options)
            return packed
        first = hidden[:, :1]
        own = self.layer.attention.self

        def heads(x: Tensor) -> Tensor:
            """[B, n, H] -> [B, heads, n, size]."""
            return x.view(x.shape[0], -1, own.num_attention_heads, own.attention_head_size).transpose(1, 2)

        attended = nn.functional.scaled_dot_product_attention(
            heads(own.query(first)),
            heads(own.key(hidden)),
            heads(own.value(hidden)),
            attn_mask=None if attention_mask is None else attention_mask[:, :, :1],
            scale=own.scaling,
        )  # [B, heads, 1, size]
        output = self.layer.attention.output(attended.transpose(1, 2).flatten(2), first)
        finished: Tensor = self.layer.feed_forward_chunk(output)
        return finished
