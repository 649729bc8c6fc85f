"""The link graph against a plain reading of the documents, link by link."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from linkseek.indexer import links
from linkseek.indexer.documents import REDIRECT_SCHEMA, Document, Link
from linkseek.indexer.links import LinkGraph, build_links, resolve_redirects
from linkseek.indexer.passages import Cutting, split_document
from linkseek.indexer.store.tables import Table, TableWriter
from tests.support.tiny.corpus import store_documents, store_passages

Redirects = dict[str, str]
Edge = tuple[int, int, int, int]  # passage row, start, end, target row


def entries(
    folder: Path, documents: list[Document], redirects: Redirects, words: int, *more: Any
) -> dict[str, Any]:
    store, ids = store_documents(folder, documents)
    passages = store_passages(folder, documents, ids, words)
    with TableWriter(folder / "redirects.arrow", REDIRECT_SCHEMA) as writer:
        for id_, target in redirects.items():
            writer.write({"id": id_, "target": target})
    table = Table([folder / "redirects.arrow"], REDIRECT_SCHEMA)
    return build_links(folder, store, table, ids, passages, *more)


def build(folder: Path, *corpus: Any) -> tuple[LinkGraph, dict[str, int]]:
    counts = entries(folder, *corpus)["counts"]
    return LinkGraph.open(folder), counts


def test_targets_that_do_not_exist_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("linkseek.indexer.links._MAX_MISSING", 4)
    targets = ["a", *"xyxzx", *"1234567"]
    links = tuple(Link(n, n + 1, target) for n, target in enumerate(targets))
    made = entries(tmp_path, [Document("a", "A", "w " * 20, links)], {}, 100)
    assert made["counts"]["dangling"] == 12
    assert made["dangling_targets"][0] == "x (3)"


def resolve_twin(target: str, documents: list[str], redirects: Redirects) -> int:
    """Hop by hop: the row of a document, or -1 for nothing or a loop. Documents win over redirects."""
    seen = set()
    while target not in documents:
        if target in seen or target not in redirects:
            return -1
        seen.add(target)
        target = redirects[target]
    return documents.index(target)


def links_twin(
    documents: list[Document], redirects: Redirects, words: int
) -> tuple[list[Edge], Counter[str]]:
    ids = [document.id for document in documents]
    edges, counts, first = [], Counter(), 0
    for row, document in enumerate(documents):
        passages = split_document(document, Cutting(words))
        for link in document.links:
            target = resolve_twin(link.target, ids, redirects)
            holds = [n for n, p in enumerate(passages) if p.start <= link.start and link.end <= p.end]
            if target < 0:
                counts["dangling"] += 1
            elif not holds:
                counts["cut"] += 1
            else:
                shift = passages[holds[0]].start
                edges.append((first + holds[0], link.start - shift, link.end - shift, target))
                counts["links"] += 1
                counts["between_documents"] += target != row
        first += len(passages)
    for id_ in redirects:
        found = resolve_twin(redirects[id_], ids, redirects) >= 0
        counts["resolved_redirects" if found else "dangling_redirects"] += 1
    return edges, counts


IDS = [f"d{n}" for n in range(5)]
NAMES = [*IDS, *(f"r{n}" for n in range(12)), "nothing"]


@st.composite
def corpora(draw: st.DrawFn) -> tuple[list[Document], Redirects, int]:
    documents = []
    for id_ in IDS[: draw(st.integers(1, 5))]:
        text = draw(st.text(st.sampled_from("ab é\n"), max_size=40))
        spans = draw(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)), max_size=8))
        inside = sorted((start, start + length) for start, length in spans if start + length <= len(text))
        links = tuple(Link(start, end, draw(st.sampled_from(NAMES))) for start, end in inside)
        documents.append(Document(id_, draw(st.sampled_from(["", "T"])), text, links))
    redirects = draw(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(NAMES), max_size=15))
    return documents, redirects, draw(st.integers(0, 4))


@given(corpora())
@example(([Document("d0", "", "")], {}, 1))
@settings(max_examples=200, deadline=None)
def test_the_graph_equals_a_plain_reading(tmp_path_factory, corpus):
    documents, redirects, words = corpus
    graph, counts = build(tmp_path_factory.mktemp("links"), documents, redirects, words)
    edges, expected = links_twin(documents, redirects, words)

    columns = (graph.passage, graph.start, graph.end, graph.target)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == edges
    assert len(graph) == len(edges)
    assert counts == {name: expected[name] for name in counts}
    assert set(expected) <= set(counts)

    passages = [p for document in documents for p in split_document(document, Cutting(words))]
    for row in range(len(passages)):
        assert [edges[link][0] for link in graph.from_passage(row)] == [row] * len(graph.from_passage(row))
    assert sum(len(graph.from_passage(row)) for row in range(len(passages))) == len(edges)
    for row in range(len(documents)):  # incoming is the transpose
        assert graph.to_document(row).tolist() == [n for n, edge in enumerate(edges) if edge[3] == row]


def test_an_anchor_is_found_in_its_passage():
    """Not vacuous: the twin above finds links of every kind in this corpus."""
    links = (Link(2, 5, "b"), Link(2, 9, "b"), Link(6, 9, "r"), Link(10, 15, "?"))
    documents = [
        Document("a", "", "x one two three", links),
        Document("b", "", ""),
        Document("c", "", "me", (Link(0, 2, "c"),)),
    ]  # fmt: skip
    edges, counts = links_twin(documents, {"r": "s", "s": "c", "t": "t"}, 2)
    assert edges == [(0, 2, 5, 1), (1, 0, 3, 2), (2, 0, 2, 2)]
    assert counts == Counter(
        links=3, between_documents=2, cut=1, dangling=1, resolved_redirects=2, dangling_redirects=1
    )


@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 20])
def test_chains_of_redirects_are_followed(tmp_path, length):
    chain = {f"r{n}": f"r{n + 1}" for n in range(length - 1)} | {f"r{length - 1}": "d"}
    loop = {"x": "y", "y": "z", "z": "x"}
    documents = [Document("d", "", "a b", (Link(0, 1, "r0"), Link(2, 3, "x")))]
    graph, counts = build(tmp_path, documents, chain | loop, 5)
    assert graph.target.tolist() == [0]
    assert counts["resolved_redirects"] == length
    assert counts["dangling_redirects"] == 3
    assert counts["dangling"] == 1


def test_resolving_leads_from_documents_and_redirects_to_rows(tmp_path):
    _, ids = store_documents(tmp_path, [Document("a", "", ""), Document("b", "", "")])
    with TableWriter(tmp_path / "r", REDIRECT_SCHEMA) as writer:
        for id_, target in {"r": "b", "a": "b", "lost": "nothing"}.items():
            writer.write({"id": id_, "target": target})
    table, counts = resolve_redirects(Table([tmp_path / "r"], REDIRECT_SCHEMA), ids)
    assert [table.row(id_) for id_ in ("a", "b", "r", "lost")] == [0, 1, 1, -1]  # the document a wins
    assert counts == {"resolved_redirects": 2, "dangling_redirects": 1}


@pytest.mark.parametrize(("at_once", "block"), [(1, 1), (3, 2), (7, 100), (1000, 5)])
def test_links_are_sorted_by_target_piece_by_piece(tmp_path, monkeypatch, at_once, block):
    """300 links to 20 documents, half of them to one, which has more than fit in a piece."""
    monkeypatch.setattr(links, "_SORTED_LINKS", at_once)
    monkeypatch.setattr(links, "_BLOCK_LINKS", block)
    draw = random.Random(1)
    names = [f"d{n}" for n in range(20)]
    documents = [
        Document(name, "", "word " * 15, tuple(
            Link(5 * n, 5 * n + 4, "d3" if draw.random() < 0.5 else draw.choice(names)) for n in range(15)
        ))
        for name in names
    ]  # fmt: skip
    done: list[float] = []
    graph, counts = build(tmp_path, documents, {}, 4, done.append)
    assert counts["links"] == len(graph) == 300 and sum(done) == 20
    np.testing.assert_array_equal(graph.incoming, np.argsort(graph.target, kind="stable"))
    assert np.diff(graph.incoming_offsets).tolist() == np.bincount(graph.target, minlength=20).tolist()
    np.save(tmp_path / "twin.npy", np.argsort(graph.target, kind="stable").astype(np.int32))
    assert (tmp_path / "incoming.npy").read_bytes() == (tmp_path / "twin.npy").read_bytes()


def test_the_files_are_arrays_that_numpy_reads(tmp_path):
    documents = [Document("a", "", "one two", (Link(0, 3, "b"), Link(4, 7, "b"))), Document("b", "", "c")]
    build(tmp_path, documents, {}, 1)
    written = {path.stem: np.load(path) for path in tmp_path.glob("*.npy")}
    documented = re.findall(r"(\w+)\.npy", LinkGraph.open.__globals__["__doc__"])
    assert sorted(written) == sorted(documented)
    assert written["target"].tolist() == [1, 1]
    assert written["offsets"].tolist() == [0, 1, 2, 2]
    assert written["incoming_offsets"].tolist() == [0, 0, 2]
    assert {name: str(array.dtype) for name, array in written.items()} == {
        "target": "int32", "passage": "int32", "start": "int32", "end": "int32", "offsets": "int64",
        "incoming": "int32", "incoming_offsets": "int64",
    }  # fmt: skip
