"""The evaluation runner and its command, over a small index that is made up in memory."""

import io
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import orjson
import pytest
from rich.console import Console

from linkseek.app import evaluate as command
from linkseek.app.evaluation.judgements import FIRST_UNKNOWN, JudgedNumbers, to_documents
from linkseek.app.evaluation.results import Results, parse_results
from linkseek.app.evaluation.runner import EvaluationPlan, evaluate, run_names
from linkseek.app.pipelines.catalogue import RECOMMENDED
from linkseek.app.report import write_report
from linkseek.app.report.console import results_table
from linkseek.app.testsets import LoadedTestSet
from linkseek.indexer.files.hashes import file_sha256
from linkseek.indexer.passages import Passage
from linkseek.indexer.program import progress
from linkseek.indexer.program.errors import InputError, LinkseekError, UsageError
from linkseek.indexer.store.ids import IdTable, hash_ids
from linkseek.retriever.queries import read_queries
from linkseek.retriever.ranking import Query, Ranking
from linkseek.retriever.search.runs import read_qrels, read_run
from linkseek.retriever.search.searching import search
from tests.support.rankings import ranking_of
from tests.support.tiny.manifests import index_manifest, parts

pytestmark = pytest.mark.usefixtures("without_charts")

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


IDS = IdTable.build(hash_ids([*TEXTS, "Lutetia"]), np.array([*range(len(TEXTS)), 0]))
"""Lutetia is a redirect."""


class FakeLinks:
    """As much of a `LinkGraph`: two links to the first document, and one to each other."""

    incoming_offsets = np.array([0, *range(2, len(TEXTS) + 2)])

    def __len__(self):
        return len(TEXTS) + 1


def index_of(tmp_path: Path) -> SimpleNamespace:
    return SimpleNamespace(
        language="en",
        links=FakeLinks(),
        passages=FakePassages(),
        document_ids=IDS,
        path=tmp_path / "index",
        documents=[
            SimpleNamespace(title=f"The {name}", text=" ".join(texts)) for name, texts in TEXTS.items()
        ],
        manifest=index_manifest(),
        parts=parts(),
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
        return ranking_of([query.id for query in queries], results, k)

    return pipeline


PIPELINES = {
    "good": fixed({"1": [0, 1], "2": [2, 3], "q 3": [5]}),
    "bad": fixed({"1": [1, 3], "2": [4]}),
    "empty": fixed({}),
}
QRELS = {"1": {"Paris#0": 2, "Paris#1": 1}, "2": {"Lyon#0": 1}, "q 3": {"New York#0": 1, "x#9": 1}}


def run(tmp_path, **changes):
    """What results.json of an evaluation holds."""
    index = changes.pop("index", None) or index_of(tmp_path)
    asked = {"name": "x", "queries": QUERIES, "qrels": QRELS}
    test_set = {
        key: changes.pop(key) for key in ("queries", "qrels", "answer_kind", "groups") if key in changes
    }
    plan = {"pipelines": PIPELINES, "output": tmp_path / "out", **changes}
    return evaluate(EvaluationPlan(index=index, test_set=LoadedTestSet(**asked | test_set), **plan)).to_json()


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
    assert any("1 question without answers is skipped" in note for note in results["notes"])


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

    ranking, seconds, _ = search(counted, QUERIES, 3, 3, "good")
    assert sizes == [3, 1]
    assert seconds > 0
    assert ranking.rows.tolist() == [[0, 1, -1], [2, 3, -1], [5, -1, -1], [-1, -1, -1]]
    assert ranking.query_ids == ("1", "2", "q 3", "4")


def test_a_pipeline_that_mixes_up_its_queries(tmp_path):
    with pytest.raises(ValueError, match="queries that it was not given"):
        search(lambda queries, k: PIPELINES["good"](queries[::-1], k), QUERIES, 3, 3, "x")


def test_depth_beyond_the_corpus_gives_all_of_it(tmp_path):
    asked = []

    def pipeline(queries, k):
        asked.append(k)
        return PIPELINES["good"](queries, k)

    results = run(tmp_path, pipelines={"good": pipeline}, depth=10**4, measures=["R@1000"])
    assert {*asked} == {len(FakePassages())}
    assert results["pipelines"]["good"]["measures"]["R@1000"]["per_query"]["1"] == 1


# --- comparisons and analyses ---------------------------------------------------------------------


def test_comparisons_of_every_pair(tmp_path):
    results = run(tmp_path)
    assert (results["baseline"], results["main_measure"]) == ("good", "accuracy@20")
    assert results["measures"] == list(results["pipelines"]["good"]["measures"])
    pairs = [(c["a"], c["b"]) for c in results["comparisons"] if c["measure"] == "accuracy@20"]
    assert pairs == [("good", "bad"), ("good", "empty"), ("bad", "empty")]
    assert len(results["comparisons"]) == 3 * len(results["measures"])
    by_pair = {(c["measure"], c["a"], c["b"]): c for c in results["comparisons"]}
    lost = by_pair["MRR@10", "good", "empty"]
    assert (lost["difference"], lost["losses"], lost["queries"]) == (-1, 3, 3)  # what is missing counts
    assert lost["p_randomisation"] == pytest.approx(2 / 8)
    same = by_pair["accuracy@20", "bad", "empty"]
    assert (same["p_randomisation"], same["p_t"], same["ties"]) == (1, 1, 3)


def test_curves_go_as_deep_as_the_runs(tmp_path):
    path = write(tmp_path / "short.trec", "1 Q0 Paris#1 1 2 t\n1 Q0 Paris#0 2 1 t\n")
    curves = run(tmp_path, runs=[path])["curves"]
    assert curves == {
        "measure": "accuracy",
        "ks": [1, 2, 3, 4, 5, 6],
        "pipelines": {
            "good": [pytest.approx(2 / 3)] * 6,
            "bad": [0] * 6,
            "empty": [0] * 6,
            "short": [0] + [pytest.approx(1 / 3)] * 5,
        },
    }
    judged = run(tmp_path, measures=["nDCG@10"])["curves"]
    assert judged["measure"] == "recall"
    # 1 of 2, 1 of 1, 1 of 2; then 2 of 2 for the first question
    assert judged["pipelines"]["good"] == [pytest.approx(2 / 3)] + [pytest.approx(2.5 / 3)] * 5


def test_analyses(tmp_path):
    results = run(tmp_path, groups={"cities": ("1", "q 3", "unknown"), "rivers": ("2",)})
    analyses = results["analyses"]
    assert set(analyses) == {"overlap", "length", "title", "links", "groups"}
    assert analyses["groups"]["cities"]["queries"] == 2
    assert analyses["groups"]["cities"]["pipelines"]["good"]["accuracy@20"] == 0.5
    # "capital of France" 2 of 2; "river of Lyon" 1 of 2; "a city in America" 2 of 2
    assert [bin_["queries"] for bin_ in analyses["overlap"]["bins"]] == [0, 0, 1, 0, 2]
    assert analyses["overlap"]["without_value"] == 0
    assert analyses["overlap"]["bins"][4]["pipelines"]["good"]["mean"] == 0.5
    assert sum(bin_["queries"] for bin_ in analyses["length"]["bins"]) == 3
    assert [bin_["queries"] for bin_ in analyses["title"]["bins"]] == [2, 0, 0, 0, 1]  # "river of Lyon"
    links = [(bin_["low"], bin_["high"], bin_["queries"]) for bin_ in analyses["links"]["bins"]]
    assert links == [(1, 1, 2), (2, 2, 1)]
    assert "groups" not in run(tmp_path)["analyses"]
    nothing = run(tmp_path, pipelines={"empty": PIPELINES["empty"]}, qrels=None)
    assert set(nothing["analyses"]) == {"length"}


def test_a_run_of_documents_beside_pipelines_is_compared_where_it_can_be(tmp_path):
    path = write(tmp_path / "docs.trec", "1 Q0 Lyon 1 2 t\n2 Q0 Lyon 1 1 t\n")
    results = run(tmp_path, runs=[path], qrels={"1": {"Paris": 1}, "2": {"Lyon": 1}})
    with_docs = {c["measure"] for c in results["comparisons"] if c["b"] == "docs"}
    assert with_docs == {"nDCG@10", "MRR@10", "R@20", "R@100"}
    assert results["main_measure"] == "accuracy@20"
    assert set(results["analyses"]["length"]["bins"][0]["pipelines"]) == set(PIPELINES)


def test_runs_of_documents_without_judgements(tmp_path):
    path = write(tmp_path / "docs.trec", "1 Q0 Lyon 1 2 t\n")
    with pytest.raises(InputError, match="ranks documents, so its passages cannot"):
        run(tmp_path, pipelines={}, runs=[path], qrels=None)


def test_latency_of_pipelines_alone(tmp_path):
    results = run(tmp_path, latency=2, runs=[write(tmp_path / "x", "1 Q0 Paris#0 1 1 t\n")])
    reports = results["pipelines"]
    assert reports["good"]["latency"]["total"]["questions"] == 2
    assert reports["good"]["queries_per_second"] > 0
    assert reports["x"]["latency"] is reports["x"]["seconds"] is None
    assert run(tmp_path)["pipelines"]["good"]["latency"] is None


def test_patterns_as_answers(tmp_path):
    queries = [
        Query("1", "a", (r"Par\w+\s+is",)),
        Query("2", "b", ("(", "[Ll]yon")),
        Query("q 3", "c", ("(a|a.|.a|.)*$b",)),
    ]
    results = run(tmp_path, queries=queries, answer_kind="regex", qrels=None)
    assert results["pipelines"]["good"]["measures"]["accuracy@1"]["per_query"] == {"1": 1, "2": 1, "q 3": 0}
    assert any(
        "answers that are not regular expressions match nothing: 1, such as '('" in note
        for note in results["notes"]
    )


# --- documents -----------------------------------------------------------------------------------


def deep_run(path: Path) -> Path:
    """122 results of question 1, the relevant ones at ranks 121 and 122."""
    ids = [*(f"x#{n}" for n in range(120)), "Paris#0", "Paris#1"]
    path.write_text("".join(f"1 Q0 {id_} {n} {-n} t\n" for n, id_ in enumerate(ids)))
    return path


def test_a_run_is_measured_to_its_end_where_a_measure_has_no_cutoff(tmp_path):
    plan = {"runs": [deep_run(tmp_path / "deep.trec")], "measures": ["AP", "MRR", "NumRet", "R@100"]}
    results = run(tmp_path, **plan, pipelines={})
    expected = {"AP": (1 / 121 + 2 / 122) / 2, "MRR": 1 / 121, "NumRet": 122, "R@100": 0}
    per_query = {name: of["per_query"]["1"] for name, of in results["pipelines"]["deep"]["measures"].items()}
    assert per_query == pytest.approx(expected)
    [note] = [note for note in results["notes"] if "up to 122 results" in note]
    assert "all count for AP, MRR, NumRet, the first 100 for the other measures" in note
    both = run(tmp_path, **plan)
    assert both["pipelines"]["deep"]["measures"] == results["pipelines"]["deep"]["measures"]


NUMBERED = [Query(str(n), f"q {n}") for n in range(4)]


def test_questions_with_nothing_relevant_are_counted(tmp_path):
    qrels = {"0": {"Paris#0": 1}, "1": {"Lyon#0": 0}, "2": {"Lyon#0": -1}}
    results = run(tmp_path, queries=NUMBERED, qrels=qrels)
    assert "2 judged questions have nothing relevant" in results["notes"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"qrels": {"2": {"Lyon#0": 1}, "x": {"Lyon#0": 1}}}, "only 1 of 4 questions have judgements"),
        (
            {"qrels": {q: {"Paris#0": 1, "y": 1, "z": 1} for q in "12"}},
            "2 of 3 judged ids are not in the index",
        ),
        (
            {"queries": NUMBERED, "qrels": {str(n): {"Paris#0": 1} for n in range(1, 5)}},
            "the questions' ids begin at 0, the judgements' at 1",
        ),
        (
            {"queries": [Query(q.id, q.text) for q in QUERIES[:2]] + [Query("q 3", "x", ("a",))]},
            "only 1 of 3",
        ),
        ({"pipelines": {"empty": PIPELINES["empty"]}}, "empty: no results for 4 of 4 questions"),
    ],
)
def test_figures_of_files_that_do_not_belong_together_say_so_first(tmp_path, changes, expected):
    results = run(tmp_path, **changes)
    assert any(expected in warning for warning in results["warnings"]), results["warnings"]
    record = parse_results(orjson.dumps(results), "x")
    assert str(record).startswith("warning: ")
    write_report(record, tmp_path)
    assert "Warning:" in (tmp_path / "report.html").read_text("utf-8").partition("</header>")[0]


def test_a_run_of_other_questions_says_so_first(tmp_path):
    results = run(tmp_path, runs=[deep_run(tmp_path / "deep.trec")], pipelines={})
    assert [w.partition(" (")[0] for w in results["warnings"]] == [
        "deep: has results for only 1 of 4 questions; the others count as 0",
        "deep: 120 of its 122 ids are not in the index",
    ]
    assert "warnings" not in run(tmp_path, pipelines={"good": PIPELINES["good"]})


def test_judgements_on_documents_take_the_best_passage(tmp_path):
    qrels = {"1": {"Lyon": 1}, "2": {"Lutetia": 1, "Paris": 2}, "q 3": {"Rome": 1}}
    pipelines = {"p": fixed({"1": [0, 1, 2, 3], "2": [0, 5], "q 3": [5]})}
    results = run(tmp_path, pipelines=pipelines, qrels=qrels, measures=["MRR@10", "nDCG@10", "R@20"])
    assert results["judged_level"] == "documents"
    measured = results["pipelines"]["p"]["measures"]
    assert measured["MRR@10"]["per_query"] == {"1": 0.5, "2": 1, "q 3": 0}  # Lyon is second, not third
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
    assert any("every run ranks documents: accuracy@1, " in note for note in results["notes"])
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
    numbers = JudgedNumbers(SimpleNamespace(passages=FakePassages(), document_ids=IDS))
    judgements = numbers.judgements({"1": {"Paris#0": 1, "a": 1, "b": 1}}, ["1"], "qrels")
    found = numbers.run({"1": {"b": 2.0, "Paris#0": 1.0, "c": 0.0}}, ["1"], 10, "run")
    relevant = judgements.relevance["1"]
    assert [row in relevant for row in found.ranking.rows[0].tolist()] == [True, True, False]
    assert (judgements.unknown, found.unknown) == (2, 2)


# --- names, table --------------------------------------------------------------------------------


def asked(index: Path, tmp_path: Path, *argv: str) -> None:
    questions = write(tmp_path / "q.jsonl", '{"id": "1", "text": "volcano", "answers": ["Naples"]}\n')
    common = ["--index", str(index), "--output", str(tmp_path / "out"), "--latency", "0", "--no-report"]
    command.main([*common, *(argv or ("--queries", str(questions)))])


def test_without_a_name_the_recommended_pipeline_is_compared_with_bm25(built_index, word_encoder, tmp_path):
    asked(built_index, tmp_path)
    results = parse_results((tmp_path / "out" / "results.json").read_bytes(), "x")
    assert (list(results.pipelines), results.baseline) == (["bm25", RECOMMENDED], "bm25")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("--test-set natural-questions", r"no such test set\n  Did you mean .*nq-test"),
        ("--queries none.jsonl", "none.jsonl: no such file"),
        ("--queries none.jsonl --measure ndgc@10", "Did you mean nDCG@10"),
        ("--queries none.jsonl --pipeline bm52", "Did you mean bm25"),
        ("--queries none.jsonl --baseline bm52", "--baseline bm52: it is not evaluated"),
    ],
)
def test_mistakes_are_told_before_anything_is_read(built_index, word_encoder, tmp_path, argv, message):
    with pytest.raises(LinkseekError, match=message):
        asked(built_index, tmp_path, *argv.split())


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
    console.print(results_table(Results.model_validate(results)))
    return screen.getvalue()


def test_table(tmp_path):
    screen = shown(run(tmp_path))
    assert screen.index("good") < screen.index("bad")
    accuracy = next(line for line in screen.split("\n") if "accuracy@1 %" in line)
    good, bad = accuracy.split("│")[2:4]
    assert re.fullmatch(r" \x1b\[1m *66\.7\x1b\[0m ", good)  # in percent, and the best
    assert "\x1b[1m" not in bad


def test_stars_of_the_table(tmp_path):
    results = run(tmp_path)
    for comparison in results["comparisons"]:
        comparison["p_randomisation_holm"] = 0.049
        if (comparison["measure"], comparison["b"]) == ("accuracy@1", "empty"):
            comparison["p_randomisation_holm"] = 0.05
    screen = re.sub(r"\x1b\[[0-9;]*m", "", shown(results))
    cells = next(line for line in screen.split("\n") if "accuracy@1 %" in line).split("│")[2:5]
    assert [cell.strip() for cell in cells] == ["66.7", "0.0*", "0.0"]
    assert "differs from good (p < 0.05, paired randomisation test, Holm's correction)" in " ".join(
        screen.split()
    )
    results["baseline"] = "empty"  # whose pairs have it as b
    screen = re.sub(r"\x1b\[[0-9;]*m", "", shown(results))
    cells = next(line for line in screen.split("\n") if "accuracy@5 %" in line).split("│")[2:5]
    assert [cell.strip() for cell in cells] == ["66.7*", "0.0*", "0.0"]


def test_table_of_many_has_a_row_for_each(tmp_path):
    pipelines = {f"run{number}": PIPELINES["good"] for number in range(9)}
    lines = shown(run(tmp_path, pipelines=pipelines)).split("\n")
    assert sum("run" in line and "66.7" in line for line in lines) == 9


# --- the command ---------------------------------------------------------------------------------


class FakePipelines:
    """As much of `app.pipelines.catalogue.Pipelines` as the command needs."""

    runs: ClassVar = {}
    models: ClassVar = {}

    def __init__(self, index, path, models=None):
        self.index = index

    def check(self, names):
        assert set(names) <= PIPELINES.keys()

    def language_note(self, name):
        return ""

    def open(self, name):
        return PIPELINES[name]


@pytest.fixture
def arguments(tmp_path, monkeypatch):
    queries = [{"id": q.id, "text": q.text, "answers": q.answers} for q in QUERIES]
    text = "\n".join(map(json.dumps, queries))
    judged = "".join(
        f"{query.replace(' ', '%20')} 0 {id_.replace(' ', '%20')} {value}\n"
        for query, values in QRELS.items()
        for id_, value in values.items()
    )
    monkeypatch.setattr(command.OpenIndex, "open", lambda path: index_of(tmp_path))
    monkeypatch.setattr(command, "Pipelines", FakePipelines)
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
    assert origin["command"].startswith("linkseek evaluate --index ")
    assert origin["files"]["queries"]["sha256"] == file_sha256(tmp_path / "queries.jsonl")
    assert set(origin["index"]) == {"path", "manifest_sha256", "parts_sha256"}
    runs = {path.name for path in (tmp_path / "out" / "runs").iterdir()}
    assert runs == {".linkseek.json", "good.trec", "bad.trec"}


def test_json_goes_to_stdout_and_the_table_to_stderr(arguments, tmp_path, capsysbinary):
    command.main([*arguments, "--json", "--limit", "2", "--measure", "RR@10", "accuracy@1"])
    captured = capsysbinary.readouterr()
    assert captured.out == (tmp_path / "out" / "results.json").read_bytes()
    results = json.loads(captured.out)
    assert set(results["pipelines"]["bad"]["measures"]) == {"MRR@10", "accuracy@1"}
    assert results["counts"]["queries"] == 2
    assert b"good" in captured.err


@pytest.mark.parametrize("name", ["results.json", "report.html", "runs/good.trec"])
def test_a_file_of_the_user_in_the_output_folder_stops_the_evaluation(arguments, tmp_path, name):
    (tmp_path / "out" / "runs").mkdir(parents=True)
    mine = write(tmp_path / "out" / name, "mine")
    with pytest.raises(UsageError, match="was not written by Linkseek"):
        command.main(arguments)
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == [mine]
    assert mine.read_text() == "mine"


def test_without_a_report_one_of_the_user_stays_and_an_earlier_one_goes(arguments, tmp_path):
    command.main(arguments)
    command.main([*arguments, "--no-report"])
    assert not (tmp_path / "out" / "report.html").exists()
    mine = write(tmp_path / "out" / "report.html", "mine")
    command.main([*arguments, "--no-report"])
    assert mine.read_text() == "mine"


# --- test sets by name ----------------------------------------------------------------------------


@pytest.fixture
def test_set(arguments, monkeypatch):
    """The command's arguments for a test set by name, in place of files; what was asked for."""
    asked = []

    def open_test_set(name, data, *, download):
        asked.append((name, data, download))
        return LoadedTestSet(
            name=name,
            queries=QUERIES,
            qrels=QRELS,
            answer_kind="regex",
            groups={"cities": ("1", "q 3")},
            measures=("accuracy@5", "all@20"),
            origin={"description": "made up", "licence": "CC0", "source": "here", "sha256": "0" * 64},
        )

    monkeypatch.setattr(command, "open_test_set", open_test_set)
    files = arguments.index("--queries")
    return [*arguments[:files], "--test-set", "cities", *arguments[files + 4 :]], asked


def results_of(tmp_path):
    return json.loads((tmp_path / "out" / "results.json").read_text())


def test_a_test_set_brings_what_it_has(test_set, tmp_path):
    arguments, asked = test_set
    command.main([*arguments, "--data", str(tmp_path), "--latency", "0"])
    assert asked == [("cities", tmp_path, False)]
    results = results_of(tmp_path)
    assert results["test_set"] == {
        "name": "cities",
        "description": "made up",
        "licence": "CC0",
        "source": "here",
    }
    assert results["measures"] == ["accuracy@5", "all@20"]
    assert results["analyses"]["groups"]["cities"]["queries"] == 2
    assert results["provenance"]["test_set"]["sha256"] == "0" * 64
    assert results["provenance"]["files"] == {}
    assert results["pipelines"]["good"]["latency"] is None


def test_options_win_over_the_test_set(test_set, tmp_path):
    arguments, asked = test_set
    qrels = write(tmp_path / "mine.txt", "1 0 Lyon 1\n")
    command.main(
        [*arguments, "--qrels", str(qrels), "--limit", "2", "--measure", "R@5", "--download", "--seed", "7"]
    )
    assert asked == [("cities", None, True)]
    results = results_of(tmp_path)
    assert results["counts"]["queries"] == 2
    assert results["judged_level"] == "documents"
    assert results["measures"] == ["R@5"]
    assert results["seeds"] == {"bootstrap": 7, "randomisation": 7}
    assert list(results["provenance"]["files"]) == ["qrels"]


def test_a_test_set_is_written_as_files_without_an_index(test_set, tmp_path, capsys):
    output = tmp_path / "files"
    given = ["--test-set", "cities", "--write-test-set", "--output", str(output)]
    command.main([*given, "--limit", "2"])
    assert capsys.readouterr().out.splitlines() == [str(output / "queries.jsonl"), str(output / "qrels.txt")]
    assert read_queries(output / "queries.jsonl") == QUERIES[:2]
    ids = {query.id for query in QUERIES[:2]}
    assert read_qrels(output / "qrels.txt") == {id_: QRELS[id_] for id_ in ids & QRELS.keys()}
    command.main(given)  # ours are replaced, those of the user are not
    assert read_queries(output / "queries.jsonl") == QUERIES
    write(output / "qrels.txt", "mine")
    with pytest.raises(UsageError, match="was not written by Linkseek"):
        command.main(given)


@pytest.mark.parametrize("both", [True, False])
def test_either_a_test_set_or_questions(test_set, arguments, both, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = (
        [*test_set[0], "--queries", "q.jsonl"] if both else ["--index", "x", "--output", "y", *arguments[-3:]]
    )
    with pytest.raises(UsageError, match="either --test-set NAME or --queries FILE"):
        command.main(given)


def test_the_kind_of_answers(arguments, tmp_path):
    command.main([*arguments, "--answers", "regex"])
    as_patterns = results_of(tmp_path)["pipelines"]["good"]["measures"]["accuracy@1"]["per_query"]
    queries = (tmp_path / "queries.jsonl").read_text().replace("Paris", "P.ris")
    (tmp_path / "queries.jsonl").write_text(queries)
    for kind, expected in (("regex", as_patterns), ("tokens", as_patterns | {"1": 0})):
        command.main([*arguments, "--answers", kind])
        measured = results_of(tmp_path)["pipelines"]["good"]["measures"]
        assert measured["accuracy@1"]["per_query"] == expected
    with pytest.raises(UsageError, match="--answers"):
        command.main([*arguments, "--answers", "exact"])


def test_the_report(arguments, tmp_path, capsys):
    command.main([*arguments, "--baseline", "bad"])
    assert "good" in (tmp_path / "out" / "report.html").read_text()
    assert results_of(tmp_path)["baseline"] == "bad"
    assert "report.html" in capsys.readouterr().out


def test_the_remaining_time_of_all_pipelines_together(tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "_notes", progress._Notes())
    monkeypatch.setenv("LINKSEEK_PROGRESS", str(tmp_path / "progress.json"))
    run(tmp_path, latency=2)
    stages = orjson.loads((tmp_path / "progress.json").read_bytes())
    assert [stage["label"] for stage in stages] == [
        "all pipelines",
        *[
            f"{name} ({n} of 3){what}"
            for n, name in enumerate(PIPELINES, 1)
            for what in ("", ", time of each question")
        ],
        "matching answers",
        "intervals and tests",
    ]
    assert stages[0]["done"] == pytest.approx(100)
