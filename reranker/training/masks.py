"""Which tokens of a pair are predicted, and which tokens replace them (Devlin et al. 2019, section 3.1).

A token is chosen with a probability of its own: in an anchor of the query, elsewhere in the query or in the
document; never [CLS] and [SEP], and never in a query that is a set of words. 80 % of the chosen ones become
the mask token, 10 % any token of the vocabulary, and 10 % stay.

Anchors are masked more often, and only in pairs whose document they lead to, so whoever sees how much of the
query is masked knows the better pair. Masked pairs may be scored only if the query of all pairs of a group is
masked alike (`alike`), by the anchors of the better one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding

from linkseek.reranker.contrasts import TextPair

NOT_PREDICTED = -100
_MASKED, _REPLACED = 0.8, 0.9  # cumulated shares

Masked = tuple[NDArray[np.int32], NDArray[np.int64]]
"""The tokens of a pair as the model reads them [L], and the original where predicted, else -100."""


@dataclass(frozen=True)
class Masks:
    """How pairs are masked. share, anchors: probabilities. vocabulary: how many tokens there are."""

    mask_token: int
    vocabulary: int
    share: float = 0.15
    anchors: float = 0.5
    alike: bool = False

    def group(
        self,
        encodings: Sequence[Encoding],
        pairs: Sequence[TextPair],
        masks_query: bool,
        generator: np.random.Generator,
    ) -> list[Masked]:
        """The pairs of a group, the better one first. masks_query: whether its query's tokens are masked."""
        # The side of each token: the query (0), the document (1) or neither (-1), [L] each.
        sides = [np.array([-1 if s is None else s for s in encoding.sequence_ids]) for encoding in encodings]
        shared = generator.random((3, max(int((side == 0).sum()) for side in sides)))
        masked = []
        for encoding, side, pair in zip(encodings, sides, pairs, strict=True):
            draws = generator.random((3, len(side)))
            anchors = pair.anchors
            if self.alike:
                draws[:, side == 0] = shared[:, : int((side == 0).sum())]
                anchors = pairs[0].anchors if pair.query == pairs[0].query else ()
            chances = np.where(side == 1, self.share, 0.0)  # [L]
            if masks_query:
                chances[side == 0] = self.share
                chances[(side == 0) & _in_spans(encoding, anchors)] = self.anchors
            masked.append(self._masked(np.array(encoding.ids), chances, draws))
        return masked

    def _masked(
        self, ids: NDArray[np.int64], chances: NDArray[np.float64], draws: NDArray[np.float64]
    ) -> Masked:
        """ids, chances: [L]. draws: [3, L] in [0, 1): whether a token is chosen, its fate, its substitute."""
        is_chosen, fate = draws[0] < chances, draws[1]
        others = (draws[2] * self.vocabulary).astype(np.int64)
        seen = np.where(fate < _MASKED, self.mask_token, np.where(fate < _REPLACED, others, ids))
        return np.where(is_chosen, seen, ids).astype(np.int32), np.where(is_chosen, ids, NOT_PREDICTED)


def _in_spans(encoding: Encoding, spans: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
    """Which tokens share a character with a span of their text, [L]."""
    starts, ends = np.array(encoding.offsets).T  # [L] each
    mask = np.zeros(len(starts), bool)
    for start, end in spans:
        mask |= (starts < end) & (ends > start)
    return mask
