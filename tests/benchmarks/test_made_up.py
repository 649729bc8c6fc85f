"""The made-up wiki: readable, always the same, and of Wikipedia's shape."""

from __future__ import annotations

from hashlib import sha256

import numpy as np
import pytest

from benchmarks.made_up import EXPONENT, in_degree_ranks, write_wiki
from linkseek.indexer.readers.formats import open_reader

ARTICLES = 1200


def test_the_bytes_are_those_that_records_rest_on(tmp_path):
    """Dangling links, redirects and sections included; as JSON lines the same text is read below."""
    write_wiki(tmp_path / "wiki.xml", 300)
    made = sha256((tmp_path / "wiki.xml").read_bytes()).hexdigest()
    assert made == "562e1399fbed7fd037c0426626f32e123df7308de144efaa3354498e8ab2902c"


def test_as_lines_of_json_it_is_read_with_links_at_words(tmp_path):
    path = tmp_path / "wiki.jsonl.zst"
    write_wiki(path, ARTICLES)
    documents = list(open_reader(path, "jsonl").documents())
    assert len(documents) == len({page.id for page in documents}) == ARTICLES
    assert all(60 <= len(document.text.split()) <= 200 for document in documents)
    links = [link for document in documents for link in document.links]
    assert 10 < len(links) / ARTICLES < 12.6
    assert {link.target for link in links} <= {document.id for document in documents}
    for document in documents[:20]:
        words = set(document.text.rstrip(".").split())
        assert all(document.text[link.start : link.end] in words for link in document.links)


def test_the_in_degree_is_a_power_law_with_hubs():
    articles = 500_000
    ranks = in_degree_ranks(np.random.default_rng(0), 12 * articles, articles)
    degrees = np.sort(np.bincount(ranks, minlength=articles))[::-1]
    assert ranks.min() == 0 and ranks.max() < articles
    assert 100_000 < degrees[0] < 500_000
    assert np.median(degrees) < 5
    # Of a power law with exponent g, the share of articles with at least d links falls as d^(1 - g).
    at_least = [np.searchsorted(-degrees, -d, side="right") for d in (50, 5000)]
    slope = np.log(at_least[1] / at_least[0]) / np.log(100)
    assert slope == pytest.approx(1 - EXPONENT, abs=0.1)
