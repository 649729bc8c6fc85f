"""Calls of torch's functions in a model, watched or changed: positions, rows that see a token, dropout.

Models name and shift their tables of learned positions in many ways (RoBERTa's begin after the padding's,
OPT's at 2), and a longer text is an error, or reads beyond the table. So the lookups themselves are watched
while a few tokens are read: a table that is asked for rows that follow each other is one of positions, and
the first of these rows is where it begins.

In a model whose tokens see a window around them, the padding of a short text next to a long one may see
nothing. torch's attention gives zeros there, OpenVINO's gives NaN; and since 0 * NaN is NaN, it spreads to
the tokens of the text, although they do not see the padding. Here such a token sees all others instead; its
vector does not matter, because no token of the text reads it.

On a CPU torch draws the masks of dropout one number at a time in one thread: a quarter of a step of MiniLM.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode


class _Mode(TorchFunctionMode):
    """A context in which `call` takes the place of torch's functions, in this thread."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        return self.call(func, args, dict(kwargs or {}))

    @abstractmethod
    def call(self, func: Callable[..., Any], args: Sequence[Any], keywords: dict[str, Any]) -> Any:
        """The result of a call of a function."""


class SeeingRows(_Mode):
    """A context in which torch's attention, of this thread, has no row that is masked as a whole."""

    def __init__(self) -> None:
        super().__init__()
        self._masks: dict[int, tuple[Tensor, Tensor]] = {}  # of a pass, by id: all layers share one or two

    def call(self, func: Callable[..., Any], args: Sequence[Any], keywords: dict[str, Any]) -> Any:
        """With a mask that masks no row as a whole."""
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


class QuickOnCpu(_Mode):
    """A context for a step of training on a CPU, in which dropout and products in bfloat16 take less time."""

    def __init__(self) -> None:
        super().__init__()
        self._input = self._cast = torch.empty(0)

    def call(self, func: Callable[..., Any], args: Sequence[Any], keywords: dict[str, Any]) -> Any:
        """Dropout by `dropout_mask`; products that read the same input share its copy in bfloat16."""
        if func is functional.dropout:
            return self._dropout(*args, **keywords)
        if func is functional.linear and args[0].dtype == torch.float32 and torch.is_autocast_enabled("cpu"):
            if args[0] is not self._input:
                self._input, self._cast = args[0], args[0].to(torch.get_autocast_dtype("cpu"))
            args = (self._cast, *args[1:])
        return func(*args, **keywords)

    def _dropout(self, x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        return (
            x * dropout_mask(x, p) if training and 0 < p < 1 else functional.dropout(x, p, training, inplace)
        )


def dropout_mask(x: Tensor, p: float) -> Tensor:
    """Zeros with the probability p, to 16 bits, elsewhere 1 / (1 - p), in the shape and type of a tensor.

    Drawn by NumPy from a seed of torch's generator, so that a checkpoint's state gives them again.
    """
    seed = int(torch.randint(1 << 62, ()))
    drawn = np.random.SFC64(seed).random_raw(-(-x.numel() // 4)).view(np.int16)
    bits = torch.from_numpy(drawn)[: x.numel()]
    # Written in the type of the result: torch compares into booleans several times slower.
    kept = torch.ge(bits, round(p * (1 << 16)) - (1 << 15), out=x.new_empty(x.numel()))
    return kept.mul_(1 / (1 - p)).view(x.shape)


def seeing(mask: Tensor) -> Tensor:
    """The mask [..., L, S] with each fully masked row turned into a fully visible one.

    mask: True where a token is seen, or numbers that are added to its score.
    """
    if mask.dtype == torch.bool:
        return mask | ~mask.any(-1, keepdim=True)
    nothing = mask.amax(-1, keepdim=True) <= torch.finfo(mask.dtype).min / 2
    return mask.masked_fill(nothing, 0)


class _Lookups(_Mode):
    """A context that keeps how many positions the tables contain which are asked for consecutive rows."""

    def __init__(self, tokens: int, words: Tensor) -> None:
        super().__init__()
        self._tokens, self._words = tokens, words
        self.positions: list[int] = []

    def call(self, func: Callable[..., Any], args: Sequence[Any], keywords: dict[str, Any]) -> Any:
        """Calls the function unchanged, after recording the rows."""
        if func is functional.embedding:
            rows, table = args[:2]
            if table is not self._words and rows.numel() == rows.shape[-1] >= self._tokens:
                asked = rows.reshape(-1)[: self._tokens].tolist()
                if asked == [*range(asked[0], asked[0] + self._tokens)]:
                    self.positions.append(len(table) - asked[0])
        return func(*args, **keywords)


def positions_of(transformer: Any, tokens: Sequence[int]) -> int | None:
    """How many tokens a transformer has learned positions for; None if it has none.

    tokens: a short text's tokens, for a trial.
    """
    # two or more, and what begins and ends a text only there: it may have a position of its own
    ids = torch.tensor([[*tokens[:-1], *tokens[1:]] if len(tokens) > 2 else [*tokens, *tokens]])  # [1, L]
    lookups = _Lookups(ids.shape[1], transformer.get_input_embeddings().weight)
    with torch.no_grad(), lookups:
        transformer(input_ids=ids, attention_mask=torch.ones_like(ids))
    return min(lookups.positions, default=None)
