"""python -m experiments agents: the calls of an agent, told by tools whose answers are written here."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from experiments.studies.agents import MAX_CALLS, answered
from tests.support.asynchronous import finished

QUESTION = {"text": "Where was the maker of the film born?", "answers": ["Oslo"], "path": ["Film", "Maker"]}
TEXTS = {
    "Film#0": "The film was made by the maker.",
    "Maker#0": "The maker was born in a town.",
    "Town#0": "Oslo is a town.",
    "Maker": "The maker was born in a town. It was Oslo.",
}
LINKS = [
    {"id": "River", "title": "River", "anchor": "river"},
    {"id": "Maker", "title": "Maker", "anchor": "by"},
]


class Tools:
    """A client of tools that has these passages and links, in the order of the search."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    async def call_tool(self, tool: str, arguments: dict) -> SimpleNamespace:
        self.asked.append((tool, arguments.get("id", arguments.get("pipeline", ""))))
        ids = [id_ for id_ in TEXTS if "#" in id_]
        if tool == "search":
            rows = [{"id": id_, "text": TEXTS[id_][:10], "score": 1, "section": ""} for id_ in ids]
            answer = {"results": rows}
        elif tool == "links":
            answer = {"results": LINKS}
        else:
            answer = {"text": TEXTS.get(arguments["id"], "")}
        return SimpleNamespace(content=[SimpleNamespace(text=json.dumps(answer))])


def test_links_lead_to_the_document_that_shares_words_with_the_question_first():
    tools = Tools()
    found, calls, characters = finished(answered(tools, QUESTION, "links"))
    # the whole document of the maker is read by its link; Oslo in another document would not count
    assert found and calls == 4 and characters > 100
    assert tools.asked == [("search", ""), ("fetch", "Film#0"), ("links", "Film#0"), ("fetch", "Maker")]


@pytest.mark.parametrize("way", ["ids", "text", "hops"])
def test_without_links_each_passage_is_fetched_and_no_other_document_counts(way):
    tools = Tools()
    found, calls, _ = finished(answered(tools, QUESTION, way))
    assert not found and calls == 4 < MAX_CALLS  # Town#0 says Oslo, but is not the last document
    assert [tool for tool, _ in tools.asked] == ["search", "fetch", "fetch", "fetch"]
    assert tools.asked[0][1] == ("hops" if way == "hops" else "")


def test_texts_cost_characters_and_may_save_the_fetch():
    short = QUESTION | {"answers": ["The maker"], "path": ["Maker"]}
    (by_ids, text), tools = [finished(answered(Tools(), short, way)) for way in ("ids", "text")], Tools()
    assert by_ids[0] and by_ids[1] == 3 and text[0] and text[1] == 1
    results = finished(tools.call_tool("search", {})).content[0].text
    assert text[2] == len(json.dumps(json.loads(results), separators=(",", ":")))
