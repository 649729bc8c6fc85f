"""The last layer of a cross-encoder that is read at its first token alone: for that token alone.

BERT's score is made from [CLS]. Of the last layer, only keys and values need the other tokens; its queries,
its projection and its feed-forward part do not, which for six layers is a seventh of the work. Scores
stay the same.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers import BertForSequenceClassification


def read_first_token(model: nn.Module) -> None:
    """Shorten the last layer where the model is a BERT with a head; others are left as they are."""
    if isinstance(model, BertForSequenceClassification):
        layers = model.bert.encoder.layer
        layers[-1] = _FirstTokenLayer(layers[-1])


class _FirstTokenLayer(nn.Module):
    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, hidden: Tensor, attention_mask: Any = None, *rest: Any, **options: Any) -> Tensor:
        """[B, L, H] -> [B, 1, H]; packed sequences, which have a packing as their mask, stay whole."""
        if not isinstance(attention_mask, Tensor | None):
            whole: Tensor = self.layer(hidden, attention_mask, *rest, **options)
            return whole
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
