"""Conv-KNRM: K-NRM on word n-grams, those of the query against those of the text in all lengths.

Dai et al. 2018, equations 1 to 6. A convolution makes a vector of each h words, h from 1 to 3; the n-grams of
each length of the query meet those of each length of the text, and K-NRM's kernels count how alike they are:
nine times eleven numbers, of which f = w . phi + b.

A worked example: with filters that add up their words and no bias, the text "new york" has the unigrams "new"
and "york", the bigrams "new york" and "york" (nothing follows), so a query "york" is found among both.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reranker.baselines.knrm import Kernels
from reranker.baselines.shared import Baseline, Words, cosines


class ConvKnrm(Baseline):
    """The model. filters: numbers of an n-gram's vector; longest: words of the longest n-gram."""

    kind = "conv-knrm"

    def __init__(self, vectors: Tensor, filters: int = 128, longest: int = 3) -> None:
        super().__init__(vectors, filters=filters, longest=longest)
        width = vectors.shape[1]
        self.grams = nn.ModuleList(nn.Conv1d(width, filters, size) for size in range(1, longest + 1))
        self.kernels = Kernels()
        self.rank = nn.Linear(longest * longest * len(self.kernels.mu), 1)

    def score(self, query: Words, text: Words) -> Tensor:
        """The score of each pair, [B]."""
        of_query, of_text = self._ngrams(query), self._ngrams(text)
        counts = [
            self.kernels(cosines(mine, theirs), query.there, text.there)
            for mine in of_query
            for theirs in of_text
        ]
        scores: Tensor = self.rank(torch.cat(counts, dim=1))  # [B, 1]
        return scores[:, 0]

    def _ngrams(self, words: Words) -> list[Tensor]:
        """The vectors of the n-grams that begin at each word, of each length, [B, L, F]."""
        vectors = self.embeddings(words.ids) * words.there[..., None]  # [B, L, d]
        across = vectors.transpose(1, 2)  # [B, d, L]
        return [
            torch.relu(gram(nn.functional.pad(across, (0, size)))).transpose(1, 2)
            for size, gram in enumerate(self.grams)
        ]
