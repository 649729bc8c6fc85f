"""Clients that generators write from the description, in two languages; where these are installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command import ROOT
from tests.support.served import Client, running

TOKEN = "correct-horse-battery"
EXPECTED = ["Mars#0", "red", "Mars", "Phobos", "unknown_name 404", "planets.example"]

PYTHON = """
import sys
from generated.client import AuthenticatedClient
from generated.api.linkseek import filters, search
from generated.models import Problem, Search

client = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2])
body = Search(questions=["red Mars"], k=1, highlights=True, evidence=True, explain=True)
[hit] = search.sync(client=client, body=body).answers[0].hits
[start, end] = hit.highlights[1]
problem = search.sync(client=client, body=Search(questions=["x"], pipeline="bm52"))
assert isinstance(problem, Problem)
[link] = hit.evidence.dual_links
print(hit.id, hit.text[start:end], hit.explanation.parts[0].name, link.article.id, sep="\\n")
print(problem.code, problem.status)
print(filters.sync(client=client).filters["folder"][0])
"""

TYPESCRIPT = """
import createClient from "openapi-fetch";
import type { paths } from "./generated.d.ts";

const headers = { Authorization: `Bearer ${process.argv[3]}` };
const client = createClient<paths>({ baseUrl: process.argv[2], headers });
const body = { questions: ["red Mars"], k: 1, highlights: true, evidence: true, explain: true };
const hit = (await client.POST("/search", { body })).data!.answers[0].hits[0];
const [start, end] = hit.highlights![1];
const { error } = await client.POST("/search", { body: { questions: ["x"], pipeline: "bm52" } });
const code: "unknown_name" | string = error!.code;
const { data } = await client.GET("/filters");
const links = hit.evidence!.dual_links;
for (const line of [hit.id, hit.text.slice(start, end), hit.explanation!.parts[0].name, links[0].article.id])
  console.log(line);
console.log(code, error!.status);
console.log(data!.filters["folder"][0]);
"""


@pytest.fixture(scope="module")
def guarded(planets: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """With the description in a file, and a token."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "tokens").write_text(TOKEN)
    with running(index=[planets], pipeline="bm25", token_file=folder / "tokens") as client:
        described = client.get("/openapi.json", headers={"X-API-Key": TOKEN})
        (folder / "openapi.json").write_text(described.text)
        client.folder = folder  # type: ignore[attr-defined]
        yield client


def tool(name: str) -> Path:
    found = shutil.which(name)
    if not found:
        pytest.skip(f"{name} is not installed")
    return Path(found)


def run(*command: object, folder: Path) -> list[str]:
    done = subprocess.run([*map(str, command)], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_python(guarded: Client) -> None:
    generator, folder = tool("openapi-python-client"), guarded.folder  # type: ignore[attr-defined]
    options = ["generate", "--path", "openapi.json", "--output-path", "generated", "--meta", "none"]
    assert len(run(generator, *options, folder=folder)) == 1  # no warnings
    python = generator.read_text().partition("\n")[0].removeprefix("#!")  # which has what the client needs
    assert run(python, "-c", PYTHON, guarded.url, TOKEN, folder=folder) == EXPECTED


@pytest.mark.slow
def test_typescript(guarded: Client) -> None:
    """Checked, then run: npm install openapi-typescript openapi-fetch typescript@5 @types/node"""
    generator, compiler, node = map(tool, ("openapi-typescript", "tsc", "node"))
    folder = guarded.folder  # type: ignore[attr-defined]
    run(generator, "openapi.json", "-o", "generated.d.ts", folder=folder)
    (folder / "program.mts").write_text(TYPESCRIPT)
    (folder / "node_modules").symlink_to(generator.resolve().parents[2])
    types = ["--module", "nodenext", "--target", "es2022", "--strict", "--skipLibCheck", "--types", "node"]
    run(compiler, *types, "program.mts", folder=folder)
    assert run(node, "program.mjs", guarded.url, TOKEN, folder=folder) == EXPECTED


@pytest.mark.slow
@pytest.mark.parametrize(("program", "file"), [(sys.executable, "client.py"), ("node", "client.mjs")])
def test_samples(guarded: Client, program: str, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command = [tool(program), ROOT / "samples" / "clients" / file, "Which planet is red?"]
    monkeypatch.setenv("LINKSEEK_URL", guarded.url)
    refused = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300)
    assert refused.returncode == 1 and "needs a token" in refused.stderr
    monkeypatch.setenv("LINKSEEK_TOKEN", TOKEN)
    [first, *_] = run(*command, folder=ROOT)
    assert first.startswith("Mars: Mars is the red planet.")
