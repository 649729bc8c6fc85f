"""The tools, asked by the official client: in this process, over HTTP, and by the standard streams."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import requests
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from pydantic import TypeAdapter

from linkseek.app.commands.mcp import McpOptions
from linkseek.app.serving.batches import RequestBatches
from linkseek.app.serving.indexes import ServedIndexes
from linkseek.app.serving.mcp_server import create_tools
from linkseek.app.serving.searching import Searching
from tests.support.asynchronous import finished
from tests.support.command import ROOT, WITH_TESTS
from tests.support.served import running, word_models

TOOLS = ["backlinks", "fetch", "indexes", "links", "related", "search"]


async def ask(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    [item] = result.content  # exactly one, of JSON text
    assert item.type == "text" and result.structured_content is None
    return {"error": item.text} if result.is_error else json.loads(item.text)


async def conversation(client: Client) -> None:
    """What a connector does: search, fetch, then follow links."""
    listed = await client.list_tools()
    assert sorted(tool.name for tool in listed.tools) == TOOLS
    assert all(tool.description and tool.title for tool in listed.tools)
    assert all(tool.annotations.read_only_hint for tool in listed.tools)
    assert next(iter((await ask(client, "indexes", x=1))["indexes"]["planets"])) == "bm25"
    found = await ask(client, "search", query="Which planet is red?")
    first = found["results"][0]
    assert (first["id"], first["title"], first["url"]) == (
        "Mars#0",
        "Mars",
        "https://planets.example/wiki/Mars",
    )
    assert first["text"].startswith("Mars is the red planet.") and first["score"] > 0
    assert (await ask(client, "search", query="red", pipeline="ql"))["results"][0]["id"] == "Mars#0"
    assert first["section"] == ""
    with pytest.raises(MCPError, match="Unknown prompt: x"):
        await client.get_prompt("x")
    assert "no pipeline" in (await ask(client, "search", query="red", pipeline="x"))["error"]
    assert "NAME:VALUE" in (await ask(client, "search", query="red", only=["x"]))["error"]
    assert 'no "top_k"' in (await ask(client, "search", query="planet", top_k=3))["error"]
    passage = await ask(client, "fetch", id=first["id"])
    assert set(passage) == {"id", "title", "text", "url", "metadata"}
    assert passage["text"].startswith("Mars is the red planet.")
    document = await ask(client, "fetch", id=passage["metadata"]["document_id"])
    assert document["id"] == "Mars" and document["metadata"]["passages"] == 1
    assert [one["id"] for one in (await ask(client, "links", id="Mars#0"))["results"]] == ["Phobos", "Earth"]
    back = await ask(client, "backlinks", id="Earth")
    assert [one["id"] for one in back["results"]] == ["Mars", "Venus"] and back["count"] == 2
    around = await ask(client, "related", id="Mars")
    assert [(one["id"], one["direction"]) for one in around["results"]] == [
        ("Phobos", "both"),
        ("Earth", "outgoing"),
    ]
    for tool, arguments in (
        ("fetch", {"id": "../../etc/passwd"}),
        ("search", {"query": "x", "index": "stars"}),
        ("search", {"query": "x", "k": 1000}),
        ("links", {}),
    ):
        error = (await ask(client, tool, **arguments))["error"]
        assert len(error) > 10 and "Traceback" not in error and str(ROOT) not in error
    missing = (await ask(client, "search", k=1000))["error"]
    assert missing == "search: query: Field required; k: Input should be less than or equal to 100."


def test_in_this_process(planets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = McpOptions(index=[planets], pipeline="bm25")
    indexes, batches = ServedIndexes(options, models=word_models()), RequestBatches(10)
    searching = Searching(indexes, batches, options)

    async def talk() -> None:
        async with Client(create_tools(searching)) as client:
            await conversation(client)
            # a fault inside a tool is no wrong argument: its text stays here
            monkeypatch.setattr(searching, "ask", lambda *of: TypeAdapter(int).validate_python("secret"))
            assert await ask(client, "search", query="x") == {"error": "Error executing tool search"}

    finished(talk())
    indexes.close()
    batches.close()


def test_over_http(planets: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async def talk(url: str) -> None:
        async with Client(url) as client:
            await conversation(client)

    with running(index=[planets], pipeline="bm25") as service:
        url = f"{service.url}/mcp"
        finished(talk(url))
        finished(talk(url))
        assert requests.get(url, timeout=9).status_code == 405  # no stream is offered
        for name in ("Host", "Origin"):
            refused = requests.post(url, json={}, headers={name: "http://evil.example"}, timeout=9)
            assert refused.status_code in (421, 403)
        assert requests.head(f"{url}/", timeout=9).status_code == 405  # as some clients write it
        metrics = service.get("/metrics").text
        assert 'linkseek_requests_total{route="/mcp",status="200"}' in metrics
        assert 'linkseek_questions_total{index="planets",pipeline="ql"} 2.0' in metrics
    captured = capfd.readouterr()
    lines = [json.loads(line) for line in captured.out.splitlines()]  # and nothing else
    assert any(line.get("pipeline") == "ql" and line["stages"] for line in lines)
    assert "asked" not in captured.out and "Traceback" not in captured.err
    (tmp_path / "tokens").write_text("a-token-of-ours-1")
    with running(index=[planets], token_file=tmp_path / "tokens") as service:
        assert service.post("/mcp", {}).status_code == 401


def test_by_the_standard_streams(planets: Path) -> None:
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "linkseek", "mcp", "--index", str(planets)],
        env=dict(WITH_TESTS) | {"LINKSEEK_PIPELINE": "bm25"},
        cwd=ROOT,
    )

    async def talk() -> None:
        async with Client(stdio_client(command)) as client:
            await conversation(client)

    finished(talk())
