"""Runs of other systems as rankings: looked up by query id, in the rows of an index."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from experiments.pipelines.recorded_runs import RecordedRun
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.store.ids import IdTable, hash_ids
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.fusion import reciprocal_rank

PASSAGES = {"a#0": 0, "a#1": 1, "New York#0": 2, "b#0": 3}
DOCUMENTS = {"a": 0, "New York": 1, "b": 2}


def index(passages=PASSAGES, documents=DOCUMENTS):
    return SimpleNamespace(
        passages=SimpleNamespace(rows_of=lambda ids: np.array([passages.get(i, -1) for i in ids], np.int64)),
        document_ids=IdTable.build(hash_ids(documents), np.array([*documents.values()])),
    )


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "other.trec"
    path.write_text(text, "utf-8")
    return path


def queries(*ids):
    return [Query(id_, "unread") for id_ in ids]


def test_results_by_query_id(tmp_path):
    path = write(
        tmp_path, "q%201 Q0 b#0 1 9.5 t\nq%201 Q0 New%20York#0 2 7 t\n2 Q0 a#1 1 1 t\nq%201 Q0 a#0 3 6 t\n"
    )
    run = RecordedRun(index(), path)
    ranking = run(queries("2", "none", "q 1", "2"), 2)
    assert ranking.query_ids == ("2", "none", "q 1", "2")
    assert ranking.rows.tolist() == [[1, -1], [-1, -1], [3, 2], [1, -1]]
    assert ranking.scores.tolist() == [[1, -np.inf], [-np.inf] * 2, [9.5, 7], [1, -np.inf]]
    assert run(queries("q 1"), 5).rows.tolist() == [[3, 2, 0, -1, -1]]


def test_unknown_ids_are_dropped_and_counted(tmp_path, capsys):
    text = "1 Q0 gone#0 1 3 t\n1 Q0 a#0 2 2 t\n2 Q0 gone#0 1 1 t\n2 Q0 gone#1 2 .5 t\n"
    run = RecordedRun(index(), write(tmp_path, text))
    assert run(queries("1", "2"), 2).rows.tolist() == [[0, -1], [-1, -1]]
    assert "2 ids are not in the index" in capsys.readouterr().err


def test_escapes_of_other_tools_are_a_part_of_their_ids(tmp_path):
    """Ids that are addresses hold %20 themselves, and other tools write them as they are."""
    named = index({"x/a%20b": 0, "x/a": 1, "100%25": 2}, {"x/a%20b": 0, "x/a": 1, "100%25": 2})
    text = "1 Q0 x/a%20b 1 3 t\n1 Q0 100%25 2 2 t\n1 Q0 x/a%2520b 3 1 t\n1 Q0 x/a 4 .5 t\n"
    run = RecordedRun(named, write(tmp_path, text))
    assert run(queries("1"), 3).rows.tolist() == [[0, 2, 1]]


def test_two_ids_of_one_row_count_once(tmp_path):
    """Where documents are passages, a redirect's id is a second name: fusion must not add both."""
    named = index({"a": 0, "A.": 0, "b": 1}, {"a": 0, "A.": 0, "b": 1})
    run = RecordedRun(named, write(tmp_path, "1 Q0 A. 1 3 t\n1 Q0 a 2 2 t\n1 Q0 b 3 1 t\n"))
    ranking = run(queries("1"), 3)
    assert ranking.results(0) == [(0, 3.0), (1, 1.0)]
    assert reciprocal_rank([ranking], 3, 0).results(0) == [(0, 1.0), (1, 0.5)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 Q0 a 1 2 t\n1 Q0 b 2 1 t\n1 Q0 a#0 3 0 t\n", "ranks documents (such as 'a')"),
        ("1 Q0 x 1 2 t\n", "none of its ids (such as 'x') is a passage of the index"),
    ],
)
def test_runs_that_do_not_work(tmp_path, text, message):
    path = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        RecordedRun(index(), path)
    assert str(path) in caught.value.message
    assert message in caught.value.message
    assert caught.value.hint
