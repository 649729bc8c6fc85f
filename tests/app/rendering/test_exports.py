"""Files and commands of the search page: read by others, and run."""

import io
import json
import shlex
from dataclasses import replace

import pandas
import pytest

from linkseek.app.rendering import exports
from linkseek.app.rendering.addresses import SearchView
from linkseek.app.search import main
from linkseek.app.service import SearchService
from tests.support.small_index import HOSTILE_TITLE


@pytest.fixture
def service(built_index, word_encoder):
    return SearchService(built_index)


@pytest.fixture
def answers(service):
    return [service.search("a volcano in France", name, 6) for name in ("bm25", "dense")]


def test_pandas_reads_the_table(answers):
    results = pandas.read_csv(io.BytesIO(exports.tsv(answers)), sep="\t", quoting=3)
    ranks = results.pivot(index="passage_id", columns="pipeline", values="rank")
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


def test_the_files_are_those_of_the_pipelines_on_the_page(answers):
    files = dict(exports.files(answers).values())
    assert [*files] == ["linkseek.tsv", "linkseek.json"]
    assert files["linkseek.tsv"]() == exports.tsv(answers)
