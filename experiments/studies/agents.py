"""python -m experiments agents: calls and tokens that an agent without a language model needs for an answer.

The agent asks the tools of `linkseek mcp`, reads what comes back, and has its answer once a text of the
question's last document contains one of the answers. It searches once, with the question as it stands, and
reads passages from the best on; a way says what the results have, and what it does about those without the
answer:

    ids      results have no text, so each passage is fetched
    text     results begin with 300 characters of their text; passages are fetched if no answer is among them
    links    as text, but after each of the first passages its document's links are read, and the linked
             documents fetched whose names share words with the question or come first
    hops     as text, with the pipeline that follows links

A question ends without an answer after MAX_CALLS calls. Tokens are characters of the answers over 4. Whoever
reads knows what the answer is: a model would need at least as many calls.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from mcp import Client

from linkseek.app.serving.batches import RequestBatches
from linkseek.app.serving.indexes import ServedIndexes
from linkseek.app.serving.mcp_server import create_tools
from linkseek.app.serving.options import IndexOptions
from linkseek.app.serving.searching import Searching
from linkseek.retriever.search.query_words import terms

PROGRAM = "python -m experiments agents"

MAX_CALLS = 20
WAYS = ("ids", "text", "links", "hops")
_LINKING = 3
"""Passages of a search whose links are followed."""
_LINKED = 4
"""Linked documents that are fetched for each."""


class Conversation:
    """Counts the calls of one question and the characters that they answer."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.calls = self.characters = 0

    async def ask(self, tool: str, drop: Sequence[str] = (), **arguments: Any) -> Any:
        """The answer of a tool, without some fields of its results."""
        result = await self._client.call_tool(tool, arguments)
        answer = json.loads(result.content[0].text)  # type: ignore[union-attr]
        for name in drop:
            for one in answer["results"]:
                del one[name]
        self.calls += 1
        self.characters += len(json.dumps(answer, ensure_ascii=False, separators=(",", ":")))
        return answer


async def read(talk: Conversation, question: str, way: str) -> AsyncIterator[tuple[str, str]]:
    """The texts that the agent reads, each with the id of its passage or document."""
    drop = ("text", "score", "section") if way == "ids" else ()
    more = {"pipeline": "hops"} if way == "hops" else {}
    results = (await talk.ask("search", drop, query=question, k=10, **more))["results"]
    for one in results:
        yield one["id"], one.get("text", "")
    for place, one in enumerate(results):
        passage = await talk.ask("fetch", id=one["id"])
        yield one["id"], passage["text"]
        if way == "links" and place < _LINKING:
            linked = (await talk.ask("links", id=one["id"]))["results"]
            words = terms(question, "en")
            names: dict[str, frozenset[str]] = {}
            for link in linked:
                names.setdefault(link["id"], terms(f"{link['title']} {link['anchor']}", "en"))
            shared = {id_: len(words & own) for id_, own in names.items()}
            for id_ in sorted(shared, key=lambda id_: -shared[id_])[:_LINKED]:
                yield id_, (await talk.ask("fetch", id=id_))["text"]


async def answered(client: Client, question: dict[str, Any], way: str) -> tuple[bool, int, int]:
    """Whether the agent gets the answer; calls, characters."""
    talk = Conversation(client)
    async for id_, text in read(talk, question["text"], way):
        is_last = id_.rpartition("#")[0] == question["path"][-1] or id_ == question["path"][-1]
        if is_last and any(answer.lower() in text.lower() for answer in question["answers"]):
            return True, talk.calls, talk.characters
        if talk.calls >= MAX_CALLS:
            break
    return False, talk.calls, talk.characters


async def table(searching: Searching, questions: Sequence[dict[str, Any]]) -> list[str]:
    """A row for each way."""
    rows = ["| way | answered | calls | tokens |", "|---|---|---|---|"]
    async with Client(create_tools(searching)) as client:
        for way in WAYS:
            all_ = [await answered(client, question, way) for question in questions]
            count, calls, characters = (sum(column) for column in zip(*all_, strict=True))
            mean = len(questions)
            rows.append(f"| {way} | {count} of {mean} | {calls / mean:.1f} | {characters / 4 / mean:,.0f} |")
    return rows


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog=PROGRAM, description=__doc__)
    parser.add_argument("--index", type=Path, default=Path("index/sample"))
    parser.add_argument("--questions", type=Path, default=Path("samples/two-steps.jsonl"))
    parser.add_argument("--pipeline", help="of the searches; default: that of the index")
    options = parser.parse_args(argv)
    served = IndexOptions(index=[options.index], pipeline=options.pipeline)
    questions = [json.loads(line) for line in options.questions.read_text("utf-8").splitlines()]
    with closing(ServedIndexes(served)) as indexes, closing(RequestBatches(served.queue)) as batches:
        print("\n".join(asyncio.run(table(Searching(indexes, batches, served), questions))))
