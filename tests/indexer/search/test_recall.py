"""The recall of an approximate index, and the settings that it chooses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from linkseek.indexer.commands import recall as recall_command
from linkseek.indexer.commands.recall import measure, settings
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import DamagedIndexError, UsageError
from linkseek.indexer.program.frozen import frozen
from linkseek.indexer.search.faiss_index import FLAT, build_faiss, open_faiss
from linkseek.indexer.search.faiss_tools import exhaustive_search, recall
from linkseek.indexer.store.manifest_files import read_index_manifest, write_manifest
from linkseek.indexer.store.manifests import Recall
from tests.indexer.search.test_compact import QUERIES, ROWS, VECTORS, write_shards
from tests.support.tiny.encoder import FakeEncoder
from tests.support.tiny.manifests import vectors_part

_SETTING = {"setting": {"candidates": 100}, "recall": 1.0, "milliseconds": 1.0}
COMPACT_SETTINGS = {
    "recall": {"depth": 2, "questions": 2, "chosen": _SETTING, "tried": [_SETTING]},
    "search": {"candidates": 100},
}
HALVES = VECTORS.astype(np.float16)
EXACT = np.argsort(-(QUERIES @ HALVES.astype("f").T), axis=1, kind="stable")


def measured(folder: Path, factory: str) -> Recall:
    built = build_faiss(
        folder, write_shards(folder / "v", VECTORS), factory, VECTORS.shape[1], map(str, range(ROWS))
    )
    if factory == "compact":
        (folder / "v").rename(folder / "vectors")
    index = open_faiss(folder, vectors_part(factory, **built), ROWS)
    return measure(index, iter([HALVES[:1000], HALVES[1000:]]), QUERIES)


def test_an_exhaustive_search_is_a_sort_of_all_scores():
    rows, scores = exhaustive_search([HALVES[:7], HALVES[7:1500], HALVES[1500:]], QUERIES, 50)
    assert recall(rows, EXACT[:, :50]) > 0.999
    np.testing.assert_allclose(scores, np.sort(QUERIES @ HALVES.astype("f").T)[:, ::-1][:, :50], rtol=1e-5)
    same = np.zeros((9, 4), np.float16)
    assert exhaustive_search([same, same], QUERIES[:1, :4], 12)[0].tolist() == [list(range(12))]


def test_recall_is_the_share_of_the_expected_rows():
    assert recall(np.array([[1, 2], [3, -1]]), np.array([[2, 1], [4, 3]])) == 0.75


@pytest.mark.parametrize(
    ("factory", "grid"),
    [
        ("compact", [{"candidates": n} for n in (100, 200, 400, 800, 1600, ROWS)]),
        ("IVF6,SQfp16", [{"nprobe": n} for n in (1, 2, 4, 6)]),
        ("HNSW32", [{"efSearch": n} for n in (32, 64, 128, 256, 512, 1024)]),
        (FLAT, [{}]),
        ("SQ8", [{}]),
    ],
)
def test_each_type_has_its_grid(factory, grid):
    assert settings(factory, ROWS) == grid


def test_the_cheapest_setting_that_reaches_99_percent_is_chosen(tmp_path):
    for factory in ("compact", "IVF16,SQfp16"):
        (tmp_path / factory).mkdir()
        result = measured(tmp_path / factory, factory)
        rows = result.tried
        recalls = [row.recall for row in rows]
        assert recalls == sorted(recalls) and recalls[0] < 0.99 <= recalls[-1]
        chosen = next(row for row in rows if row.recall >= 0.99)
        assert result.chosen == chosen
        assert (result.depth, result.questions) == (100, len(QUERIES))
        assert all(row.milliseconds > 0 for row in rows)


def test_the_best_is_chosen_where_none_reaches_it(tmp_path, capsys):
    result = measured(tmp_path, "PQ4x4")
    assert result.chosen.recall < 0.99 and result.chosen.setting == {}
    recall_command._print(result)
    assert "No setting reaches 0.99" in capsys.readouterr().out


def test_the_command_writes_the_default_of_later_searches(build, index_path, tmp_path, monkeypatch, capsys):
    build(faiss="compact")
    monkeypatch.setattr(
        "linkseek.retriever.models.biencoder.open_biencoder", lambda location: FakeEncoder("fake", title=True)
    )
    questions = tmp_path / "questions.tsv"
    questions.write_text("1\twho was first\n2\twhat is it\n")
    opened = OpenIndex.open(index_path)  # before the manifest changes, its vectors not yet opened
    recall_command.main(["--index", str(index_path), "--queries", str(questions), "--json"])
    printed = json.loads(capsys.readouterr().out)
    dense = OpenIndex.open(index_path).dense()
    assert dense.parameters() == {"candidates": 1000} | printed["search"]
    assert (
        dense.manifest.recall.to_json() == printed["recall"] and printed["recall"]["chosen"]["recall"] >= 0.99
    )
    assert len(opened.dense("fake")) == len(dense)
    assert build(faiss="compact").reused  # and it stays
    assert OpenIndex.open(index_path).dense().manifest.recall.to_json() == printed["recall"]
    recall_command.main(["--index", str(index_path), "--queries", str(questions)])
    assert "The default from now on: " in capsys.readouterr().out


@pytest.fixture
def questions(tmp_path, monkeypatch):
    monkeypatch.setattr("linkseek.retriever.models.biencoder.open_biencoder", FakeEncoder)
    path = tmp_path / "questions.tsv"
    path.write_text("1\twho was first\n2\twhat is it\n")
    return path


def test_an_index_that_is_replaced_while_it_is_measured_stays_as_it_is(
    build, index_path, questions, monkeypatch
):
    build(faiss="compact")

    def measure_meanwhile(*_):
        build()
        return Recall.model_validate(frozen(COMPACT_SETTINGS["recall"]))

    monkeypatch.setattr(recall_command, "measure", measure_meanwhile)
    with pytest.raises(DamagedIndexError, match="a new index has replaced it"):
        recall_command.main(["--index", str(index_path), "--queries", str(questions)])
    dense = OpenIndex.open(index_path).dense()
    assert dense.manifest.factory == FLAT and dense.manifest.search == {}
    assert len(dense.search(np.ones((1, 32), np.float32), 3)[0]) == 1


def test_what_is_measured_is_written_to_the_vectors_that_were_measured(build, index_path, questions):
    """Of several encoders those of the default one, which need not be the first."""
    build(encoders=["fake", "other"])
    write_manifest(index_path, read_index_manifest(index_path).replace(default_encoder="other"))
    recall_command.main(["--index", str(index_path), "--queries", str(questions)])
    measured = [part.recall is not None for part in OpenIndex.open(index_path).parts.dense.values()]
    assert measured == [False, True]


def test_index_and_queries_are_needed():
    with pytest.raises(UsageError, match="--queries: missing"):
        recall_command.main(["--index", "x"])
