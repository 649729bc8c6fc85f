"""Hops by the rule: compared with a loop over all links, and as a kind of pipeline."""

# ruff: noqa: F811 - fixtures of other files

from __future__ import annotations

import numpy as np
import pytest

from experiments.pipelines.rule_hops import RuleHops
from linkseek.app.pipelines.catalogue import Pipelines
from linkseek.app.pipelines.open_models import Models
from linkseek.indexer.index import OpenIndex
from linkseek.retriever.learned.hop_graph import Articles, open_edges
from linkseek.retriever.ranking import Query, Step
from linkseek.testing import check_pipeline
from tests.app.pipelines.test_hop_pipelines import corpus
from tests.retriever.learned.test_hops import QUERIES, dense, index, similarity  # noqa: F401 - fixtures
from tests.support.tiny.index import WordEncoder, built

TABLES = """
[hop]
hop = "rule"
of = "bm25"
depth = 10
[hop-two]
hop = "rule"
of = "bm25"
depth = 10
steps = 2
[hop-both]
hop = "rule"
of = "bm25"
depth = 10
over = ["links", "bm25"]
[fused]
fusion = "weighted"
of = ["hop", "bm25"]
weights = [0.9, 0.1]
"""


def by_loops(index, first, sources, share, steps):
    """Scores and paths of one question after the rule, from the definition."""
    document = index.passages.document_rows
    results = first.results(0)
    low, high = results[-1][1], results[0][1]
    own = {row: (score - low) / (high - low) for row, score in results}
    scores, paths, done = dict(own), {}, set()
    best_of = {}
    for row, _ in results:
        best_of.setdefault(int(document(np.array([row]))[0]), row)
    for _ in range(steps):
        before, paths_before = dict(scores), dict(paths)
        for source in sorted(before, key=lambda row: (-before[row], row))[:sources]:
            if source in done:
                continue
            done.add(source)
            for link in index.links.from_passage(source):
                target = int(index.links.target[link])
                if target == int(document(np.array([source]))[0]) or target not in best_of:
                    continue
                row = best_of[target]
                new = share * before[source] + (1 - share) * own[row]
                if new > scores[row]:
                    scores[row], paths[row] = new, (*paths_before.get(source, ()), Step(source, link))
    return scores, paths


@pytest.mark.parametrize("steps", [1, 2])
def test_the_rule_is_that_of_loops(index, similarity, steps):
    count = len(index.passages)
    hops = RuleHops(
        dense(index),
        [open_edges(index, "links", 100)],
        Articles(index, similarity),
        similarity,
        depth=count,
        sources=4,
        share=0.6,
        steps=steps,
    )
    ranking, first = hops(QUERIES, count), dense(index)(QUERIES, count)
    moved = 0
    for number in range(len(QUERIES)):
        scores, paths = by_loops(index, first.query(number), 4, 0.6, steps)
        expected = sorted(scores, key=lambda row: (-np.float32(scores[row]), row))
        assert ranking.rows[number].tolist() == expected
        assert ranking.paths[number] == paths
        assert ranking.rows[number, 0] == first.rows[number, 0]  # the first result stays the first
        moved += len(paths)
        assert any(len(path) == 2 for path in paths.values()) <= (steps == 2)
    assert moved > 5
    alone = [hops([query], count) for query in QUERIES]
    assert [one.rows[0].tolist() for one in alone] == ranking.rows.tolist()


def test_a_passage_beyond_the_first_stage_is_the_most_similar_of_its_article(index, similarity):
    first = dense(index, depth=3)(QUERIES[:1], 3)
    hops = RuleHops(
        dense(index, depth=3),
        [open_edges(index, "links", 100)],
        Articles(index, similarity),
        similarity,
        depth=3,
        sources=3,
    )
    ranking = hops(QUERIES[:1], 20)
    held = set(first.rows[0].tolist())
    new = [row for row, _ in ranking.results(0) if row not in held]
    assert new
    question = WordEncoder().encode_queries([QUERIES[0].text])[0]
    for row in new:
        [step] = ranking.path(0, row)
        document = int(index.passages.document_rows(np.array([row]))[0])
        assert step.source in held
        assert index.links.target[step.link] == document
        rows = np.arange(*index.passages.offsets[document : document + 2])
        assert row == rows[np.argmax(index.vectors_of(rows) @ question)]


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    folder = tmp_path_factory.mktemp("films")
    built(folder / "index", corpus(), passage_words=0, encoders=["words"])
    (folder / "p.toml").write_text(TABLES)
    return folder


def opened(folder, index=None):
    whole = OpenIndex.open(folder / "index")
    return Pipelines(index or whole, folder / "p.toml", Models(lambda location: WordEncoder()))


def ids(pipelines, name, k=3):
    ranking = pipelines.open(name)([Query("1", "the film Number3")], k)
    return pipelines.index.passages.ids([row for row, _ in ranking.results(0)])


@pytest.mark.parametrize("name", ["hop", "hop-two", "hop-both", "fused"])
def test_the_parts_of_scores_add_up(films, name):
    for question in ("the film Number3", "tea", "Where was the maker of the film Number5 born?"):
        check_pipeline(opened(films).open(name), opened(films).index, question, 10)


def test_an_index_without_vectors(films, tmp_path):
    pipelines = Pipelines(built(tmp_path / "index", corpus(), passage_words=0), films / "p.toml")
    assert "hop" in pipelines.available() and ids(pipelines, "hop", 2) == ["Film3", "Maker3"]
