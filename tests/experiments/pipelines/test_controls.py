"""Graphs in the place of links: each compared with its definition, and read by a fusion and by hops."""

# ruff: noqa: F811 - fixtures of other files

from __future__ import annotations

import json

import numpy as np
import pytest

from experiments.pipelines import controls
from linkseek.app.commands import train_fusion, train_hops
from linkseek.app.pipelines.catalogue import Pipelines
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import UsageError
from linkseek.retriever.learned.hop_graph import GRAPHS, open_edges
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.searchers import Bm25
from tests.app.commands.test_train_fusion import TABLE, index, trained  # noqa: F401 - fixtures
from tests.app.pipelines.test_hop_pipelines import index as films  # noqa: F401 - a fixture
from tests.app.pipelines.test_hop_pipelines import options as hop_options
from tests.app.pipelines.test_hop_pipelines import words  # noqa: F401 - a fixture


def test_a_control_reads_neighbours_by_bm25(index, trained, monkeypatch):
    monkeypatch.setattr("experiments.pipelines.controls._NEIGHBOURS", 3)  # of the five others
    options = ["--index", str(index), "--pipeline", "bm25", "--pipeline", "ql", "--folds", "2"]
    options += ["--mined", "4", "--neighbours", "bm25", "--output"]
    train_fusion.main([*options, str(trained / "control.json")])
    assert json.loads((trained / "control.json").read_text())["neighbours"] == "bm25"
    assert json.loads((trained / "fusion.json").read_text())["neighbours"] == "links"
    (trained / "control.toml").write_text(TABLE.replace("fusion.json", "control.json"))
    opened = OpenIndex.open(index)
    pipelines = Pipelines(opened, trained / "control.toml")
    assert pipelines.open("both")([Query("1", "the river of Oslo")], 3).rows.shape == (1, 3)
    graph, passages = pipelines.open("both").search._reader._links, opened.passages
    graph.check(trained, len(opened.documents), len(passages))
    leads = np.asarray(passages.offsets[:-1])
    for article, lead in enumerate(leads):
        results = Bm25(opened)([Query("1", passages[int(lead)].text)], len(passages)).results(0)
        similar = dict.fromkeys(passages.document_rows(np.array([row for row, _ in results])).tolist())
        expected = [other for other in similar if other != article][:3]
        assert graph.target[list(graph.from_passage(lead))].tolist() == expected and len(expected) == 3
        assert all(graph.target[link] == article for link in graph.to_document(article).tolist())
    with pytest.raises(UsageError, match="Omit --no-links"):
        train_fusion.main([*options, str(trained / "none.json"), "--no-links"])


@pytest.mark.parametrize("which", ["index", "films"])
def test_shuffled_links_keep_their_passages_anchors_and_degrees(which, request):
    opened = OpenIndex.open(request.getfixturevalue(which))
    links, shuffled = opened.links, controls.shuffled_graph(opened)
    shuffled.check(opened.path, len(opened.documents), len(opened.passages))
    assert (shuffled.target != links.target).any()
    assert np.bincount(shuffled.target).tolist() == np.bincount(links.target).tolist()
    for name in ("passage", "start", "end", "offsets"):
        assert np.array_equal(getattr(shuffled, name), getattr(links, name))
    for document in range(len(opened.documents)):
        assert shuffled.to_document(document).tolist() == np.flatnonzero(shuffled.target == document).tolist()
    edges = open_edges(opened, "shuffled", 100)
    for row in range(len(opened.passages)):
        own = int(opened.passages.document_rows(np.array([row]))[0])
        led = [int(shuffled.target[link]) for link in shuffled.from_passage(row)]
        assert [edge.document for edge in edges(row)] == [*dict.fromkeys(d for d in led if d != own)]


def test_trees_over_shuffled_links_have_the_same_features_and_gain_less(films):
    gains, names = {}, {}
    for graph in ("links", "shuffled", "bm25"):
        model_file = films.parent / f"{graph}.json"
        train_hops.main([*hop_options(films)[:-1], str(model_file), "--over", graph])
        model = json.loads(model_file.read_text())
        names[graph] = [name.replace(f"{graph}: ", "") for name in model["features"]]
        [figures] = model["trained"]["recall at 2, 5, 20 of held-out questions"].values()
        gains[graph] = figures["hops"][0] - figures["bm25"][0]
    assert names["links"] == names["shuffled"] == names["bm25"]
    assert gains["links"] > gains["shuffled"] + 0.1
    assert [GRAPHS[graph].does for graph in ("links", "bm25")] == ["link to", "are similar to"]
