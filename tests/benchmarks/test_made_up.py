"""The made-up wiki: readable, always the same, and of Wikipedia's shape."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.made_up import EXPONENT, in_degree_ranks, write_wiki
from linkseek.indexer.documents import Document, Redirect
from linkseek.indexer.readers.formats import open_reader

ARTICLES = 1200


@pytest.fixture(scope="module")
def wiki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made_up") / "wiki.xml"
    write_wiki(path, ARTICLES)
    return path


@pytest.fixture(scope="module")
def pages(wiki: Path) -> list[Document | Redirect]:
    found = list(open_reader(wiki).documents())
    assert all(isinstance(page, Document | Redirect) for page in found)
    return found  # type: ignore[return-value]


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
    again = tmp_path / "again.jsonl.zst"
    write_wiki(again, ARTICLES)
    assert again.read_bytes() == path.read_bytes()


def test_articles_are_short_and_linked(pages):
    documents = [page for page in pages if isinstance(page, Document)]
    words = [len(document.text.split()) for document in documents]
    assert min(words) >= 60 and max(words) < 220 and 120 < np.mean(words) < 145
    links = [len(document.links) for document in documents]
    assert 10 < np.mean(links) < 12.6 and max(links) <= 15  # two on one word count once
    assert all(document.sections[0].heading == "History" for document in documents)
    ids = {page.id for page in pages}
    assert len(ids) == len(pages) and len(documents) == ARTICLES == 2 * (len(pages) - ARTICLES)
    dangling = [link.target not in ids for document in documents for link in document.links]
    assert 0.03 < np.mean(dangling) < 0.07
    through = [link.target.endswith("_(alias)") for document in documents for link in document.links]
    assert 0.07 < np.mean(through) < 0.13


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
