"""linkseek rerank: run file and questions in, run file out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import CrossEncoder

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.reranker.commands.rerank import main
from linkseek.retriever.search.runs import read_run
from tests.support.tiny.corpus import linked_rows
from tests.support.tiny.index import built
from tests.support.tiny.models import save_tiny, save_tiny_reranker

QUESTIONS = {"q 1": "word1 of all", "q2": "naïve word2", "q3": "nothing"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """index, tiny (a re-ranker), queries.jsonl, run.trec: seven candidates of q 1, one of q2, one more."""
    folder = tmp_path_factory.mktemp("rerank")
    save_tiny_reranker(folder / "tiny", seed=3)
    built(folder / "index", linked_rows(), passage_words=10, bm25=False)
    lines = [json.dumps({"id": id_, "text": text}) + "\n" for id_, text in QUESTIONS.items()]
    (folder / "queries.jsonl").write_text("".join(lines), "utf-8")
    found = ["d0#0", "d1#1", "gone#0", "d2#0", "d3#0", "d4#0", "d6#0"]
    results = [("q%201", id_, 20.0 - n) for n, id_ in enumerate(found)]
    results += [("q2", "d7#0", 1.0), ("other", "d0#0", 1.0)]
    write(folder / "run.trec", results)
    return folder


def write(path: Path, results: list[tuple[str, str, float]]) -> Path:
    path.write_text("".join(f"{q} Q0 {id_} 1 {score} x\n" for q, id_, score in results), "utf-8")
    return path


def rerank(folder: Path, output: Path, **options: object) -> dict[str, dict[str, float]]:
    given = {"run": folder / "run.trec", "index": folder / "index", "queries": folder / "queries.jsonl"}
    given |= {"model": folder / "tiny", "precision": "float32", "device": "cpu", "output": output, **options}
    main([f"--{name}={value}" for name, value in given.items() if value is not None])
    return read_run(output)


def test_a_run_is_reranked_as_the_library_would(folder, tmp_path, capsys):
    found = rerank(folder, tmp_path / "out" / "run.trec", long="first")
    index, peer = OpenIndex.open(folder / "index"), CrossEncoder(str(folder / "tiny"), device="cpu")
    candidates = ["d0#0", "d1#1", "d2#0", "d3#0", "d4#0", "d6#0"]
    passages = [index.passages[int(row)] for row in index.passages.rows_of(candidates)]
    scores = peer.predict([(QUESTIONS["q 1"], f"{p.title} {p.text}") for p in passages])
    assert list(found) == ["q 1", "q2"]
    assert list(found["q 1"]) == [candidates[place] for place in np.argsort(-scores)]
    np.testing.assert_allclose([*found["q 1"].values()], np.sort(scores)[::-1], atol=1e-5)
    assert list(found["q2"]) == ["d7#0"]
    told = capsys.readouterr().err
    assert "2 questions, 7 pairs" in told
    assert "note: 1 questions of the run are not in" in told
    assert "note: 1 candidates of the run are not in the index; skipped" in told
    assert (tmp_path / "out" / "run.trec").read_text().splitlines()[0].endswith(" tiny")


def test_depth_and_weight(folder, tmp_path):
    found = rerank(folder, tmp_path / "a.trec", depth=2)
    assert set([*found["q 1"]][:2]) == {"d0#0", "d1#1"}
    assert [*found["q 1"]][2:] == ["d2#0", "d3#0", "d4#0", "d6#0"]
    assert list(rerank(folder, tmp_path / "b.trec", weight=0)["q 1"])[:2] == ["d0#0", "d1#1"]


def test_an_ensemble_of_different_kinds(folder, tmp_path):
    encoder = save_tiny(tmp_path / "encoder")
    main(
        ["--run", str(folder / "run.trec"), "--index", str(folder / "index"), "--queries",
         str(folder / "queries.jsonl"), "--model", str(folder / "tiny"), f"bi-encoder:{encoder}", "--device",
         "cpu", "--output", str(tmp_path / "run.trec")]
    )  # fmt: skip
    found = read_run(tmp_path / "run.trec")["q 1"]
    assert len(found) == 6 and min(found.values()) >= 0 and max(found.values()) <= 1
    assert (tmp_path / "run.trec").read_text().splitlines()[0].endswith(" tiny+bi-encoder:encoder")


def test_a_run_of_documents(folder, tmp_path):
    numbers = [0, 1, 5, 9, 22, 37]
    run = write(tmp_path / "documents.trec", [("q2", f"d{n}", 50.0 - n) for n in numbers])
    found = rerank(folder, tmp_path / "out.trec", run=run)
    index, peer = OpenIndex.open(folder / "index"), CrossEncoder(str(folder / "tiny"), device="cpu")
    for document in (index.documents[n] for n in (5, 9, 22, 37)):  # these fit; read without their address
        expected = peer.predict([(QUESTIONS["q2"], f"{document.title} {document.text}")])[0]
        assert found["q2"][document.id] == pytest.approx(expected, abs=1e-5)
    assert set(found["q2"]) == {f"d{n}" for n in numbers}


def test_a_question_without_a_candidate_in_the_index(folder, tmp_path, capsys):
    run = write(tmp_path / "run.trec", [("q2", "gone#0", 1.0), ("q%201", "d0#0", 1.0)])
    assert list(rerank(folder, tmp_path / "out.trec", run=run)) == ["q 1"]
    assert "note: 1 questions have no candidate in the index and get no results" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"model": None}, UsageError, "--model is missing"),
        ({"output": "."}, UsageError, "is a folder"),
        ({"depth": 0}, UsageError, "--depth: needs a whole number"),
        ({"weight": 2}, UsageError, "--weight: needs a number"),
        ({"long": "middle"}, UsageError, "--long: needs first or max"),
        ({"model": "./none"}, InputError, "cross-encoder ./none: no such folder"),
        ({"run": "no.trec"}, InputError, "no.trec"),
    ],
)
def test_options_that_do_not_fit(folder, tmp_path, options, error, message):
    with pytest.raises(error) as caught:
        rerank(folder, **({"output": tmp_path / "out.trec"} | options))
    assert message in caught.value.message
    assert not (tmp_path / "out.trec").exists()


def test_a_run_of_other_questions(folder, tmp_path):
    other = write(tmp_path / "a.trec", [("other", "d0#0", 1.0)])
    with pytest.raises(InputError, match="run has none of the questions"):
        rerank(folder, tmp_path / "out.trec", run=other)
