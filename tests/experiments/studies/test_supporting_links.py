"""python -m experiments supporting-links: counted by loops, and by hand on the films of hops."""

# ruff: noqa: F811 - fixtures of other files

from __future__ import annotations

import pytest

from experiments.studies.supporting_links import main, shares
from linkseek.indexer.index import OpenIndex
from tests.app.pipelines.test_hop_pipelines import FILMS, index, words  # noqa: F401 - fixtures


def test_shares_are_those_of_loops(index, capsys):
    opened = OpenIndex.open(index)
    relevant = [{0, 1}, {1, 3, 5}, set()]
    document = opened.passages.document_rows
    expected = [0, 0, 0.0]
    for rows in relevant:
        for link in range(len(opened.links)):
            source, target = int(document([opened.links.passage[link]])[0]), int(opened.links.target[link])
            if source in rows and target != source:
                expected[0] += 1
                expected[1] += target in rows
                expected[2] += (len(rows) - 1) / (len(opened.documents) - 1)
    assert shares(opened, relevant) == (expected[0], expected[1], pytest.approx(expected[2]))
    main(["--index", str(index), "--qrels", str(index.parent / "qrels.txt")])
    said = capsys.readouterr().out
    assert f"{FILMS:,} (" in said.partition("documents, ")[2]  # each film links to its maker, once
