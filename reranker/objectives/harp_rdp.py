"""Representative document prediction: a sentence -> the page of its weightier anchor (HARP, 3.2.3).

    query    a sentence with anchors to several pages
    better   with the page of the anchor that [CLS] looks at more, of two drawn by that
    worse    with the page of the other

Two anchors a sentence, as the paper samples them (the released code takes all). Equation 10 is printed as
what the anchor gives to [CLS]; the text, and equations 5 and 13, mean what [CLS] gives to the anchor. The
same anchor several times in a sentence counts together and has its first page.
Example: "The [cat] chased a [mouse] home." with a [CLS] that looks at cat gives the page of cat before mouse.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reranker.contrasts import Contrast
from reranker.objectives.attentions import Attended
from reranker.objectives.harp import (
    Harp,
    Mention,
    anchor_key,
    contrast,
    each,
    first_of_several,
    mentions_beginning_with,
    page_of,
    softmax,
)
from reranker.objectives.source import Source


@dataclass(frozen=True)
class RepresentativeDocumentPrediction(Harp):
    """The page of the more important of two anchors."""

    name = "harp-rdp"
    summary = "a sentence with the page of its more important anchor, before that of another (HARP)"

    def candidates(self, source: Source) -> NDArray[np.int64]:
        """Every link that may be the first of several in its sentence."""
        return first_of_several(source)

    def contrasts(
        self, source: Source, rows: NDArray[np.int64], draws: NDArray[np.int64]
    ) -> Iterator[Contrast | None]:
        """Two pages for each sentence."""
        sentences = [mentions_beginning_with(source, link) for link in rows[:, 0].tolist()]
        several = [len({mention.target for mention in mentions}) > 1 for mentions in sentences]
        asked = [(m[0].sentence, None) for m, fits in zip(sentences, several, strict=True) if fits]
        attended = iter(self.attentions.of(asked))
        for mentions, fits, (_, generator) in zip(sentences, several, each(rows, draws), strict=True):
            chosen = fits and self._two(mentions, next(attended), generator)
            if not chosen:
                yield None
                continue
            (better, more), (worse, less) = chosen
            pages = page_of(source, better.target), page_of(source, worse.target)
            if pages[0] is None or pages[1] is None:
                yield None
                continue
            evidence = {
                "better": source.link_evidence(better.link) | {"share": more},
                "worse": source.link_evidence(worse.link) | {"share": less},
            }
            query = better.sentence
            yield contrast(self, (query, pages[0]), (query, pages[1]), evidence)

    def _two(
        self, mentions: list[Mention], attended: Attended | None, generator: np.random.Generator
    ) -> list[tuple[Mention, float]] | None:
        """Two anchors to different pages with their shares (equation 11), the larger first; None if equal."""
        if attended is None:
            return None
        found = importance(mentions, attended, self.temperature)
        first, share = found[generator.choice(len(found), p=[share for _, share in found])]
        others = [pair for pair in found if pair[0].target != first.target]
        if not others:
            return None
        left = np.array([share for _, share in others])
        second = others[generator.choice(len(others), p=left / left.sum())]
        if second[1] == share:
            return None
        return sorted([(first, share), second], key=lambda pair: -pair[1])


def importance(
    mentions: list[Mention], attended: Attended, temperature: float
) -> list[tuple[Mention, float]]:
    """The first mention of each distinct anchor, with its share (equations 10 and 11)."""
    first: dict[str, Mention] = {}
    weight: dict[str, float] = {}
    for mention in mentions:
        key = anchor_key(mention.anchor)
        first.setdefault(key, mention)
        weight[key] = weight.get(key, 0.0) + attended.within(mention.start, mention.end)
    shares = softmax(list(weight.values()), temperature)
    return list(zip(first.values(), shares.tolist(), strict=True))
