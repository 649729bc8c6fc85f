"""Dual links and co-mentions against the definition, spelt out in loops."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import linkseek.retriever.links.topology as topology_module
from linkseek.indexer.index import OpenIndex
from linkseek.retriever.links.source import LinkSource
from linkseek.retriever.links.topology import PassagePairs
from linkseek.retriever.mining.miner import count_topologies
from tests.support.tiny.graphs import graphs, topology_from
from tests.support.tiny.index import built

Graph = tuple[list[int], list[tuple[int, int]]]
"""(passages of each document, links as (passage, target document) in reading order)"""


def brute_force(passages: list[int], links: list[tuple[int, int]]) -> tuple[dict, dict, int]:
    """{(query, positive): links} of both topologies, and K."""
    links = sorted(links, key=lambda link: link[0])
    owner = [d for d, count in enumerate(passages) for _ in range(count)]
    first: dict[tuple[int, int], int] = {}
    for number, (passage, target) in enumerate(links):
        if owner[passage] != target:
            first.setdefault((passage, target), number)
    pointing = [{owner[p] for p, t in first if t == d} for d in range(len(passages))]
    degrees = sorted(map(len, pointing))
    k = degrees[int(0.9 * len(degrees))]
    dual, shared = {}, {}
    for a, b in itertools.permutations(range(len(owner)), 2):
        if owner[a] == owner[b]:
            continue
        if (a, owner[b]) in first and (b, owner[a]) in first:
            dual[a, b] = (first[a, owner[b]], first[b, owner[a]], -1)
        if (b, owner[a]) not in first:
            continue
        both = [e for (p, e) in first if p == a and e != owner[b] and (b, e) in first]
        both = [e for e in both if len(pointing[e]) < k]
        if both:
            e = min(both, key=lambda e: first[a, e])
            shared[a, b] = (first[a, e], first[b, owner[a]], first[b, e])
    return dual, shared, k


def as_dict(pairs: PassagePairs) -> dict[tuple[int, int], tuple[int, int, int]]:
    links = zip(
        pairs.query_link.tolist(), pairs.positive_link.tolist(), pairs.shared_link.tolist(), strict=True
    )
    found = dict(zip(zip(pairs.query.tolist(), pairs.positive.tolist(), strict=True), links, strict=True))
    assert len(found) == len(pairs), "a pair of passages stands twice"
    return found


@settings(max_examples=300, deadline=None, derandomize=True)
@given(graphs(), st.sampled_from([1, 3, 1 << 22]))
def test_equal_to_the_definition(graph: Graph, block: int) -> None:
    dual, shared, k = brute_force(*graph)
    before = topology_module._BLOCK
    topology_module._BLOCK = block
    try:
        topology = topology_from(*graph)
        assert topology.in_degree_limit == k
        assert as_dict(topology.dual_links()) == dual
        assert as_dict(topology.co_mentions()) == shared
    finally:
        topology_module._BLOCK = before


def test_the_property_test_meets_both_kinds() -> None:
    generator = np.random.default_rng(3)
    passages = [2] * 12
    links = [(int(generator.integers(24)), int(generator.integers(12))) for _ in range(140)]
    dual, shared, _ = brute_force(passages, links)
    assert len(dual) > 20 and len(shared) > 20 and set(shared) - set(dual)
    topology = topology_from(passages, links)
    assert as_dict(topology.dual_links()) == dual
    assert as_dict(topology.co_mentions()) == shared


def test_hlps_figure_2() -> None:
    """A and B link to each other; C and D both mention E, and D mentions C."""
    a, b, c, d, e = range(5)
    rest = 15  # documents without links, so that the topmost tenth of in-degrees is above E's
    hubs = [(p, 5) for p in (a, b, c, d)] + [(p, 6) for p in (a, b, c, d)]
    links = [(a, b), (b, a), (c, e), (d, e), (d, c), *hubs]
    topology = topology_from([1] * (5 + rest), links)
    assert topology.in_degree[[a, b, c, e, 5]].tolist() == [1, 1, 1, 2, 4]
    assert topology.in_degree_limit == 4
    assert set(as_dict(topology.dual_links())) == {(a, b), (b, a)}
    assert set(as_dict(topology.co_mentions())) == {(c, d)}


def test_one_giant_hub_makes_no_pairs() -> None:
    count = 2000
    links = [(p, 0) for p in range(1, count)] + [(p, p % (count - 1) + 1) for p in range(1, count)]
    topology = topology_from([1] * count, links)
    assert len(topology.dual_links()) == 0
    assert len(topology.co_mentions()) == 0


@pytest.mark.parametrize("links", [[], [(0, 0), (1, 1)]])
def test_no_links_between_documents(links: list[tuple[int, int]]) -> None:
    topology = topology_from([1, 1], links)
    assert len(topology.dual_links()) == len(topology.co_mentions()) == 0
    assert topology.link_from_to(np.array([0]), np.array([1])).tolist() == [-1]


def topologies(index: OpenIndex) -> tuple[int, ...]:
    found = count_topologies(LinkSource(index).topology)
    return tuple(found[name] for name in ("dual_link", "co_mention", "co_mention_only", "k"))


@pytest.mark.realdata
def test_counts_on_wikipedia_for_schools(wikispeedia_index: Path) -> None:
    assert topologies(OpenIndex.open(wikispeedia_index)) == (20_882, 17_905, 16_079, 54)


@pytest.mark.realdata
def test_counts_on_a_wiki_of_manuals(shared_data: Path, tmp_path: Path) -> None:
    corpus = shared_data / "archwiki" / "docs.jsonl.zst"
    assert topologies(built(tmp_path / "i", corpus, bm25=False, min_words=0)) == (7_538, 2_377, 1_697, 15)
