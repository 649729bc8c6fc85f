"""TREC files: what we write is read back exactly, by us and by trec_eval, and damage is named."""

from pathlib import Path

import ir_measures
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkseek.indexer.program.errors import InputError
from linkseek.retriever.ranking import Ranking
from linkseek.retriever.search.runs import (
    as_qrels,
    decode_id,
    encode_id,
    read_qrels,
    read_run,
    run_ranking,
    strictly_decreasing,
    write_run,
)


def ranking_of(scores: list[list[float]], rows: list[list[int]] | None = None) -> Ranking:
    values = np.array(scores, np.float32)
    places = np.tile(np.arange(values.shape[1]), (len(values), 1)) if rows is None else rows
    return Ranking(tuple(f"q{n}" for n in range(len(values))), np.array(places, np.int64), values)


def write(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "file"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# --- scores --------------------------------------------------------------------------------------


@pytest.mark.parametrize("score", [0.0, 1.0, -1.0, 123456.0, 1e-38, -1e-45, 3.4e38, -3.4e38, np.inf, -np.inf])
@pytest.mark.parametrize("ids", ["abcdefgh", "hgfedcba"])
def test_ties_keep_their_order_in_every_program(tmp_path, score, ids):
    """Whatever the ids are, each program finds the passages at the ranks that we gave them."""
    path = tmp_path / "run.trec"
    write_run(path, ranking_of([[score] * 8]), lambda rows: [ids[row] for row in rows])
    run = list(ir_measures.read_trec_run(str(path)))
    assert [result.doc_id for result in run] == list(ids)
    measures = [ir_measures.RR, ir_measures.RR @ 10, ir_measures.nDCG @ 8, ir_measures.AP]
    for rank, id_ in enumerate(ids, start=1):
        values = ir_measures.calc_aggregate(measures, {"q0": {id_: 1}}, run)
        assert values[ir_measures.RR] == values[ir_measures.RR @ 10] == pytest.approx(1 / rank)
        assert values[ir_measures.AP] == pytest.approx(1 / rank)
        assert values[ir_measures.nDCG @ 8] == pytest.approx(1 / np.log2(rank + 1))
    assert list(read_run(path)["q0"]) == list(ids)


def test_the_scores_of_the_test_above_would_be_reordered_without_us():
    tied = [ir_measures.ScoredDoc("q0", id_, 1.0) for id_ in "abcdefgh"]
    assert ir_measures.calc_aggregate([ir_measures.RR], {"q0": {"a": 1}}, tied)[ir_measures.RR] == 1 / 8


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=50))
def test_strictly_decreasing(values):
    scores = np.sort(np.array([values + values], np.float32))[:, ::-1]
    lowered = strictly_decreasing(scores)
    assert (np.diff(lowered.astype(np.float64)) < 0).all()
    assert np.isfinite(lowered).all()
    text = np.array([float(f"{score:.9g}") for score in lowered[0].tolist()], np.float32)
    assert (text == lowered[0]).all()
    usual = np.abs(scores) < 1e38
    assert np.allclose(lowered[usual], scores[usual], rtol=1e-4, atol=1e-28)


def test_scores_without_ties_are_written_as_they_are():
    scores = np.array([[3.5, 3.25, 0.1, -7.0]], np.float32)
    assert (strictly_decreasing(scores) == scores).all()


# --- ids -----------------------------------------------------------------------------------------


@given(st.text())
def test_ids_come_back_exactly(id_):
    column = encode_id(id_)
    assert decode_id(column) == id_
    assert len(column.split()) == (1 if id_ else 0)
    assert len(column.encode().split()) == (1 if id_ else 0)


@given(st.text("%0123456789ABCDEFabcdef \u2028é", max_size=12))
def test_ids_full_of_escapes_come_back_exactly(id_):
    assert decode_id(encode_id(id_)) == id_


@pytest.mark.parametrize(
    ("id_", "column"),
    [
        ("Arch Linux#3", "Arch%20Linux#3"),
        ("100%", "100%25"),
        ("a%20b", "a%2520b"),
        ("a\u2028b", "a%E2%80%A8b"),
        ("Röntgen", "Röntgen"),
    ],
)
def test_encoded_ids(id_, column):
    assert encode_id(id_) == column
    assert decode_id(column) == id_


@pytest.mark.parametrize("column", ["Caf%C3%A9", "100%", "100%_wool", "a%2", "%41", "%E2%80"])
def test_escapes_that_are_not_ours_stay(column):
    assert decode_id(column) == column


# --- files ---------------------------------------------------------------------------------------


def test_run_round_trip(tmp_path):
    ids = ["a b", "50%", "c\u00a0d", "e"]
    ranking = Ranking(
        ("q 1", "q2", "q3"),
        np.array([[2, 0, 1], [3, -1, -1], [-1, -1, -1]]),
        np.array([[2, 2, 1], [5, -np.inf, -np.inf], [-np.inf] * 3], np.float32),
    )
    path = tmp_path / "runs" / "x.trec"
    write_run(path, ranking, lambda rows: [ids[row] for row in rows], tag="my tag")
    run = read_run(path)
    assert {query: list(results) for query, results in run.items()} == {
        "q 1": ["c\u00a0d", "a b", "50%"],
        "q2": ["e"],
    }
    again = run_ranking(run, ranking.query_ids, lambda wanted: np.array([ids.index(i) for i in wanted]))
    assert again.query_ids == ranking.query_ids
    assert (again.rows == ranking.rows).all()
    assert (np.isneginf(again.scores) == (ranking.rows < 0)).all()
    assert sorted(path.parent.iterdir()) == [path.parent / ".linkseek.json", path]


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.trec"
    write_run(path, ranking_of([[1.0]]), lambda rows: ["old"])
    before = path.read_bytes()

    def fail(rows: object) -> list[str]:
        raise RuntimeError("no ids today")

    with pytest.raises(RuntimeError):
        write_run(path, ranking_of([[1.0]]), fail)
    assert path.read_bytes() == before
    assert sorted(tmp_path.iterdir()) == [tmp_path / ".linkseek.json", path]


def test_ties_of_foreign_runs_are_ranked_as_trec_eval_ranks_them(tmp_path):
    path = write(tmp_path, "q Q0 a 1 1.0 t\nq Q0 c 2 1.0 t\nq Q0 d 3 2 t\nq Q0 b 4 1.00000000001 t\n")
    run = read_run(path)
    assert list(run["q"]) == ["d", "c", "b", "a"]  # as float32, b ties with a and c
    for rank, id_ in enumerate(run["q"], start=1):
        values = ir_measures.calc_aggregate([ir_measures.RR], {"q": {id_: 1}}, run)
        assert values[ir_measures.RR] == pytest.approx(1 / rank)


def test_run_ranking_cuts_and_pads():
    run = {"q": {"a": 3.0, "b": 2.0, "c": 1.0}}
    rows = {"a": 7, "b": 5, "c": 6}
    ranking = run_ranking(run, ["x", "q"], lambda ids: np.array([rows[i] for i in ids], np.int64), k=2)
    assert ranking.rows.tolist() == [[-1, -1], [7, 5]]
    assert ranking.scores[1].tolist() == [3.0, 2.0]


def test_run_ranking_of_another_index():
    with pytest.raises(InputError, match=r'1 passages .* "b"'):
        run_ranking({"q": {"a": 2.0, "b": 1.0}}, ["q"], lambda ids: np.array([0, -1]))


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", None, "empty"),
        ("q Q0 a 1 1.0 t\nq Q0 b 2 1.0\n", 2, "5 columns, expected 6"),
        ("q Q0 a b 1 1.0 t\n", 1, "7 columns, expected 6"),
        ("q Q0 a 1 high t\n", 1, "'high', expected a number"),
        ("q Q0 a 1 nan t\n", 1, "'nan', expected a number"),
        ("q Q0 a 1 2 t\nq Q0 b 2 1 t\nq Q0 a 3 0 t\n", 3, '"a" twice'),
        (b"q Q0 \xff 1 2 t\n", 1, "not UTF-8"),
    ],
)
def test_damaged_runs(tmp_path, text, line, message):
    path = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_run(path)
    assert str(path) + (f", line {line}:" if line else "") in caught.value.message
    assert message in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "1 0 a%20b 2\n1 0 c 0\n2\t0\td\t-1\n",
        "query-id\tcorpus-id\tscore\n1\ta b\t2\n1\tc\t0\n2\td\t-1\n",
        "1 0 a%20b 2\r\n1 0 c 0\r\n1 0 c 0\r\n2 0 d -1\r\n",
    ],
)
def test_qrels(tmp_path, text):
    assert read_qrels(write(tmp_path, text)) == {"1": {"a b": 2, "c": 0}, "2": {"d": -1}}


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", None, "no judgements"),
        ("query-id\tcorpus-id\tscore\n", None, "no judgements"),
        ("1 0 a 1\n1 a 1\n", 2, "3 columns, expected 4"),
        ("query-id\tcorpus-id\tscore\n1\ta\n", 2, "2 columns, expected 3"),
        ("1 0 a yes\n", 1, "'yes', expected a whole number"),
        ("1 0 a 0.5\n", 1, "'0.5', expected a whole number"),
        ("1 0 a nan\n", 1, "expected a whole number"),
        ("1 0 a 1\n1 0 a 2\n", 2, "2 here, 1 in an earlier line"),
    ],
)
def test_damaged_qrels(tmp_path, text, line, message):
    path = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_qrels(path)
    assert str(path) + (f", line {line}:" if line else "") in caught.value.message
    assert message in caught.value.message


@pytest.mark.parametrize("grade", ["1e300", "10000000000", "1001", "-2147483649", "inf"])
def test_a_relevance_that_trec_eval_cannot_measure_is_refused(tmp_path, grade):
    path = tmp_path / "qrels.txt"
    path.write_text(f"q 0 d {grade}\n")
    with pytest.raises(InputError, match=r"line 1: the relevance is .*whole number"):
        read_qrels(path)
    if float(grade).is_integer():
        with pytest.raises(InputError, match="grades above 1,000"):
            as_qrels({"q": {"d": int(float(grade))}})


def test_ids_of_python_may_be_numbers():
    assert as_qrels({1: {2: 1, "b": 0}}) == {"1": {"2": 1, "b": 0}}


def test_a_folder_is_not_a_missing_file(tmp_path):
    with pytest.raises(InputError, match="a folder, not a file"):
        read_run(tmp_path)


@pytest.mark.parametrize(
    "head",
    ["query-id\tcorpus-id\tscore", "query_id\tdoc_id\trelevance", "qid docno label", "Query docid rel"],
)
def test_judgements_with_names_of_three_columns(tmp_path, head):
    separator = "\t" if "\t" in head else " "
    path = tmp_path / "qrels.tsv"
    path.write_text(f"{head}\n{separator.join(('q1', 'd1', '1'))}\n")
    assert read_qrels(path) == {"q1": {"d1": 1}}


def test_a_line_of_names_is_no_judgement_and_no_result(tmp_path):
    (tmp_path / "qrels").write_text("query_id iteration doc_id relevance\nq1 0 d1 1\n")
    assert read_qrels(tmp_path / "qrels") == {"q1": {"d1": 1}}
    (tmp_path / "run").write_text("\nqid Q0 docid rank score tag\nq1 Q0 d1 1 2.5 t\n")
    assert read_run(tmp_path / "run") == {"q1": {"d1": 2.5}}


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ('{"query-id": "1", "corpus-id": "a", "score": 1}', "It is JSON"),
        ("1,0,a,1", "separated by commas"),
        ("1 a 1", "query-id, corpus-id, score"),
        ("1 0 a b 1", "percent-encoded"),
        ("1 Q0 a 1 2.5 t", "A run has six"),
    ],
)
def test_judgements_of_another_layout_are_refused_with_what_to_do(tmp_path, line, hint):
    (tmp_path / "qrels").write_text(f"{line}\n")
    with pytest.raises(InputError) as caught:
        read_qrels(tmp_path / "qrels")
    assert hint in caught.value.hint


@pytest.mark.parametrize(("line", "hint"), [("1 0 a 1", "Judgements have four"), ("1\ta\t1", "awk")])
def test_so_are_runs(tmp_path, line, hint):
    (tmp_path / "run").write_text(f"{line}\n")
    with pytest.raises(InputError) as caught:
        read_run(tmp_path / "run")
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("lines", "is_told"),
    [
        ("1 Q0 a 1 1 t\n1 Q0 b 2 2 t\n2 Q0 a 1 .1 t\n2 Q0 b 2 .3 t\n", True),
        ("1 Q0 b 2 2 t\n1 Q0 a 1 1 t\n", True),
        ("1 Q0 a 1 1 t\n1 Q0 b 2 2 t\n2 Q0 a 1 3 t\n2 Q0 b 2 2 t\n", False),
        ("1 Q0 a 1 2 t\n1 Q0 b 2 1 t\n", False),
        ("1 Q0 a 1 1 t\n1 Q0 b 2 1 t\n", False),
        ("1 Q0 a 0 1 t\n1 Q0 b 0 2 t\n", False),
        ("1 Q0 a x 1 t\n1 Q0 b y 2 t\n", False),
        ("1 Q0 a 1 1 t\n", False),
    ],
)
def test_scores_that_rise_with_the_ranks_are_told(tmp_path, capsys, lines, is_told):
    (tmp_path / "run").write_text(lines)
    read_run(tmp_path / "run")
    assert ("its scores rise with the ranks" in capsys.readouterr().err) == is_told


@pytest.mark.parametrize("score", ["1_0", "\u0663", "0x1p3", "nan", "1e", "--1", "1.5f", "infinit"])
def test_scores_that_c_does_not_read(tmp_path, score):
    (tmp_path / "run").write_text(f"q Q0 a 1 {score} t\n")
    with pytest.raises(InputError, match="expected a number"):
        read_run(tmp_path / "run")


@pytest.mark.parametrize(
    ("score", "value"), [("1", 1), ("-.5", -0.5), ("+1.", 1), ("1E-3", 0.001), ("INF", np.inf)]
)
def test_scores_that_c_reads(tmp_path, score, value):
    (tmp_path / "run").write_text(f"q Q0 a 1 {score} t\n")
    assert read_run(tmp_path / "run") == {"q": {"a": value}}
