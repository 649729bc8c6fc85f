"""python -m experiments links-field: what links say of articles, and rankings that count it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.studies import links_field as script
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.search.lucene_index import LuceneIndex
from linkseek.indexer.search.lucene_writer import build_lucene
from linkseek.retriever.ranking import Query, Ranking
from tests.support.tiny.index import built
from tests.support.tiny.linked import document

ROWS = [
    document("Paris", "The river [Seine] flows here. A [muddy water|Seine] it is. The [Seine]."),
    document("Seine", "It is long. It flows through [the capital|Paris]."),
    document("Rome", "Nothing leads here, and the river is the Tiber."),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("links_field") / "index", ROWS).path


def test_what_links_say(index):
    opened = OpenIndex.open(index)
    assert [*script.link_texts(opened, "anchors")] == [
        ("0", "", "the capital"),
        ("1", "", "Seine muddy water Seine"),
    ]
    assert [*script.link_texts(opened, "sentences")] == [
        ("0", "", "It flows through the capital."),
        ("1", "", "The river Seine flows here. A muddy water it is. The Seine."),
    ]


def test_the_weight_of_what_links_say(index, tmp_path):
    """Scaled scores 1, .9 and 0; only the anchors of the Seine hold a word of the question: theirs is 1."""
    opened = OpenIndex.open(index)
    build_lucene(script.link_texts(opened, "anchors"), tmp_path / "lucene", index_title=False, threads=1)
    texts = {"anchors": LuceneIndex(tmp_path / "lucene")}
    queries = [Query("1", "muddy", answers=("It is long",))]
    ranking = Ranking.of(("1",), np.array([[0, 1, 2]]), np.array([[2.0, 1.9, 1.0]]))
    questions = script.Questions(opened, queries, ranking, texts)
    assert questions.answered().tolist() == [[0, 1]]
    for place in script.PLACES:
        assert questions.answered(("anchors", place, 0.2)).tolist() == [[1, 1]]
        assert questions.answered(("anchors", place, 0.05)).tolist() == [[0, 1]]
        assert questions.answered((script.CONTROL, place, 0.2)).tolist() == [[0, 1]]


def test_the_table(index, tmp_path, capsys):
    questions = tmp_path / "q.jsonl"
    questions.write_text('{"id": "1", "question": "muddy water", "answers": ["river"]}\n')
    files = ["--dev", str(questions), "--test", str(questions)]
    script.main(["--index", str(index), *files])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| pipeline | links say | q |" and len(lines) == 7
    assert lines[2] == "| `bm25` |  | 100.0 / 100.0 |"
    assert lines[-1] == "| | links - control | +0.0 (p = 1.000) / +0.0 (p = 1.000) |"
