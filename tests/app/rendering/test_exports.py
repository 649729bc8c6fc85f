"""Files and commands of the search page: read by others, and run."""

import io
import json
import shlex
from dataclasses import replace

import pandas
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from linkseek.app.background import services
from linkseek.app.page.context import AppOptions
from linkseek.app.page.routes import export_route
from linkseek.app.rendering import exports
from linkseek.app.rendering.addresses import SearchView, export_address
from linkseek.app.search import main
from linkseek.app.service import SearchService
from linkseek.retriever.search.runs import read_run
from tests.support.small_index import HOSTILE_TITLE


@pytest.fixture
def service(built_index, word_encoder):
    return SearchService(built_index)


@pytest.fixture
def answers(service):
    return [service.search("a volcano in France", name, 6) for name in ("bm25", "dense")]


def test_pandas_reads_the_table_as_the_page_says(answers, tmp_path, monkeypatch):
    (tmp_path / "linkseek.tsv").write_bytes(exports.tsv(answers))
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(exports.PANDAS, names)
    results, ranks = names["results"], names["ranks"]
    assert list(results["rank"]) == [1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 6] and list(ranks.columns) == [
        "bm25",
        "dense",
    ]
    for answer in answers:
        for hit in answer.hits:
            assert ranks.loc[hit.passage_id, answer.pipeline] == hit.rank
    titles = {hit.title for answer in answers for hit in answer.hits}
    assert set(results["title"].fillna("")) == titles and HOSTILE_TITLE in titles


def test_no_text_breaks_a_line(answers):
    hit = answers[0].hits[0]
    odd = type(hit)(**{name: getattr(hit, name) for name in hit.__slots__} | {"title": 'a\tb\nc"\r\ud800'})
    answer = type(answers[0])("q", "p", (odd,), 0)
    table = pandas.read_csv(io.BytesIO(exports.tsv([answer])), sep="\t", quoting=3)
    assert list(table["title"]) == ['a b c" ?']


def test_spaces_of_an_id_stay(answers):
    hit = replace(answers[0].hits[0], passage_id="a  b\u3000c#0")
    table = pandas.read_csv(io.BytesIO(exports.tsv([replace(answers[0], hits=(hit,))])), sep="\t", quoting=3)
    assert list(table["passage_id"]) == [hit.passage_id]


def test_json_is_that_of_the_command(answers):
    assert [row["pipeline"] for row in json.loads(exports.json(answers))] == ["bm25", "dense"]
    assert json.loads(exports.json(answers))[0]["hits"][0]["passage_id"] == answers[0].hits[0].passage_id


def test_the_run_has_all_known_ranks(service, answers, tmp_path):
    for answer in answers:
        (tmp_path / "run").write_bytes(exports.trec_run(answer, service.index.passages.ids))
        run = read_run(tmp_path / "run")
        rows = sorted(answer.places, key=lambda row: answer.places[row].rank)
        assert list(run["1"]) == service.index.passages.ids(rows) and len(rows) > 3


@pytest.mark.parametrize("question", ["a volcano in France", 'it\'s $HOME "volcano" `ls`', "-volcano"])
def test_the_command_gives_what_is_on_the_screen(built_index, service, capsysbinary, question):
    view = SearchView(question, ("bm25", "dense"), 5)
    for name, line in zip(
        view.pipelines, exports.commands(view, built_index, None).splitlines(), strict=True
    ):
        words = shlex.split(line)
        assert words[:2] == ["linkseek", "search"]
        main([*words[2:], "--json"] if "--" not in words else [*words[2:4], "--json", *words[4:]])
        printed = json.loads(capsysbinary.readouterr().out)
        shown = service.search(question, name, 5)
        assert [hit["passage_id"] for hit in printed["hits"]] == [hit.passage_id for hit in shown.hits]


@pytest.fixture
def get(built_index, service, monkeypatch):
    """Ask for a file of the page, by its address."""
    monkeypatch.setattr(services.SERVICES, "open", lambda path, *_: service)
    client = TestClient(Starlette(routes=[export_route(AppOptions(index=built_index))]))
    return lambda address: client.get(f"/{address}")


def test_files_at_their_addresses_are_those_of_the_page(built_index, service, get):
    view = SearchView("a volcano in France?&x", ("bm25", "dense"), 5, merged=True, why="Etna#0")
    answers = [service.search(view.question, name, view.k) for name in view.pipelines]
    files = {exports.TSV: exports.tsv(answers)}
    files |= {f"{of.pipeline}.run": exports.trec_run(of, service.index.passages.ids) for of in answers}
    for file, content in files.items():
        address = export_address(view, built_index.name, file)
        assert "merged" not in address and "why" not in address
        assert get(address).content == content
    shown = get(export_address(view, built_index.name, exports.JSON)).json()
    assert [[hit["passage_id"] for hit in row["hits"]] for row in shown] == [
        [hit.passage_id for hit in of.hits] for of in answers
    ]


@pytest.mark.parametrize(
    ("file", "changes", "status", "says"),
    [
        ("ql.run", {}, 404, "no such file"),
        ("..%2Fmanifest.json", {}, 404, ""),
        (exports.TSV, {"pipelines": ("no such",)}, 404, "names no pipeline"),
        (exports.TSV, {"question": " "}, 400, "question"),
    ],
)
def test_addresses_of_nothing(built_index, get, file, changes, status, says):
    view = SearchView(**({"question": "a volcano", "pipelines": ("bm25",)} | changes))
    answer = get(export_address(view, built_index.name, "FILE").replace("FILE", file))
    assert answer.status_code == status and says in answer.text
    assert get(export_address(view, "another", exports.TSV)).status_code == 404
