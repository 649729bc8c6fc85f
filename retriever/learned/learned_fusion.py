"""Learned fusion: a model of trees ranks the candidates of several pipelines by their features.

Features describe each ranking, the articles and the links. Candidates are the passages of several rankings of
the same questions. A feature is a number that can be explained on its own; `FEATURES` explains each. Links
count between the articles of the candidates of one question: an article that other candidates' articles link
to is likely to be the subject of the question.

Symbols: Q questions, m candidates of a question, n of all questions, A articles of all questions, F features.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import MismatchError
from linkseek.retriever.learned.boosted_trees import BoostedTrees, FusionFile
from linkseek.retriever.learned.hop_graph import GRAPHS, LINKS
from linkseek.retriever.links.neighbourhood import ranges
from linkseek.retriever.ranking import Pipeline, Query, Ranking
from linkseek.retriever.search.explanation import Explanation, Part, place_of
from linkseek.retriever.search.fusion import stretched
from linkseek.retriever.search.query_words import terms
from linkseek.retriever.search.stages import stage

OF_EACH = {
    "score": "the score, or the lowest of the ranking where it lacks the passage",
    "scaled score": "the score scaled to 0..1 for each question",
    "rank": "the rank, or one more than its last where the ranking lacks the passage",
    "article score": "the best score of a passage of the same article",
}
"""Features computed for each of the fused pipelines."""

OF_ALL = {
    "fused rank": "the sum of 1 / (60 + rank) over the pipelines",
    "article fused rank": "the best such sum of a passage of the same article",
    "rank in article": "the rank among the candidates of the same article",
    "article candidates": "how many candidates are of the same article",
    "title in question": "the share of the title's words that the question has",
    "question in title": "the share of the question's words that the title has",
    "question words": "how many different words the question has, without stop words",
    "place in article": "how many passages of the article come before this one",
    "article passages": "how many passages the article has",
    "passage length": "how many characters the passage has",
}
"""Features of all pipelines together, and of the passage."""

OF_LINKS = {
    "links to article": "how many links lead to the article in the whole index",
    "linked from": "how many other candidates' articles link to this one",
    "links to": "how many other candidates' articles this one links to",
    "linked both ways": "how many of these link both ways",
    "linked share": "the share of the other candidates' articles that link to this one",
    "linked from best": "the fused ranks of the articles that link to this one, added up",
    "passage linked from": "how many candidate passages of other articles link to the article",
    "passage links to": "how many other candidates' articles the passage itself links to",
    "anchor in question": "the largest share of the words of a link's anchor that the question has, of the "
    "links from other candidates to the article",
}
"""Features of hyperlinks, omitted in a fusion without links; with other neighbours, of these."""

_BLOCK = 1 << 17  # candidates whose features are held together: some 30 MB
_CONSTANT = 60.0


def feature_names(pipelines: Sequence[str], links: bool) -> list[str]:
    """The names of the F features, in the order of their columns."""
    pipeline_names = [f"{pipeline}: {name}" for pipeline in pipelines for name in OF_EACH]
    return [*pipeline_names, *OF_ALL, *(OF_LINKS if links else {})]


def meaning(feature: str) -> str:
    """The meaning of a feature, for people."""
    return (OF_EACH | OF_ALL | OF_LINKS)[feature.rpartition(": ")[2]]


class FusionCandidates(NamedTuple):
    """The candidates of Q questions. rows: int64 [Q, m], each once, -1 in empty places, which come last.

    values: float64 [Q, m, F], the features in the order of `feature_names`; 0 in empty places.
    """

    query_ids: tuple[str, ...]
    rows: NDArray[np.int64]
    values: NDArray[np.float64]


class FeatureReader:
    """Reads the features of candidates from one index, in any thread."""

    def __init__(
        self, index: OpenIndex, pipelines: Sequence[str], links: bool = True, neighbours: str = LINKS
    ) -> None:
        """pipelines: their names in the features. links: whether features of hyperlinks are among these.

        neighbours: the graph in the place of hyperlinks.
        """
        self._pipelines, self.names = pipelines, feature_names(pipelines, links)
        self._index, self._offsets = index, np.asarray(index.passages.offsets)
        self._links = GRAPHS[neighbours].articles(index) if links else None
        self._title_terms = lru_cache(maxsize=1 << 16)(self._read_title)
        self._anchor_terms = lru_cache(maxsize=1 << 16)(partial(terms, language=index.language))

    def read(self, queries: Sequence[Query], rankings: Sequence[Ranking]) -> FusionCandidates:
        """The candidates of all rankings, one of each pipeline, which are of these queries."""
        rows = union(rankings)  # [Q, m]
        query, place = np.nonzero(rows >= 0)  # [n]
        row = rows[query, place]
        document = self._index.passages.document_rows(row)  # [n]
        documents = max(len(self._index.documents), 1)
        keys, article = np.unique(query * documents + document, return_inverse=True)  # [A], [n]
        fused = np.zeros(len(row))  # [n]
        columns: dict[str, NDArray[Any]] = {}  # [n] each
        for pipeline, ranking in zip(self._pipelines, rankings, strict=True):
            score, scaled, rank = _in_ranking(ranking, query, row)
            columns |= {
                f"{pipeline}: score": score,
                f"{pipeline}: scaled score": scaled,
                f"{pipeline}: rank": rank,
                f"{pipeline}: article score": best_of_group(score, article, len(keys))[article],
            }
            fused += np.where(rank <= ranking.depth, 1 / (_CONSTANT + rank), 0)
        best_fused = best_of_group(fused, article, len(keys))  # [A]
        words = [terms(query.text, self._index.language) for query in queries]
        titles = [self._title_terms(number) for number in (keys % documents).tolist()]
        overlap = np.array(
            [_overlap(title, words[number]) for title, number in zip(titles, keys // documents, strict=True)]
        ).reshape(-1, 2)[article]  # [n, 2]
        texts = [str(self._index.passages.table.value("text", number)) for number in row.tolist()]
        columns |= {
            "fused rank": fused,
            "article fused rank": best_fused[article],
            "rank in article": rank_in_group(article, fused),
            "article candidates": np.bincount(article, minlength=len(keys))[article],
            "title in question": overlap[:, 0],
            "question in title": overlap[:, 1],
            "question words": np.array([len(of_query) for of_query in words], np.float64)[query],
            "place in article": row - self._offsets[document],
            "article passages": self._offsets[document + 1] - self._offsets[document],
            "passage length": np.array([len(text) for text in texts], np.float64),
        }
        if self._links is not None:
            columns |= self._link_columns(row, texts, article, keys, best_fused, words)
        values = np.zeros((*rows.shape, len(self.names)))  # [Q, m, F]
        values[query, place] = np.stack([columns[name] for name in self.names], axis=1)
        return FusionCandidates(rankings[0].query_ids, rows, values)

    def _link_columns(
        self,
        row: NDArray[np.int64],
        texts: Sequence[str],
        article: NDArray[np.int64],
        keys: NDArray[np.int64],
        fused: NDArray[np.float64],
        words: Sequence[frozenset[str]],
    ) -> dict[str, NDArray[Any]]:
        """The columns of `OF_LINKS` by name. row, texts, article: [n]. keys: question * D + document, [A]."""
        assert self._links is not None
        links, documents, count = self._links, max(len(self._index.documents), 1), len(keys)
        document = keys % documents  # [A]
        first = links.offsets[self._offsets]  # [D + 1], the first link of each document
        link, source = ranges(first[document], first[document + 1])
        target = _place(keys, keys[source] - document[source] + links.target[link])
        linked = np.unique((source * count + target)[(target >= 0) & (target != source)])  # [e]
        source, target = linked // count, linked % count
        both = np.isin(target * count + source, linked)
        others = np.bincount(keys // documents, minlength=len(words))[keys // documents] - 1  # [A]
        linked_from = np.bincount(target, minlength=count)  # [A]
        article_columns = {
            "links to article": links.incoming_offsets[document + 1] - links.incoming_offsets[document],
            "linked from": linked_from,
            "links to": np.bincount(source, minlength=count),
            "linked both ways": np.bincount(source[both], minlength=count),
            "linked share": linked_from / np.maximum(others, 1),
            "linked from best": np.bincount(target, fused[source], count),
        }
        link, candidate = ranges(links.offsets[row], links.offsets[row + 1])
        own = article[candidate]
        target = _place(keys, keys[own] - document[own] + links.target[link])
        kept = (target >= 0) & (target != own)
        link, candidate, target = link[kept], candidate[kept], target[kept]
        _, unique = np.unique(candidate * count + target, return_index=True)
        anchors = np.zeros(count)  # [A]
        spans = zip(candidate.tolist(), links.start[link].tolist(), links.end[link].tolist(), strict=True)
        queries = (keys[target] // documents).tolist()
        for (number, start, end), to, query in zip(spans, target.tolist(), queries, strict=True):
            anchor = self._anchor_terms(texts[number][start:end])
            anchors[to] = max(anchors[to], _overlap(anchor, words[query])[0])
        return {
            **{name: np.asarray(column, np.float64)[article] for name, column in article_columns.items()},
            "passage linked from": np.bincount(target[unique], minlength=count)[article],
            "passage links to": np.bincount(candidate[unique], minlength=len(row)),
            "anchor in question": anchors[article],
        }

    def _read_title(self, document: int) -> frozenset[str]:
        title = str(self._index.documents.table.value("title", document))
        return terms(title, self._index.language)


class LearnedFusion:
    """The fusion of some pipelines by a model that was trained on the same number of them."""

    def __init__(
        self, index: OpenIndex, members: Sequence[Pipeline], model: FusionFile, depth: int, path: Path
    ) -> None:
        """depth: results of each member that are candidates. path: the model's path, for messages.

        Raises `MismatchError` if the model was trained for other features than these.
        """
        if len(model.pipelines) != len(members):
            raise MismatchError(
                f"{path}: fuses {len(model.pipelines)} pipelines ({', '.join(model.pipelines)}), not "
                f"{len(members)}",
                "Name as many in `of`, in the same order.",
            )
        self._reader = FeatureReader(index, model.pipelines, model.links, model.neighbours)
        model.check_features(self._reader.names, path)
        self._members, self._depth, self._features = members, depth, model.features
        self._trees = BoostedTrees(model.trees)

    def __call__(self, queries: Sequence[Query], k: int) -> Ranking:
        """The k best passages of each query among the candidates."""
        rankings = self._search(queries, k)
        with stage("fuse"):
            size = max(_BLOCK // sum(ranking.depth for ranking in rankings), 1)
            fused = [
                self._fuse(
                    queries[start : start + size], [ranking.block(start, size) for ranking in rankings], k
                )
                for start in range(0, max(len(queries), 1), size)
            ]
            rows, scores = (
                np.concatenate([getattr(block, name) for block in fused]) for name in ("rows", "scores")
            )
            return Ranking(rankings[0].query_ids, rows, scores)

    def _fuse(self, queries: Sequence[Query], rankings: Sequence[Ranking], k: int) -> Ranking:
        candidates = self._reader.read(queries, rankings)
        held = candidates.rows >= 0  # [Q, m]
        scores = np.full(held.shape, -np.inf)  # [Q, m]
        scores[held] = self._trees.scores(candidates.values[held])
        missing = ((0, 0), (0, max(k - held.shape[1], 0)))
        rows = np.pad(candidates.rows, missing, constant_values=-1)
        return Ranking.of(candidates.query_ids, rows, np.pad(scores, missing), k)

    def explain(self, query: Query, row: int, k: int) -> Explanation | None:
        """What each feature adds to the score of a passage (`Explain`), the largest shares first."""
        candidates = self._reader.read([query], self._search([query], k))
        place = place_of(self([query], k), row)
        if place is None:
            return None
        values = candidates.values[0, candidates.rows[0] == row]  # [1, F]
        return Explanation.of(place, feature_parts(self._trees, values, self._features, meaning))

    def _search(self, queries: Sequence[Query], k: int) -> list[Ranking]:
        return [member(queries, max(k, self._depth)) for member in self._members]


def feature_parts(
    trees: BoostedTrees, values: NDArray[np.float64], features: Sequence[str], meaning: Callable[[str], str]
) -> list[Part]:
    """The mean score, and the addition of each feature for a passage, the largest first.

    values: [1, F] of the passage. meaning: the meaning of a feature by its name.
    """
    added = trees.contributions(values)[0]  # [F]
    parts = [
        Part(features[i], float(added[i]), meaning(features[i]), {"value": float(values[0, i])})
        for i in np.argsort(-np.abs(added), kind="stable").tolist()
    ]
    return [Part("mean", trees.bias, "the mean score over the training data"), *parts]


def union(rankings: Sequence[Ranking]) -> NDArray[np.int64]:
    """The candidates: the rows of all rankings, each once, then -1: int64 [Q, m]."""
    rows = np.sort(np.concatenate([ranking.rows for ranking in rankings], axis=1), axis=1)[:, ::-1]
    again = np.zeros(rows.shape, np.bool_)  # [Q, m]
    again[:, 1:] = rows[:, 1:] == rows[:, :-1]
    rows = np.sort(np.where(again, -1, rows), axis=1)[:, ::-1]
    return rows[:, : int((rows >= 0).sum(axis=1).max(initial=0))]


def _in_ranking(
    ranking: Ranking, query: NDArray[np.int64], row: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Score, scaled score and rank of n candidates (query, row) in one ranking, float64 [n]."""
    held = ranking.rows >= 0  # [Q, k]
    of_query, rank = np.nonzero(held)
    span = max(int(ranking.rows.max(initial=0)), int(row.max(initial=0))) + 1
    keys = of_query * span + ranking.rows[held]
    order = np.argsort(keys)
    keys, of_query, rank = keys[order], of_query[order], rank[order]
    place = _place(keys, query * span + row)  # [n]
    lowest = np.min(ranking.scores, axis=1, where=held, initial=np.inf)  # [Q]
    lowest = np.where(np.isfinite(lowest), lowest, 0.0).astype(np.float64)
    score, scaled = lowest[query], np.zeros(len(row))
    ranks = np.full(len(row), ranking.depth + 1.0)
    known = place >= 0
    at = of_query[place[known]], rank[place[known]]
    score[known], scaled[known], ranks[known] = ranking.scores[at], stretched(ranking)[at], at[1] + 1
    return score, scaled, ranks


def _place(keys: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places of numbers in ascending keys; -1 for those that are missing."""
    if len(keys) == 0:
        return np.full(len(wanted), -1)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, place, -1)


def best_of_group(values: NDArray[np.floating], group: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """The largest value of each group, [count]; -inf for one without values."""
    best = np.full(count, -np.inf)
    np.maximum.at(best, group, values)
    return best


def rank_in_group(group: NDArray[np.int64], values: NDArray[np.floating]) -> NDArray[np.float64]:
    """The rank of each value in its group, 1 for the largest."""
    order = np.lexsort((-values, group))
    start = np.searchsorted(group[order], group[order])
    rank = np.empty(len(group))
    rank[order] = np.arange(len(group)) - start + 1
    return rank


def _overlap(text: frozenset[str], question: frozenset[str]) -> tuple[float, float]:
    """The share of a text's words that the question has, and the other way round."""
    return share(text, question), share(question, text)


def share(words: frozenset[str], others: frozenset[str]) -> float:
    """The share of words that others have; 0 without words."""
    return len(words & others) / max(len(words), 1)
