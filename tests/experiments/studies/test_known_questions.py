"""python -m experiments overlap: duplicates of test questions among training questions."""

from __future__ import annotations

import copy

import numpy as np
import orjson
import pytest

from experiments.studies import overlap as script
from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.retriever.ranking import Query
from tests.support.results_records import RESULTS
from tests.support.tiny.corpus import write_jsonl


@pytest.mark.parametrize(
    ("asked", "read", "exact", "near"),
    [
        ("Who wrote the Iliad?", "who wrote iliad", True, True),
        ("Who was Rene Descartes", "who was René  Descartes?!", True, True),
        ("who sang let it be in 1970", "who sang let it be first in 1970", False, True),
        ("iliad wrote who", "who wrote the Iliad", False, True),
        ("who wrote the Iliad", "who sang the Odyssey", False, False),
        ("???", "!!!", False, False),
    ],
)
def test_duplicates(asked, read, exact, near):
    found = script.overlap([Query("q", asked)], [Query("t", "another one"), Query("u", read)])
    assert (bool(found.exact[0]), bool(found.near[0])) == (exact, near)


def test_the_nearest_is_that_of_all_pairs(monkeypatch):
    monkeypatch.setattr(script, "BLOCK", 7)
    random = np.random.default_rng(0)
    sides = [
        [random.choice(list("abcdefgh"), random.integers(0, 6)).tolist() for _ in range(30)] for _ in "12"
    ]
    slow = [max(len({*a} & {*b}) / max(len({*a} | {*b}), 1) for b in sides[1]) for a in sides[0]]
    np.testing.assert_allclose(script.nearest_share(*sides), slow)


def test_the_command(tmp_path, capsys):
    rows = [{"id": "1", "text": "who wrote it", "answers": ["She"]}, {"id": "2", "text": "where is Rome"}]
    test = write_jsonl(tmp_path / "test.jsonl", rows)
    training = write_jsonl(tmp_path / "training.jsonl", [{"text": "Who wrote it?", "answers": ["she"]}])
    script.main(["--test", str(test), "--training", str(training), "--list"])
    printed = capsys.readouterr().out
    assert "| test | 2 | 1 (50.0%) | 1 (50.0%) | 1 (100.0%) |" in printed
    assert "1\twho wrote it" in printed and "Rome" not in printed
    with pytest.raises(UsageError, match="--near"):
        script.main(["--test", str(test), "--training", str(training), "--near", "2"])


def test_the_measures_of_a_report_without_duplicates(tmp_path, capsys):
    """Of the questions 1 and 2 of the example, training has the first."""
    raw = copy.deepcopy(RESULTS)
    for pipeline in raw["pipelines"].values():
        for measure in pipeline["measures"].values():
            measure["per_query"] = {"1": 1.0, "2": 0.25}
    rows = [{"id": "1", "text": "who wrote it"}, {"id": "2", "text": "where is Rome"}]
    raw["questions"] = [row | {"answers": []} for row in rows]
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "results.json").write_bytes(orjson.dumps(raw))
    files = ["--test", str(write_jsonl(tmp_path / "test.jsonl", rows))]
    files += ["--training", str(write_jsonl(tmp_path / "training.jsonl", [{"text": "Who wrote it?"}]))]
    script.main([*files, "--results", str(folder)])
    name, pipeline = next(iter(raw["pipelines"].items()))
    assert f"| {name} | {next(iter(pipeline['measures']))} | 0.625 | 0.250 | 1 |" in capsys.readouterr().out
    for row in rows:
        row["id"] += "-in-another-file"
    write_jsonl(tmp_path / "test.jsonl", rows)
    script.main([*files, "--results", str(folder)])
    assert f"| {name} | {next(iter(pipeline['measures']))} | 0.625 | 0.250 | 1 |" in capsys.readouterr().out
    rows[0]["text"] = "who read it"
    write_jsonl(tmp_path / "test.jsonl", rows)
    with pytest.raises(InputError, match='the report asks "1", which is not in the test questions'):
        script.main([*files, "--results", str(folder)])
