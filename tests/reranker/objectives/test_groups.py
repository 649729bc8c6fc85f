"""The groups D1 to D4 against their definition, spelt out in loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from linkseek.reranker.objectives.link_groups import LinkGroups
from linkseek.retriever.links.source import LinkSource
from tests.support.tiny.graphs import Links, graphs, topology_from
from tests.support.tiny.index import built


def make(passages: list[int], links: Links) -> LinkGroups:
    return LinkGroups(topology_from(passages, links))


def brute_force(passages: list[int], links: Links) -> dict[tuple[int, int], int]:
    """{(segment, document): 1 to 4}, for all segments, those without an anchor too."""
    segments = [(d, n) for d, count in enumerate(passages) for n in range(count)]
    anchors: dict[tuple[int, int], set[int]] = {segment: set() for segment in segments}
    for passage, target in links:
        if segments[passage][0] != target:
            anchors[segments[passage]].add(target)
    found = {}
    for row, (d, n) in enumerate(segments):
        for t in set[int]().union(*(anchors[d, m] for m in range(passages[d]))):
            if t not in anchors[d, n]:
                found[row, t] = 4
                continue
            back = [m for m in range(passages[t]) if d in anchors[t, m]]
            if not back:
                found[row, t] = 3
            else:
                found[row, t] = 1 if min(back) == 0 else 2
    return found


def brute_force_counts(passages: list[int], links: Links) -> dict[str, int]:
    found = brute_force(passages, links)
    anchored = {row for (row, _), group in found.items() if group < 4}
    counts = {f"d{n}": sum(g == n and row in anchored for (row, _), g in found.items()) for n in range(1, 5)}
    return {"segments": len(anchored), **counts}


def groups_of(groups: LinkGroups, row: int) -> list[list[int]]:
    return [group.tolist() for group in groups.of_segment(row)]


@settings(max_examples=200, deadline=None)
@given(graphs())
def test_the_groups_are_those_of_the_definition(graph: tuple[list[int], Links]) -> None:
    passages, links = graph
    groups, expected = make(passages, links), brute_force(passages, links)
    for row in range(sum(passages)):
        wanted: list[list[int]] = [[], [], [], []]
        for (segment, target), group in sorted(expected.items()):
            if segment == row:
                wanted[group - 1].append(target)
        assert groups_of(groups, row) == wanted
    assert groups.counts() == brute_force_counts(passages, links)


def test_the_groups_by_hand() -> None:
    # Document 0 has passages 0 and 1, document 1 has 2 and 3, documents 2, 3, 4 have 4, 5, 6.
    # Passage 0 names 1, 2, 3; passage 1 names 4. 1 links back from its second passage, 2 from its
    # first and only one, 3 does not, and 4 does, but its anchor is in passage 1.
    groups = make([2, 2, 1, 1, 1], [(0, 1), (0, 2), (0, 3), (1, 4), (3, 0), (4, 0), (6, 0)])
    assert groups_of(groups, 0) == [[2], [1], [3], [4]]
    assert groups_of(groups, 1) == [[4], [], [], [1, 2, 3]]
    assert groups.elsewhere().tolist() == [1, 1, 1, 3, 0, 0, 0]
    assert groups.counts() == {"segments": 5, "d1": 4, "d2": 2, "d3": 1, "d4": 4}


def test_the_first_link_back_decides_if_there_are_several() -> None:
    assert groups_of(make([1, 2], [(0, 1), (1, 0), (2, 0)]), 0) == [[1], [], [], []]
    assert groups_of(make([1, 3], [(0, 1), (2, 0), (3, 0)]), 0) == [[], [1], [], []]


def test_no_links() -> None:
    groups = make([1, 1], [(0, 0)])
    assert groups_of(groups, 0) == [[], [], [], []]
    assert groups.counts() == {"segments": 0, "d1": 0, "d2": 0, "d3": 0, "d4": 0}


@pytest.mark.realdata
def test_counts_on_a_real_corpus(shared_data, tmp_path) -> None:
    archwiki = shared_data / "archwiki/docs.jsonl.zst"
    source = LinkSource(built(tmp_path / "i", archwiki, bm25=False, min_words=0))
    graph, offsets = source.index.links, np.asarray(source.index.passages.offsets)
    links = list(zip(graph.passage.tolist(), graph.target.tolist(), strict=True))
    found = LinkGroups(source.topology).counts()
    assert found == {"segments": 9_451, "d1": 3_069, "d2": 1_735, "d3": 12_784, "d4": 302_087}
    assert found == brute_force_counts(np.diff(offsets).tolist(), links)
