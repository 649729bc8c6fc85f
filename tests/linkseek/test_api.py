"""The public API: `import linkseek`, its names, and its functions against the commands of the same names."""

from __future__ import annotations

import ast
import pickle
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import orjson
import pytest

import linkseek
from linkseek.app import evaluate as evaluate_command
from linkseek.app.pipelines.catalogue import RECOMMENDED
from linkseek.reranker.commands import mine_contrasts
from linkseek.retriever.commands import mine
from linkseek.retriever.mining.pairs import read_pair
from linkseek.retriever.search.runs import read_run
from tests.support.command import ROOT
from tests.support.tiny.index import DOCUMENTS
from tests.support.tiny.linked import random_pages

PUBLIC = {
    *("build", "open", "train", "Index", "Hit", "Hits", "Results"),
    *("Query", "Ranking", "Pipeline", "Document", "Link", "Passage", "Pair", "Contrast"),
    *("LinkseekError", "UsageError", "InputError", "DamagedIndexError", "MismatchError", "MachineError"),
    "BusyError",
}

QUESTIONS = {"q1": "a river", "q2": "the volcano"}
ROWS, OTHER = np.array([[5, 4], [1, 0]]), "own answered other questions"
made, given = linkseek.Ranking.of, linkseek.Ranking
QRELS = {"q1": {"Seine": 1}, "q2": {"Naples": 1}}


@pytest.fixture
def index(built_index, word_encoder) -> linkseek.Index:
    return linkseek.open(built_index)


@pytest.fixture(scope="module")
def linked(tmp_path_factory) -> linkseek.Index:
    """An index with links, and nothing to search with."""
    folder = tmp_path_factory.mktemp("linked")
    return linkseek.build(random_pages(), folder / "index", [], bm25=False, passage_words=20)


def test_the_exported_names():
    assert set(linkseek.__all__) == PUBLIC and len(linkseek.__all__) == len(PUBLIC)
    exported: dict = {}
    exec("from linkseek import *", exported)
    for name in PUBLIC:
        assert exported[name] is getattr(linkseek, name) and name in dir(linkseek)
        assert getattr(linkseek, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'Indx'"):
        linkseek.Indx  # noqa: B018
    errors = [
        value for value in exported.values() if isinstance(value, type) and issubclass(value, Exception)
    ]
    assert all(issubclass(error, linkseek.LinkseekError) for error in errors) and len(errors) == 7


def test_the_page_of_the_api_names_all_of_it():
    """By name, or as `::: linkseek.NAME`, which shows all members that have a docstring."""
    page = (ROOT / "docs" / "reference" / "api.md").read_text("utf-8")
    assert set(re.findall(r"(?:`|^::: linkseek\.)(\w+)", page, re.MULTILINE)) >= PUBLIC
    for shown in (linkseek.Index, linkseek.Hits):
        assert f"::: linkseek.{shown.__name__}\n" in page
        members = {name: value for name, value in vars(shown).items() if not name.startswith("_")}
        assert members and all(value.__doc__ for value in members.values())


@pytest.mark.parametrize(
    ("questions", "ids"),
    [
        ("a river", ["0"]),
        (linkseek.Query("mine", "a river"), ["mine"]),
        (["a river", linkseek.Query("q", "the volcano"), "Lyon"], ["0", "q", "2"]),
        (QUESTIONS, ["q1", "q2"]),
        ((text for text in QUESTIONS.values()), ["0", "1"]),
    ],
)
def test_a_search_takes_one_question_or_many(index, questions, ids):
    hits = index.search(questions, k=2, pipeline="bm25")
    assert [query.id for query in hits.queries] == ids == list(hits.ranking.query_ids)
    assert hits.ranking.rows.shape == (len(ids), 2)
    first = next(iter(hits))
    assert first == (index.passages[int(hits.ranking.rows[0, 0])], hits.ranking.scores[0, 0])
    assert "river" in first.passage.text and len(list(hits)) == len(hits)


def test_questions_of_a_file(index, tmp_path):
    (tmp_path / "q.tsv").write_text("7\ta river\n8\tthe volcano\n", "utf-8")
    hits = index.search(tmp_path / "q.tsv", 1, "bm25")
    assert list(hits.by_question()) == ["7", "8"]


def test_a_search_without_a_pipeline_is_the_recommended_one(index):
    hits = index.search("a river")
    assert hits.pipeline == RECOMMENDED and hits.pipeline in index.pipelines
    assert len(hits) == len(index.passages) == 6  # k is 10, and there are no more
    assert (hits.ranking.rows == index.search("a river", 6, RECOMMENDED).ranking.rows).all()


@pytest.mark.parametrize(
    ("search", "told"),
    [
        ({"questions": " "}, "the question is empty"),
        ({"questions": linkseek.Query("q", " ")}, 'the question "q" is empty'),
        ({"questions": "x" * 20_000}, "20,000 characters"),
        ({"questions": []}, "there is no question"),
        ({"questions": ["a", 7]}, "a question is int, expected a text or a Query"),
        ({"questions": [linkseek.Query("q", "a"), linkseek.Query("q", "b")]}, '2 questions have the id "q"'),
        ({"questions": "a river", "k": 0}, "0 results for a question"),
        ({"questions": "a river", "k": 2.5}, "k is a float"),
        ({"questions": "a river", "pipeline": ["bm25"]}, "pipeline is a list"),
        ({"questions": "a river", "pipeline": "bm52"}, 'no pipeline "bm52"'),
    ],
)
def test_a_search_that_cannot_be(index, search, told):
    with pytest.raises(linkseek.UsageError, match=told):
        index.search(**search)


def test_a_function_of_ones_own_is_searched_and_evaluated(index):
    dense = index.pipeline("dense")

    def backwards(queries, k):
        found = dense(queries, len(index.passages))
        return linkseek.Ranking(found.query_ids, found.rows[:, ::-1], -found.scores[:, ::-1])

    whole, hits = index.search(QUESTIONS, 6, "dense"), index.search(QUESTIONS, 3, backwards)
    assert hits.pipeline == "backwards" and len(hits) == 6
    assert (hits.ranking.scores == -whole.ranking.scores[:, :-4:-1]).all()
    results = index.evaluate(QUESTIONS, QRELS, ["bm25", backwards, dense], measure=["R@1"])
    assert [*results.pipelines] == ["bm25", "backwards", "dense"]
    alone = index.evaluate(QUESTIONS, QRELS, "dense", measure=["R@1"])
    assert results.pipelines["dense"].measures == alone.pipelines["dense"].measures
    assert index.evaluate(QUESTIONS, QRELS, backwards).baseline == "backwards"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda ids, rows: None, "own returned a NoneType"),
        (lambda ids, rows: [(0, 1.0)], "own returned a list"),
        (lambda ids, rows: made(ids[:0], rows[:0], rows[:0] * 0.1), OTHER),
        (lambda ids, rows: made([id_ + "x" for id_ in ids], rows, rows * 0.1), OTHER),
        (lambda ids, rows: made(ids, rows[:0], rows[:0] * 0.1), OTHER),
        (lambda ids, rows: made(ids, rows + 1, rows * 0.1), "row 6.*\n.*has 6 passages"),
        (lambda ids, rows: given(ids, rows, rows[:, :1] * 0.1), r"rows int64 \(., 2\), scores \(., 1\)"),
        (lambda ids, rows: given(ids, rows * 1.0, rows * 0.1), "rows float64"),
        (lambda ids, rows: given(ids, rows[:, 0], rows[:, 0] * 0.1), r"rows int64 \(.,\)"),
    ],
)
def test_a_function_that_gives_no_ranking(index, answer, told):
    def own(queries, k):
        return answer(tuple(query.id for query in queries), ROWS[: len(queries)])

    for ask in (lambda: index.search(QUESTIONS, 2, own), lambda: index.evaluate(QUESTIONS, QRELS, own)):
        with pytest.raises(linkseek.UsageError, match=told):
            ask()


def test_names_of_functions(index):
    bm25 = index.pipeline("bm25")
    with pytest.raises(linkseek.UsageError, match='"bm25" is given twice'):
        index.evaluate(QUESTIONS, QRELS, [bm25, "bm25"])
    with pytest.raises(linkseek.UsageError, match='"<lambda>" is given twice'):
        index.evaluate(QUESTIONS, QRELS, [lambda queries, k: bm25(queries, k)] * 2)
    assert index.search("a river", 1, partial(bm25)).pipeline == "partial"
    with pytest.raises(linkseek.UsageError, match='no pipeline "bm52"'):
        index.pipeline("bm52")


def test_the_example_of_the_page_is_right(index):
    page = (ROOT / "docs" / "reference" / "api.md").read_text("utf-8")
    [example] = re.findall(r"^(def twice.*?)```", page, re.DOTALL | re.MULTILINE)
    names, question = {"linkseek": linkseek, "index": index}, "a river in France"
    exec(example.replace("Who painted the birth of Venus?", question), names)
    hits = names["hits"]
    assert not len(index.search("zzz", pipeline=names["twice"]))
    first = next(iter(index.search(question, 1, "bm25")))
    same = index.search(f"{question} {first.passage.title}", pipeline="bm25")
    assert hits.pipeline == "twice" and [*hits] == [*same] and len(hits)


def test_hits_by_question_as_a_run_and_as_a_frame(index, tmp_path):
    hits = index.search(QUESTIONS, 3, "bm25")
    parts = hits.by_question()
    assert list(parts) == ["q1", "q2"] and [hit for part in parts.values() for hit in part] == list(hits)
    hits.to_run(tmp_path / "bm25.trec")
    run = read_run(tmp_path / "bm25.trec")
    assert {id_: list(results) for id_, results in run.items()} == {
        id_: [passage.id for passage, _ in part] for id_, part in parts.items()
    }
    frame = hits.to_frame()
    assert list(frame.columns) == ["query_id", "question", "rank", "score", "passage_id", "title", "text"]
    assert frame.passage_id.tolist() == [passage.id for passage, _ in hits]
    assert frame["rank"].tolist() == [n for part in parts.values() for n in range(1, len(part) + 1)]
    assert list(index.search("xyzzy", 3, "bm25").to_frame().columns) == list(frame.columns)
    (tmp_path / "own.trec").write_text("mine")
    with pytest.raises(linkseek.UsageError, match="was not written by Linkseek"):
        hits.to_run(tmp_path / "own.trec")


def test_without_pandas_a_frame_says_what_to_install(index, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    for answer in (index.search("a river", 1, "bm25"), index.evaluate(QUESTIONS, QRELS, "bm25")):
        with pytest.raises(linkseek.MachineError, match="pip install pandas"):
            answer.to_frame()


def test_an_evaluation_writes_nothing_and_measures_as_the_command(index, built_index, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    results = index.evaluate(QUESTIONS, QRELS, ["bm25", "dense"], depth=10)
    assert not list(tmp_path.iterdir()) and results.pipelines["bm25"].run == ""
    lines = [orjson.dumps({"id": id_, "text": text}) for id_, text in QUESTIONS.items()]
    Path("q.jsonl").write_bytes(b"\n".join(lines))
    Path("qrels").write_text("".join(f"{q} 0 {d} 1\n" for q, judged in QRELS.items() for d in judged))
    words = (
        f"--index {built_index} --queries q.jsonl --qrels qrels --pipeline bm25 dense --depth 10 --latency 0"
    )
    evaluate_command.main([*words.split(), "--output", "o"])
    command = linkseek.open(built_index).evaluate(
        Path("q.jsonl"), "qrels", ["bm25", "dense"], depth=10, output="p"
    )
    assert {path.name for path in Path("p").iterdir()} >= {"results.json", "report.html", "runs"}
    written = orjson.loads(Path("o/results.json").read_bytes())
    for ours in (results.to_json(), command.to_json(), orjson.loads(Path("p/results.json").read_bytes())):
        for key in ("questions", "comparisons", "curves", "analyses", "measures", "notes"):
            assert ours[key] == written[key]
        for name, pipeline in ours["pipelines"].items():
            assert pipeline["measures"] == written["pipelines"][name]["measures"]
    assert command.provenance.files.keys() == {"queries", "qrels"}


def test_results_are_printed_and_become_a_frame(index):
    results = index.evaluate(QUESTIONS, QRELS, ["bm25", "dense"], measure=["nDCG@10", "R@1"])
    head, *rows = str(results).splitlines()
    assert head.split() == ["bm25", "dense"] and [row.split()[0] for row in rows] == ["nDCG@10", "R@1"]
    mean = results.pipelines["dense"].measures["R@1"].mean
    assert rows[1].split()[2].rstrip("*") == f"{mean:.3f}"
    frame = results.to_frame()
    assert list(frame.columns) == ["pipeline", "measure", "mean", "low", "high", "queries", "p"]
    assert frame[(frame.pipeline == "dense") & (frame.measure == "R@1")]["mean"].item() == mean
    p = results.comparison("bm25", "dense", "R@1").p_randomisation_holm
    assert frame.p.isna().tolist() == [True, False] * 2 and frame.p[3] == p


def test_a_star_marks_a_significant_difference(index):
    questions = [linkseek.Query(f"q{n}", "the river Seine") for n in range(12)]
    qrels = {query.id: {"Paris": 1} for query in questions}
    results = index.evaluate(questions, qrels, ["bm25", "dense"], measure=["P@1"])
    means = [results.pipelines[name].measures["P@1"].mean for name in ("bm25", "dense")]
    assert sorted(means) == [0, 1]  # else the test would show nothing
    _, row = str(results).splitlines()
    assert row.split() == ["P@1", f"{means[0]:.3f}", f"{means[1]:.3f}*"]


def test_answers_instead_of_judgements(index):
    answers = {"q1": ["gravel"], "q2": ["1944"]}
    given = index.evaluate(QUESTIONS, answers=answers, pipelines="bm25")
    queries = [linkseek.Query(id_, text, tuple(answers[id_])) for id_, text in QUESTIONS.items()]
    assert (
        given.pipelines["bm25"].measures
        == index.evaluate(queries, pipelines="bm25").pipelines["bm25"].measures
    )
    assert given.main_measure.startswith("accuracy@")
    regex = index.evaluate(QUESTIONS, answers={"q2": [r"19\d\d"]}, answer_kind="regex", pipelines="bm25")
    assert regex.pipelines["bm25"].measures["accuracy@20"].mean == 1


def test_groups_by_a_field_of_a_file(index, tmp_path):
    lines = [orjson.dumps({"id": id_, "text": text, "kind": text[-5:]}) for id_, text in QUESTIONS.items()]
    (tmp_path / "q.jsonl").write_bytes(b"\n".join(lines))
    results = index.evaluate(tmp_path / "q.jsonl", QRELS, "bm25", group=["kind"])
    assert {*results.analyses.groups} == {"river", "lcano"}


@pytest.mark.parametrize(
    ("evaluation", "told"),
    [
        ({}, "answers|judgements|relevant"),
        ({"answers": {"q3": ["a"]}}, 'there are answers for "q3", but no such question'),
        ({"qrels": {"q1": {"Seine": 0.5}}}, "not whole numbers"),
        ({"qrels": {"q1": ["Seine"]}}, "not whole numbers"),
        ({"qrels": {"q1": {"nowhere": 1}}}, "none of the judged ids is in the index"),
        ({"qrels": QRELS, "pipelines": []}, "there is nothing to evaluate"),
        ({"qrels": QRELS, "pipelines": "bm52"}, 'no pipeline "bm52"'),
        (
            {"qrels": QRELS, "dept": 5},
            r'linkseek.Index.evaluate: unknown keyword "dept"\n  Did you mean depth?',
        ),
        ({"qrels": QRELS, "ray": "local"}, 'unknown keyword "ray"'),
        ({"qrels": QRELS, "group": ["kind"]}, "--group belongs to --queries"),
        ({"qrels": QRELS, "depth": 0}, "linkseek.Index.evaluate: depth: "),
        ({"qrels": QRELS, "output": __file__}, "is a file"),
    ],
)
def test_an_evaluation_that_cannot_be(index, evaluation, told):
    with pytest.raises(linkseek.LinkseekError, match=told):
        index.evaluate(QUESTIONS, **{"pipelines": "bm25", **evaluation})


def test_a_ranking_is_re_ranked(index, tmp_path):
    hits = index.search(QUESTIONS, 4, "bm25")
    reranked = index.rerank(hits, "words", depth=2)
    assert reranked.pipeline == "bm25+words" and reranked.queries == hits.queries
    for before, after in zip(hits.ranking.rows, reranked.ranking.rows, strict=True):
        assert sorted(before) == sorted(after) and set(before[:2]) == set(after[:2])
    (tmp_path / "p.toml").write_text('[two]\nrerank = "words"\nof = "bm25"\ndepth = 2\n')
    pipeline = linkseek.open(index.folder, tmp_path / "p.toml").search(QUESTIONS, 4, "two")
    assert (pipeline.ranking.rows == reranked.ranking.rows).all()
    several = index.rerank(hits, ["words", "bm25"], weight=0.5)
    assert several.pipeline == "bm25+words+bm25" and len(several) == len(hits)
    assert index.rerank(hits, [Path("words"), "bm25"], weight=0.5).pipeline == several.pipeline


def test_a_re_ranking_that_cannot_be(index, linked):
    hits = index.search("a river", 2, "bm25")
    with pytest.raises(linkseek.UsageError, match="hits is a list"):
        index.rerank(list(hits), "words")
    with pytest.raises(linkseek.UsageError, match=r'linkseek\.Index\.rerank: unknown keyword "dept"'):
        index.rerank(hits, "words", dept=5)
    with pytest.raises(linkseek.UsageError, match='unknown keyword "of"'):
        index.rerank(hits, "words", of="bm25")
    with pytest.raises(linkseek.MismatchError, match="do not have the same passages"):
        linked.rerank(hits, "words")


def test_mining_writes_what_the_commands_write(linked, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    counts = linked.mine("ours.jsonl", "hlp", pairs=8, seed=3, negatives="random")
    common = f"--index {linked.folder} --seed 3"
    mine.main(f"{common} --objective hlp --pairs 8 --negatives random --output theirs.jsonl".split())
    assert Path("ours.jsonl").read_bytes() == Path("theirs.jsonl").read_bytes()
    assert counts == {"dual-link": 4, "co-mention": 4}
    pairs = list(linked.pairs("hlp", pairs=8, seed=3, negatives="random"))
    assert [pair.objective for pair in pairs] == ["dual-link"] * 4 + ["co-mention"] * 4
    assert list(map(read_pair, Path("ours.jsonl").read_bytes().splitlines(), "abcdefgh")) == pairs

    counts = linked.mine("c.jsonl", "php-hp", contrasts=5, seed=3, negatives=2)
    mine_contrasts.main(f"{common} --objective php-hp --contrasts 5 --negatives 2 --output d.jsonl".split())
    assert Path("c.jsonl").read_bytes() == Path("d.jsonl").read_bytes() and counts == {"php-hp": 5}
    contrasts = list(linked.contrasts("php-hp", contrasts=5, seed=3, negatives=2))
    assert [len(contrast.worse) for contrast in contrasts] == [2] * 5


def test_an_objective_of_both_kinds_makes_what_is_asked_for(linked, tmp_path):
    assert linked.mine(tmp_path / "p.jsonl", "ict", pairs=2) == {"ict": 2}
    assert b"positive_ctxs" in (tmp_path / "p.jsonl").read_bytes()
    assert linked.mine(tmp_path / "c.jsonl", "ict", contrasts=2) == {"ict": 2}
    assert b"better" in (tmp_path / "c.jsonl").read_bytes()
    mixed = linked.mine(tmp_path / "m.jsonl", "ict=1,php-hp=1", contrasts=4)
    assert mixed == {"ict": 2, "php-hp": 2}


@pytest.mark.parametrize(
    ("output", "objective", "options", "told"),
    [
        ("p.jsonl", "hlpp", {}, "no objective hlpp"),
        ("p.jsonl", "php-hpp", {"contrasts": 1}, "no objective php-hpp"),
        ("p.txt", "hlp", {}, "not a JSONL file"),
        ("own.jsonl", "hlp", {}, "was not written by Linkseek"),
        ("own.jsonl", "php-hp", {}, "was not written by Linkseek"),
        ("p.jsonl", "hlp", {"pair": 1}, 'unknown keyword "pair"\n  Did you mean pairs?'),
        ("p.jsonl", "hlp", {"stats": True}, 'unknown keyword "stats"'),
        ("p.jsonl", "php-hp", {"pairs": 1}, 'unknown keyword "pairs"'),
        ("p.jsonl", "hlp", {"negatives": "all"}, "linkseek.Index.mine: negatives: "),
    ],
)
def test_mining_that_cannot_be(linked, output, objective, options, told, tmp_path):
    (tmp_path / "own.jsonl").write_text("mine")
    with pytest.raises(linkseek.UsageError, match=told):
        linked.mine(tmp_path / output, objective, **options)
    assert {path.name for path in tmp_path.iterdir()} == {"own.jsonl"}


def test_an_index_without_links_has_no_pairs_of_links(index, tmp_path):
    with pytest.raises(linkseek.InputError, match="needs links between documents"):
        index.mine(tmp_path / "p.jsonl")
    with pytest.raises(linkseek.InputError, match="needs links between documents"):
        next(index.pairs())
    with pytest.raises(linkseek.InputError, match="needs links between documents"):
        next(index.contrasts("php-hp"))


def test_tables_of_settings_are_keywords_of_a_training(monkeypatch, tmp_path):
    configs = []
    monkeypatch.setattr("linkseek.retriever.training.pair_training.train", configs.append)
    output = linkseek.train(
        "p.jsonl", tmp_path / "m", base="b", training={"batch": 8}, model={"lora_rank": 8}, data={"shots": 3}
    )
    (config,) = configs
    assert (output, config.output.folder, config.data.pairs) == (
        tmp_path / "m",
        tmp_path / "m",
        [Path("p.jsonl")],
    )
    assert (config.stage.kind, config.model.base, config.model.lora_rank) == ("pretrain", "b", 8)
    assert (config.training.batch, config.training.epochs, config.data.shots) == (8, 5, 3)  # 5: of the stage
    linkseek.train(["p", "q"], {"folder": "m", "log_steps": 1}, stage="finetune")
    assert (configs[1].output.log_steps, configs[1].model.towers) == (1, "two")
    defaults = type(config.model)()
    assert configs[1].model.base == defaults.base
    for tables, told in (
        ({"trainin": {}}, 'linkseek.train: unknown keyword "trainin"\n  Did you mean training?'),
        ({"training": {"batches": 1}}, r'unknown key "batches" in \[training\]'),
        ({"training": {"batch": "x"}}, "linkseek.train: training.batch"),
        ({"stage": "pretrian"}, "linkseek.train: stage.kind"),
    ):
        with pytest.raises(linkseek.UsageError, match=told):
            linkseek.train("p", "m", **tables)


def test_a_build_of_a_path_or_of_documents(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [
        {"id": id_, "title": title, "text": text, "url": url, "links": []}
        for id_, title, text, url in DOCUMENTS
    ]
    Path("c.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    from_file = linkseek.build("c.jsonl", "a", (), bm25=False)
    in_memory = linkseek.build(rows, "b", [], bm25=False)
    assert list(from_file.passages) == list(in_memory.passages) and repr(in_memory) == "linkseek.open('b')"
    for documents, options, told in (
        (rows, {"bm52": False}, 'linkseek.build: unknown keyword "bm52"\n  Did you mean bm25?'),
        (rows, {"plan": True}, 'unknown keyword "plan"'),
        (rows, {"index": "i"}, 'unknown keyword "index"'),
        (rows, {"passage_words": -1}, "linkseek.build: passage_words: "),
        ("missing.jsonl", {}, "missing.jsonl: no such file"),
    ):
        with pytest.raises(linkseek.LinkseekError, match=told):
            linkseek.build(documents, "c", [], **options)
    assert not Path("c").exists()
    with pytest.raises(linkseek.DamagedIndexError):
        linkseek.open("c")


def test_threads_share_an_index(index, tmp_path):
    """As a server does: each gets the answer that it would get alone."""
    expected = {
        name: index.search(QUESTIONS, 3, name).ranking.rows for name in ("bm25", "dense", RECOMMENDED, "ql")
    }
    measured = index.evaluate(QUESTIONS, QRELS, "bm25").pipelines["bm25"].measures
    fresh, together = linkseek.open(index.folder), threading.Barrier(8, timeout=60)

    def search(number):
        together.wait()
        name = [*expected][number % 4]
        assert np.array_equal(fresh.search(QUESTIONS, 3, name).ranking.rows, expected[name])
        assert fresh.evaluate(QUESTIONS, QRELS, "bm25").pipelines["bm25"].measures == measured
        hits = fresh.search(QUESTIONS, 3, "bm25")
        return fresh.rerank(hits, "words").ranking.rows.tolist()

    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(search, range(8)))
    assert rows == [rows[0]] * 8


FIVE = {"build", "search", "evaluate", "mine", "train", "rerank"}


def test_another_process_gets_hits_with_their_index(index):
    hits = index.search("light", 3, pipeline="bm25")
    there = pickle.loads(pickle.dumps(hits))
    assert list(there) == list(hits)
    assert list(there.index.search("light", 3, pipeline="bm25")) == list(hits)


def test_the_example_of_the_readme_has_one_import_and_ten_statements():
    page = (ROOT / "README.md").read_text("utf-8")
    examples = [
        body for body in re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S) if "linkseek" in body
    ]
    (example,) = examples
    tree = ast.parse(example)
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    imports = [node for node in statements if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [ast.unparse(node) for node in imports] == ["import linkseek"] and len(statements) <= 10
    called = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert called >= FIVE  # tests/end_to_end/test_docs.py runs it
