"""Experiments: their files, their cells, and the table that comes out."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.tables import records
from experiments.tables.cells import CellRun, mean_and_interval, row_differences, run_experiment
from experiments.tables.command import main
from experiments.tables.definition import Column, Experiment, ExperimentTable, TrainingFiles, read_experiment
from experiments.tables.document import console_table, reasons, table_document
from experiments.tables.groups import KNOWN, NOT_KNOWN, NOT_READ, READ, with_known_answers
from experiments.tables.markdown import markdown_page
from experiments.tables.trainings import estimate
from linkseek.app.evaluation.measures import parse_measure
from linkseek.app.evaluation.provenance import Revision
from linkseek.app.pipelines.catalogue import Pipelines, read_pipelines
from linkseek.app.report import write_report
from linkseek.app.testsets import LoadedTestSet, all_test_sets
from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.indexer.store.manifest_files import Parts
from linkseek.retriever.ranking import Query
from tests.support.command import ROOT, run
from tests.support.tiny.corpus import write_jsonl
from tests.support.tiny.manifests import vectors_part

FILES = sorted((ROOT / "experiments").glob("*.toml"))
# Questions asked on another corpus than their own, or indexes without vectors.
OWN = {
    *"answers best claims hlp-bert hlp-gpu hlp-minilm hlp-static hlp-static-random hops known".split(),
    *"late languages own rerankers rerankers-gpu shelf together true-anchors true-anchors-static".split(),
    *"learned untouched untouched-best untouched-objectives wikispeedia windows".split(),
}

TOML = """
title = "A | table"
source = "A paper, table 1"
depth = 5
seeds = [1, 2]
baseline = "seeds"

[indexes.tiny]
path = "nowhere"

[[columns]]
test_set = "rivers"
label = "Rivers"
measures = ["accuracy@1", "nDCG@5"]
fill = { kind = "25" }

[[columns]]
test_set = "rivers"
group = "long"
measures = ["accuracy@1"]
fill = { kind = "25" }

[[rows]]
group = "words"
name = "BM25"
pipeline = "bm{kind}"
expected = [[50.0, 0.4472], [nan]]

[[rows]]
group = "models"
name = "of tomorrow"
pipeline = "future"
expected = [[99.9, nan], []]

[[rows]]
group = "models"
name = "seeds"
pipeline = "seed{seed}"

[[rows]]
name = "of others"
expected = [[12.0, nan], []]
"""

RIVERS = LoadedTestSet(
    name="rivers",
    queries=[
        Query("q1", "capital of France", ("Seine",)),
        Query("q2", "volcano erupted last in what year", ("1944",)),
        Query("q3", "gravel and visitors", ("nothing holds this",)),
    ],
    qrels={"q1": {"Paris": 1}, "q2": {"Naples": 1}, "q3": {"Seine": 1}},
    answer_kind="tokens",
    groups={"long": ("q2",)},
    measures=(),
    origin={},
)


@pytest.fixture
def write(tmp_path: Path):
    def write(text: str = TOML) -> Path:
        path = tmp_path / "e.toml"
        path.write_text(text, "utf-8")
        return path

    return write


@pytest.fixture
def pipelines(make_pipelines) -> Pipelines:
    """The small index's, and two that differ by their seed."""
    return make_pipelines('[seed1]\nsearcher = "bm25"\nb = 0.9\n[seed2]\nsearcher = "query-likelihood"\n')


def tables(path: Path, pipelines: Pipelines, output: Path, cells: list[CellRun]) -> ExperimentTable:
    return run_experiment(
        read_experiment(path), lambda n: pipelines, lambda n: RIVERS, output, cells.append, write_report
    )


def assert_follows_from_values(table: ExperimentTable, experiment: Experiment) -> None:
    """Means, intervals and differences, from the values by question."""
    for number, written in enumerate(table.differences):
        for cell in (row.cells[number] for row in table.rows):
            measured = {measure: f.measured for measure, f in cell.measures.items() if f.measured}
            assert measured.keys() == cell.values.keys()
            for measure, mean in measured.items():
                again = mean_and_interval(np.array(cell.values[measure], float))
                assert plain(again) == pytest.approx(plain(mean), rel=1e-5, abs=1e-9)
        for mine, theirs in zip(row_differences(experiment, table.rows, number), written, strict=True):
            names = ("measure", "a", "b", "trainings")
            assert [getattr(mine, name) for name in names] == [getattr(theirs, name) for name in names]
            assert plain(mine) == pytest.approx(plain(theirs), rel=1e-4, abs=1e-6)


def plain(record: Any) -> dict[str, Any]:
    """Its numbers."""
    return record.model_dump(exclude_none=True, exclude={"measure", "a", "b", "trainings"})


def test_a_record_and_its_values_are_read_again(write, pipelines, tmp_path, monkeypatch):
    monkeypatch.setattr(records, "RECORDS", tmp_path)
    table = tables(write(), pipelines, tmp_path / "out", [])
    records.write_record(table, "e")
    again = records.read_record("e")
    assert [[cell.values for cell in row.cells] for row in again.rows] == [
        [cell.values for cell in row.cells] for row in table.rows
    ]
    assert any(cell.values for cell in again.rows[0].cells)
    assert_follows_from_values(again, read_experiment(write()))


@pytest.mark.parametrize("path", sorted((records.RECORDS / "values").glob("*")), ids=lambda p: p.name)
def test_a_record_follows_from_its_values(path):
    name = path.name.partition(".")[0]
    assert_follows_from_values(records.read_record(name), read_experiment(ROOT / f"experiments/{name}.toml"))


def test_a_record_is_made_by_committed_code(monkeypatch):
    monkeypatch.setattr(records, "revision", lambda folder: Revision(commit="c", changed_since=True))
    with pytest.raises(UsageError, match="changes that are not committed"):
        main(["hlp-1", "--record"])


def test_questions_that_training_helps_to_answer_are_a_group(tmp_path):
    rows = [{"text": "what flows through Paris", "answers": ["the Seine"]}, {"text": "visitors and gravel"}]
    (tmp_path / "qrels.txt").write_text("0 0 Paris 1\n0 0 Naples 0\n")
    read = {"queries": write_jsonl(tmp_path / "read.jsonl", rows).name, "qrels": "qrels.txt"}
    files, first = TrainingFiles(**read), TrainingFiles(**read, first=1)
    found = with_known_answers(RIVERS, [files], tmp_path)
    assert found.groups == {"long": ("q2",), KNOWN: ("q1",), NOT_KNOWN: ("q2", "q3")}
    assert with_known_answers(RIVERS, [], None) is RIVERS
    with pytest.raises(InputError, match="--data"):
        with_known_answers(RIVERS, [files], None)
    judged = replace(RIVERS, queries=[Query(query.id, query.text) for query in RIVERS.queries])
    read = [with_known_answers(judged, [some], tmp_path).groups[READ] for some in (files, first)]
    assert read == [("q1", "q3"), ("q1",)]


def markdown_of(table: ExperimentTable) -> str:
    return markdown_page(table_document(table))


def test_figures_beside_what_was_printed(write, pipelines, tmp_path) -> None:
    cells: list[CellRun] = []
    table = tables(write(), pipelines, tmp_path / "out", cells)
    assert [(cell.pipeline, cell.status) for cell in cells] == [
        ("bm25", "done"), ("future", "no pipeline"), ("seed1", "done"), ("seed2", "done"),
    ]  # fmt: skip
    bm25, future, seeds, others = table.rows
    figure = bm25.cells[0].measures["accuracy@1"]
    assert (
        figure.measured.mean == pytest.approx(2 / 3)
        and figure.measured.queries == 3
        and figure.expected == 50.0
    )
    long = bm25.cells[1].measures["accuracy@1"]
    assert (long.measured.mean, long.measured.queries, long.expected) == (1.0, 1, None)
    assert future.cells[0].status == "no pipeline"
    assert future.cells[0].measures["accuracy@1"].measured is None
    assert others.cells[0].status == "printed only"
    results = json.loads((tmp_path / "out" / "rivers" / "results.json").read_text())
    assert set(results["pipelines"]) == {"bm25", "seed1", "seed2"}
    means = [results["pipelines"][name]["measures"]["nDCG@5"]["mean"] for name in ("seed1", "seed2")]
    seeded = seeds.cells[0].measures["nDCG@5"].measured
    assert seeded.mean == pytest.approx(np.mean(means)) and seeds.cells[0].seeds == 2
    assert seeded.spread_of_seeds == pytest.approx(np.std(means, ddof=1))
    assert results["baseline"] == "seed1" and results["test_set"]["name"] == "rivers"
    assert "seed2" in (tmp_path / "out" / "rivers" / "report.html").read_text()


TWO_INDEXES = """
title = "t"
source = "s"

[indexes.one]
path = "a"

[indexes.two]
path = "b"

[[columns]]
test_set = "rivers"
index = "one"
measures = ["nDCG@5"]

[[columns]]
test_set = "rivers"
index = "two"
label = "Rivers, over two"
measures = ["nDCG@5"]

[[rows]]
name = "row"
pipeline = "named"
"""


def test_a_test_set_is_asked_of_two_indexes(write, make_pipelines, tmp_path) -> None:
    pipelines = {
        "one": make_pipelines('[named]\nsearcher = "bm25"'),
        "two": make_pipelines('[named]\nsearcher = "query-likelihood"'),
    }
    cells: list[CellRun] = []
    experiment, out = read_experiment(write(TWO_INDEXES)), tmp_path / "out"
    table = run_experiment(experiment, pipelines.__getitem__, lambda n: RIVERS, out, cells.append)
    assert [(cell.test_set, cell.status) for cell in cells] == [("rivers", "done"), ("rivers-two", "done")]
    runs = [(out / folder / "runs" / "named.trec").read_text() for folder in ("rivers", "rivers-two")]
    assert runs[0] != runs[1]
    for number, folder in enumerate(("rivers", "rivers-two")):
        results = json.loads((out / folder / "results.json").read_text())["pipelines"]["named"]
        values = [*results["measures"]["nDCG@5"]["per_query"].values()]
        assert table.rows[0].cells[number].measures["nDCG@5"].measured.mean == pytest.approx(np.mean(values))
    third = '[[columns]]\ntest_set = "rivers-two"\nindex = "one"\nmeasures = ["nDCG@5"]\n'
    with pytest.raises(UsageError, match='two test sets have the folder "rivers-two"'):
        read_experiment(write(TWO_INDEXES + third))


def test_rows_of_a_group_are_compared_by_the_means_of_their_seeds(write, pipelines, tmp_path) -> None:
    rows = """[[rows]]
group = "models"
name = "second"
pipeline = "seed2"

[[rows]]
group = "models"
name = "unknown"
pipeline = "future"
"""
    table = tables(write(TOML + rows), pipelines, tmp_path / "out", [])
    measured = json.loads((tmp_path / "out" / "rivers" / "results.json").read_text())["pipelines"]
    for column, differences in zip(table.columns, table.differences, strict=True):
        assert [(d.measure, d.a, d.b) for d in differences] == [
            (m, "seeds", "second") for m in column.measures
        ]
        for pair in differences:
            values = {
                name: measured[name]["measures"][pair.measure]["per_query"] for name in ("seed1", "seed2")
            }
            asked = RIVERS.groups.get(column.group, values["seed1"])
            means = [values["seed2"][q] - (values["seed1"][q] + values["seed2"][q]) / 2 for q in asked]
            assert pair.difference == pytest.approx(np.mean(means)) and pair.queries == len(means)
            assert pair.p_t_holm == pair.p_t == pair.p  # one pair in the group
            assert pair.trainings == [2, 1]
    page = markdown_of(table)
    assert "## Differences: Rivers" in page and "| `second` | `seeds` |" in page


def test_a_baseline_outside_of_groups_is_compared_with_every_row_of_one(write, pipelines, tmp_path) -> None:
    rows = """[[rows]]
name = "alone"
pipeline = "seed2"

[[rows]]
name = "another"
pipeline = "seed1"
"""
    text = (TOML + rows).replace('baseline = "seeds"', 'baseline = "alone"')
    table = tables(write(text), pipelines, tmp_path / "out", [])
    alone = [("alone", "another")]  # without a group: a group of their own
    for column, differences in zip(table.columns, table.differences, strict=True):
        of_rows = [("alone", "BM25"), ("alone", "seeds")]
        expected = [(m, *pair) for pairs in (alone, of_rows) for m in column.measures for pair in pairs]
        assert [(d.measure, d.a, d.b) for d in differences] == expected
        first = differences[len(column.measures)]
        second = differences[len(column.measures) + 1]
        assert (first.trainings, second.trainings) == (None, [1, 2])
        for p, corrected in (("p_t", "p_t_holm"), ("p_randomisation", "p_randomisation_holm")):
            smaller = min(getattr(first, p), getattr(second, p))
            least = min(getattr(first, corrected), getattr(second, corrected))
            assert least == pytest.approx(min(1, 2 * smaller))  # two rows


def test_a_rows_interval_has_both_factors_and_ends_at_0_and_1():
    shown = mean_and_interval(np.array([[0, 0.2, 0.4, 0.2], [0.4, 0.6, 0.8, 0.6]]))
    both = estimate(np.array([0.2, 0.4, 0.6, 0.4]), np.array([0.2, 0.6]))
    assert both.interval()[0] < 0 == shown.low and shown.high == 1 < both.interval()[1]
    narrow = mean_and_interval(np.array([[0.1, 0.2, 0.4, 0.2], [0.2, 0.3, 0.4, 0.3]]))
    both = estimate(np.array([0.15, 0.25, 0.4, 0.25]), np.array([0.225, 0.3]))
    assert (narrow.low, narrow.high) == pytest.approx((max(0, both.interval()[0]), both.interval()[1]))
    assert mean_and_interval(np.ones((3, 4))).low < 1  # Wilson's interval, where all values are alike


def test_the_table_for_people(write, pipelines, tmp_path) -> None:
    table = tables(write(), pipelines, tmp_path / "out", [])
    text = markdown_of(table)
    assert "# A \\| table" in text
    rivers, long = text.split("## Rivers")[1].split("## rivers")
    rows = {line.split(" | ")[1]: line.split(" | ")[2:] for line in rivers.splitlines() if " | " in line}
    assert rows["BM25"][0].startswith("66.7 ") and "paper: 50.0" in rows["BM25"][0]
    assert rows["BM25"][1].startswith("1.000") and "paper: .4472" in rows["BM25"][1]
    assert rows["of tomorrow"][0].startswith("no pipeline") and "paper: 99.9" in rows["of tomorrow"][0]
    assert rows["of others"][0].startswith("- ") and "paper: 12.0" in rows["of others"][0]
    (row,) = (line for line in long.splitlines() if " BM25 " in line)
    assert "100.0" in row and "paper" not in row
    [why] = reasons(table)
    assert why.startswith("no pipeline: ") and "--pipelines-file" in why and why.endswith("(of tomorrow)")
    assert why in text
    assert console_table(table).row_count == 7  # four rows under three headings


def test_finished_cells_are_kept(write, pipelines, tmp_path, monkeypatch) -> None:
    output, path = tmp_path / "out", write()
    first = tables(path, pipelines, output, [])
    runs = {p: p.stat().st_mtime_ns for p in output.rglob("*.trec")}
    assert len(runs) == 3
    monkeypatch.setattr("experiments.tables.cells.search", lambda *a: pytest.fail("it was made again"))
    cells: list[CellRun] = []
    second = tables(path, pipelines, output, cells)
    assert [cell.status for cell in cells] == ["kept", "no pipeline", "kept", "kept"]
    assert {p: p.stat().st_mtime_ns for p in output.rglob("*.trec")} == runs
    figures = [[cell.measures for cell in row.cells] for row in first.rows]
    assert figures == [[cell.measures for cell in row.cells] for row in second.rows]


def new_parts(pipelines: Pipelines, name: str, **changes: Any) -> None:
    """The index says something else of a part."""
    part = pipelines.index.parts[name].replace(**changes)
    pipelines.index.parts = Parts(pipelines.index.parts | {name: part})


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ("no run", "done"),
        ("no note", "done"),
        ("depth", "done"),
        ("entry", "done"),
        ("another part", "done"),
        ("more vectors", "kept"),
        ("a corpus that was copied", "kept"),  # whose new date is in the fingerprint, with the same content
    ],
)
def test_a_cell_that_was_made_from_something_else_is_made_again(
    write, make_pipelines, pipelines, tmp_path, change, status
) -> None:
    output = tmp_path / "out"
    tables(write(), pipelines, output, [])
    path, text = output / "rivers" / "runs" / "bm25.trec", TOML
    match change:
        case "no run":
            path.unlink()
        case "no note":
            path.with_suffix(".json").unlink()
        case "depth":
            text = TOML.replace("depth = 5", "depth = 6")
        case "entry":
            pipelines = make_pipelines('[bm25]\nsearcher = "bm25"\nk1 = 2.0\n')
        case "another part":
            new_parts(pipelines, "bm25", new=1)
        case "more vectors":
            pipelines.index.parts = Parts(pipelines.index.parts | {"dense/another": vectors_part("Flat")})
        case _:
            documents = pipelines.index.parts["documents"]
            new_parts(pipelines, "documents", fingerprint=documents.fingerprint | {"modified_ns": 1})
    cells: list[CellRun] = []
    tables(write(text), pipelines, output, cells)
    assert cells[0].pipeline == "bm25" and cells[0].status == status


@pytest.mark.parametrize("file", ["bm25.trec", "bm25.json"])
def test_a_cell_that_the_user_changed_is_kept(write, pipelines, tmp_path, file) -> None:
    tables(write(), pipelines, tmp_path / "out", [])
    path = tmp_path / "out" / "rivers" / "runs" / file
    path.write_text("mine")
    with pytest.raises(UsageError, match="was changed since"):
        tables(write(), pipelines, tmp_path / "out", [])
    assert path.read_text() == "mine"


def test_a_run_of_another_system_is_a_row_like_any_other(write, make_pipelines, pipelines, tmp_path) -> None:
    tables(write(), pipelines, tmp_path / "first", [])
    run_file = tmp_path / "theirs.trec"
    found = (tmp_path / "first" / "rivers" / "runs" / "seed2.trec").read_text()
    run_file.write_text(found)
    entries = f'[future]\nrun = "{run_file}"\n[seed1]\nsearcher = "bm25"\n[seed2]\nsearcher = "bm25"\n'
    cells: list[CellRun] = []
    for expected in ("done", "kept"):
        tables(write(), make_pipelines(entries), tmp_path / "out", cells)
        assert [c.status for c in cells if c.pipeline == "future"][-1] == expected
    run_file.write_text("\n".join(found.splitlines()[:-1]) + "\n")
    tables(write(), make_pipelines(entries), tmp_path / "out", cells)
    assert [c.status for c in cells if c.pipeline == "future"][-1] == "done"


def test_a_limit_of_the_file_and_one_of_a_column(write, pipelines, tmp_path) -> None:
    """Questions are taken from all over the set, which may be sorted by article."""
    text = TOML.replace("depth = 5", "depth = 5\nlimit = 1")
    for limit, asked in (("", ["q1"]), ("limit = 2\n", ["q1", "q2"]), ("limit = 9\n", ["q1", "q2", "q3"])):
        path = write(text.replace('label = "Rivers"\n', f'label = "Rivers"\n{limit}'))
        table = tables(path, pipelines, tmp_path / "out", [])
        run = (tmp_path / "out" / "rivers" / "runs" / "bm25.trec").read_text()
        assert list(dict.fromkeys(line.split()[0] for line in run.splitlines())) == asked
        (caption,) = {part for part in markdown_of(table).splitlines() if "At most" in part}
        assert f"At most {limit[8] if limit else 1} questions of Rivers" in caption
        long = table.rows[0].cells[1]
        assert (
            long.status == "missing" if len(asked) == 1 else long.measures["accuracy@1"].measured.queries == 1
        )


def test_a_test_set_or_an_index_that_is_not_here(write, pipelines, tmp_path) -> None:
    def nothing(name: str) -> Any:
        raise InputError(f"{name}: not found", "Get it.")

    experiment = read_experiment(write())
    for open_index, open_set in ((lambda n: pipelines, nothing), (nothing, lambda n: RIVERS)):
        table = run_experiment(experiment, open_index, open_set, tmp_path / "out")
        assert {cell.status for cell in table.rows[0].cells} == {"missing"}
        assert "missing" in markdown_of(table)


def test_a_cell_that_fails_holds_nothing_up(write, pipelines, tmp_path, monkeypatch) -> None:
    whole = pipelines.open

    def fail(name: str) -> Any:
        if name == "bm25":
            raise InputError("it is broken", "Mend it.")
        return whole(name)

    monkeypatch.setattr(pipelines, "open", fail)
    cells: list[CellRun] = []
    table = tables(write(), pipelines, tmp_path / "out", cells)
    assert [cell.status for cell in cells] == ["failed", "no pipeline", "done", "done"]
    assert "it is broken" in table.rows[0].cells[0].reason


def test_a_group_that_the_test_set_lacks(write, pipelines, tmp_path) -> None:
    table = tables(write(TOML.replace('"long"', '"short"')), pipelines, tmp_path / "out", [])
    assert table.rows[0].cells[1].status == "missing"
    assert 'no group "short"' in table.rows[0].cells[1].reason


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("title =", "titel =", 'unknown key "titel"'),
        ("group = \"words\"", "gruop = 1", 'unknown key "gruop" in [rows.1]'),
        ('label = "Rivers"', 'lable = "R"', 'unknown key "lable" in [columns.1]'),
        ('path = "nowhere"', 'path = 3', "indexes.tiny.path"),
        ('"nDCG@5"', '"nDCG@"', 'column "Rivers"'),
        ("[[50.0, 0.4472], [nan]]", "[[50.0], [nan]]", 'row "BM25": expected has lists of [1, 1]'),
        ("[[99.9, nan], []]", "[[99.9, nan]]", 'row "of tomorrow"'),
        ('name = "seeds"', 'name = "of tomorrow"', "two rows are called"),
        ('baseline = "seeds"', 'baseline = "Bm25"', 'baseline "Bm25" is no row'),
        ("depth = 5", "depth = 0", "depth"),
        ("depth = 5", "depth = ", "not TOML"),
        ('test_set = "rivers"\nlabel', 'index = "huge"\ntest_set = "rivers"\nlabel', 'no index "huge"'),
    ],
)  # fmt: skip
def test_a_bad_file(write, old: str, new: str, message: str) -> None:
    assert old in TOML
    path = write(TOML.replace(old, new, 1))
    with pytest.raises(UsageError) as caught:
        read_experiment(path)
    assert str(path) in caught.value.message and message in caught.value.message
    assert caught.value.hint
    with pytest.raises(UsageError, match=r"no table \[small\]"):
        read_experiment(write(), small=True)


# --- the files of experiments/ -------------------------------------------------------------------


def source_exists(experiment: Experiment, column: Column) -> bool:
    """Whether the index of a column is built from documents in the folder that its own questions are in."""
    folder = experiment.test_sets[column.test_set].queries.partition("/")[0]
    corpus = experiment.indexes[experiment.index_of(column)].build[1]
    return corpus.startswith(f"{{data}}/{folder}/") and "/docs." in corpus and corpus.endswith(".jsonl.zst")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_file_is_whole(path: Path) -> None:
    for small in (False, True):
        read = read_experiment(path, small=small)
        for scale, experiment in ((scale, read.at_scale(scale)) for scale in read.scales):
            for column in experiment.columns:
                if column.test_set in experiment.test_sets:
                    assert not column.group or experiment.test_sets[column.test_set].group
                    assert path.stem == "own" or source_exists(experiment, column)  # a template
                    continue
                test_set = all_test_sets()[column.test_set]
                split = (KNOWN, NOT_KNOWN, READ, NOT_READ) if column.test_set in experiment.training else ()
                assert not column.group or column.group in (*test_set.groups, *split)
                assert all(m.cutoff is None or m.cutoff <= experiment.depth
                           for m in map(parse_measure, column.measures))  # fmt: skip
                source = experiment.indexes[experiment.index_of(column)]
                if path.stem in OWN or (experiment.steps and (small or scale != "paper")):
                    continue
                assert source.path == Path("index", test_set.corpus.index)
                if source.build:
                    assert test_set.corpus.file.removeprefix("$LINKSEEK_DATA/") in source.build[1]
    for row in read_experiment(path).rows:
        assert row.pipeline or row.expected


def test_the_entries_that_the_page_shows_are_those_of_rows(tmp_path) -> None:
    """docs/results/experiments.md: pipelines under the names that the files of experiments/ ask for."""
    page = (ROOT / "docs" / "results" / "experiments.md").read_text("utf-8")
    (entries,) = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    path = tmp_path / "mine.toml"
    path.write_text(entries, "utf-8")
    asked = {
        name
        for experiment in map(read_experiment, FILES)
        for row in experiment.rows
        for column in experiment.columns
        for name in row.pipelines(column, experiment.seeds)
    }
    mine = read_pipelines(path).keys() - read_pipelines().keys()
    assert mine - asked == {"ance-top100"}  # the candidates
    assert len(mine) == 5


# --- the command ---------------------------------------------------------------------------------


def test_the_command_without_its_index(write, tmp_path) -> None:
    path = write(TOML.replace('"rivers"', '"sample"').replace('group = "long"\n', ""))
    done = run(str(path), "--output", tmp_path / "out", cwd=tmp_path, package="experiments")
    assert done.returncode == InputError.exit_code
    assert "no cell could be measured" in done.stderr and "Traceback" not in done.stderr
    assert "nowhere: no index here" in done.stdout
    assert (tmp_path / "out" / "table.html").exists()


def test_pipelines_of_a_file_without_steps_are_there_without_training(
    write, make_pipelines, monkeypatch, tmp_path, capsys
) -> None:
    monkeypatch.setattr("experiments.tables.command.open_test_set", lambda name, **options: RIVERS)
    own = '[pipelines."seed{seed}"]\nsearcher = "bm25"\nb = 0.9\n'
    path, index = write(TOML + own), make_pipelines().index.path
    main([str(path), "--index", str(index), "--output", str(tmp_path / "out")])
    rows = json.loads((tmp_path / "out" / "experiment.json").read_text())["rows"]
    assert [row["cells"][0]["status"] for row in rows] == ["done", "no pipeline", "done", "printed only"]

    mine = tmp_path / "mine.toml"
    mine.write_text('[future]\nsearcher = "bm25"\n')
    main([str(path), "--index", str(index), "--output", str(tmp_path / "out"), "--pipelines-file", str(mine)])
    rows = json.loads((tmp_path / "out" / "experiment.json").read_text())["rows"]
    assert [row["cells"][0]["status"] for row in rows] == ["kept", "done", "no pipeline", "printed only"]


@pytest.mark.parametrize(("table", "expected"), [("", "max"), ('long = "first"\n', "first")])
def test_re_rankers_read_long_texts_as_the_table_says(write, pipelines, tmp_path, table, expected) -> None:
    own = tmp_path / "own.toml"
    entries = {"says-nothing": "", "says-max": 'long = "max"\n', "says-first": 'long = "first"\n'}
    own.write_text("".join(f'[{n}]\nrerank = "bm25"\nof = "bm25"\n{long}' for n, long in entries.items()))
    opened = Pipelines(pipelines.index, own)
    tables(write(table + TOML), opened, tmp_path / "out", [])
    read = {name: opened.entries[name].long for name in entries}
    assert read == {"says-nothing": expected, "says-max": "max", "says-first": "first"}
    assert opened.entries["best"].long == expected
