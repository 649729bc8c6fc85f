"""DUET: two networks that are trained as one, on the places of exact matches and on the topics of the texts.

Mitra et al. 2017, section 3. The local network sees the places of each query word in the text; the
distributed one makes a vector of the query and one of each stretch of the text, multiplies them number by
number, and weights the products. The score is the sum of both. Word embeddings replace the paper's counts of
letter n-grams, as in the authors' second version (Mitra and Craswell 2019); queries and texts are truncated
to the lengths of the model.

A worked example of the local input: for the query "a b" and the text "b c a b" of five places, its rows are
0 0 1 0 0 and 1 0 0 1 0.
"""

from __future__ import annotations

from torch import Tensor, nn

from experiments.baselines.shared import Baseline, Words, same_words

_WINDOW = 3  # words of a convolution


class Duet(Baseline):
    """The model. query_words, text_words: how many are read; width: numbers of all layers."""

    kind = "duet"

    def __init__(
        self, vectors: Tensor, query_words: int = 20, text_words: int = 200, width: int = 64
    ) -> None:
        super().__init__(vectors, query_words=query_words, text_words=text_words, width=width)
        self.query_words, self.text_words = query_words, text_words
        stretch = max(text_words // 10, 1)
        stretches = text_words - _WINDOW + 2 - stretch
        depth = vectors.shape[1]
        self.local = nn.Sequential(
            nn.Linear(text_words, width), nn.Tanh(), nn.Flatten(), *_layers(query_words * width, width)
        )
        self.query = nn.Sequential(
            nn.Conv1d(depth, width, _WINDOW, padding="same"), nn.Tanh(), nn.AdaptiveMaxPool1d(1),
            nn.Flatten(), nn.Linear(width, width), nn.Tanh(),
        )  # fmt: skip
        self.text = nn.Sequential(
            nn.Conv1d(depth, width, _WINDOW), nn.Tanh(), nn.MaxPool1d(stretch, stride=1),
            nn.Conv1d(width, width, 1), nn.Tanh(),
        )  # fmt: skip
        self.together = nn.Sequential(nn.Flatten(), *_layers(stretches * width, width))

    def score(self, query: Words, text: Words) -> Tensor:
        """The score of each pair, [B, 1]."""
        query, text = cut(query, self.query_words), cut(text, self.text_words)
        local: Tensor = self.local(exact_matches(query, text))  # [B, 1]
        topic = self.query(self.across(query))  # [B, width]
        stretches = self.text(self.across(text))  # [B, width, stretches]
        distributed: Tensor = self.together(topic[..., None] * stretches)  # [B, 1]
        return local + distributed


def _layers(inputs: int, width: int) -> list[nn.Module]:
    return [
        nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Dropout(0.2),
        nn.Linear(width, 1),
    ]  # fmt: skip


def cut(words: Words, length: int) -> Words:
    """The first `length` words, padded if there are fewer."""
    missing = max(length - words.ids.shape[1], 0)
    ids, mask = (nn.functional.pad(part[:, :length], (0, missing)) for part in (words.ids, words.mask))
    return Words(ids, mask)


def exact_matches(query: Words, text: Words) -> Tensor:
    """The places of each query word in the text, float32 [B, Q, D] of 0 and 1."""
    return (same_words(query, text) & query.mask[:, :, None] & text.mask[:, None, :]).float()
