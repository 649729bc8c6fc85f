"""The benchmark of partitions, here and on a Ray cluster."""

import json

from benchmarks import partitions
from benchmarks.support.harness import SAMPLE, run
from linkseek.indexer.readers.choices import Choices


def test_partitions_are_compared_with_one_index(build, index_path, tmp_path, cluster, monkeypatch, capsys):
    monkeypatch.setattr(partitions, "LOCAL", cluster)
    build(corpus=SAMPLE, reading=Choices(limit=60), bm25=True, encoders=[])
    options = ["--index", str(index_path), "--json", "--output", str(tmp_path), "--pipelines", "bm25"]
    run(partitions.BENCHMARK, [*options, "--split", "2", "--questions", "4", "--warm-up", "1"])
    figures = {figure["name"]: figure for figure in json.loads(capsys.readouterr().out)["figures"]}
    for where in ("here", "Ray"):
        assert figures[f"{where}: bm25, p50"]["ratio"] > 0
        assert figures[f"{where}: bm25, results of both"]["ours"] == 100
    assert (tmp_path / "partitions.jsonl").is_file()
