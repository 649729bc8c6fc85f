"""Analyses: bins, groups and differences, by hand and against plain loops."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from linkseek.app.evaluation import analyses
from linkseek.app.evaluation.analyses import Bins, gold_rows, overlap
from linkseek.app.evaluation.judgements import FIRST_UNKNOWN, Judgements
from linkseek.app.evaluation.measured import Measured
from linkseek.app.evaluation.measures import Values, bootstrap_interval
from linkseek.retriever.ranking import Query, Ranking


def by_group(*arguments):
    return {name: group.model_dump() for name, group in analyses.by_group(*arguments).items()}


def values_of(**by_query) -> Values:
    return Values(tuple(by_query), np.array([*by_query.values()], np.float64))


def measured_of(rows, right, ids=None, level="passages", values=None) -> Measured:
    rows = np.array(rows, np.int64)
    ids = ids or tuple(f"q{number}" for number in range(len(rows)))
    ranking = Ranking(tuple(ids), rows, np.zeros(rows.shape, np.float32))
    values = {} if values is None else {"m": values}
    return Measured(ranking, level, values, None if right is None else np.array(right, np.bool_), None)


# --- overlap -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "passage", "expected"),
    [
        ("Which planet has the shortest year?", "Mercury: its years are short; a planet", 2 / 3),
        ("Who founded Rome?", "Rome was founded by Romulus", 1.0),
        ("Who founded Rome?", "The Eternal City", 0.0),
        ("café in Málaga", "CAFE MALAGA", 1.0),
        ("rivers rivers Seine", "a river", 2 / 3),  # each word counts as often as it is asked
        ("who is it", "who is it", None),
        ("", "text", None),
    ],
)
def test_overlap_by_hand(question, passage, expected):
    assert overlap(question, passage) == (None if expected is None else pytest.approx(expected))


def test_words_are_those_of_the_language_of_the_index():
    assert overlap("東京の人口", "人口は東京に多い", "ja") == 1.0
    assert overlap("die Straße der Städte", "Straßen in einer Stadt", "de") == 1.0
    queries = [Query("q", "東京の人口")]
    [bin_] = Bins(queries, {}, [], {"a": values_of(q=1)}, language="ja").by_length().bins
    assert (bin_.low, bin_.high) == (3, 3)


def test_five_bins_with_their_edges():
    """Ten words: 0 to 10 of them in the passage. 0.2 is in the second bin, 1 in the last."""
    words = "amber birch cedar delta ember fjord grove heron inlet jetty".split()
    queries = [Query(f"q{count}", " ".join(words)) for count in range(11)]
    texts = ["nothing", *(" ".join(words[:count]) for count in range(11))]
    passages = [SimpleNamespace(title="", text=text) for text in texts]
    rows = {f"q{count}": [0, count + 1] for count in range(11)}
    values = {"a": values_of(**{f"q{count}": count % 2 for count in range(11)}), "b": values_of(q0=1, q1=0)}
    report = Bins(queries, rows, passages, values).by_overlap()
    assert [(bin_.low, bin_.high) for bin_ in report.bins] == [(i / 5, (i + 1) / 5) for i in range(5)]
    assert [bin_.queries for bin_ in report.bins] == [2, 2, 2, 2, 3]
    assert [bin_.pipelines["a"].mean for bin_ in report.bins] == [0.5] * 4 + [pytest.approx(1 / 3)]
    assert report.bins[0].pipelines["b"].mean == 0.5
    assert report.bins[1].pipelines["b"].model_dump() == {"mean": None, "low": None, "high": None}
    last = report.bins[4].pipelines["a"]
    assert (last.low, last.high) == bootstrap_interval(np.array([0.0, 0.0, 1.0]))  # q10, q8, q9
    assert report.without_value == 0


def test_questions_without_a_passage_are_counted():
    queries = [Query("q0", "amber"), Query("q1", "birch"), Query("q2", "who is it"), Query("q3", "cedar")]
    amber = [SimpleNamespace(title="", text="amber")]
    report = Bins(queries, {"q0": [0], "q2": [0]}, amber, {"a": values_of(q0=1, q1=0, q2=0)}).by_overlap()
    assert report.without_value == 2  # q1 and q2; q3 has no value
    assert sum(bin_.queries for bin_ in report.bins) == 1


def test_the_passage_of_a_question():
    queries = [Query(f"q{number}", "a") for number in range(5)]
    measured = {
        "a": measured_of([[0, 1], [2, 3], [4, 5], [0, 1], [0, 1]], [[0, 1], [0, 1], [0, 0], [0, 1], [0, 0]]),
        "b": measured_of([[5, 4], [3, 2], [5, 4], [5, 4], [0, 1]], [[1, 0], [1, 0], [0, 0], [0, 1], [0, 0]]),
        "documents": measured_of([[7, 8]] * 5, None, level="documents"),
    }
    relevance = {
        "q1": {1: 2, 4: 2, 5: 1, 0: 0},
        "q2": {FIRST_UNKNOWN: 3, 5: 1},
        "q4": {FIRST_UNKNOWN: 1, 0: 0},
    }
    judged = Judgements("passages", relevance, 0)
    assert gold_rows(queries, measured, judged) == {
        "q0": [5],  # b has it at rank 1, a at rank 2
        "q1": [1, 4],  # judged, and none better
        "q2": [5],  # the better one is not here
        "q3": [1],  # both at rank 2: the smaller row
    }
    reverse = dict(reversed(measured.items()))
    assert gold_rows(queries, reverse, judged) == gold_rows(queries, measured, judged)
    of_documents = Judgements("documents", {"q0": {0: 1}}, 0)
    assert gold_rows(queries, measured, of_documents)["q1"] == [3]


# --- title, links --------------------------------------------------------------------------------


class Passages:
    """A document for each two rows."""

    TITLES = ("Amber Road", "Birch", "Of")

    def __getitem__(self, row):
        return SimpleNamespace(title=self.TITLES[row // 2], text="amber birch road")

    def document_rows(self, rows):
        return rows // 2


def test_titles_in_the_question_by_hand():
    queries = [Query("q0", "how long is the amber road"), Query("q1", "is amber a stone"), Query("q2", "of")]
    rows = {"q0": [0], "q1": [1, 3], "q2": [4]}  # both words; one of two, and none; function words alone
    report = Bins(queries, rows, Passages(), {"a": values_of(q0=1, q1=0, q2=1)}).by_title()
    assert [bin_.queries for bin_ in report.bins] == [0, 0, 1, 0, 1]
    assert report.bins[4].pipelines["a"].mean == 1
    assert report.without_value == 1


def test_links_to_the_article_by_hand():
    """Documents 0, 1 and 2 have 3, 0 and 2 links; of several passages that of the most linked counts."""
    links = SimpleNamespace(incoming_offsets=np.array([0, 3, 3, 5]))
    rows = {"q0": [0, 2], "q1": [3], "q2": [4], "q3": [5]}
    values = {"a": values_of(q0=1, q1=0, q2=1, q3=0, q4=1)}
    report = Bins([], rows, Passages(), values).by_links(links)
    bins = [(bin_.low, bin_.high, bin_.pipelines["a"].mean) for bin_ in report.bins]
    assert bins == [(0, 0, 0), (1, 2, 0.5), (3, 3, 1)]
    assert report.without_value == 1


# --- length, groups ------------------------------------------------------------------------------


def test_bins_of_length_cover_all_questions_once():
    generator = np.random.default_rng(0)
    lengths = generator.integers(3, 25, 500)
    queries = [Query(f"q{number}", "w " * length) for number, length in enumerate(lengths)]
    values = values_of(**{query.id: generator.random() for query in queries})
    bins = Bins(queries, {}, [], {"a": values}).by_length().bins
    assert len(bins) == 5
    assert (bins[0].low, bins[-1].high) == (lengths.min(), lengths.max())
    assert all(after.low == before.high + 1 for before, after in pairwise(bins))
    assert all(60 < bin_.queries < 140 for bin_ in bins)
    for bin_ in bins:
        inside = [
            value
            for value, length in zip(values.values, lengths, strict=True)
            if bin_.low <= length <= bin_.high
        ]
        assert bin_.queries == len(inside)
        assert bin_.pipelines["a"].mean == pytest.approx(np.mean(inside))
    assert all(isinstance(bin_.low, int) for bin_ in bins)


def test_questions_of_few_lengths_make_few_bins():
    queries = [
        Query("a", "one two"),
        Query("b", "one two"),
        Query("c", "one two three four"),
        Query("d", "x"),
    ]
    bins = Bins(queries, {}, [], {"p": values_of(a=1, b=0, c=1)}).by_length().bins
    assert [(b.low, b.high, b.queries) for b in bins] == [(2, 2, 2), (3, 4, 1)]


def test_groups_by_hand():
    measured = {
        "a": {"m": values_of(q1=1, q2=0, q3=1), "n": values_of(q1=0.5)},
        "b": {"m": values_of(q1=0, q2=0, q3=1)},
    }
    groups = {"bridge": ("q1", "q3", "unasked"), "comparison": ("q2",), "other": ("q9",)}
    assert by_group(groups, measured) == {
        "bridge": {
            "queries": 2,
            "pipelines": {"a": {"m": 1.0, "n": 0.5}, "b": {"m": 0.5}},
            "query_ids": ["q1", "q3"],
        },
        "comparison": {
            "queries": 1,
            "pipelines": {"a": {"m": 0.0, "n": None}, "b": {"m": 0.0}},
            "query_ids": ["q2"],
        },
        "other": {
            "queries": 0,
            "pipelines": {"a": {"m": None, "n": None}, "b": {"m": None}},
            "query_ids": [],
        },
    }
