"""Attention in which every token sees at least one: for backends that divide by zero where torch does not.

In a model whose tokens see a window around them, the padding of a short text next to a long one may see
nothing. torch's attention gives zeros there, OpenVINO's gives NaN; and since 0 * NaN is NaN, it spreads to
the tokens of the text, although they do not see the padding. Here such a token sees all others instead; its
vector does not matter, because no token of the text reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode


class SeeingRows(TorchFunctionMode):
    """A context in which torch's attention, of this thread, has no row that is masked as a whole."""

    def __init__(self) -> None:
        super().__init__()
        self._masks: dict[int, tuple[Tensor, Tensor]] = {}  # of a pass, by id: all layers share one or two

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        keywords = dict(kwargs or {})
        if func is scaled_dot_product_attention:
            query, key, value, *rest = args
            if rest:
                keywords["attn_mask"], *rest = rest
            if isinstance(mask := keywords.get("attn_mask"), Tensor):
                if id(mask) not in self._masks:
                    self._masks[id(mask)] = mask, seeing(mask)
                keywords["attn_mask"] = self._masks[id(mask)][1]
            args = (query, key, value, *rest)
        return func(*args, **keywords)


def seeing(mask: Tensor) -> Tensor:
    """An attention mask [..., L, S], of which a row that masks all masks none; others are as they were.

    mask: True where a token is seen, or numbers that are added to its score.
    """
    if mask.dtype == torch.bool:
        return mask | ~mask.any(-1, keepdim=True)
    nothing = mask.amax(-1, keepdim=True) <= torch.finfo(mask.dtype).min / 2
    return mask.masked_fill(nothing, 0)
