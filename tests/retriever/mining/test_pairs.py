"""Pairs to DPR's JSON lines and back, files of others, and what can be wrong with them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from linkseek.indexer.program.errors import InputError
from linkseek.retriever.links.sentences import sentence_spans
from linkseek.retriever.mining.pairs import Pair, PairContext, pair_line, read_pairs, write_lines
from tests.support.command import run
from tests.support.tiny.corpus import linked_rows, write_jsonl

PAIR = Pair(
    query="who wrote\u2028it?",
    positive=PairContext("T", "Über her\nbook", "d#1"),
    negatives=(PairContext("N", "no", "n#0"),),
    hard_negatives=(PairContext("", "hard"),),
    objective="dual-link",
    answers=("She",),
    query_title="Q",
    query_id="q#0",
    evidence={"query": {"start": 1}},
)


@pytest.mark.parametrize("name", ["p.jsonl", "p.jsonl.zst"])
def test_round_trip(tmp_path: Path, name: str) -> None:
    plain = Pair("question", PairContext("", "text"))
    assert write_lines(tmp_path / name, map(pair_line, [PAIR, plain])) == 2
    assert list(read_pairs(tmp_path / name)) == [PAIR, plain]


def test_dprs_readers_find_their_fields() -> None:
    row = json.loads(pair_line(PAIR))
    assert list(row)[:5] == ["question", "answers", "positive_ctxs", "negative_ctxs", "hard_negative_ctxs"]
    assert row["positive_ctxs"] == [{"title": "T", "text": "Über her\nbook", "passage_id": "d#1"}]
    assert row["hard_negative_ctxs"] == [{"title": "", "text": "hard"}]


def test_a_file_of_hlp_or_dpr(tmp_path: Path) -> None:
    context = {"title": None, "text": "t", "psg_id": 7, "score": 1.5}
    row = {"dataset": "nq", "question": "q", "answers": ["a"], "positive_ctxs": [context, context]}
    (pair,) = read_pairs(write_jsonl(tmp_path / "p.jsonl", [row]))
    assert pair == Pair("q", PairContext("", "t", "7"), answers=("a",))


@pytest.mark.parametrize("unknown", [..., None, "", "None", "null", "nan", "<NA>", "-1", -1])
def test_the_name_of_nothing_is_no_id(tmp_path: Path, unknown: Any) -> None:
    context = {"title": None, "text": "t"} | ({} if unknown is ... else {"passage_id": unknown})
    row = {"question": "q", "positive_ctxs": [context], "hard_negative_ctxs": [context], "objective": None}
    row |= {"answers": [None, "x"], "question_title": None, "question_passage_id": None}
    expected = Pair("q", PairContext("", "t"), hard_negatives=(PairContext("", "t"),), answers=("x",))
    assert list(read_pairs(write_jsonl(tmp_path / "p.jsonl", [row]))) == [expected]
    (pair,) = read_pairs(
        write_jsonl(tmp_path / "p.jsonl", [{"question": "q", "positive_ctxs": [context | {"psg_id": "0"}]}])
    )
    assert pair.positive.id == "0"


def test_an_interrupted_writing_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    write_lines(path, [pair_line(PAIR)])
    before = path.read_bytes()

    def broken():
        yield pair_line(PAIR)
        raise InputError("stop")

    with pytest.raises(InputError):
        write_lines(path, broken())
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == [".linkseek.json", "p.jsonl"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: not JSON"),
        ("[1]", "line 2: expected a JSON object, found list"),
        ('{"positive_ctxs": [{"text": "t"}]}', 'line 2: "question" is missing'),
        ('{"question": " ", "positive_ctxs": [{"text": "t"}]}', 'line 2: "question" is missing'),
        ('{"question": "q"}', "line 2: no positive passage"),
        ('{"question": "q", "positive_ctxs": {}}', 'line 2: "positive_ctxs" is dict'),
        ('{"question": "q", "positive_ctxs": [{"title": "t"}]}', 'passage of "positive_ctxs" has no text'),
        ('{"query": "q", "document": "d"}', "is missing or empty"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(pair_line(PAIR) + line.encode() + b"\n")
    with pytest.raises(InputError) as caught:
        list(read_pairs(path))
    assert str(path) in caught.value.message and message in caught.value.message
    assert "positive_ctxs" in caught.value.hint or "add a positive passage" in caught.value.hint


def test_a_file_without_pairs(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    for text, message in (
        ("", "no pairs"),
        ("[]", "no pairs"),
        ("[\n{}\n]\n", "entry 1: .question. is missing"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=message):
            list(read_pairs(path))


@pytest.mark.parametrize("name", ["p.json", "p.json.gz"])
@pytest.mark.parametrize("indent", [None, 4])
@pytest.mark.parametrize("before", ["", "\ufeff", "\n  "])
def test_dprs_files_as_published(tmp_path: Path, name: str, indent: int | None, before: str) -> None:
    rows = [json.loads(pair_line(PAIR)), {"question": "[", "positive_ctxs": [{"text": "]}"}]}]
    text = before + json.dumps(rows, indent=indent)
    data = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    assert list(read_pairs(tmp_path / name)) == [PAIR, Pair("[", PairContext("", "]}"))]
    (tmp_path / name).write_bytes(data[:-3])
    with pytest.raises(InputError, match="ends early"):
        list(read_pairs(tmp_path / name))


@pytest.mark.parametrize("array", [True, False])
def test_pairs_without_a_positive_are_skipped_and_listed(tmp_path: Path, capsys, array: bool) -> None:
    rows: list[dict[str, Any]] = [
        {"question": f"q{n}", "positive_ctxs": [{"text": "t"}] * (n % 3)} for n in range(9)
    ]
    path = write_jsonl(tmp_path / "p.jsonl", rows)
    if array:
        path.write_text(json.dumps(rows))
    assert [pair.query for pair in read_pairs(path)] == ["q1", "q2", "q4", "q5", "q7", "q8"]
    where = "entry 1, entry 4, entry 7" if array else "line 1, line 4, line 7"
    assert f"{path}: 3 pairs without a positive passage are skipped ({where})" in capsys.readouterr().err
    write_jsonl(path, rows[::3])
    with pytest.raises(InputError, match="every pair has an empty list of positives"):
        list(read_pairs(path))


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("The U.S. bought it. St. Petersburg is old.", ["The U.S. bought it.", "St. Petersburg is old."]),
        ("J. R. R. Tolkien met Dr. Watson. No!", ["J. R. R. Tolkien met Dr. Watson.", "No!"]),
        ("History\nIn 1.5 m. years\n\n  Über 𝄞 all. ", ["History", "In 1.5 m. years", "Über 𝄞 all."]),
        ("One\u2028line. Two\u0085lines.", ["One\u2028line.", "Two\u0085lines."]),
        ("One. Two! “Three?” Four", ["One.", "Two!", "“Three?”", "Four"]),
        ("It was 3.5 m long. It ended in J.", ["It was 3.5 m long.", "It ended in J."]),
        ("日本語です。そうですか？", ["日本語です。", "そうですか？"]),
        ("", []),
        (" \n\t", []),
    ],
)  # fmt: skip
def test_sentences(text: str, sentences: list[str]) -> None:
    spans = sentence_spans(text)
    assert [text[start:end] for start, end in spans] == sentences


# --- the command ---------------------------------------------------------------------------------


def test_the_command(build, index_path: Path, tmp_path: Path) -> None:
    build(corpus=write_jsonl(tmp_path / "c.jsonl", linked_rows(300, seed=2)), encoders=[])
    output = tmp_path / "pairs.jsonl.zst"
    arguments = ["--index", index_path, "--objective", "wlp", "--pairs", 25, "--output", output, "--stats"]
    done = run("mine", *arguments)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["written"] == {"wlp": 25} == {"wlp": len(list(read_pairs(output)))}
    assert {"dual_link", "co_mention", "co_mention_only", "k", "query_words", "overlap"} <= set(report)
    counts = run("mine", "--index", index_path, "--stats")
    assert json.loads(counts.stdout)["dual_link"] == report["dual_link"]


def test_numbers_are_ids_as_text(tmp_path: Path) -> None:
    contexts = [{"text": "a", "passage_id": id_} for id_ in (7, 7.0, "7", 0)]
    contexts += [{"text": "a", "passage_id": None, "psg_id": 5}]
    row = {"question": "q", "positive_ctxs": contexts[:1], "hard_negative_ctxs": contexts[1:]}
    [pair] = read_pairs(write_jsonl(tmp_path / "p.jsonl", [row]))
    assert [context.id for context in (pair.positive, *pair.hard_negatives)] == ["7", "7", "7", "0", "5"]


@pytest.mark.parametrize("value", [True, ["7"], {"a": 1}])
@pytest.mark.parametrize("name", ["passage_id", "psg_id", "title"])
def test_what_is_no_id_and_no_title_is_named(tmp_path: Path, name: str, value: Any) -> None:
    row = {"question": "q", "positive_ctxs": [{"text": "a", name: value}]}
    with pytest.raises(InputError, match=rf'p.jsonl, line 1: "{name}" is \w+, expected text'):
        list(read_pairs(write_jsonl(tmp_path / "p.jsonl", [row])))
