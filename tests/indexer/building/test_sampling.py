"""linkseek build --plan: what it prints next to what a build then needs."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from linkseek.indexer import build as build_command
from linkseek.indexer.building import costs, sampling
from linkseek.indexer.building.costs import BEFORE, Cost, Estimate, Used
from linkseek.indexer.building.plan import BuildPlan
from linkseek.indexer.building.sampling import estimate_build
from linkseek.indexer.encoding.batches import Parallel
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import MachineError
from linkseek.indexer.search.faiss_index import building_memory
from tests.support.tiny.corpus import linked_rows, write_jsonl
from tests.support.tiny.encoder import FakeEncoder

NUMBERS = {"passages", "disk_bytes", "memory_bytes", "seconds", "cpu_seconds"}


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fake encoders, and passes of no length."""
    monkeypatch.setattr(sampling, "_ENCODING_SECONDS", 0.0)
    monkeypatch.setattr("linkseek.retriever.models.biencoder.find_model", Path)
    monkeypatch.setattr(
        "linkseek.retriever.models.biencoder.open_biencoder",
        lambda name, *, title, device: FakeEncoder(name, title=title),
    )


def planned(capsys: pytest.CaptureFixture[str], *argv: object) -> dict:
    words = [*map(str, argv), "--no-bm25", "--encoder", "fake", "--processes", "1"]
    build_command.main([*words, "--plan", "--json"])
    plan = json.loads(capsys.readouterr().out)
    assert plan["command"].endswith("--no-bm25 --encoder fake --processes 1")
    return plan


def folder_of_pages(folder: Path) -> Path:
    folder.mkdir()
    for number in range(30):
        (folder / f"p{number}.md").write_text(f"# Page {number}\n\n" + "some words " * (20 + number))
    return folder


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_plan_has_the_passages_and_the_disk_of_the_build(tmp_path, corpus, kind, capsys, index_path):
    source = corpus if kind == "file" else folder_of_pages(tmp_path / "pages")
    argv = ("--corpus", source, "--index", index_path, "--passage-words", 10)
    before = sorted(tmp_path.rglob("*"))
    plan = planned(capsys, *argv)
    assert sorted(tmp_path.rglob("*")) == before
    assert set(plan) == NUMBERS | {"faiss", "recall", "stages", "alternatives", "command"}
    names = ["documents", "passages", "links", "encoding fake", "FAISS fake"]
    assert [stage["name"] for stage in plan["stages"]] == names
    assert all(set(stage) == NUMBERS | {"name"} for stage in plan["stages"])
    assert (plan["faiss"], plan["recall"]) == ("Flat", 1.0)
    assert [(other["faiss"], other["recall"]) for other in plan["alternatives"]] == [("compact", 0.99)]
    assert plan["disk_bytes"] == sum(stage["disk_bytes"] for stage in plan["stages"])
    assert plan["memory_bytes"] >= max(stage["memory_bytes"] for stage in plan["stages"])

    build_command.main([*map(str, argv), "--no-bm25", "--encoder", "fake"])
    capsys.readouterr()
    index = OpenIndex.open(index_path)
    assert plan["passages"] == index.manifest.counts.passages
    parts = ["documents", "passages", "links", None, "dense/fake"]
    for stage, part in zip(plan["stages"], parts, strict=True):
        if part:
            size = index.parts[part].bytes
            assert stage["disk_bytes"] == pytest.approx(size, rel=0.25)

    again = planned(capsys, *argv)  # all of it is there
    assert [stage["disk_bytes"] for stage in again["stages"]][:3] == [0, 0, 0]
    assert again["stages"][-1] | {"passages": 0} == {"name": "FAISS fake", **dict.fromkeys(NUMBERS, 0)}
    assert again["passages"] == plan["passages"]


def test_a_part_of_the_corpus_is_scaled_to_the_whole(tmp_path, monkeypatch):
    rows = [row | {"id": f"{row['id']}-{copy}", "text": row["text"] * 100, "links": []}
            for copy in range(20) for row in linked_rows() if "redirect" not in row]  # fmt: skip
    corpus = write_jsonl(tmp_path / "corpus.jsonl", rows)
    assert corpus.stat().st_size > 3 << 18
    plan = BuildPlan(corpus, bm25=False, processes=1)

    def estimate():
        return estimate_build(tmp_path / "not" / "yet" / "index", plan, lambda name, title: FakeEncoder(name))

    whole = estimate()
    monkeypatch.setattr(costs, "READING_SECONDS", 0.0)
    part = estimate()
    assert part.faiss is None and not part.alternatives
    assert part.passages != whole.passages
    assert part.passages == pytest.approx(whole.passages, rel=0.25)
    assert part.disk_bytes == pytest.approx(whole.disk_bytes, rel=0.25)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus.jsonl"]


def test_a_build_that_cannot_fit_is_refused_with_the_type_that_fits(corpus, index_path, capsys, monkeypatch):
    argv = ("--corpus", corpus, "--index", index_path, "--passage-words", 10, "--faiss", "Flat")
    plan = planned(capsys, *argv)
    [compact] = plan["alternatives"]
    assert compact["disk_bytes"] < plan["disk_bytes"]
    usage = SimpleNamespace(free=compact["disk_bytes"])
    monkeypatch.setattr("linkseek.indexer.building.costs.shutil.disk_usage", lambda folder: usage)
    with pytest.raises(MachineError, match=r"this build needs .* are free in") as caught:
        planned(capsys, *argv)
    assert caught.value.hint == "--faiss compact fits."
    assert '"stages"' in capsys.readouterr().out
    usage.free = 1
    monkeypatch.setattr(build_command, "_LARGE", 0)
    with pytest.raises(MachineError, match="this build needs") as caught:
        build_command.main([*map(str, argv), "--no-bm25", "--encoder", "fake"])
    assert "larger disk" in caught.value.hint and not index_path.exists()


@pytest.mark.parametrize(("cores", "seconds"), [(1, 60), (2, 37), (4, 27), (64, 27)])
def test_time_of_chains_that_run_at_the_same_time(cores, seconds, monkeypatch):
    monkeypatch.setattr("linkseek.indexer.building.costs.os.cpu_count", lambda: cores)
    stages = [
        Cost("documents", BEFORE, Used(6, 9, memory=50)),
        Cost("bm25", "bm25", Used(10, 13, memory=20)),
        Cost("encoding", "dense", Used(15, 30, memory=30)),
        Cost("FAISS", "dense", Used(5, 10, memory=10)),
    ]
    assert Estimate("Flat", 1, Used(1, 1, memory=100), stages).used == Used(seconds, 63, memory=150)


def test_processes_that_tokenise_are_measured(tmp_path, monkeypatch):
    """They start for more rows than one chunk, which the sample therefore has."""
    monkeypatch.setattr(sampling, "CHUNK_ROWS", 100)
    corpus = write_jsonl(tmp_path / "corpus.jsonl", linked_rows(200))
    plan = BuildPlan(corpus, bm25=False, encoders=["fake"], processes=1, passage_words=10)
    rows: list[int] = []
    encode = sampling.encode_passages
    monkeypatch.setattr(
        sampling, "encode_passages", lambda *a, only: rows.append(len(only)) or encode(*a, only=only)
    )
    for tokenizers, first in ((0, 64), (2, 101)):
        rows.clear()
        parallel = Parallel(tokenizers=tokenizers)
        estimate_build(tmp_path / "i", plan, lambda name, title, p=parallel: FakeEncoder(name, parallel=p))
        assert rows[0] == first


def test_memory_of_building_a_faiss_index(build, monkeypatch):
    assert building_memory("Flat", 2**22, 384) > 2**22 * 384 * 2 > building_memory("compact", 2**22, 384)
    monkeypatch.setattr("linkseek.indexer.building.costs.memory_bytes", lambda: 1000)
    with pytest.raises(MachineError, match=r"needs .* of memory; .* and this machine has 1.0 kB"):
        build(faiss="Flat")


def test_openvino_keeps_more_the_more_shapes_it_sees(corpus, index_path, capsys, monkeypatch):
    """More passages than the sample encodes: the memory grows with them, up to a limit."""
    monkeypatch.setattr(sampling, "_SHAPES_BYTES", 4 << 30)
    monkeypatch.setattr(sampling, "_SHAPES_ROWS", 1)
    argv = ("--corpus", corpus, "--index", index_path, "--passage-words", 1)
    without = planned(capsys, *argv)
    assert without["passages"] > 64 and without["memory_bytes"] < 4 << 30
    backend = property(lambda self: {"backend": "openvino 2026", "threads": 1})
    monkeypatch.setattr(FakeEncoder, "execution", backend)
    assert planned(capsys, *argv)["memory_bytes"] > 4 << 30
