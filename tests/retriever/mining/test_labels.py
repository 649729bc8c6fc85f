"""Labels and hard negatives from a run, judgements, answers and earlier pairs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.retriever.commands.negatives import main
from linkseek.retriever.mining.pairs import Pair, read_pairs
from tests.support.tiny.corpus import write_jsonl

# passages of three words: a#0 "red fox runs", a#1 "over green hills", b#0 "red hen sleeps", ...
DOCUMENTS = {
    "a": "red fox runs over green hills",
    "b": "red hen sleeps under a tree",
    "c": "blue fish swims",
    "d": "red fox again far",
}
RUN = [("q1", ["b#0", "a#0", "c#0", "d#0", "a#1"]), ("q2", ["c#0", "b#0"]), ("q3", ["a#0", "d#0"])]
QUESTIONS = {"q1": ("what runs", ["fox"]), "q2": ("what swims", ["the whale"]), "q3": ("which", ["Fox"])}


@pytest.fixture
def label(build, index_path, tmp_path) -> Callable[..., list[Pair]]:
    """Run the command on an index of DOCUMENTS; returns its pairs."""
    rows = [{"id": id_, "title": id_.upper(), "text": text, "links": []} for id_, text in DOCUMENTS.items()]
    build(corpus=write_jsonl(tmp_path / "c.jsonl", rows), passage_words=3)
    lines = [
        f"{query} Q0 {id_} {rank} {10 - rank} x" for query, ids in RUN for rank, id_ in enumerate(ids, 1)
    ]
    (tmp_path / "x.run").write_text("\n".join(lines))
    write_jsonl(tmp_path / "q.jsonl", [{"id": q, "text": t, "answers": a} for q, (t, a) in QUESTIONS.items()])
    write_jsonl(tmp_path / "bare.jsonl", [{"id": q, "text": t} for q, (t, _) in QUESTIONS.items()])

    def run(*options: object, queries: str = "q.jsonl", out: str = "out.jsonl") -> list[Pair]:
        output = tmp_path / out
        given = ["--index", index_path, "--run", tmp_path / "x.run", "--queries", tmp_path / queries]
        main([*map(str, given), "--output", str(output), *map(str, options)])
        return list(read_pairs(output))

    return run


def ids(pairs: list[Pair]) -> list[tuple[str, str, list[str]]]:
    return [(p.query, p.positive.id, [c.id for c in p.hard_negatives]) for p in pairs]


def test_the_best_passage_with_an_answer_is_relevant_and_those_without_are_hard(label, capsys):
    pairs = label()
    # q1: a#0 and d#0 hold "fox"; q2: nothing holds its answer; q3: both do, so nothing is wrong
    assert ids(pairs) == [("what runs", "a#0", ["b#0", "c#0", "a#1"]), ("which", "a#0", [])]
    assert (pairs[0].positive.title, pairs[0].positive.text) == ("A", "red fox runs")
    assert (pairs[0].answers, pairs[0].objective) == (("fox",), "")
    said = capsys.readouterr().err
    assert "2 pairs of 3 questions, 1 without a hard negative, 1 without a relevant passage" in said


def test_processes_find_the_answers_of_one(label, monkeypatch):
    monkeypatch.setattr("linkseek.retriever.mining.labels._BLOCK", 1)
    assert ids(label("--processes", 2)) == ids(label("--processes", 1)) != []


def test_actors_of_a_cluster_find_the_answers_of_one_process(label, cluster, monkeypatch):
    monkeypatch.setattr("linkseek.retriever.mining.labels._BLOCK", 1)
    assert ids(label("--ray", cluster)) == ids(label("--processes", 1))


def test_depth_and_number_of_negatives(label):
    assert ids(label("--negatives", 2))[0] == ("what runs", "a#0", ["b#0", "c#0"])
    assert ids(label("--depth", 3))[0] == ("what runs", "a#0", ["b#0", "c#0"])


def write_qrels(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines))
    return path


def test_judged_passages_are_right_the_most_relevant_first(label, tmp_path):
    qrels = write_qrels(tmp_path / "q.txt", "q1 0 d#0 1", "q1 0 c#0 2", "q1 0 b#0 0", "q2 0 a#1 1")
    pairs = label("--qrels", qrels, queries="bare.jsonl")
    assert ids(pairs) == [
        ("what runs", "c#0", ["b#0", "a#0", "a#1"]),
        ("what runs", "d#0", ["b#0", "a#0", "a#1"]),
        ("what swims", "a#1", ["c#0", "b#0"]),  # not in the run, and right nevertheless
    ]


def test_one_of_several_relevant_passages_is_drawn_and_the_others_are_no_negatives(label, tmp_path):
    qrels = write_qrels(tmp_path / "q.txt", "q1 0 d#0 1", "q1 0 c#0 1", "q2 0 a#1 1")
    drawn = set()
    for seed in range(20):
        pairs = label("--qrels", qrels, "--positives", "one", "--seed", seed, queries="bare.jsonl")
        first, second = ids(pairs)
        assert first[2] == ["b#0", "a#0", "a#1"] and second[:2] == ("what swims", "a#1")
        drawn.add(first[1])
    assert drawn == {"c#0", "d#0"}


def test_every_ranked_passage_is_a_pair_for_a_teacher(label):
    assert ids(label("--positives", "ranked", "--depth", 2, queries="bare.jsonl")) == [
        ("what runs", "b#0", []),
        ("what runs", "a#0", []),
        ("what swims", "c#0", []),
        ("what swims", "b#0", []),
        ("which", "a#0", []),
        ("which", "d#0", []),
    ]
    with pytest.raises(UsageError, match="takes the passages of the run"):
        label("--positives", "ranked", "--pairs", "x.jsonl")


def test_a_passage_with_an_answer_is_no_hard_negative_of_a_judged_one(label, tmp_path):
    qrels = write_qrels(tmp_path / "q.txt", "q1 0 c#0 1")
    assert ids(label("--qrels", qrels)) == [("what runs", "c#0", ["b#0", "a#1"])]


def test_of_a_judged_document_its_best_passage_is_right_and_none_is_wrong(label, tmp_path):
    qrels = write_qrels(tmp_path / "q.txt", "q1 0 a 1", "q2 0 d 1")
    assert ids(label("--qrels", qrels, queries="bare.jsonl")) == [
        ("what runs", "a#0", ["b#0", "c#0", "d#0"]),
        ("what swims", "d#0", ["c#0", "b#0"]),
    ]


def test_of_a_judged_document_the_passage_with_an_answer_is_right_where_there_are_answers(
    label, tmp_path, capsys
):
    questions = [
        ("q1", "what runs", ["green hills"]),
        ("q2", "where", ["a tree"]),
        ("q3", "which", ["whale"]),
    ]
    path = tmp_path / "answered.jsonl"
    write_jsonl(path, [{"id": q, "text": t, "answers": a} for q, t, a in questions])
    qrels = write_qrels(tmp_path / "q.txt", "q1 0 a 1", "q2 0 b 1", "q3 0 d 1")
    assert ids(label("--qrels", qrels, queries=path.name)) == [
        ("what runs", "a#1", ["b#0", "c#0", "d#0"]),  # ranked below a#0, which has no answer
        ("where", "b#1", ["c#0"]),  # not in the run
    ]
    assert "1 without a relevant passage" in capsys.readouterr().err


def test_a_second_round_keeps_what_is_right(label, tmp_path, capsys):
    first = [
        {
            "question": "what runs", "answers": ["fox"],
            "positive_ctxs": [{"title": "B", "text": "red hen sleeps"}],
        },
        {"question": "another", "positive_ctxs": [{"title": "", "text": "x"}]},
    ]  # fmt: skip
    path = write_jsonl(tmp_path / "first.jsonl", first)
    pairs = label("--pairs", path, queries="bare.jsonl")
    assert ids(pairs) == [("what runs", "", ["c#0", "a#1"])]
    assert pairs[0].positive.text == "red hen sleeps"
    assert "2 without a relevant passage" in capsys.readouterr().err


def test_written_pairs_are_dprs(label, tmp_path):
    label()
    row = json.loads((tmp_path / "out.jsonl").read_text().splitlines()[0])
    assert list(row)[:5] == [
        "question", "answers", "positive_ctxs", "negative_ctxs", "hard_negative_ctxs"
    ]  # fmt: skip
    assert row["positive_ctxs"] == [{"title": "A", "text": "red fox runs", "passage_id": "a#0"}]


def test_what_is_missing_or_does_not_belong_is_named(label, tmp_path):
    qrels = write_qrels(tmp_path / "q.txt", "q1 0 nowhere#0 1")
    with pytest.raises(InputError, match="none of the judged ids is in the index, such as 'nowhere#0'"):
        label("--qrels", qrels)
    with pytest.raises(UsageError, match="no answers, and there are no judgements"):
        label(queries="bare.jsonl")
    with pytest.raises(UsageError, match="both given"):
        label("--qrels", qrels, "--pairs", qrels)
    with pytest.raises(InputError, match="none of the questions is in the earlier pairs"):
        label(
            "--pairs",
            write_jsonl(tmp_path / "o.jsonl", [{"question": "?", "positive_ctxs": [{"text": "x"}]}]),
        )
    write_jsonl(tmp_path / "other.jsonl", [{"id": "q9", "text": "?"}])
    with pytest.raises(InputError, match="the run has none of the questions"):
        label(queries="other.jsonl")
    with pytest.raises(UsageError, match="not a JSONL file"):
        label(out="out.txt")
    nothing = write_qrels(tmp_path / "n.txt", "q1 0 a#0 0")
    with pytest.raises(InputError, match="none of 3 questions has a relevant passage") as caught:
        label("--qrels", nothing)
    assert "--depth" in caught.value.hint
    assert not (tmp_path / "out.jsonl").exists()
