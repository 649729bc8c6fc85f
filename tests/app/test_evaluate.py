"""The evaluation runner and its command, over a small index that is made up in memory."""

import io
import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from app import evaluate as command
from app.evaluation.judgements import FIRST_UNKNOWN, Numbers, to_documents
from app.evaluation.runner import evaluate, run_names, search
from app.evaluation.table import results_table
from indexer.artifacts import file_sha256
from indexer.errors import InputError, UsageError
from indexer.passages import Passage
from retriever.ranking import Query, Ranking
from retriever.runs import read_run

TEXTS = {
    "Paris": ["Paris is the capital of France.", "It lies on the Seine."],
    "Lyon": ["Lyon lies on the Rhône.", "Its cooking is famous.", "So is its cinema."],
    "New York": ["New York is a city in America."],
}


class FakePassages:
    """As much of a `PassageStore` as the runner needs."""

    def __init__(self) -> None:
        self.documents = list(TEXTS)
        self.passages = [
            Passage(f"{document}#{n}", document, document, text, 0, len(text))
            for document, texts in TEXTS.items()
            for n, text in enumerate(texts)
        ]
        self._rows = {passage.id: row for row, passage in enumerate(self.passages)}

    def __len__(self):
        return len(self.passages)

    def __getitem__(self, row):
        return self.passages[row]

    def ids(self, rows):
        return [self.passages[row].id for row in rows]

    def rows_of(self, ids):
        return np.array([self._rows.get(id_, -1) for id_ in ids], np.int64)

    def document_rows(self, rows):
        of = np.array([self.documents.index(p.document_id) for p in self.passages], np.int64)
        return of[rows]


class FakeIds:
    """As much of an `IdTable`; Lutetia is a redirect."""

    def row(self, id_):
        documents = list(TEXTS)
        return 0 if id_ == "Lutetia" else documents.index(id_) if id_ in documents else -1


def index_of(tmp_path: Path) -> SimpleNamespace:
    return SimpleNamespace(
        passages=FakePassages(),
        document_ids=FakeIds(),
        path=tmp_path / "index",
        manifest={"format_version": 1},
        parts={"passages": {"files": {}}},
    )


QUERIES = [
    Query("1", "capital of France", ("Paris",)),
    Query("2", "river of Lyon", ("Rhône", "Saône")),
    Query("q 3", "a city in America", ("Boston",)),
    Query("4", "no answers, no judgements"),
]


def fixed(rows: dict[str, list[int]]):
    """A pipeline that answers from a table."""

    def pipeline(queries, k):
        results = [[(row, 1.0) for row in rows.get(query.id, [])] for query in queries]
        # all scores are tied: what comes out is in the order of rows
        return Ranking.from_lists([query.id for query in queries], results, k)

    return pipeline


PIPELINES = {
    "good": fixed({"1": [0, 1], "2": [2, 3], "q 3": [5]}),
    "bad": fixed({"1": [1, 3], "2": [4]}),
    "empty": fixed({}),
}
QRELS = {"1": {"Paris#0": 2, "Paris#1": 1}, "2": {"Lyon#0": 1}, "q 3": {"New York#0": 1, "x#9": 1}}


def run(tmp_path, **changes):
    arguments = {
        "index": index_of(tmp_path),
        "queries": QUERIES,
        "pipelines": PIPELINES,
        "qrels": QRELS,
        "output": tmp_path / "out",
    }
    return evaluate(**(arguments | changes))


def means(report):
    return {name: measure["mean"] for name, measure in report["measures"].items()}


def test_full_partial_and_empty_pipelines(tmp_path):
    results = run(tmp_path)
    good, bad, empty = (results["pipelines"][name] for name in ("good", "bad", "empty"))
    assert good["measures"]["accuracy@1"]["per_query"] == {"1": 1, "2": 1, "q 3": 0}
    assert good["measures"]["MRR@10"]["per_query"] == {"1": 1, "2": 1, "q 3": 1}
    assert good["measures"]["R@20"]["per_query"] == {"1": 1, "2": 1, "q 3": 0.5}
    assert means(bad)["accuracy@20"] == 0
    assert bad["measures"]["MRR@10"]["per_query"] == {"1": 1, "2": 0, "q 3": 0}
    assert set(means(empty).values()) == {0}
    assert empty["measures"]["nDCG@10"]["queries"] == 3
    assert [r["queries_without_results"] for r in (good, bad, empty)] == [1, 2, 4]
    assert results["counts"] == {
        "queries": 4,
        "queries_with_answers": 3,
        "queries_with_judgements": 3,
        "judgements": 5,
        "judged_ids_not_in_index": 1,
    }
    for measure in good["measures"].values():
        assert measure["low"] <= measure["mean"] <= measure["high"]
    assert any("1 questions without answers" in note for note in results["notes"])


def test_run_files_score_like_their_pipelines(tmp_path):
    first = run(tmp_path)
    files = [tmp_path / "out" / "runs" / f"{name}.trec" for name in ("good", "bad")]
    assert list(read_run(files[0])) == ["1", "2", "q 3"]
    again = run(tmp_path, pipelines={}, runs=files, output=tmp_path / "again")
    for name in ("good", "bad"):
        assert again["pipelines"][name]["measures"] == first["pipelines"][name]["measures"]
        assert again["pipelines"][name]["source"] == "file"


def test_batches_do_not_change_results(tmp_path):
    sizes = []

    def counted(queries, k):
        sizes.append(len(queries))
        return PIPELINES["good"](queries, k)

    ranking, seconds = search(counted, QUERIES, 3, 3, "good")
    assert sizes == [3, 1]
    assert seconds > 0
    assert ranking.rows.tolist() == [[0, 1, -1], [2, 3, -1], [5, -1, -1], [-1, -1, -1]]
    assert ranking.query_ids == ("1", "2", "q 3", "4")


def test_a_pipeline_that_mixes_up_its_queries(tmp_path):
    with pytest.raises(ValueError, match="other queries"):
        search(lambda queries, k: PIPELINES["good"](queries[::-1], k), QUERIES, 3, 3, "x")


def test_depth_beyond_the_corpus_gives_all_of_it(tmp_path):
    asked = []

    def pipeline(queries, k):
        asked.append(k)
        return PIPELINES["good"](queries, k)

    results = run(tmp_path, pipelines={"good": pipeline}, depth=10**9, measures=["R@1000"])
    assert asked == [len(FakePassages())]
    assert results["pipelines"]["good"]["measures"]["R@1000"]["per_query"]["1"] == 1


# --- documents -----------------------------------------------------------------------------------


def test_judgements_on_documents_take_the_best_passage(tmp_path):
    qrels = {"1": {"Lyon": 1}, "2": {"Lutetia": 1, "Paris": 2}, "q 3": {"Rome": 1}}
    pipelines = {"p": fixed({"1": [0, 1, 2, 3], "2": [0, 5], "q 3": [5]})}
    results = run(tmp_path, pipelines=pipelines, qrels=qrels, measures=["MRR@10", "nDCG@10", "R@20"])
    assert results["judged_level"] == "documents"
    measured = results["pipelines"]["p"]["measures"]
    assert measured["MRR@10"]["per_query"] == {
        "1": 0.5,
        "2": 1,
        "q 3": 0,
    }  # Lyon is second, not third
    assert measured["R@20"]["per_query"] == {"1": 1, "2": 1, "q 3": 0}
    assert results["counts"]["judged_ids_not_in_index"] == 1


def test_to_documents():
    rows = np.array([[3, 0, 2, FIRST_UNKNOWN, 5], [1, 0, -1, -1, -1], [-1] * 5])
    scores = np.array([[5, 4, 3, 2, 1], [2, 1, *[-np.inf] * 3], [-np.inf] * 5], np.float32)
    collapsed = to_documents(Ranking(("a", "b", "c"), rows, scores), FakePassages())
    assert collapsed.rows.tolist() == [
        [1, 0, FIRST_UNKNOWN, 2, -1],
        [0, -1, -1, -1, -1],
        [-1, -1, -1, -1, -1],
    ]
    assert collapsed.scores[0].tolist() == [5, 4, 2, 1, -np.inf]


def test_to_documents_is_the_plain_loop():
    generator = np.random.default_rng(0)
    passages = FakePassages()
    for _ in range(200):
        row = generator.permutation(len(passages))[: generator.integers(0, 7)]
        padded = np.full((1, 8), -1, np.int64)
        padded[0, : len(row)] = row
        ranking = Ranking(("q",), padded, np.where(padded >= 0, 0, -np.inf).astype(np.float32))
        expected = list(dict.fromkeys(passages.document_rows(row).tolist()))
        assert [found for found, _ in to_documents(ranking, passages).results(0)] == expected


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_run_of_documents(tmp_path):
    path = write(tmp_path / "docs.txt", "1 Q0 New%20York 1 2 t\n1 Q0 Paris 2 1 t\n2 Q0 Lyon 1 1 t\n")
    qrels = {"1": {"Paris": 1}, "2": {"Lyon": 1}}
    results = run(tmp_path, pipelines={}, runs=[path], qrels=qrels)
    measured = results["pipelines"]["docs"]["measures"]
    assert measured["MRR@10"]["per_query"] == {"1": 0.5, "2": 1}
    assert "accuracy@20" not in measured
    assert any("ranks documents" in note for note in results["notes"])
    with pytest.raises(InputError, match="judges passages"):
        run(tmp_path, pipelines={}, runs=[path])


def test_unknown_passages_keep_their_ranks_and_meet_their_judgements(tmp_path):
    path = write(tmp_path / "x.run", "1 Q0 gone#1 1 3 t\n1 Q0 Paris#0 2 2 t\n2 Q0 gone#2 1 2 t\n")
    qrels = {"1": {"Paris#0": 1}, "2": {"gone#2": 1}}
    results = run(tmp_path, pipelines={}, runs=[path], qrels=qrels)
    measured = results["pipelines"]["x"]["measures"]
    assert measured["MRR@10"]["per_query"] == {"1": 0.5, "2": 1}
    assert measured["accuracy@1"]["per_query"] == {"1": 0, "2": 0, "q 3": 0}
    assert measured["accuracy@5"]["per_query"]["1"] == 1
    assert any("2 of its ids are not in the index" in note for note in results["notes"])


@pytest.mark.parametrize(
    ("qrels", "message"),
    [
        ({"1": {"D1": 1}}, '"D1"; the index has "Paris#0"'),
        ({"99": {"Paris#0": 1}}, "no judgement for any"),
    ],
)
def test_judgements_of_something_else(tmp_path, qrels, message):
    with pytest.raises(InputError) as caught:
        run(tmp_path, qrels=qrels)
    assert message in caught.value.message
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 Q0 D1 1 1 t\n", "none of the run's ids"),
        ("99 Q0 Paris#0 1 1 t\n", "none of the questions"),
    ],
)
def test_a_run_of_something_else(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        run(tmp_path, runs=[write(tmp_path / "x.run", text)])


def test_numbers_of_unknown_ids_are_the_same_everywhere():
    numbers = Numbers(FakePassages(), FakeIds())
    judgements = numbers.judgements({"1": {"Paris#0": 1, "a": 1, "b": 1}}, ["1"], "qrels")
    found = numbers.run({"1": {"b": 2.0, "Paris#0": 1.0, "c": 0.0}}, ["1"], 10, "run")
    relevant = judgements.relevance["1"]
    assert [row in relevant for row in found.ranking.rows[0].tolist()] == [True, True, False]
    assert (judgements.unknown, found.unknown) == (2, 2)


# --- names, table --------------------------------------------------------------------------------


def test_run_names():
    paths = [Path("a/run.dl19.bm25.txt.gz"), Path("b/x.trec")]
    assert run_names(["p"], paths) == ["p", "run.dl19.bm25", "x"]


@pytest.mark.parametrize(
    ("pipelines", "runs", "message"),
    [
        (["a", "a"], [], "given twice"),
        (["a"], [Path("a.trec")], "given twice"),
        (["../a"], [], "cannot name a file"),
        ([], [], "nothing to evaluate"),
    ],
)
def test_names_that_do_not_work(pipelines, runs, message):
    with pytest.raises(UsageError, match=message):
        run_names(pipelines, runs)


def shown(results):
    screen = io.StringIO()
    console = Console(file=screen, width=200, color_system="standard", force_terminal=True)
    console.print(results_table(results))
    return screen.getvalue()


def test_table(tmp_path):
    screen = shown(run(tmp_path))
    assert screen.index("good") < screen.index("bad")
    accuracy = next(line for line in screen.split("\n") if "accuracy@1 %" in line)
    good, bad = accuracy.split("│")[2:4]
    assert re.fullmatch(r" \x1b\[1m *66\.7\x1b\[0m ", good)  # in percent, and the best
    assert "\x1b[1m" not in bad


def test_table_of_many_has_a_row_for_each(tmp_path):
    results = run(tmp_path)
    report = results["pipelines"]["good"]
    results["pipelines"] = {f"run{number}": report for number in range(9)}
    lines = shown(results).split("\n")
    assert sum("run" in line and "66.7" in line for line in lines) == 9


# --- the command ---------------------------------------------------------------------------------


@pytest.fixture
def arguments(tmp_path, monkeypatch):
    queries = [{"id": q.id, "text": q.text, "answers": q.answers} for q in QUERIES]
    text = "\n".join(map(json.dumps, queries))
    judged = "".join(
        f"{query.replace(' ', '%20')} 0 {id_.replace(' ', '%20')} {value}\n"
        for query, values in QRELS.items()
        for id_, value in values.items()
    )
    monkeypatch.setattr(command.Index, "open", lambda path: index_of(tmp_path))
    monkeypatch.setattr(
        command,
        "open_pipelines",
        lambda index, names, config: {name: PIPELINES[name] for name in names},
    )
    return [
        *("--index", str(tmp_path / "index")),
        *("--queries", str(write(tmp_path / "queries.jsonl", text))),
        *("--qrels", str(write(tmp_path / "qrels.txt", judged))),
        *("--output", str(tmp_path / "out")),
        *("--pipeline", "good", "bad"),
    ]


def test_command(arguments, tmp_path, capsys):
    command.main(arguments)
    output = capsys.readouterr().out
    assert "good" in output
    assert "nDCG@10" in output
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["pipelines"]["good"]["measures"]["nDCG@10"]["mean"] > 0.8
    origin = results["provenance"]
    assert origin["command"].startswith("python app/evaluate.py --index ")
    assert origin["files"]["queries"]["sha256"] == file_sha256(tmp_path / "queries.jsonl")
    assert set(origin["index"]) == {"path", "manifest_sha256", "parts_sha256"}
    assert {path.name for path in (tmp_path / "out" / "runs").iterdir()} == {
        "good.trec",
        "bad.trec",
    }


def test_json_goes_to_stdout_and_the_table_to_stderr(arguments, tmp_path, capsysbinary):
    command.main([*arguments, "--json", "--limit", "2", "--measure", "RR@10", "accuracy@1"])
    captured = capsysbinary.readouterr()
    assert captured.out == (tmp_path / "out" / "results.json").read_bytes()
    results = json.loads(captured.out)
    assert set(results["pipelines"]["bad"]["measures"]) == {"MRR@10", "accuracy@1"}
    assert results["counts"]["queries"] == 2
    assert b"good" in captured.err


def test_an_earlier_output_is_replaced(arguments, tmp_path):
    command.main(arguments)
    keep = write(tmp_path / "out" / "mine.txt", "keep")
    write(tmp_path / "out" / "runs" / "good.trec", "old")
    command.main(arguments)
    assert len(read_run(tmp_path / "out" / "runs" / "good.trec")) == 3
    assert keep.exists()


def test_output_that_is_a_file(arguments, tmp_path):
    write(tmp_path / "out", "")
    with pytest.raises(UsageError, match="is a file"):
        command.main(arguments)


def test_pipelines_given_twice_stop_before_anything_is_read(arguments, tmp_path):
    with pytest.raises(UsageError, match="given twice"):
        command.main([*arguments, "--pipeline", "good"])
    assert not (tmp_path / "out").exists()
