"""Commands of the search page are run."""

import json
import shlex

import pytest

from linkseek.app.rendering import exports
from linkseek.app.rendering.addresses import SearchView
from linkseek.app.search import main
from linkseek.app.service import SearchService


@pytest.fixture
def service(built_index, word_encoder):
    return SearchService(built_index)


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
