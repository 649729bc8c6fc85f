"""How many learned positions a transformer has: a longer text is an error, or reads what is not there.

Models name and shift their tables of positions in many ways (RoBERTa's begin after the padding's, OPT's at
2). So the lookups themselves are watched while a few tokens are read: a table that is asked for rows that
follow each other is one of positions, and the first of these rows is where it begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode


class _Lookups(TorchFunctionMode):
    """A context that keeps how many positions the tables hold which are asked for consecutive rows."""

    def __init__(self, tokens: int, words: Tensor) -> None:
        super().__init__()
        self._tokens, self._words = tokens, words
        self.positions: list[int] = []

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func is functional.embedding:
            rows, table = args[:2]
            if table is not self._words and rows.numel() == rows.shape[-1] >= self._tokens:
                asked = rows.reshape(-1)[: self._tokens].tolist()
                if asked == [*range(asked[0], asked[0] + self._tokens)]:
                    self.positions.append(len(table) - asked[0])
        return func(*args, **(kwargs or {}))


def positions_of(transformer: Any, tokens: Sequence[int]) -> int | None:
    """How many tokens a transformer has learned positions for; None if it has none.

    tokens: of a short text, with which that is tried.
    """
    # two or more, and what begins and ends a text only there: it may have a position of its own
    ids = torch.tensor([[*tokens[:-1], *tokens[1:]] if len(tokens) > 2 else [*tokens, *tokens]])  # [1, L]
    lookups = _Lookups(ids.shape[1], transformer.get_input_embeddings().weight)
    with torch.no_grad(), lookups:
        transformer(input_ids=ids, attention_mask=torch.ones_like(ids))
    return min(lookups.positions, default=None)
