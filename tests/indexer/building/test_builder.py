"""Building: which stages are done, which are taken over, and what an index then says about itself."""

from __future__ import annotations

import functools
import random
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import faiss
import numpy as np
import pyarrow as pa
import pytest

from linkseek.indexer.building import stages
from linkseek.indexer.building.builder import build_index
from linkseek.indexer.building.plan import BuildPlan, Built
from linkseek.indexer.encoding.batches import encode_texts
from linkseek.indexer.encoding.shards import open_shards
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.machine.together import Stop
from linkseek.indexer.program.errors import DamagedIndexError, MachineError, UsageError
from linkseek.indexer.program.text import byte_size
from linkseek.indexer.readers.choices import Choices
from linkseek.indexer.readers.formats import open_reader
from linkseek.indexer.store.artifacts import read_json
from tests.support.tiny.corpus import linked_rows, write_jsonl
from tests.support.tiny.encoder import FakeEncoder

Build = Callable[..., Built]


class Opener:
    """`open_encoder` that counts what its encoders encode, by name."""

    def __init__(self, **options: Any) -> None:
        self.opened: dict[str, FakeEncoder] = {}
        self._options = options

    def __call__(self, name: str, title: bool) -> FakeEncoder:
        self.opened[name] = FakeEncoder(name, title=title, **self._options)
        return self.opened[name]

    def encoded(self) -> dict[str, int]:
        return {name: sum(map(len, encoder.batches)) for name, encoder in self.opened.items()}


def inodes(index: Path) -> dict[str, set[int]]:
    """The files of each part, to see which of them are the same files as before."""
    parts = [*(index / name for name in ("documents", "passages", "links", "bm25")), *index.glob("dense/*")]
    return {
        str(part.relative_to(index)): {p.stat().st_ino for p in part.rglob("*") if p.is_file()}
        for part in parts
        if part.is_dir()
    }


def taken(before: dict[str, set[int]], after: dict[str, set[int]]) -> set[str]:
    return {name for name, files in after.items() if before.get(name) == files}


CORE = {"documents", "passages", "links"}


# --- what an index is ----------------------------------------------------------------------------


def test_the_folder_is_as_documented(build, index_path):
    build()
    files = {str(p.relative_to(index_path)) for p in index_path.rglob("*") if p.is_file()}
    links = "target passage start end offsets incoming incoming_offsets".split()
    assert files == {
        "manifest.json",
        *(f"documents/{n}" for n in ("manifest.json", "progress.json", "id_hashes.npy", "id_rows.npy")),
        *(f"documents/{n}" for n in ("00000.arrow", "redirects-00000.arrow")),
        *(f"passages/{n}" for n in ("manifest.json", "00000.arrow", "offsets.npy")),
        *(f"links/{n}" for n in ("manifest.json", *(f"{name}.npy" for name in links))),
        *(f"dense/fake/{n}" for n in ("manifest.json", "index", "docid")),
    }
    assert [path.name for path in index_path.parent.glob("index*")] == ["index"]


def test_the_manifest_says_what_it_is_made_from(build, index_path, corpus):
    built = build(command="the command")
    manifest = read_json(index_path / "manifest.json")
    assert manifest["parts"] == ["documents", "passages", "links", "dense/fake"]
    assert manifest["command"] == "the command"
    assert manifest["corpus"]["file"] == "corpus.jsonl"
    assert manifest["corpus"]["format"] == "jsonl"
    assert manifest["corpus"]["bytes"] == corpus.stat().st_size
    assert len(manifest["corpus"]["sha256"]) == 64
    assert manifest["text"] == {"title": True, "passage_words": 10, "min_words": 2}
    assert manifest["default_encoder"] == "fake"
    assert manifest["skipped"] == {} and manifest["deleted_rows"] == []
    assert {"format", "python", "linkseek", "numpy", "torch"} <= set(manifest["versions"])
    counts = manifest["counts"]
    assert (counts["documents"], counts["redirects"]) == (40, 0)
    assert counts["passages"] == len(OpenIndex.open(index_path).passages)
    assert min(counts["links"], counts["between_documents"], counts["dangling"]) > 0
    assert manifest.pop("manifest_sha256") and built.manifest.to_json() == manifest

    dense = read_json(index_path / "dense" / "fake" / "manifest.json")
    assert dense["encoder"] == FakeEncoder("fake").identity | {"location": "fake"}
    assert dense["execution"] == FakeEncoder("fake").execution
    assert (dense["rows"], dense["dimension"]) == (counts["passages"], 32)
    assert (dense["metric"], dense["factory"]) == ("inner product", "Flat")


def test_content_is_that_of_the_corpus(build, index_path, corpus):
    build()
    index = OpenIndex.open(index_path)
    assert list(index.documents) == list(open_reader(corpus).documents())
    for row, passage in enumerate(index.passages):
        document = index.documents[int(index.passages.document_rows(np.array([row]))[0])]
        assert passage.document_id == document.id
        assert passage.text == document.text[passage.start : passage.end]
    for link in range(len(index.links)):
        passage = index.passages[int(index.links.passage[link])]
        document = index.documents[index.document_ids.row(passage.document_id)]
        start, end = (int(a[link]) + passage.start for a in (index.links.start, index.links.end))
        targets = [x.target for x in document.links if (x.start, x.end) == (start, end)]
        assert index.documents[int(index.links.target[link])].id in targets
    assert len(index.links) > 20


def test_vectors_are_those_of_the_passages(build, index_path):
    build()
    index = OpenIndex.open(index_path)
    encoder = FakeEncoder("fake")
    texts = [(p.title, p.text) for p in index.passages]
    expected = encode_texts(encoder, encoder.tokenize_passages(*zip(*texts, strict=True)))
    raw = faiss.read_index(str(index_path / "dense" / "fake" / "index"))
    np.testing.assert_array_equal(raw.reconstruct_n(0, raw.ntotal), expected.astype(np.float16))
    ids = (index_path / "dense" / "fake" / "docid").read_text().splitlines()
    assert ids == index.passages.ids(range(len(index.passages)))


def test_other_programs_read_it(build, index_path):
    build()
    with pa.memory_map(str(index_path / "passages" / "00000.arrow")) as file:
        table = pa.ipc.open_file(file).read_all()
    assert table.column_names == ["id", "document_id", "title", "text", "start", "end"]
    assert table.num_rows == np.load(index_path / "passages" / "offsets.npy")[-1]


# --- what is taken over --------------------------------------------------------------------------


def without_a_link(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [rows[0] | {"links": []}, *rows[1:]]


@pytest.mark.parametrize(
    ("rows", "options", "same", "encodes"),
    [
        (None, {}, CORE | {"dense/fake"}, "nothing"),
        (None, {"seed": 1}, CORE, "all"),  # other weights
        (None, {"title": False}, CORE, "all"),
        (None, {"passage_words": 15}, {"documents"}, "some"),  # passages of short documents are the same
        (None, {"fresh": True}, set(), "all"),
        (linked_rows(), {}, {"passages", "links", "dense/fake"}, "nothing"),  # the file was written again
        (without_a_link(linked_rows()), {}, {"dense/fake"}, "nothing"),
        (linked_rows(seed=1), {}, set(), "some"),
    ],
)
def test_what_is_reused(build, index_path, corpus, capfd, rows, options, same, encodes):
    build()
    before, opener = inodes(index_path), Opener(seed=options.pop("seed", 0))
    if rows is not None:
        write_jsonl(corpus, rows)
    built = build(**options, open_encoder=opener)
    assert taken(before, inodes(index_path)) & (CORE | {"dense/fake"}) == same
    assert set(built.reused) & CORE == same & CORE
    assert ("documents: unchanged, reused" in capfd.readouterr().err) == ("documents" in same)
    count = opener.encoded()["fake"]
    assert {"nothing": count == 0, "all": count == built.manifest.counts.passages, "some": count > 0}[encodes]
    assert OpenIndex.open(index_path).dense().encoder["sha256"] == opener.opened["fake"].identity["sha256"]
    built = build(encoders=[])  # what fits is retained
    fits = options.get("title", True) and "passage_words" not in options
    assert (built.retained, OpenIndex.open(index_path).encoders) == (
        (["dense/fake"], ["fake"]) if fits else ([], [])
    )


def test_another_encoder_is_added_and_only_it_encodes(build, index_path):
    build()
    before = inodes(index_path)
    opener = Opener(seed=1)
    built = build(encoders=["other"], open_encoder=opener)
    assert opener.encoded() == {"other": built.manifest.counts.passages}
    assert taken(before, inodes(index_path)) == CORE | {"dense/fake"}
    assert built.retained == ["dense/fake"]
    assert OpenIndex.open(index_path).encoders == ["other", "fake"]
    assert built.manifest.default_encoder == "other"
    opener = Opener()
    build(encoders=["fake", "other"], open_encoder=opener)
    assert opener.encoded() == {"fake": 0, "other": built.manifest.counts.passages}  # other weights
    assert OpenIndex.open(index_path).manifest.default_encoder == "fake"


def test_short_ends_of_documents_join_the_passage_before(build, index_path):
    whole = build(min_words=0).manifest
    joined = build(min_words=9).manifest  # of 10
    assert joined.text.min_words == 9
    assert whole.counts.passages > joined.counts.passages >= joined.counts.documents - 1
    assert build(passage_words=0).manifest.text.min_words == 0
    with pytest.raises(UsageError, match="--min-words 10: passages have 10 words"):
        build(min_words=10)


@pytest.mark.parametrize("faiss", ["Flat", "compact"])
@pytest.mark.parametrize("damaged", [False, True])
def test_vectors_of_passages_that_were_there_are_copied_if_intact(build, index_path, corpus, faiss, damaged):
    build(faiss=faiss)
    before = {(passage.title, passage.text) for passage in OpenIndex.open(index_path).passages}
    write_jsonl(
        corpus, [*linked_rows()[3:], *(row | {"id": row["id"] + "x"} for row in linked_rows(seed=1)[:4])]
    )
    if damaged:
        part = index_path / "dense/fake"
        file = part / "index" if faiss == "Flat" else part / "vectors/00000.npy"
        file.write_bytes(file.read_bytes()[:-1] + b"x")
    opener = Opener()
    build(faiss=faiss, open_encoder=opener)
    opened = OpenIndex.open(index_path)
    new = [passage for passage in opened.passages if (passage.title, passage.text) not in before]
    assert 0 < len(new) < len(opened.passages)
    assert opener.encoded() == {"fake": len(opened.passages if damaged else new)}
    copied = opened.dense("fake").manifest.vectors_sha256
    build(faiss=faiss, fresh=True)
    assert OpenIndex.open(index_path).dense("fake").manifest.vectors_sha256 == copied


FACTORIES = ["Flat", "HNSW8", "IVF4,SQfp16", "compact", "auto"]


def test_another_type_of_index_is_made_of_the_same_vectors_without_encoding(build, index_path):
    hashes = set()
    for number, factory in enumerate(FACTORIES):
        opener = Opener(batch_noise=0.01)
        built = build(faiss=factory, open_encoder=opener)
        count = built.manifest.counts.passages
        assert opener.encoded() == {"fake": 0 if number else count}
        dense = OpenIndex.open(index_path).dense()
        assert dense.manifest.factory == factory.replace("auto", "Flat")
        hashes.add(dense.manifest.vectors_sha256)
        if factory not in ("Flat", "auto"):
            assert sum(s.rows for s in open_shards(index_path / "dense/fake/vectors", count)) == count
    assert len(hashes) == 1


def test_vectors_that_cannot_fit_on_the_disk_are_refused_before_encoding(build, index_path, monkeypatch):
    rows = build(encoders=[]).manifest.counts.passages
    vectors = rows * 32 * 2
    for factory, free, needed, hint in (
        ("Flat", 2 * vectors - 1, 2 * vectors, "--faiss compact fits."),
        ("Flat", vectors, 2 * vectors, "a build resumes."),
        ("compact", vectors, vectors * 9 // 8, "a build resumes."),
        ("HNSW8", vectors - 1, vectors, "a build resumes."),
    ):
        usage = SimpleNamespace(free=free)
        monkeypatch.setattr("linkseek.indexer.building.costs.shutil.disk_usage", lambda folder, u=usage: u)
        opener = Opener()
        with pytest.raises(MachineError, match=f"needs {byte_size(needed)} of disk and") as caught:
            build(faiss=factory, open_encoder=opener)
        assert caught.value.hint.endswith(hint) and opener.encoded() == {"fake": 0}
    usage.free = 2 * vectors
    assert build(faiss="Flat").manifest.default_encoder == "fake"


def test_lucene_is_built_kept_and_left_out(build, index_path):
    build(bm25=True, encoders=[])
    index = OpenIndex.open(index_path)
    assert index.has_lucene and index.lucene() is index.lucene()
    before = inodes(index_path)
    assert build(bm25=False, encoders=["fake"]).retained == ["bm25"]
    assert build(bm25=True, encoders=[]).retained == ["dense/fake"]
    assert taken(before, inodes(index_path)) == CORE | {"bm25"}
    assert not build(bm25=False, passage_words=7).retained
    assert not OpenIndex.open(index_path).has_lucene


# --- what goes wrong -----------------------------------------------------------------------------


@pytest.mark.parametrize(("corpus", "index"), [("c", "c"), ("c", "c/i"), ("i/c", "i"), ("i/c/d", "i")])
def test_a_corpus_within_its_index_or_around_it_is_refused(tmp_path, corpus, index):
    (tmp_path / corpus).mkdir(parents=True)
    page = tmp_path / corpus / "a.md"
    page.write_text("# A\n\nText.")
    with pytest.raises(UsageError, match="inside it, or contains it"):
        build_index(tmp_path / index, BuildPlan(tmp_path / corpus), lambda name, title: FakeEncoder(name))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [page]


def test_two_encoders_of_one_folder_name_are_refused(build):
    with pytest.raises(UsageError, match="two encoders have the same name"):
        build(encoders=["a/model", "b/model"])


@pytest.mark.parametrize("factory", ["nonsense", "IVF100000,Flat", "HNSW1"])
def test_a_bad_type_of_index_fails_before_encoding(build, index_path, factory):
    opener = Opener()
    with pytest.raises(UsageError, match=f"--faiss {factory}"):
        build(faiss=factory, open_encoder=opener)
    assert opener.encoded() == {"fake": 0}
    assert not index_path.exists()


def test_a_failure_leaves_the_index_in_use_and_the_next_run_goes_on(build, index_path, capfd):
    build()
    before = {p: p.stat().st_mtime_ns for p in index_path.rglob("*")}

    class Failing(FakeEncoder):
        def encode_tokens(self, batch):
            if sum(map(len, self.batches)) > 20:
                raise RuntimeError("out of memory")
            return super().encode_tokens(batch)

    with pytest.raises(RuntimeError, match="out of memory"):
        build(open_encoder=lambda name, title: Failing(name, seed=1))
    assert {p: p.stat().st_mtime_ns for p in index_path.rglob("*")} == before
    OpenIndex.open(index_path).verify()
    capfd.readouterr()
    opener = Opener(seed=1)
    built = build(open_encoder=opener)
    total = built.manifest.counts.passages
    assert 0 < opener.encoded()["fake"] < total
    assert f"fake: {(total - opener.encoded()['fake']) // 8} of " in capfd.readouterr().err


def test_what_verifying_says_to_do_mends_the_index(build, index_path):
    build()
    path = index_path / "passages" / "00000.arrow"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedIndexError, match="altered") as caught:
        OpenIndex.open(index_path).verify()
    assert f"Remove the folder {path.parent}" in caught.value.hint
    for file in path.parent.iterdir():
        file.unlink()
    path.parent.rmdir()
    opener = Opener()
    build(open_encoder=opener)
    OpenIndex.open(index_path).verify()
    assert opener.encoded() == {"fake": 0}


def test_any_order_of_builds_ends_as_a_fresh_one(build, index_path):
    """Brute force over options: whatever was built before, the result is that of a fresh build."""
    draw = random.Random(3)
    for _ in range(12):
        options = {
            "passage_words": draw.choice([10, 20]),
            "title": draw.random() < 0.7,
            "encoders": draw.choice([["fake"], ["fake", "other"]]),
            "faiss": draw.choice(["Flat", "HNSW8"]),
            "reading": Choices(limit=draw.choice([None, 20])),
        }
        after = build(**options)
        dense = {n: OpenIndex.open(index_path).dense(n).manifest.vectors_sha256 for n in options["encoders"]}
        fresh = build(**options, fresh=True)
        again = {n: OpenIndex.open(index_path).dense(n).manifest.vectors_sha256 for n in options["encoders"]}
        assert dense == again
        for key in ("counts", "text", "default_encoder", "corpus", "skipped"):
            assert getattr(after.manifest, key) == getattr(fresh.manifest, key)


# --- at the same time ----------------------------------------------------------------------------


@pytest.fixture
def slow_lucene(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Lucene is a file, written in steps of a hundredth of a second, or until `fails` says so."""
    settings: dict[str, Any] = {"fails": lambda: False, "began": lambda: None, "steps": 40, "done": 0}

    def build_lucene(passages, folder: Path, on_rows: Callable[[float], None], **options: Any) -> int:
        ids = [id_ for id_, _, _ in passages]
        settings["began"]()
        for step in range(settings["steps"]):
            if settings["fails"]():
                raise MachineError("Lucene could not write", "Free some space.")
            time.sleep(0.01)
            on_rows(1)
            settings["done"] = step + 1
        (folder / "ids").write_text("\n".join(ids))
        return len(ids)

    monkeypatch.setattr("linkseek.indexer.search.lucene_writer.build_lucene", build_lucene)
    return settings


def one_after_another(tasks: Sequence[Callable[[], Any]], stop: Stop) -> list[Any]:
    return [task() for task in tasks]


def test_what_follows_on_the_passages_runs_at_the_same_time(build, slow_lucene):
    both = threading.Barrier(2, timeout=60)  # passed only while both are at work
    waited = slow_lucene["began"] = functools.cache(both.wait)
    built = build(bm25=True, open_encoder=Opener(on_batch=waited))
    (lucene_start, lucene_end), (start, end) = built.times["bm25"], built.times["encoding fake"]
    assert max(start, lucene_start) < min(end, lucene_end)
    assert built.times["passages"][1] <= min(start, lucene_start)


def test_the_same_bytes_come_out_as_one_after_another(build, index_path, slow_lucene, monkeypatch):
    def files() -> dict[str, bytes]:
        return {str(p.relative_to(index_path)): p.read_bytes() for p in index_path.rglob("*")
                if p.is_file() and p.name != "manifest.json"}  # fmt: skip

    build(bm25=True, encoders=["one", "two"], open_encoder=Opener(batch_noise=0.01, seconds_a_batch=0.001))
    together, parts = files(), read_json(index_path / "manifest.json")["parts"]
    monkeypatch.setattr(stages, "run_together", one_after_another)
    build(bm25=True, encoders=["one", "two"], open_encoder=Opener(batch_noise=0.01), fresh=True)
    assert files() == together
    assert read_json(index_path / "manifest.json")["parts"] == parts
    assert parts == ["documents", "passages", "links", "bm25", "dense/one", "dense/two"]


def test_a_stage_that_fails_stops_the_others_and_is_told_once(build, index_path, slow_lucene):
    has_failed = threading.Event()

    def wait_for_lucene() -> None:
        if opener.encoded()["fake"] > 20:
            has_failed.wait(60)

    def fail() -> bool:
        if opener.encoded().get("fake", 0) > 20:
            has_failed.set()
        return has_failed.is_set()

    opener = Opener(seconds_a_batch=0.01, on_batch=wait_for_lucene)
    slow_lucene |= {"fails": fail, "steps": 6_000}
    with pytest.raises(MachineError, match="Lucene could not write"):
        build(bm25=True, open_encoder=opener)
    encoded = opener.encoded()["fake"]
    assert not index_path.exists()
    slow_lucene |= {"fails": lambda: False, "steps": 1}
    opener = Opener()
    built = build(bm25=True, open_encoder=opener)
    total = built.manifest.counts.passages
    assert 20 < encoded < total
    assert total - encoded <= opener.encoded()["fake"] < total  # whole shards were kept
    assert {"documents", "passages", "links"} <= set(built.reused)
