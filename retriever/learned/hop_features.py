"""Features of candidates for hops: of the first stage, and of the passages that lead to them.

Sources are the first passages of the first stage. Candidates are its results, and the passages that the
sources lead to (`hop_graph`). No feature has a unit of the corpus: scores and similarities are scaled for
each question, words are shares, ranks are ranks. So a model of one corpus reads another.

Symbols: m candidates of a question, the first s of them sources, e edges from sources to candidates, d
dimensions, F features.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.index import OpenIndex
from linkseek.retriever.learned.hop_graph import Articles, Edges, Similarity
from linkseek.retriever.learned.learned_fusion import best_of_group, rank_in_group, share
from linkseek.retriever.ranking import Paths, Query, Ranking, Step
from linkseek.retriever.search.fusion import stretched
from linkseek.retriever.search.query_words import common_terms, terms

OF_PASSAGE = {
    "score": "the score of the first stage scaled to 0..1 for each question, -1 where it lacks the passage",
    "rank": "the rank in the first stage, or one more than its last",
    "similarity": "the inner product with the question's vector, in standard deviations from the best of the "
    "first stage",
    "question words": "the share of the question's words that title and text have; words count by their "
    "rarity among the candidates, here and in all shares of the question",
    "title in question": "the share of the title's words that the question has",
    "question in title": "the share of the question's words that the title has",
}
"""Features of the passage alone."""

OF_QUESTION = {
    "words": "how many different words the question has, without stop words",
    "titles in question": "how many sources have all words of their title in the question",
    "lead": "how far the scaled score of the first passage is above the second one's",
}
"""Features that all candidates of a question share."""

OF_GRAPH = {
    "source score": "the best scaled score of a source that leads here, -1 without one",
    "source rank": "the rank of that source, or one more than the rank of the last source",
    "sources": "the scaled scores of all sources that lead here, added up",
    "edges": "how many articles that source leads to",
    "place": "how many of them come before this one in its text",
    "rank among linked": "the rank by similarity among the passages that a source leads to, the best of all "
    "sources",
    "source title in question": "the share of the words of that source's title that the question has",
    "anchor in question": "the largest share of the words of a link's anchor that the question has",
    "title in anchor": "the share of the title's words that the anchor has",
    "open words": "the share of the question's words that the passage has and a source lacks, the largest",
    "open similarity": "the similarity to what of the question's vector is not in a source's, the largest",
    "joint similarity": "the similarity to the sum of the question's vector and a source's, the largest",
    "source similarity": "the inner product with that source's vector",
}
"""Features of the sources that lead to the passage, for each graph."""

OF_LEADS = {
    "leads to score": "the best scaled score of a source that the passage leads to, -1 without one",
    "leads to similarity": "the best similarity of a source that the passage leads to; -9 without one",
}
"""Features of the sources that the passage itself leads to, on the first graph."""

_NONE = -9.0


def hop_feature_names(graphs: Sequence[str]) -> list[str]:
    """The names of the F features, in the order of their columns."""
    graph_names = [f"{graph}: {name}" for graph in graphs for name in OF_GRAPH]
    leads = [f"{graphs[0]}: {name}" for name in OF_LEADS]
    return [*OF_PASSAGE, *OF_QUESTION, *graph_names, *leads]


def hop_meaning(feature: str) -> str:
    """The meaning of a feature, for people."""
    return (OF_PASSAGE | OF_QUESTION | OF_GRAPH | OF_LEADS)[feature.rpartition(": ")[2]]


class HopCandidates(NamedTuple):
    """The candidates of one question, the results of the first stage first.

    rows: int64 [m]. values: float64 [m, F]. paths: the paths of candidates to which a better source leads.
    leads: whether any source leads to any of them.
    """

    rows: NDArray[np.int64]
    values: NDArray[np.float64]
    paths: Paths
    leads: bool


class HopFeatures:
    """Reads the candidates of questions from one index, in any thread."""

    def __init__(
        self,
        index: OpenIndex,
        graphs: Mapping[str, Edges],
        articles: Articles,
        similarity: Similarity,
        sources: int,
    ) -> None:
        """graphs: name -> edges; the features are `hop_feature_names` of the names."""
        self.names = hop_feature_names([*graphs])
        self._index, self._graphs, self._articles, self._similarity = index, graphs, articles, similarity
        self._sources = sources
        self._passage = lru_cache(1 << 14)(self._read_passage)
        self._terms = lru_cache(1 << 16)(self._read_terms)
        self._anchor = lru_cache(1 << 16)(self._read_anchor)

    def read(self, queries: Sequence[Query], first: Ranking) -> list[HopCandidates]:
        """The candidates of each query. first: the results of the first stage."""
        vectors = self._similarity.questions([query.text for query in queries])  # [Q, d]
        scores = stretched(first)  # [Q, k]
        return [
            self._of_question(self._terms(query.text), vector, rows[rows >= 0].tolist(), own[rows >= 0])
            for query, vector, rows, own in zip(queries, vectors, first.rows, scores, strict=True)
        ]

    def _of_question(
        self, words: frozenset[str], question: NDArray[np.float32], first: list[int], own: NDArray[np.float64]
    ) -> HopCandidates:
        sources = first[: self._sources]
        ranked = self._articles.ranked(first)
        place = {row: number for number, row in enumerate(first)}
        edges = {
            name: self._edges(graph, sources, ranked, question, place) for name, graph in self._graphs.items()
        }
        rows = list(place)  # [m], which `_edges` has added to
        if not rows:
            return HopCandidates(np.empty(0, np.int64), np.empty((0, len(self.names))), {}, False)
        vectors = self._similarity.passages(rows)  # [m, d]
        known = vectors @ question  # [m]
        deviation = max(float(known[: len(first)].std()), 1e-6)
        best = float(known[: len(first)].max())
        similarity = (known - best) / deviation  # [m]
        scores = np.append(own, np.full(len(rows) - len(first), -1.0))  # [m]
        passages = [self._passage(row) for row in rows]
        texts = [common_terms(words, text, self._index.language) for text, _ in passages]
        titles = [title for _, title in passages]
        in_question = np.array([share(title, words) for title in titles])  # [m]
        weights = _rarity(words, texts)
        columns: dict[str, Sequence[float] | NDArray[Any] | float] = {  # [m], or one number for all
            "score": scores,
            "rank": np.minimum(np.arange(len(rows)) + 1, len(first) + 1),
            "similarity": similarity,
            "question words": [_weight(weights, words & text) for text in texts],
            "title in question": in_question,
            "question in title": [_weight(weights, words & title) for title in titles],
            "words": len(words),
            "titles in question": int((in_question[: len(sources)] == 1).sum()),
            "lead": scores[0] - (scores[1] if len(first) > 1 else 0),
        }
        paths: dict[int, tuple[Step, ...]] = {}
        for steps in edges.values():
            for row, source, link in np.stack([steps.target, steps.source, steps.link], axis=1).tolist():
                if source < row:  # the first source leads: edges are in the order of sources
                    paths.setdefault(rows[row], (Step(rows[source], link),))
        for graph, steps in edges.items():
            read = self._graph_columns(
                steps, words, weights, vectors, known, scores, texts, titles, in_question
            )
            columns |= {f"{graph}: {name}": column for name, column in read.items()}
        [graph, *_] = self._graphs
        leading = self._lead_columns(graph, rows, {row: place[row] for row in sources}, scores, similarity)
        columns |= {f"{graph}: {name}": column for name, column in leading.items()}
        values = np.empty((len(rows), len(self.names)))
        for number, name in enumerate(self.names):
            values[:, number] = columns[name]
        leads = any(len(steps.target) for steps in edges.values())
        return HopCandidates(np.array(rows), values, paths, leads)

    def _edges(
        self,
        edges: Edges,
        sources: Sequence[int],
        ranked: dict[int, int],
        question: NDArray[np.float32],
        place: dict[int, int],
    ) -> _Edges:
        source_edges = [edges(source) for source in sources]
        rows = iter(self._articles.best([*itertools.chain(*source_edges)], ranked, question))
        found: list[tuple[int, int, int, int, int]] = []
        for number, (source, leading) in enumerate(zip(sources, source_edges, strict=True)):
            for position, (edge, row) in enumerate(zip(leading, rows, strict=False)):
                if row >= 0 and row != source:
                    target = place.setdefault(row, len(place))
                    found.append((number, target, edge.link, position, len(leading)))
        return _Edges(*np.array(found, np.int64).reshape(-1, 5).T)

    def _graph_columns(
        self,
        edges: _Edges,
        words: frozenset[str],
        weights: Mapping[str, float],
        vectors: NDArray[np.float32],
        known: NDArray[np.float32],
        scores: NDArray[np.float64],
        texts: Sequence[frozenset[str]],
        titles: Sequence[frozenset[str]],
        in_question: NDArray[np.float64],
    ) -> dict[str, NDArray[np.float64]]:
        """The columns of `OF_GRAPH` by name, each [m]. known: inner products with the question."""
        m, (source, target) = len(scores), (edges.source, edges.target)
        pairs = list(zip(source.tolist(), target.tolist(), strict=True))
        anchors = [
            self._anchor(link) if link >= 0 else titles[to]
            for link, (_, to) in zip(edges.link.tolist(), pairs, strict=True)
        ]
        missing = [words - texts[number] for number in range(self._sources) if number < m]
        open_words = np.array([_weight(weights, missing[a] & texts[b]) for a, b in pairs])  # [e]
        between = np.einsum("ed,ed->e", vectors[source], vectors[target]).astype(np.float64)  # [e]
        rest = known[target] - known[source] * between  # [e]
        joint = known[target] + between  # [e]
        rank = rank_in_group(source, known[target])  # [e]
        first = np.full(m, -1)  # [m], the edge of the best source; edges are in the order of sources
        first[target[::-1]] = np.arange(len(target))[::-1]
        has = first >= 0

        def from_first(
            values: NDArray[np.floating] | NDArray[np.integer], missing: float
        ) -> NDArray[np.float64]:
            column = np.full(m, missing)
            column[has] = values[first[has]]
            return column

        def largest(values: NDArray[np.floating], missing: float) -> NDArray[np.float64]:
            return np.where(has, best_of_group(values, target, m), missing)

        in_anchor = [share(titles[to], anchor) for anchor, (_, to) in zip(anchors, pairs, strict=True)]
        return {
            "source score": from_first(scores[source], -1.0),
            "source rank": from_first(source + 1, self._sources + 1),
            "sources": np.bincount(target, np.maximum(scores[source], 0), m).astype(np.float64),
            "edges": from_first(edges.count, 0),
            "place": from_first(edges.position, -1),
            "rank among linked": -largest(-rank, _NONE),
            "source title in question": from_first(in_question[source], -1.0),
            "anchor in question": largest(np.array([share(anchor, words) for anchor in anchors]), -1.0),
            "title in anchor": largest(np.array(in_anchor), -1.0),
            "open words": largest(open_words, -1.0),
            "open similarity": largest(rest, _NONE),
            "joint similarity": largest(joint, _NONE),
            "source similarity": from_first(between, _NONE),
        }

    def _lead_columns(
        self,
        graph: str,
        rows: Sequence[int],
        sources: Mapping[int, int],
        scores: NDArray[np.float64],
        similarity: NDArray[np.float32],
    ) -> dict[str, list[float]]:
        """The columns of `OF_LEADS` by name, each [m]. sources: row -> place."""
        documents = self._index.passages.document_rows(np.array(list(sources))).tolist()
        by_document = dict(zip(documents[::-1], list(sources.values())[::-1], strict=True))  # the first wins
        best, nearest = [], []
        for row in rows:
            targets = [edge.document for edge in self._graphs[graph](row)]
            led = [by_document[document] for document in targets if document in by_document]
            best.append(max((float(scores[number]) for number in led), default=-1.0))
            nearest.append(max((float(similarity[number]) for number in led), default=_NONE))
        return {"leads to score": best, "leads to similarity": nearest}

    def _read_terms(self, text: str) -> frozenset[str]:
        return terms(text, self._index.language)

    def _read_passage(self, row: int) -> tuple[str, frozenset[str]]:
        """Title and text of a passage, and the terms of its title."""
        text, title = (self._index.passages.table.value(name, row) for name in ("text", "title"))
        return f"{title} {text}", self._terms(str(title))

    def _read_anchor(self, link: int) -> frozenset[str]:
        links = self._index.links
        text = str(self._index.passages.table.value("text", int(links.passage[link])))
        return self._terms(text[int(links.start[link]) : int(links.end[link])])


@dataclass(frozen=True, slots=True)
class _Edges:
    """Edges, int64 [e] each: places of source and target, link, place in the source, edges of the source."""

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    link: NDArray[np.int64]
    position: NDArray[np.int64]
    count: NDArray[np.int64]


def _rarity(words: frozenset[str], texts: Sequence[frozenset[str]]) -> dict[str, float]:
    """The weights of words, which add up to 1: the logarithm of the share of texts that have a word."""
    weights = {
        word: log((len(texts) + 1) / (sum(word in text for text in texts) + 0.5)) for word in sorted(words)
    }
    total = sum(weights.values()) or 1.0
    return {word: weight / total for word, weight in weights.items()}


def _weight(weights: Mapping[str, float], words: frozenset[str]) -> float:
    return sum(weights[word] for word in sorted(words))
