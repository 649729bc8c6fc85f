"""python -m experiments collections: one table of the reports of several collections."""

from __future__ import annotations

import copy

import orjson
import pytest

from experiments.studies import collection_table as script
from linkseek.indexer.program.errors import InputError, UsageError
from tests.support.results_records import RESULTS

QUESTIONS = 400


@pytest.fixture
def report(tmp_path):
    """Writes a report of two pipelines with given values for each question; its folder."""
    template = next(iter(RESULTS["pipelines"].values()))
    score = next(iter(template["measures"].values()))

    def write(name: str, measure: str, **values: list[float]) -> str:
        raw = copy.deepcopy(RESULTS) | {"pipelines": {}, "comparisons": []}
        length = raw["analyses"]["length"] | {"bins": []}
        raw |= {"analyses": {"length": length}, "curves": raw["curves"] | {"pipelines": {}}}
        raw |= {"measures": [measure], "main_measure": measure}
        for pipeline, of in values.items():
            mean = sum(of) / len(of)
            figures = {"mean": mean, "low": mean, "high": mean, "queries": len(of)}
            per_query = {str(number): value for number, value in enumerate(of)}
            measured = {measure: score | figures | {"per_query": per_query}}
            raw["pipelines"][pipeline] = copy.deepcopy(template) | {"measures": measured}
        (tmp_path / name).mkdir()
        (tmp_path / name / "results.json").write_bytes(orjson.dumps(raw))
        return str(tmp_path / name)

    return write


def rows_of(printed: str) -> dict[str, list[str]]:
    """The cells of each pipeline."""
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed.splitlines()]
    return {name.strip("`"): cells for name, *cells in lines}


def test_averages_wins_level_and_losses_by_hand(report, capsys):
    half = [0.0, 1.0] * (QUESTIONS // 2)
    better = [1.0] * (QUESTIONS // 2) + half[: QUESTIONS // 2]  # .75
    same = [0.504 if value else 0.496 for value in half]
    folders = [
        report("one", "accuracy@20", bm25=half, other=better),
        report("two", "nDCG@10", bm25=better, other=half),
        report("three", "nDCG@10", bm25=[0.5] * QUESTIONS, other=same),
        report("four", "nDCG@10", bm25=[0.0, 1.0, 0.0], other=[0.0, 1.0, 1.0]),
    ]
    script.main(folders)
    rows = rows_of(capsys.readouterr().out)
    assert rows["pipeline"][:2] == ["one, accuracy@20 %", "two, nDCG@10"]
    assert rows["bm25"][0].startswith("50.0 (") and rows["bm25"][4:] == [".521", "", "", "", ""]
    assert [cell.partition(" ")[0] for cell in rows["other"][:4]] == ["75.0\\*", ".500\\*", ".500", ".667"]
    assert rows["other"][4:] == [".604", "1", "1", "1", "1"]


def test_a_pipeline_that_some_collections_lack(report, capsys):
    values = [0.25] * QUESTIONS
    folders = [report("one", "R@20", bm25=values, other=values), report("two", "R@20", bm25=values)]
    script.main(folders)
    assert rows_of(capsys.readouterr().out)["other"][1:] == ["", "", "0", "1", "0", "0"]


def test_reports_that_do_not_fit(report):
    one = report("one", "R@20", bm25=[1.0])
    for words, error, message in (
        ([one, one], UsageError, "the same name"),
        ([one, "--baseline", "best"], InputError, "one: no best"),
        ([one, one[:-3] + "two"], UsageError, 'no report "two"'),
    ):
        with pytest.raises(error, match=message):
            script.main(words)
