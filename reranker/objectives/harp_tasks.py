"""HARP's four tasks (Ma et al. 2021, section 3.2): a class each, on the common code in `harp`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.store.ids import hash_ids
from linkseek.reranker.contrasts import Contrast
from linkseek.reranker.objectives.attentions import Attended
from linkseek.reranker.objectives.base import ContrastSource, draw_count, words_of
from linkseek.reranker.objectives.harp import (
    Harp,
    Mention,
    Plan,
    anchor_key,
    mention_of,
    mentions_beginning_with,
    page_of,
    softmax,
    usable_links,
)


@dataclass(frozen=True)
class RepresentativeQueryPrediction(Harp):
    """Representative query prediction: an anchor in its words before words of its page (HARP, 3.2.1).

        document   the page P of an anchor a in a sentence S
        better     S1: a and l words of S, drawn by the attentions of a
        worse      S2: l + 1 words of P, drawn by the attentions of [CLS]; none of a's (equation 5)

    Both have l + 1 terms, the anchor being one. Example: "The [Aristocats] was scored by George Bruns."
    gives "Aristocats scored Bruns" before "Disney film cats", both with the page of The Aristocats.
    """

    name = "harp-rqp"
    summary = "a page with an anchor and words around it, before words of the page (HARP)"
    better_is = "an anchor and words of its sentence, with its page"
    worse_is = "as many words of the page, with the page"

    def candidates(self, source: ContrastSource) -> dict[str, NDArray[np.int64]]:
        """Every link to a document with text."""
        return {self.name: usable_links(source)[:, None]}

    def plan(self, source: ContrastSource, row: list[int], generator: np.random.Generator) -> Plan | None:
        """Two queries with the page of the link."""
        mention = mention_of(source, row[0])
        page = page_of(source, mention.target) if mention else None
        if mention is None or page is None:
            return None

        def finish(sentence_attended: Attended, page_attended: Attended) -> Contrast | None:
            better = self.mention_set(source, mention, sentence_attended, generator)
            if not better:
                return None
            own, count = words_of(mention.anchor), len(better)
            worse = self.word_set(source, page.document, page_attended, count, generator, own)
            if not worse:
                return None
            evidence = {"link": source.link_evidence(mention.link)}
            return self.contrast((" ".join(better), page), (" ".join(worse), page), evidence)

        return Plan([(mention.sentence, (mention.start, mention.end)), (page.document, None)], finish)


_MAX_PAGES = 10


@dataclass(frozen=True)
class QueryDisambiguation(Harp):
    """Query disambiguation: an anchor in its words -> its page, before another page of that anchor (HARP,
    3.2.2).

        query    an anchor and words of its sentence, drawn by the attentions of the anchor
        better   with the page that the anchor leads to here
        worse    with a random other page that the same anchor leads to elsewhere

    Anchors with 2 to 10 pages (the released code's limit; the paper names none). Case and spacing do not
    count. Example: "He ate an [apple|Apple]." and "The [Apple|Apple Inc.] phone rang." give "apple ate"
    with Apple before Apple Inc.
    """

    name = "harp-qdm"
    summary = "an ambiguous anchor and words around it, with its page before another of the anchor's (HARP)"
    better_is = "an ambiguous anchor and words of its sentence, with its page"
    worse_is = "the same query, with another page that this anchor leads to elsewhere"

    def candidates(self, source: ContrastSource) -> dict[str, NDArray[np.int64]]:
        """Every link whose anchor leads to several documents: [n, 10], the link and the others, else -1."""
        links = usable_links(source)
        target = np.asarray(source.index.links.target)[links].astype(np.int64)  # [n]
        anchor = anchor_hashes(source, links)  # [n]
        order = np.lexsort((target, anchor))
        new = np.ones(len(links), np.bool_)
        new[1:] = np.diff(anchor[order]).astype(np.bool_) | np.diff(target[order]).astype(np.bool_)
        anchors, targets = anchor[order][new], target[order][new]  # [m], each pair once
        low = np.searchsorted(anchors, anchor, side="left")  # [n]
        count = np.searchsorted(anchors, anchor, side="right") - low
        several = np.flatnonzero((count > 1) & (count <= _MAX_PAGES))
        column = np.arange(_MAX_PAGES)
        places = np.minimum(low[several, None] + column, max(len(targets) - 1, 0))  # [k, 10]
        others = np.where(column < count[several, None], targets[places], -1)
        # One of the ten is the link's own: its place is the link's.
        own = np.argmax(others == target[several, None], axis=1)
        others[np.arange(len(several)), own] = others[:, 0]
        others[:, 0] = links[several]
        return {self.name: others}

    def plan(self, source: ContrastSource, row: list[int], generator: np.random.Generator) -> Plan | None:
        """The page of the link and another page of its anchor."""
        mention = mention_of(source, row[0])
        if mention is None:
            return None

        def finish(sentence_attended: Attended) -> Contrast | None:
            query = " ".join(self.mention_set(source, mention, sentence_attended, generator))
            other = int(generator.choice([document for document in row[1:] if document >= 0]))
            better, worse = page_of(source, mention.target), page_of(source, other)
            if not query or better is None or worse is None:
                return None
            evidence = {"link": source.link_evidence(mention.link), "worse": source.document_id(other)}
            return self.contrast((query, better), (query, worse), evidence)

        return Plan([(mention.sentence, (mention.start, mention.end))], finish)


def anchor_hashes(source: ContrastSource, links: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A hash of each link's anchor, uint64 [n], in one pass over the texts. links: ascending."""
    graph = source.index.links
    passage, start, end = (np.asarray(column)[links] for column in (graph.passage, graph.start, graph.end))
    hashes, row = [np.empty(0, np.uint64)], 0
    for (texts,) in source.index.passages.table.batches(["text"]):
        low, high = np.searchsorted(passage, [row, row + len(texts)])
        spans = zip(*(column[low:high].tolist() for column in (passage - row, start, end)), strict=True)
        hashes.append(hash_ids(anchor_key(texts[p].as_py()[s:e]) for p, s, e in spans))
        row += len(texts)
    return np.concatenate(hashes)


@dataclass(frozen=True)
class RepresentativeDocumentPrediction(Harp):
    """Representative document prediction: a sentence -> the page of its heavier anchor (HARP, 3.2.3).

        query    a sentence with anchors to several pages
        better   of two anchors drawn by the attentions of [CLS], with the page of the heavier one
        worse    with the page of the other

    Two anchors per sentence, as the paper samples them (the released code takes all). Equation 10 is
    printed as the attention of the anchor to [CLS]; the text, and equations 5 and 13, mean the attention
    of [CLS] to the anchor. Equal anchors in a sentence count together and have the first one's page.
    Example: "The [cat] chased a [mouse] home." with a [CLS] attending to cat gives the page of cat before
    mouse.
    """

    name = "harp-rdp"
    summary = "a sentence with the page of its more important anchor, before another anchor's page (HARP)"
    better_is = "a sentence, with the page of an anchor in it that matters more"
    worse_is = "the sentence, with the page of one that matters less"

    def plan(self, source: ContrastSource, row: list[int], generator: np.random.Generator) -> Plan | None:
        """Two pages for the sentence."""
        mentions = mentions_beginning_with(source, row[0])
        if len({mention.target for mention in mentions}) < 2:
            return None

        def finish(attended: Attended) -> Contrast | None:
            drawn = self._draw_two(mentions, attended, generator)
            pages = [page_of(source, mention.target) for mention, _ in drawn]
            if not drawn or pages[0] is None or pages[1] is None:
                return None
            evidence = {
                side: source.link_evidence(mention.link) | {"share": share}
                for side, (mention, share) in zip(("better", "worse"), drawn, strict=True)
            }
            query = mentions[0].sentence
            return self.contrast((query, pages[0]), (query, pages[1]), evidence)

        return Plan([(mentions[0].sentence, None)], finish)

    def _draw_two(
        self, mentions: list[Mention], attended: Attended, generator: np.random.Generator
    ) -> list[tuple[Mention, float]]:
        """Two anchors to different pages with their shares (equation 11), the larger first; [] if equal."""
        shares = importance(mentions, attended, self.temperature)
        first, share = shares[generator.choice(len(shares), p=[share for _, share in shares])]
        others = [pair for pair in shares if pair[0].target != first.target]
        if not others:
            return []
        left = np.array([share for _, share in others])
        second = others[generator.choice(len(others), p=left / left.sum())]
        if second[1] == share:
            return []
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


_TRIES = 16


@dataclass(frozen=True)
class AnchorCoOccurrence(Harp):
    """Anchor co-occurrence: words of one anchor's page -> the page of another in its sentence (HARP, 3.2.4).

        query    S1: an anchor a1 and l words of its page P1, drawn by the attentions of [CLS]
        better   with P2, the page of another anchor of the same sentence
        worse    with a random page of the corpus

    One pair of anchors per sentence, in a random order. The random page is not one of the sentence's, nor
    of the document that holds it. Example: "The [cat] chased a [mouse] home." gives "mouse small rodent"
    with the page of cat before the page of Warsaw.
    """

    name = "harp-acm"
    summary = "an anchor and words of its page, with the page of an anchor next to it before any other (HARP)"
    better_is = "an anchor and words of its page, with the page of another anchor of its sentence"
    worse_is = "the same query, with a random page"

    def plan(self, source: ContrastSource, row: list[int], generator: np.random.Generator) -> Plan | None:
        """Two pages for a word set of the sentence."""
        mentions = mentions_beginning_with(source, row[0])
        pairs = [(m, n) for m in mentions for n in mentions if m.target != n.target]
        if not pairs:
            return None
        first, second = pairs[generator.integers(len(pairs))]
        page, better = page_of(source, first.target), page_of(source, second.target)
        if page is None or better is None:
            return None
        own = {source.document_of(int(source.index.links.passage[row[0]])), *(m.target for m in mentions)}
        drawn = generator.integers(0, len(source.index.documents), _TRIES).tolist()
        pages = ((other, page_of(source, other)) for other in drawn if other not in own)
        other, worse = next(((other, page) for other, page in pages if page), (-1, None))
        if worse is None:
            return None

        def finish(page_attended: Attended) -> Contrast | None:
            count = draw_count(self.mean_words, generator)
            words = self.word_set(source, page.document, page_attended, count, generator)
            query = " ".join([first.anchor, *words])
            links = {"asked": source.link_evidence(first.link), "better": source.link_evidence(second.link)}
            evidence = {**links, "worse": source.document_id(other)}
            return self.contrast((query, better), (query, worse), evidence) if words else None

        return Plan([(page.document, None)], finish)
