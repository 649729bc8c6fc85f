"""Pipelines that follow links, linkseek train-hops, and the paths that people see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from linkseek.app.commands.train_hops import main
from linkseek.app.evaluation.judgements import JudgedNumbers, to_documents
from linkseek.app.evaluation.measures import measure_judged, parse_measure
from linkseek.app.pipelines.catalogue import Pipelines
from linkseek.app.rendering.views import why_html
from linkseek.app.search import print_answer
from linkseek.app.service import SearchService
from linkseek.indexer.commands.partition import split_index
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError, MismatchError, UsageError
from linkseek.retriever.learned.boosted_trees import trees_json
from linkseek.retriever.learned.hops import HopModel
from linkseek.retriever.learned.question_kinds import SEVERAL
from linkseek.retriever.queries import read_queries
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.runs import read_qrels
from linkseek.testing import check_pipeline
from tests.support.tiny.corpus import write_jsonl
from tests.support.tiny.index import WordEncoder, built
from tests.support.tiny.linked import document

FILMS = 24
TABLES = """
[trees]
hop = "trees"
of = "bm25"
model = "hops.json"
depth = 10
[careful]
hop = "trees"
of = "bm25"
model = "careful.json"
depth = 10
[fused]
fusion = "weighted"
of = ["trees", "bm25"]
weights = [0.9, 0.1]
"""


def corpus() -> list[dict[str, Any]]:
    """Films that link to their maker, who links to a town that no question names."""
    rows = []
    for n in range(FILMS):
        rows += [
            document(f"Film{n}", f"Number{n} is a film about volcanoes. It was made by [Maker{n}]."),
            document(f"Maker{n}", f"A person born long ago in [the town|Town{n}]. Likes tea."),
            document(f"Town{n}", "Its market is old. Lies on a river with boats and gravel."),
        ]
    return rows


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("hops")
    built(folder / "index", corpus(), passage_words=0, encoders=["words"])
    questions = [
        {"id": f"q{n}", "text": f"Where was the maker of the film Number{n} born?"} for n in range(FILMS)
    ]
    write_jsonl(folder / "q.jsonl", questions)
    judged = [f"q{n} 0 {kind}{n} 1" for n in range(FILMS) for kind in ("Film", "Maker")]
    (folder / "qrels.txt").write_text("\n".join(judged))
    (folder / "p.toml").write_text(TABLES)
    return folder / "index"


@pytest.fixture(scope="module", autouse=True)
def words():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("linkseek.app.pipelines.open_models._open_encoder", lambda location: WordEncoder())
        yield


def options(index: Path, *more: str) -> list[str]:
    folder = index.parent
    return [
        *("--index", str(index), "--queries", str(folder / "q.jsonl"), "--qrels", str(folder / "qrels.txt")),
        *("--pipeline", "bm25", "--depth", "10", "--folds", "2", "--output", str(folder / "out.json")),
        *more,
    ]


@pytest.fixture(scope="module")
def careful(index) -> dict[str, object]:
    """Trees that also know questions of one step."""
    names = [f"{a}{b}" for a in ("Ka", "Bo", "Lu", "Mi", "Se") for b in ("ra", "den", "tor", "lis", "mo")]
    (index.parent / "one.tsv").write_text("".join(f"{n}\t{n} is what?\n" for n in names))
    main(
        [
            *options(index)[:-1],
            str(index.parent / "careful.json"),
            "--one-step",
            str(index.parent / "one.tsv"),
        ]
    )
    return json.loads((index.parent / "careful.json").read_text())


@pytest.fixture(scope="module")
def trained(index, careful) -> dict[str, object]:
    """The same trees in the first format, for which all questions have several steps."""
    old = {key: value for key, value in careful.items() if key != "several_steps"}
    old["format"] = "linkseek hops 1"
    (index.parent / "hops.json").write_text(json.dumps(old))
    return old


def opened(index: Path) -> Pipelines:
    return Pipelines(OpenIndex.open(index), index.parent / "p.toml")


def ids(index: Path, name: str, text: str, k: int = 3) -> list[str]:
    pipelines = opened(index)
    ranking = pipelines.open(name)([Query("1", text)], k)
    return pipelines.index.passages.ids([row for row, _ in ranking.results(0)])


@pytest.mark.parametrize("name", ["trees", "careful", "fused"])
def test_the_parts_of_scores_add_up(index, trained, name):
    for question in (
        "the film Number3",
        "film Number3 is what?",
        "tea",
        "Where was the maker of the film Number5 born?",
    ):
        check_pipeline(opened(index).open(name), opened(index).index, question, 10)


def test_trees_learn_to_follow_links(index, trained):
    assert trained["graphs"] == ["links"]
    [figures] = trained["trained"]["recall at 2, 5, 20 of held-out questions"].values()
    assert figures["hops"][0] > figures["bm25"][0] + 0.2
    assert set(ids(index, "trees", "Where was the maker of the film Number3 born?", 2)) == {"Film3", "Maker3"}
    service = SearchService(index, index.parent / "p.toml")
    reason = service.why("Where was the maker of the film Number3 born?", "Maker3", ["trees"])
    shares = {part.name: part.factors.get("value") for part in reason.scores["trees"].parts}
    assert shares["links: source rank"] == 1 and reason.by_links == ("trees",)


def test_trees_learn_from_the_links_of_an_index(index, tmp_path):
    rows = [document(f"Film{n}", f"In year{n} it was made by [Maker{n}].") for n in range(FILMS)]
    rows += [document(f"Maker{n}", "A person born long ago. Likes tea.") for n in range(FILMS)]
    built(tmp_path / "films", rows, passage_words=0, encoders=["words"])
    given = ["--index", str(tmp_path / "films"), *options(index)[6:10], "--folds", "2", "--mined", "60"]
    models = []
    for _ in range(2):
        main([*given, "--output", str(tmp_path / "mined.json")])
        models.append(json.loads((tmp_path / "mined.json").read_text()))
    assert models[0] == models[1]
    trained = models[0]["trained"]
    assert trained["questions"] == {"films: links": FILMS}  # each link once
    [figures] = trained["recall at 2, 5, 20 of held-out questions"].values()
    assert figures["hops"][0] > figures["bm25"][0] + 0.2 and max(figures["hops"]) <= 1


def test_judged_documents_count_once_as_in_evaluate(index, tmp_path):
    folder = index.parent
    rows = [
        document(f"Film{n}", f"Number{n} is red. Number{n} is blue. [Maker{n}] it was.") for n in range(FILMS)
    ]
    rows += [document(f"Maker{n}", "A person born. Likes the film.") for n in range(FILMS)]
    cut = built(tmp_path / "index", rows, passage_words=3, min_words=0, encoders=["words"])
    main(["--index", str(cut.path), *options(index)[2:]])
    trained = json.loads((folder / "out.json").read_text())["trained"]
    [figures] = trained["recall at 2, 5, 20 of held-out questions"].values()
    queries, qrels = read_queries(folder / "q.jsonl"), read_qrels(folder / "qrels.txt")
    judged = JudgedNumbers(cut).judgements(qrels, [query.id for query in queries], "qrels")
    first = Pipelines(cut).open("bm25")(queries, 10)
    measures = [parse_measure(f"R@{k}") for k in (2, 5, 20)]
    values = measure_judged(to_documents(first, cut.passages), judged.relevance, measures)
    assert figures["bm25"] == [round(float(each.values.mean()), 4) for each in values.values()]
    assert max(figures["hops"]) <= 1


def test_a_question_of_one_step_keeps_the_first_stage(index, trained, careful):
    assert careful["several_steps"]["language"] == "en"
    queries = [
        Query("1", "Where was the maker of the film Number3 born?"),
        Query("2", "film Number3 is what?"),
    ]
    pipelines = opened(index)
    first, trees, held = (pipelines.open(name)(queries, 10) for name in ("bm25", "trees", "careful"))
    assert held.rows[0, :2].tolist() == trees.rows[0, :2].tolist() and held.paths == trees.paths
    stay = [len(set(held.rows[n, :5].tolist()) & set(first.rows[n, :5].tolist())) for n in (0, 1)]
    assert stay[0] >= 3 and stay[1] >= 4
    reason = pipelines.open("careful").explained(queries[1], int(held.rows[1, 4]), 10)
    [kind] = [part for part in reason.parts if part.name == "several steps"]
    assert kind.factors["value"] < SEVERAL
    assert "replace at most 1 of 5" in reason.parts[-1].name


def test_model_files_keep_their_content(index, trained, careful):
    for name, kept in (("hops.json", trained), ("careful.json", careful)):
        read = HopModel.read(index.parent / name)
        assert (read.several_steps is None) == (name == "hops.json")
        written = json.loads(trees_json(read))
        assert written == {"several_steps": None} | kept


def test_without_links_the_first_stage_decides(index, trained, tmp_path):
    rows = [document(f"d{n}", f"Number{n} lies on the river of town {n % 5}.") for n in range(9)]
    indexed = built(tmp_path / "index", rows, passage_words=0, encoders=["words"])
    pipelines = Pipelines(indexed, index.parent / "p.toml")
    queries = [Query(str(n), f"the river of town {n}") for n in range(5)]
    assert (pipelines.open("trees")(queries, 5).rows == pipelines.open("bm25")(queries, 5).rows).all()


def test_paths_are_part_of_an_answer(index, trained):
    service, question = SearchService(index, index.parent / "p.toml"), "Where was the maker of Number3 born?"
    answer = service.search(question, "trees", 2)
    assert [hit.passage_id for hit in answer.hits] == ["Film3", "Maker3"]
    assert [hit["path"] for hit in answer.to_json()["hits"]] == [
        [],
        [{"passage_id": "Film3", "document_id": "Film3", "title": "Film3", "anchor": "Maker3"}],
    ]
    console = Console(record=True, width=200)
    print_answer(answer, console)
    assert "from Film3 (Film3) by the link “Maker3”" in console.export_text()
    html = why_html(service.why(question, "Maker3"), [answer], "sample")
    assert "Reached from" in html and "Maker3" in html
    assert "Reached" not in why_html(service.why(question, "Film3"), [answer], "sample")


def test_partitions_rank_as_one_index(index, trained, tmp_path):
    parts = split_index(tmp_path / "parts", index, 3)
    whole = opened(index)
    divided = Pipelines(parts, index.parent / "p.toml")
    queries = [Query(str(n), f"Where was the maker of the film Number{n} born?") for n in range(FILMS)]
    one, many = whole.open("trees")(queries, 10), divided.open("trees")(queries, 10)
    assert (one.rows == many.rows).all() and (one.scores == many.scores).all()
    assert one.paths == many.paths and any(one.paths)


def test_a_batch_ranks_as_single_questions(index, trained):
    queries = [Query(str(n), f"Where was the maker of the film Number{n} born?") for n in range(FILMS)]
    first = opened(index).open("bm25")(queries, 1)
    pipeline = opened(index).open("trees")
    together = pipeline(queries, 8)
    assert (together.rows[:, 0] == first.rows[:, 0]).all()  # the first result stays the first
    alone = [pipeline([query], 8) for query in queries]
    assert together.rows.tolist() == [one.rows[0].tolist() for one in alone]
    assert pipeline([], 8).rows.shape == (0, 8)


def test_an_index_without_vectors(tmp_path, index):
    pipelines = Pipelines(built(tmp_path / "index", corpus(), passage_words=0), index.parent / "p.toml")
    assert "trees" not in pipelines.available()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--index", "other"], "differ in number"),
        (["--output", "x.bin"], "not JSON"),
        (["--mined", "5", "--index", "other"], "differ in number"),
        (["--one-step", "a/q.tsv", "--one-step", "b/q.tsv"], "two files are named q.tsv"),
    ],
)
def test_options_that_do_not_fit(index, more, message):
    usual = options(index)
    with pytest.raises(UsageError, match=message):
        main([*usual[: len(usual) - 2 * ("--output" in more)], *more])


def test_questions_without_a_relevant_candidate(index, tmp_path):
    (tmp_path / "qrels.txt").write_text("q1 0 Town5 1\n")
    with pytest.raises(InputError, match="no question has a relevant passage"):
        main([*options(index)[:4], "--qrels", str(tmp_path / "qrels.txt"), *options(index)[6:]])


def test_a_model_of_other_features_or_damaged(index, trained, tmp_path):
    (tmp_path / "p.toml").write_text(TABLES)
    path = tmp_path / "hops.json"
    path.write_text(json.dumps(trained | {"features": [*trained["features"][:-1], "another"]}))
    with pytest.raises(MismatchError, match="features are for another version"):
        Pipelines(OpenIndex.open(index), tmp_path / "p.toml").open("trees")
    path.write_text(json.dumps(trained | {"trees": []}))
    with pytest.raises(InputError, match="trees"):
        Pipelines(OpenIndex.open(index), tmp_path / "p.toml").open("trees")
