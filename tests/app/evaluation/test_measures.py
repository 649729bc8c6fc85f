"""Measures: which queries count, what a missing one counts, and equality with ir-measures."""

from pathlib import Path

import ir_measures
import numpy as np
import pytest

from linkseek.app.evaluation.measures import (
    JUDGED,
    Values,
    accuracy_curve,
    bootstrap_interval,
    bootstrap_intervals,
    measure_accuracy,
    measure_judged,
    parse_measure,
    plan_measures,
    recall_curve,
)
from linkseek.app.evaluation.own_measures import OWN, OwnMeasure
from linkseek.app.report.text import label, meanings
from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.retriever.queries import read_queries
from linkseek.retriever.ranking import Query, Ranking
from linkseek.retriever.search.runs import read_qrels, read_run, run_ranking

DATA = Path(__file__).parents[3].parent / "shared" / "data"

# --- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "reported", "cutoff"),
    [
        ("RR@10", "MRR@10", 10), ("MRR@10", "MRR@10", 10), ("MRR", "MRR", None), ("nDCG@10", "nDCG@10", 10),
        ("Success@1", "Success@1", 1), ("AP(rel=2)@100", "AP(rel=2)@100", 100), ("Rprec", "Rprec", None),
        ("accuracy@20", "accuracy@20", 20), ("all@20", "all@20", 20),
    ],
)  # fmt: skip
def test_names(name, reported, cutoff):
    measure = parse_measure(name)
    assert (measure.name, measure.cutoff) == (reported, cutoff)
    assert (measure.judged is None) == name.startswith(("accuracy", "all"))
    assert (measure.needs == "answers") == name.startswith("accuracy")


@pytest.mark.parametrize(
    "name",
    ["", "a b", *"precision nDCG@ten R@0 R@-1 accuracy@0 accuracy all all@0 RBP __import__('os')".split()],
)
def test_unknown_names(name):
    with pytest.raises(UsageError) as caught:
        parse_measure(name)
    assert "nDCG@K" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("ndcg_cut_10", "nDCG@10"), ("P.5", "P@5"), ("recall.100", "R@100"), ("map", "AP"), ("mrr", "MRR"),
        ("ndcg@10", "nDCG@10"), ("ndgc@10", "nDCG@10"), ("nDCG10", "nDCG@10"),
        ("acuracy@5", "accuracy@5"), ("acc@5", "accuracy@5"), ("P5", "P@5"),
        ("ALL@5", "all@5"), ("bpref", "Bpref"),
    ],
)  # fmt: skip
def test_names_of_other_tools_are_suggested(name, meant):
    with pytest.raises(UsageError) as caught:
        parse_measure(name)
    assert caught.value.hint.startswith(f"Did you mean {meant}? ")


def test_a_measure_without_its_cutoff():
    with pytest.raises(UsageError, match="Success: it needs a cutoff: Success@K") as caught:
        parse_measure("Success")
    assert caught.value.hint.startswith("Known: ")


# --- full, partial and empty ---------------------------------------------------------------------

RUNS = {
    "full": [[10, 11, 12], [20, 21, 22]],
    "partial": [[10, 11, 12], [-1, -1, -1]],
    "short": [[10, -1, -1], [20, -1, -1]],
    "empty": [[-1, -1, -1], [-1, -1, -1]],
}
QRELS = {
    "full": {"q1": {11: 1}, "q2": {20: 2, 99: 1}},
    "partial": {"q2": {20: 1}},
    "nothing relevant": {"q1": {10: 0}, "q2": {20: 1}},
    "negative": {"q1": {10: -2, 11: 1}, "q2": {20: 1}},
    "of other queries too": {"q1": {10: 1, 12: 1, 11: 0}, "q2": {20: 1}, "q3": {10: 1}},
}


def ranking_of(rows: list[list[int]], queries: tuple[str, ...] = ("q1", "q2")) -> Ranking:
    array = np.array(rows, np.int64)
    scores = np.where(array >= 0, -np.arange(array.shape[1], dtype=np.float32), -np.inf)
    return Ranking(queries, array, scores.astype(np.float32))


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("qrels", QRELS)
def test_full_partial_and_empty(run, qrels):
    ranking = ranking_of(RUNS[run])
    names = [*JUDGED, "Success@1", "AP", "Judged@10", "Rprec", "all@1", "all@20"]
    values = measure_judged(ranking, QRELS[qrels], list(map(parse_measure, names)))
    judged = tuple(query for query in ("q1", "q2") if query in QRELS[qrels])
    for measured in values.values():
        assert measured.query_ids == judged  # a query without results counts, one without judgements not
        assert measured.values.shape == (len(judged),)
    # the plainest definitions
    for place, query in enumerate(judged):
        found = [row for row in ranking.rows[("q1", "q2").index(query)].tolist() if row >= 0]
        relevant = {row for row, value in QRELS[qrels][query].items() if value > 0}
        ranks = [rank for rank, row in enumerate(found, start=1) if row in relevant]
        assert values["MRR@10"].values[place] == (1 / ranks[0] if ranks else 0)
        recall = len(ranks) / len(relevant) if relevant else 0
        assert values["R@20"].values[place] == pytest.approx(recall)
        assert values["Success@1"].values[place] == (1 in ranks)
        for k in (1, 20):
            within = [rank for rank in ranks if rank <= k]
            assert values[f"all@{k}"].values[place] == (bool(relevant) and len(within) == len(relevant))


def test_grades_below_0_count_as_not_relevant():
    """Of judgements like TREC's Web track, whose spam has -2: trec_eval itself crashes on these."""
    relevance = {"a": {1: -2}, "b": {1: -5, 2: 1}}
    ranking = Ranking.of(["a", "b"], np.array([[1, 2], [1, 2]]), np.array([[2.0, 1.0]] * 2))
    measures = [parse_measure(name) for name in ("AP", "nDCG@10", "MRR@10", "Bpref", "P@1", "R@2")]
    expected = {"AP": 0.5, "nDCG@10": 1 / np.log2(3), "MRR@10": 0.5, "Bpref": 1, "P@1": 0, "R@2": 1}
    for name, values in measure_judged(ranking, relevance, measures).items():
        assert values.by_query() == pytest.approx({"a": 0, "b": expected[name]})


@pytest.mark.parametrize("needs", ["answers", "judgements"])
def test_an_own_measure_is_one_entry(monkeypatch, needs):
    last = OwnMeasure(needs, lambda results, _, k: float(results[:k][-1] >= 0), "what rank K shows")
    monkeypatch.setitem(OWN, "Last", last)
    plan = plan_measures(["Last@2"], [Query("q", "?", ("x",))], True, 2)
    measure = plan.main
    assert (plan.accuracy or plan.judged) == (measure,)
    if needs == "answers":
        values = measure_accuracy([Query("q", "?", ("x",))], np.array([[False, True]]), [measure])
    else:
        ranking = Ranking(("q",), np.array([[3, 7]]), np.array([[2.0, 1.0]], np.float32))
        values = measure_judged(ranking, {"q": {7: 1}}, [measure])
    assert values["Last@2"].by_query() == {"q": 1.0}
    assert label("Last@2") == "Last@2 %" and meanings(["Last@2"]) == [("Last@K", "what rank K shows")]
    for name, words in (("nothing", "all@K, "), ("last@2", "Did you mean Last@2? Known: ")):
        with pytest.raises(UsageError) as caught:
            parse_measure(name)
        assert words in caught.value.hint and "Last@K" in caught.value.hint


def test_letor_ndcg_by_hand():
    """Gains 3, 1, 0 of grades 2, 1, 0; ranks 1 and 2 are not discounted, so their order does not matter."""
    ranking = ranking_of([[11, 10, 12], [12, 11, 10], [30, 31, -1]], ("q1", "q2", "q3"))
    judged = {"q1": {10: 2, 11: 1, 12: 0}, "q2": {10: 2, 11: 1, 12: 0}, "q3": {30: 0}}
    values = measure_judged(ranking, judged, [parse_measure(f"LETOR-nDCG@{k}") for k in (1, 10)])
    third = 3 / np.log2(3)
    assert values["LETOR-nDCG@10"].values.tolist() == pytest.approx([1, (1 + third) / 4, 0])
    assert values["LETOR-nDCG@1"].values.tolist() == pytest.approx([1 / 3, 0, 0])


def test_all_counts_an_item_found_twice_once():
    """Two ids of one document: twice the one is not the one and the other."""
    judged = {"q1": {10: 1, 11: 1}}
    for rows, expected in (([10, 10, 12], 0.0), ([10, 10, 11], 1.0)):
        assert measure_judged(ranking_of([rows], ("q1",)), judged, [parse_measure("all@3")])[
            "all@3"
        ].values.tolist() == [expected]


def test_an_item_found_twice_counts_at_its_better_rank():
    values = measure_judged(ranking_of([[11, 10, 11]], ("q1",)), {"q1": {11: 1}}, [parse_measure("MRR@10")])
    assert values["MRR@10"].mean == 1.0


def test_accuracy():
    queries = [Query("q1", "a", ("x",)), Query("q2", "b"), Query("q3", "c", ("y",))]
    found = np.array([[0, 0, 1], [0, 0, 0], [0, 0, 0]], np.bool_)
    values = measure_accuracy(queries, found, [parse_measure(f"accuracy@{k}") for k in (1, 3, 20)])
    assert {name: value.values.tolist() for name, value in values.items()} == {
        "accuracy@1": [0, 0],
        "accuracy@3": [1, 0],
        "accuracy@20": [1, 0],
    }
    assert values["accuracy@1"].query_ids == ("q1", "q3")


def test_curves_hold_the_measures_at_every_depth():
    generator = np.random.default_rng(0)
    ids = [f"q{number}" for number in range(30)]
    queries = [Query(id_, "a", ("x",) * (number % 4 > 0)) for number, id_ in enumerate(ids)]
    found = generator.random((30, 12)) < 0.1
    accuracy = accuracy_curve(queries, found)
    rows = np.argsort(generator.random((30, 40)), axis=1)[:, :12]
    rows[3, 4:] = -1
    judged = {id_: {int(row): 1 for row in generator.choice(40, 3)} for id_ in ids[:20]}
    judged["q0"] = {1: 0}
    ranking = ranking_of(rows.tolist(), tuple(ids))
    recall = recall_curve(ranking, judged)
    assert accuracy.shape == recall.shape == (12,)
    for k in range(1, 13):
        name, measure = f"accuracy@{k}", parse_measure(f"accuracy@{k}")
        assert accuracy[k - 1] == pytest.approx(measure_accuracy(queries, found, [measure])[name].mean)
        name, measure = f"R@{k}", parse_measure(f"R@{k}")
        assert recall[k - 1] == pytest.approx(measure_judged(ranking, judged, [measure])[name].mean)
    assert 0 < recall[0] < recall[-1] < 1
    assert 0 < accuracy[0] < accuracy[-1] < 1


# --- intervals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("other", [(0.4, 0.1, 0.1), (0.2, 0.2, 0.2), (0.0, 0.0, 0.6)])
def test_equal_means_are_equal_however_they_round(other):
    """Else only one of two pipelines that are equally good would be called the best."""
    means = {Values(("a", "b", "c"), np.array(values)).mean for values in ((0.3, 0.2, 0.1), other)}
    assert means == {0.2}


def test_bootstrap_intervals_of_columns_are_those_of_each(monkeypatch):
    values = np.random.default_rng(2).random((50, 3))
    together = bootstrap_intervals(values, seed=4)
    for place in range(3):
        assert bootstrap_interval(values[:, place], seed=4) == pytest.approx(tuple(together[:, place]))
    monkeypatch.setattr("linkseek.app.evaluation.measures._BLOCK", 700)  # blocks of 14 of the 1,000 resamples
    assert bootstrap_intervals(values, seed=4) == pytest.approx(together)
    assert not np.allclose(bootstrap_intervals(values, seed=5), together)


def test_bootstrap_interval_is_that_of_resampled_means():
    values = np.random.default_rng(6).random(20)
    drawn = np.random.default_rng(12345).integers(0, 20, (1000, 20))
    expected = np.percentile(values[drawn].mean(axis=1), (2.5, 97.5))
    assert bootstrap_interval(values) == pytest.approx(tuple(expected))


def test_all_right_of_few_is_not_certain():
    """Wilson's interval of 3 of 3 and of 0 of 9; resamples would all be alike."""
    assert bootstrap_interval(np.ones(3)) == (pytest.approx(0.4385, abs=1e-4), 1.0)
    assert bootstrap_interval(np.zeros(9)) == (0.0, pytest.approx(0.2991, abs=1e-4))


@pytest.mark.parametrize("values", [[0.5], [0.25] * 9])
def test_bootstrap_interval_of_equal_values(values):
    assert bootstrap_interval(np.array(values)) == (values[0], values[0])


# --- plans ---------------------------------------------------------------------------------------

WITH, WITHOUT = Query("q1", "a", ("x",)), Query("q2", "b")


@pytest.mark.parametrize(
    ("queries", "has_qrels", "depth", "expected"),
    [
        (
            [WITH, WITHOUT],
            True,
            100,
            "accuracy@1 accuracy@5 accuracy@20 accuracy@100 nDCG@10 MRR@10 R@20 R@100",
        ),
        ([WITH], False, 20, "accuracy@1 accuracy@5 accuracy@20"),
        ([WITHOUT], True, 50, "nDCG@10 MRR@10 R@20"),
    ],
)
def test_usual_measures(queries, has_qrels, depth, expected):
    plan = plan_measures([], queries, has_qrels, depth)
    assert " ".join(m.name for m in (*plan.accuracy, *plan.judged)) == expected
    assert bool(plan.notes) == (depth < 100)


@pytest.mark.parametrize(
    ("usual", "depth", "expected"),
    [
        (("accuracy@5", "all@20"), 100, "accuracy@5 all@20"),
        (("all@20", "all@2"), 10, "all@2"),
    ],
)
def test_the_usual_measures_of_a_test_set(usual, depth, expected):
    plan = plan_measures([], [WITH], True, depth, usual)
    assert " ".join(m.name for m in (*plan.accuracy, *plan.judged)) == expected
    assert [m.name for m in plan_measures([], [WITH], False, 100, ("accuracy@5", "R@5")).accuracy] == [
        "accuracy@5"
    ]
    assert plan_measures(["R@3"], [WITH], True, depth, usual).judged[0].name == "R@3"


@pytest.mark.parametrize(
    ("names", "main"),
    [
        (["accuracy@1", "accuracy@20", "nDCG@10"], "accuracy@20"),
        (["R@10", "nDCG@10"], "nDCG@10"),
        (["R@5", "all@2"], "R@5"),
    ],
)
def test_the_main_measure(names, main):
    assert plan_measures(names, [WITH], True, 100).main.name == main


def test_a_measure_by_two_names_is_measured_once():
    plan = plan_measures(["RR@10", "MRR@10"], [WITHOUT], True, 10)
    assert [measure.name for measure in plan.judged] == ["MRR@10"]


@pytest.mark.parametrize(
    ("names", "queries", "has_qrels", "depth", "error", "message"),
    [
        ([], [WITHOUT], False, 100, InputError, "nothing can be measured"),
        (["accuracy@5"], [WITHOUT], True, 100, UsageError, "no question has answers"),
        (["nDCG@10"], [WITH], False, 100, UsageError, "no judgements"),
        (["R@1000"], [WITH], True, 100, UsageError, "only 100 results"),
        ([], [WITHOUT], True, 5, UsageError, "no measure applies to so few"),
        (["all@20"], [WITH], False, 100, UsageError, "no judgements"),
        ([], [], True, 100, InputError, "no questions"),
    ],
)
def test_impossible_plans(names, queries, has_qrels, depth, error, message):
    with pytest.raises(error, match=message):
        plan_measures(names, queries, has_qrels, depth)


def test_the_accuracy_of_ir_measures_is_not_taken_for_ours():
    assert plan_measures(["Accuracy@5"], [WITH], True, 10).notes == [
        "Accuracy@5 is ir-measures' own measure, not accuracy@5"
    ]
    with pytest.raises(UsageError) as caught:
        plan_measures(["Accuracy@5"], [WITH], False, 10)
    assert caught.value.hint.startswith("Did you mean accuracy@5? ")


# --- real runs -----------------------------------------------------------------------------------


@pytest.mark.realdata
@pytest.mark.parametrize(("system", "ndcg"), [("bm25", 0.5058), ("splade", 0.731), ("repllama", 0.738)])
def test_real_runs_score_as_ir_measures_scores_their_files(system, ndcg):
    folder = DATA / "msmarco-dl19"
    if not folder.exists():
        pytest.skip(f"no {folder}")
    run = read_run(folder / f"run.dl19.{system}.txt.gz")
    qrels = read_qrels(folder / "qrels.dl19.full.txt")
    query_ids = [query.id for query in read_queries(folder / "queries.dl19.jsonl.gz")]
    ranking = run_ranking(run, query_ids, lambda ids: np.array(ids, np.int64))
    relevance = {q: {int(id_): value for id_, value in judged.items()} for q, judged in qrels.items()}
    names = ["nDCG@10", "AP", "RR@10", "R@100", "P@10", "Success@1", "AP(rel=2)"]
    measures = [parse_measure(name) for name in names]
    values = measure_judged(ranking, relevance, measures)
    judged = [measure.judged for measure in measures]
    given = list(ir_measures.read_trec_qrels(str(folder / "qrels.dl19.full.txt")))
    as_it_is = ir_measures.calc_aggregate(
        judged, given, ir_measures.read_trec_run(str(folder / f"run.dl19.{system}.txt.gz"))
    )
    untied = {q: {id_: float(-rank) for rank, id_ in enumerate(results)} for q, results in run.items()}
    expected = ir_measures.calc_aggregate(judged, given, untied)
    for measure in measures:
        assert values[measure.name].mean == pytest.approx(expected[measure.judged], abs=1e-9)
        if (system, measure.name) == ("repllama", "MRR@10"):
            # the first relevant passage of query 1037798 ties: trec_eval ranks it 2nd, the program that
            # ir-measures takes for RR@10 alone ranks it 4th
            assert values["MRR@10"].mean - as_it_is[measure.judged] == pytest.approx((1 / 2 - 1 / 4) / 43)
        else:
            assert values[measure.name].mean == pytest.approx(as_it_is[measure.judged], abs=1e-9)
    assert len(values["nDCG@10"].values) == 43
    assert values["nDCG@10"].mean == pytest.approx(ndcg, abs=6e-4)
    if system == "bm25":
        assert values["nDCG@10"].mean == pytest.approx(0.5058, abs=5e-5)
