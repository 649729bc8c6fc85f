"""What other programs call or read: MTEB, LangChain, LlamaIndex, TIRA, and readers of ir_metadata."""

from __future__ import annotations

import gzip
import json
import runpy
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.retriever.search.runs import read_run
from tests.support.command import ROOT

CORPUS = [
    {"id": "d1", "title": "Mars", "text": "Mars is the red planet."},
    {"id": "d2", "title": "Venus", "text": "Venus is the hottest planet. " + "It is very hot there. " * 60},
    {"id": "d3", "text": "Whales sing, and are no planet."},
]
QUERIES = [
    {"id": "q1", "text": "red planet"},
    {"id": "q2", "text": "whales " * 2_000},
    {"id": "q3", "text": " "},
]
MtebSearch = runpy.run_path(str(ROOT / "samples" / "clients" / "mteb_search.py"))["MtebSearch"]
TASK = types.SimpleNamespace(name="Made up/task")


def run_task(model: Any, **options: Any) -> dict[str, dict[str, float]]:
    """A retrieval task as MTEB runs it."""
    where = {
        "task_metadata": TASK,
        "hf_split": "test",
        "hf_subset": "default",
        "encode_kwargs": {},
        "num_proc": 1,
    }
    model.index(CORPUS, **where)
    return model.search(QUERIES, **where, **options)


def test_mteb_searches_by_any_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    with pytest.raises(UsageError, match="no index"):
        MtebSearch(tmp_path).search(QUERIES, top_k=1)
    results = run_task(MtebSearch(tmp_path / "a"), top_k=2, top_ranked=None)
    assert [list(results[query]) for query in ("q1", "q2", "q3")] == [["d1", "d3"], ["d3"], []]
    assert results["q1"]["d1"] > results["q1"]["d3"] > 0
    ranked = run_task(MtebSearch(tmp_path / "a"), top_k=2, top_ranked={"q1": ["d2", "d3"], "q2": []})
    assert set(ranked["q1"]) == {"d2", "d3"} and ranked["q2"] == {}
    split = run_task(MtebSearch(tmp_path / "b", "ql", passage_words=20), top_k=3)
    assert sorted(split["q1"]) == ["d1", "d2", "d3"]  # d2 once, although many of its passages match
    assert len(list((tmp_path / "a").iterdir())) == 1


# --- the samples, with the interfaces that they are written for --------------------------------------


class BaseRetriever:
    """The part of LangChain's and LlamaIndex's base classes that a retriever meets."""

    def __init__(self, **fields: Any) -> None:
        for name, value in fields.items():
            setattr(self, name, value)

    def invoke(self, query: str) -> Any:
        return self._get_relevant_documents(query, run_manager=None)  # type: ignore[attr-defined]

    def retrieve(self, query: str) -> Any:
        return self._retrieve(types.SimpleNamespace(query_str=query))  # type: ignore[attr-defined]


class Record(types.SimpleNamespace):
    """`Document`, `TextNode` and `NodeWithScore`, which take keywords."""


def example(name: str) -> type:
    """The retriever of a sample, whose imports are those of the test."""
    space = runpy.run_path(str(ROOT / "samples" / "clients" / f"{name}_retriever.py"))
    retriever: type = space["LinkseekRetriever"]
    return retriever


@pytest.fixture
def served_answer(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    asked: list[Any] = []

    class Answer:
        @staticmethod
        def json() -> Any:
            return {"answers": [{"hits": [{"id": "Mars#0", "text": "The red planet.", "score": 2.5}]}]}

        ok = True

    def post(url: str, json: Any, headers: Any, timeout: float) -> Answer:
        asked.append((url, json))
        return Answer()

    monkeypatch.setattr("requests.post", post)
    return asked


def install(monkeypatch: pytest.MonkeyPatch, modules: dict[str, dict[str, Any]]) -> None:
    for name, names in modules.items():
        module = types.ModuleType(name)
        module.__dict__.update(names)
        monkeypatch.setitem(sys.modules, name, module)


def test_langchain(monkeypatch: pytest.MonkeyPatch, served_answer: list[Any]) -> None:
    install(monkeypatch, {
        "langchain_core": {}, "langchain_core.documents": {"Document": Record},
        "langchain_core.retrievers": {"BaseRetriever": BaseRetriever},
    })  # fmt: skip
    [document] = example("langchain")().invoke("red?")
    found = document.page_content, document.metadata["id"], document.metadata["score"]
    assert found == ("The red planet.", "Mars#0", 2.5)
    assert served_answer[0][1]["questions"] == ["red?"]


def test_llama_index(monkeypatch: pytest.MonkeyPatch, served_answer: list[Any]) -> None:
    install(monkeypatch, {
        "llama_index": {}, "llama_index.core": {},
        "llama_index.core.retrievers": {"BaseRetriever": BaseRetriever},
        "llama_index.core.schema": {"NodeWithScore": Record, "TextNode": Record},
    })  # fmt: skip
    [found] = example("llama_index")().retrieve("red?")
    assert (found.score, found.node.id_, found.node.text) == (2.5, "Mars#0", "The red planet.")


# --- files ------------------------------------------------------------------------------------------


def test_ir_metadata_at_the_head_of_a_run_is_skipped(tmp_path: Path) -> None:
    run = b"1 Q0 a#0 1 2.5 bm25\n"
    (tmp_path / "plain.trec").write_bytes(run)
    head = b"# ir_metadata.start\n# schema version: '0.2'\n"
    (tmp_path / "head.trec").write_bytes(head + b"# ir_metadata.end\n" + run)
    assert read_run(tmp_path / "head.trec") == read_run(tmp_path / "plain.trec")
    (tmp_path / "cut.trec").write_bytes(head)
    with pytest.raises(InputError, match="empty"):
        read_run(tmp_path / "cut.trec")


def test_tira(tmp_path: Path) -> None:
    data, output = tmp_path / "input", tmp_path / "output"
    data.mkdir()
    with gzip.open(data / "documents.jsonl.gz", "wt") as file:
        file.writelines(json.dumps({"docno": row["id"], "text": row["text"]}) + "\n" for row in CORPUS)
    (data / "queries.jsonl").write_text(
        '{"qid": "q1", "query": "red planet"}\n{"qid": "q2", "query": "whales"}\n'
    )
    tira = runpy.run_path(str(ROOT / "samples" / "clients" / "tira.py"))
    tira["main"](["--input", str(data), "--output", str(output), "-k", "2"])
    run = read_run(output / "run.txt")
    assert {query: list(found) for query, found in run.items()} == {"q1": ["d1", "d3"], "q2": ["d3"]}
