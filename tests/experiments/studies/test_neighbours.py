"""python -m experiments neighbours: its table, of an index that is really built."""

from __future__ import annotations

from experiments.studies import neighbours as script
from tests.experiments.studies.test_links_field import ROWS
from tests.support.tiny.encoder import FakeEncoder
from tests.support.tiny.index import built


def test_the_table(tmp_path, monkeypatch, capsys):
    """BM25 finds Paris by "muddy", with a budget of 1 nothing else, with 8 the Seine that it links to."""
    built(tmp_path / "index", ROWS, encoders=["fake"])
    monkeypatch.setattr(script, "open_biencoder", lambda location: FakeEncoder(location))
    questions = tmp_path / "q.jsonl"
    questions.write_text('{"id": "1", "question": "muddy water", "answers": ["It is long"]}\n')
    index = ["--index", str(tmp_path / "index"), "--encoder", "fake"]
    script.main([*index, "--queries", str(questions), "--budget", "1", "8"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "| q, 1 | @1 | @5 | @20 |"
    assert [line.split(" |")[0] for line in lines[3:9]] == [
        f"| {budget}, {kind}" for budget in (1, 8) for kind in script.KINDS
    ]
    at_20 = [line.split("|")[-2].strip() for line in lines[3:9]]
    assert at_20 == ["0.0", "0.0", "0.0", "0.0", "100.0", at_20[5]]
    assert lines[-2].startswith("| 1, links - bm25 |") and lines[-1].startswith("| 8, links - bm25 |")
