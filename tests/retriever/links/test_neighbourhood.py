"""The topology around a document or a passage, compared with that of all links."""

from __future__ import annotations

import random

import numpy as np
import pytest

from linkseek.indexer.index import OpenIndex
from linkseek.retriever.links.neighbourhood import around_document, around_passage
from linkseek.retriever.links.topology import PassagePairs, Topology
from tests.support.tiny.linked import build_linked, random_pages


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    return build_linked(tmp_path_factory.mktemp("around") / "index", random_pages(), words=16)


@pytest.fixture(scope="module")
def whole(index: OpenIndex) -> Topology:
    return Topology(index.links, np.asarray(index.passages.offsets))


def rows(pairs: PassagePairs, mask: np.ndarray) -> list[tuple[int, ...]]:
    chosen = pairs[mask]
    columns = (chosen.query, chosen.positive, chosen.query_link, chosen.positive_link, chosen.shared_link)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


def test_around_a_document_all_pairs_with_its_queries(index: OpenIndex, whole: Topology) -> None:
    compared = 0
    for document in range(len(index.documents)):
        part = around_document(whole, document)
        first, last = index.passages.offsets[document : document + 2]
        for here, everywhere in (
            (part.dual_links(), whole.dual_links()),
            (part.co_mentions(), whole.co_mentions()),
        ):
            expected = rows(everywhere, (everywhere.query >= first) & (everywhere.query < last))
            assert rows(here, (here.query >= first) & (here.query < last)) == expected
            compared += len(expected)
    assert compared == len(whole.dual_links()) + len(whole.co_mentions()) > 100


def test_around_a_passage_all_pairs_on_either_side(index: OpenIndex, whole: Topology) -> None:
    duals, shared = whole.dual_links(), whole.co_mentions(every_shared=True)
    assert len(shared) > len(whole.co_mentions())
    for passage in range(len(index.passages)):
        part = around_passage(whole, passage)
        for here, everywhere in ((part.dual_links(), duals), (part.co_mentions(every_shared=True), shared)):
            for side in ("query", "positive"):
                masks = [getattr(pairs, side) == passage for pairs in (here, everywhere)]
                assert rows(here, masks[0]) == rows(everywhere, masks[1])


def test_in_degrees_are_those_of_the_whole_graph(whole: Topology) -> None:
    part = around_document(whole, 0)
    assert part.in_degree is whole.in_degree and part.in_degree_limit == whole.in_degree_limit
    assert len(part.link) < len(whole.link)


def test_the_incoming_links_can_be_limited(index: OpenIndex, whole: Topology) -> None:
    passage = random.Random(1).choice(whole.passage[whole.in_degree[whole.source] > 3].tolist())
    few = around_passage(whole, passage, max_incoming=1)
    assert len(few.link) < len(around_passage(whole, passage).link)
    assert set(few.link.tolist()) >= set(whole.link[whole.passage == passage].tolist())
