"""Where pipelines differ: by overlap, length, title and links of questions, and by groups.

The overlap of a question with its passage is the share of the question's words that the passage contains too
(HLP, section 6.2, figure 4). HLP counts WordPieces, function words included; here words are compared by their
stems and function words are skipped, as BM25 does, so that "what is the" fills no bin. The passage is the one
that is judged most relevant, or else the best-ranked relevant one of any pipeline; a question without either
is skipped and counted. The same passage shows the question's subject: whether it names the article, how rare
that name is, and how many hyperlinks lead there.

Nothing here ranks or measures: values and the relevance of results come in.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from linkseek.app.evaluation.judgements import FIRST_UNKNOWN, Judgements
from linkseek.app.evaluation.measured import Measured
from linkseek.app.evaluation.measures import SEED, Values, bootstrap_interval, mean_of
from linkseek.app.evaluation.results import Bin, Binned, Group, Share
from linkseek.indexer.language.codes import ENGLISH
from linkseek.indexer.links import LinkGraph
from linkseek.indexer.passages import Passage, PassageStore
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.query_words import terms_in_order, word_spans

SHARE_BINS = 5
NUMBER_BINS = 5


def overlap(question: str, passage: str, language: str = ENGLISH) -> float | None:
    """The share of the question's words that the passage contains; None if it has only function words."""
    terms, held = (terms_in_order(text, language) for text in (question, passage))
    return sum(word in held for word in terms) / len(terms) if terms else None


def gold_rows(
    queries: Sequence[Query], measured: Mapping[str, Measured], judgements: Judgements | None
) -> dict[str, list[int]]:
    """Query id -> the row of its passage, or of all that are judged equally relevant."""
    best: dict[str, tuple[int, int]] = {}  # query id -> (rank, row), over all pipelines
    for results in measured.values():
        if results.level == "documents" or results.relevant is None:
            continue
        ranking = results.ranking
        for place, rank in enumerate(results.first_relevant().tolist()):
            if rank:
                query_id, row = ranking.query_ids[place], int(ranking.rows[place, rank - 1])
                best[query_id] = min((rank, row), best.get(query_id, (rank, row)))
    rows: dict[str, list[int]] = {}
    for query in queries:
        if judgements is not None and judgements.level == "passages":
            relevance = judgements.relevance.get(query.id, {})
            known = {row: value for row, value in relevance.items() if row < FIRST_UNKNOWN and value > 0}
            if known:
                highest = max(known.values())
                rows[query.id] = [row for row, value in known.items() if value == highest]
        if query.id not in rows and query.id in best and best[query.id][1] < FIRST_UNKNOWN:
            rows[query.id] = [best[query.id][1]]
    return rows


@dataclass(frozen=True, slots=True)
class Bins:
    """Means of pipelines by one measure, over bins of questions.

    rows: query id -> its passages (`gold_rows`). values: the values of the pipelines. language: the language
    of the passages.
    """

    queries: Sequence[Query]
    rows: Mapping[str, Sequence[int]]
    passages: PassageStore
    values: Mapping[str, Values]
    seed: int = SEED
    language: str = ENGLISH

    def by_overlap(self) -> Binned:
        """Means in five bins of equal width; the last one includes 1.

        Among several passages, the one with the largest overlap counts. without_value: the number of
        questions without a passage, or with function words alone.
        """
        label = "share of the question's words that its relevant passage contains"
        return self._by_share(
            label, lambda query, p: overlap(query.text, f"{p.title} {p.text}", self.language)
        )

    def by_title(self) -> Binned:
        """The same by the share of the title's words in the question: 1 if it names the article."""
        label = "share of the words of the relevant passage's title that the question contains"
        return self._by_share(label, lambda query, p: overlap(p.title, query.text, self.language))

    def by_length(self) -> Binned:
        """Means in up to five bins of about as many questions each; low and high are included."""
        length_of = {query.id: len([*word_spans(query.text, self.language)]) for query in self.queries}
        return self._by_number("words of the question", length_of)

    def by_links(self, links: LinkGraph) -> Binned:
        """The same by the number of hyperlinks to the document of the relevant passage.

        Among several passages, the one of the most linked document counts. without_value: the number of
        questions without one. Raises `ValueError` if no question has one.
        """
        incoming = np.diff(links.incoming_offsets)  # [D]
        number_of = {
            query_id: int(incoming[self.passages.document_rows(np.array(relevant))].max())
            for query_id, relevant in self.rows.items()
        }
        return self._by_number("links to the article of the relevant passage", number_of)

    def _by_share(self, label: str, share: Callable[[Query, Passage], float | None]) -> Binned:
        """Bins of equal width by the largest share of a query with one of its passages, 0 to 1."""
        bin_of: dict[str, int] = {}
        for query in self.queries:
            shares = [share(query, self.passages[row]) for row in self.rows.get(query.id, ())]
            known = [value for value in shares if value is not None]
            if known:
                bin_of[query.id] = min(int(max(known) * SHARE_BINS + 1e-9), SHARE_BINS - 1)
        edges = [(i / SHARE_BINS, (i + 1) / SHARE_BINS) for i in range(SHARE_BINS)]
        without_value = len(measured_ids(self.values) - bin_of.keys())
        return Binned(label=label, without_value=without_value, bins=self._bins(edges, bin_of))

    def _by_number(self, label: str, number_of: Mapping[str, int]) -> Binned:
        """Bins of about as many queries each."""
        measured = measured_ids(self.values)
        numbers = np.array([number for query_id, number in number_of.items() if query_id in measured])  # [n]
        cuts = np.quantile(numbers, np.linspace(0, 1, NUMBER_BINS + 1), method="inverted_cdf")
        highs = np.unique(cuts[1:]).astype(int).tolist()  # ascending
        lows = [int(numbers.min()), *(high + 1 for high in highs[:-1])]
        bin_of = {query_id: int(np.searchsorted(highs, number)) for query_id, number in number_of.items()}
        edges = list(zip(lows, highs, strict=True))
        without_value = len(measured - bin_of.keys())
        return Binned(label=label, without_value=without_value, bins=self._bins(edges, bin_of))

    def _bins(self, edges: Sequence[tuple[float, float]], bin_of: Mapping[str, int]) -> list[Bin]:
        """Mean and interval of every pipeline in every bin."""
        by_query = {name: measured.by_query() for name, measured in self.values.items()}
        bins = []
        for number, (low, high) in enumerate(edges):
            ids = {query_id for query_id, place in bin_of.items() if place == number}
            counted = [*dict.fromkeys(id_ for scores in by_query.values() for id_ in scores if id_ in ids)]
            pipelines = {}
            for name, scores in by_query.items():
                column = np.array([value for query_id, value in scores.items() if query_id in ids])  # [n]
                pipelines[name] = Share(mean=None, low=None, high=None)
                if len(column):
                    start, end = bootstrap_interval(column, self.seed)
                    pipelines[name] = Share(mean=mean_of(column), low=start, high=end)
            bins.append(Bin(low=low, high=high, queries=len(counted), pipelines=pipelines, query_ids=counted))
        return bins


def measured_ids(values: Mapping[str, Values]) -> set[str]:
    """The ids of the queries that have a value of any pipeline."""
    return {query_id for measured in values.values() for query_id in measured.query_ids}


def by_group(
    groups: Mapping[str, Sequence[str]], measured: Mapping[str, Mapping[str, Values]]
) -> dict[str, Group]:
    """Means of every measure over the evaluated questions of each group.

    measured: pipeline -> measure -> values.
    """
    by_query = {
        name: {measure: values.by_query() for measure, values in measures.items()}
        for name, measures in measured.items()
    }
    every = dict.fromkeys(
        id_ for measures in by_query.values() for scores in measures.values() for id_ in scores
    )
    report = {}
    for group, members in groups.items():
        ids = set(members)
        counted = [id_ for id_ in every if id_ in ids]
        pipelines = {
            name: {measure: _mean_over(scores, ids) for measure, scores in measures.items()}
            for name, measures in by_query.items()
        }
        report[group] = Group(queries=len(counted), pipelines=pipelines, query_ids=counted)
    return report


def _mean_over(scores: Mapping[str, float], ids: Container[str]) -> float | None:
    inside = [value for query_id, value in scores.items() if query_id in ids]
    return mean_of(inside) if inside else None
