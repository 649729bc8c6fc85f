"""Updates: an index that grew is the index that is built from its final corpus, and encodes nothing twice."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linkseek.indexer.building.plan import BuildPlan, Built
from linkseek.indexer.building.updating.changes import Changes
from linkseek.indexer.building.updating.growth import update_index
from linkseek.indexer.commands import update as update_command
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import DamagedIndexError, InputError, MismatchError, UsageError
from linkseek.indexer.readers.choices import DEFAULT, Choices
from linkseek.indexer.readers.formats import open_reader
from linkseek.indexer.search.lucene_index import BM25, Dirichlet
from linkseek.indexer.store.artifacts import index_stamp, segment_paths
from linkseek.indexer.store.manifest_files import read_part, write_manifest
from linkseek.indexer.store.manifests import PassagesPart
from tests.indexer.search.test_partitioning import assert_same_content
from tests.support.tiny.corpus import linked_rows, write_jsonl
from tests.support.tiny.encoder import FakeEncoder
from tests.support.tiny.index import TINY, built
from tests.support.tiny.linked import build_linked, document

Rows = list[dict[str, Any]]
Update = Callable[..., Built]


@pytest.fixture
def encoder() -> FakeEncoder:
    return FakeEncoder()


SHORT = Choices(min_title=3)


@pytest.fixture
def build_rows(tmp_path: Path, encoder: FakeEncoder) -> Callable[..., OpenIndex]:
    """An index of JSONL rows in a folder of `tmp_path`, with the fake encoder and without Lucene."""
    return lambda name, rows, **options: built(tmp_path / name, rows, encoder, **TINY | options)


@pytest.fixture
def update(tmp_path: Path, encoder: FakeEncoder) -> Update:
    """Update an index with JSONL rows to add and ids to remove."""

    def run(
        index: OpenIndex, rows: Sequence[dict[str, Any]] = (), removed: Iterable[str] = (), **options: Any
    ) -> Built:
        reader = (
            open_reader(write_jsonl(tmp_path / "added.jsonl", rows), "jsonl", options.pop("reading", DEFAULT))
            if rows
            else None
        )
        changes = Changes(
            reader, sorted(removed), options.pop("merge", False), on_error=options.pop("on_error", "stop")
        )
        plan = BuildPlan(index.path, processes=1, **options)
        return update_index(index.path, changes, plan, lambda name, title: encoder)

    return run


def final(rows: Rows, added: Rows, removed: Iterable[str]) -> Rows:
    gone = {*removed, *(row["id"] for row in added)}
    return [row for row in rows if row["id"] not in gone] + added


def assert_equal(grown: OpenIndex, built: OpenIndex) -> None:
    assert_same_content(grown, built)
    for name in built.encoders:
        queries = FakeEncoder().encode_queries(["word1 word2", "naïve 東京", "word7"])
        for mine, expected in zip(
            grown.dense(name).search(queries, 20), built.dense(name).search(queries, 20), strict=True
        ):
            np.testing.assert_array_equal(mine, expected)
        assert grown.parts[f"dense/{name}"].vectors_sha256 == built.parts[f"dense/{name}"].vectors_sha256


@pytest.mark.parametrize("factory", ["Flat", "compact", "HNSW8"])
def test_after_any_updates_an_index_is_that_of_the_final_corpus(build_rows, update, encoder, factory):
    rows, draw = linked_rows(50), random.Random(7)
    index = build_rows("grown", rows, faiss=factory)
    for step in range(3):
        others = linked_rows(60, seed=step + 1)
        added = draw.sample(others, 12)
        removed = draw.sample([row["id"] for row in rows], 0 if step == 1 else 6)
        before = {(p.id, p.title, p.text) for p in index.passages}
        encoder.batches.clear()
        added.append(next(row for row in rows if row["id"] not in {r["id"] for r in added}))  # unchanged
        built = update(index, added, removed)
        rows = final(rows, added, removed)
        replaced = {row["id"] for row in added} & {d.id for d in index.documents}
        assert built.manifest.updates[-1].to_json() | {"sha256": "", "request": ""} == {
            "request": "",
            "file": "added.jsonl",
            "sha256": "",
            "added": 13,
            "replaced": len(replaced),
            "removed": len(removed),
        }
        index = OpenIndex.open(index.path)
        new = [p for p in index.passages if (p.id, p.title, p.text) not in before]
        assert sum(map(len, encoder.batches)) == len(new) > 0
    assert_equal(index, build_rows("built", rows, faiss=factory))
    assert len(segment_paths(index.path / "documents")) > 1
    encoder.batches.clear()
    update(index, merge=True)
    index = OpenIndex.open(index.path)
    assert len(segment_paths(index.path / "documents")) == 1 and not encoder.batches
    assert_equal(index, OpenIndex.open(index.path.with_name("built")))


def test_links_follow(tmp_path):
    """A dangling link gets its target, and one whose target was removed dangles."""
    index = build_linked(
        tmp_path / "index",
        [document("a", "to [b] and [later]"), document("b", "to [a]"), document("c", "[a]")],
    )
    assert index.manifest.counts.dangling == 1
    added = write_jsonl(tmp_path / "added.jsonl", [document("later", "from [a] to [b]")])
    changes = Changes(open_reader(added, "jsonl"), ["b"])
    update_index(index.path, changes, BuildPlan(index.path), lambda name, title: FakeEncoder())
    index = OpenIndex.open(index.path)
    ids = [d.id for d in index.documents]
    links = [
        (ids[int(index.passages.document_rows(np.array([p]))[0])], ids[t])
        for p, t in zip(index.links.passage, index.links.target, strict=True)
    ]
    assert ids == ["a", "c", "later"]
    assert links == [("a", "later"), ("c", "a"), ("later", "a")]
    assert index.manifest.counts.dangling == 2


WIKI = '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11">{}</mediawiki>'
PAGE = "<page><title>{}</title><ns>0</ns><id>{}</id>{}<revision><text>{}</text></revision></page>"


def wiki(path: Path, pages: dict[str, str]) -> Path:
    """A dump of pages by title; a text that begins with > is the target of a redirect."""
    made = []
    for number, (title, text) in enumerate(pages.items(), 1):
        to = text.removeprefix("&gt;")
        redirect = f'<redirect title="{to}"/>' if to != text else ""
        made.append(PAGE.format(title, number, redirect, f"#REDIRECT [[{to}]]" if redirect else text))
    path.write_text(WIKI.format("".join(made)), "utf-8")
    return path


def test_short_titles_are_skipped_in_updates_too(build_rows, update):
    rows = [document(f"d{n}", "some words " * 8) | {"title": "T" * n} for n in range(7)]
    index = build_rows("index", rows[1:5], reading=SHORT)
    assert [stored.id for stored in index.documents] == ["d3", "d4"]
    assert index.manifest.skipped["short title"].count == 2
    built = update(index, [rows[0], rows[6]], reading=SHORT)
    assert built.manifest.skipped["short title"].count == 3
    assert_equal(
        OpenIndex.open(index.path), build_rows("again", [*rows[1:5], rows[0], rows[6]], reading=SHORT)
    )


def test_redirects_follow(tmp_path):
    """They are removed and replaced by id as documents are, also one by the other."""
    base = {"Cat": "A cat. See [[Feline]], [[Kitty]], [[Dog]].", "Kitty": "&gt;Cat", "Dog": "A dog."}
    built(tmp_path / "index", wiki(tmp_path / "wiki.xml", base), bm25=False)
    new = {"Lion": "A lion.", "Kitty": "A young [[Cat]].", "Feline": "&gt;Lion", "Dog": "&gt;Cat"}
    reader = open_reader(wiki(tmp_path / "new.xml", new), "mediawiki")
    update_index(tmp_path / "index", Changes(reader), BuildPlan(tmp_path), lambda name, title: FakeEncoder())
    index = OpenIndex.open(tmp_path / "index")
    ids = [d.id for d in index.documents]
    assert ids == ["Cat", "Lion", "Kitty"]
    assert [ids[target] for target in index.links.target] == ["Lion", "Kitty", "Cat", "Cat"]
    assert index.manifest.counts.redirects == 2
    changes = Changes(removed=["Feline"])
    update_index(tmp_path / "index", changes, BuildPlan(tmp_path), lambda name, title: FakeEncoder())
    assert OpenIndex.open(tmp_path / "index").manifest.counts.redirects == 1


def test_lucenes_statistics_are_those_of_the_final_corpus(build_rows, update):
    rows = linked_rows(120)
    index = build_rows("grown", rows, bm25=True, encoders=())
    added, removed = linked_rows(140, seed=3)[100:], [row["id"] for row in rows[5:25]]
    update(index, added, removed)
    built = build_rows("built", final(rows, added, removed), bm25=True, encoders=())
    questions = [p.text for p in built.passages][:60]
    for _ in range(2):
        index = OpenIndex.open(index.path)
        assert index.parts["bm25"].passages == built.parts["bm25"].passages
        for similarity in (BM25(), Dirichlet()):
            mine, expected = (i.lucene().search(questions, 50, similarity) for i in (index, built))
            for (ids, scores), (expected_ids, expected_scores) in zip(mine, expected, strict=True):
                assert ids == expected_ids
                np.testing.assert_array_equal(scores, expected_scores)
        update(index, merge=True)
    assert len(list((index.path / "bm25").glob("*.si"))) == 1


def test_an_interrupted_update_leaves_the_index_and_resumes(build_rows, update, encoder):
    rows = linked_rows(40)
    index = build_rows("grown", rows, faiss="compact")
    stamp, added = index_stamp(index.path), linked_rows(60, seed=5)[40:]
    encoder.batches.clear()

    def interrupt() -> None:
        if len(encoder.batches) == 4:
            raise KeyboardInterrupt

    encoder._on_batch = interrupt
    with pytest.raises(KeyboardInterrupt):
        update(index, added, ["d1"])
    assert index_stamp(index.path) == stamp
    OpenIndex.open(index.path).verify()
    encoder._on_batch = None
    update(index, added, ["d1"])
    opened = OpenIndex.open(index.path)
    new = len(opened.passages) - sum(p.document_id != "d1" for p in index.passages)
    assert new <= sum(map(len, encoder.batches)) <= new + encoder.shard_rows
    assert_equal(opened, build_rows("built", final(rows, added, ["d1"]), faiss="compact"))


def test_an_update_that_was_killed_at_its_very_end_is_not_made_twice(build_rows, update, tmp_path):
    """The new index is in place; the old one is still there to be deleted."""
    index = build_rows("grown", linked_rows(30))
    update(index, linked_rows(33)[30:], ["d1"])
    once = list(OpenIndex.open(index.path).documents)
    index.path.rename(tmp_path / "kept")
    build_rows("grown", linked_rows(30)).path.rename(tmp_path / "grown.linkseek-building")
    (tmp_path / "kept").rename(index.path)
    reader = open_reader(tmp_path / "added.jsonl", "jsonl")
    for _ in range(2):
        update_index(
            index.path, Changes(reader, ["d1"]), BuildPlan(tmp_path), lambda name, title: FakeEncoder()
        )
        opened = OpenIndex.open(index.path)
        assert list(opened.documents) == once and len(opened.manifest.updates) == 1
        assert not (tmp_path / "grown.linkseek-building").exists()


def test_unknown_ids_are_an_error_or_skipped(build_rows, update):
    index = build_rows("grown", linked_rows(30))
    with pytest.raises(InputError, match="'nothing'"):
        update(index, removed=["d1", "nothing"])
    assert len(OpenIndex.open(index.path).documents) == 30
    update(index, removed=["d1", "nothing"], on_error="skip")
    opened = OpenIndex.open(index.path)
    assert len(opened.documents) == 29
    assert opened.manifest.skipped["unknown id to remove"].to_json() == {"count": 1, "examples": ["nothing"]}


def test_the_last_document_stays(build_rows, update):
    index = build_rows("grown", linked_rows(3))
    with pytest.raises(InputError, match="none of its 0 documents"):
        update(index, removed=["d0", "d1", "d2"])
    assert len(OpenIndex.open(index.path).documents) == 3


def test_a_build_would_undo_updates_and_is_refused(build_rows, update, encoder):
    rows = linked_rows(30)
    update(build_rows("grown", rows), removed=["d3"])
    with pytest.raises(UsageError, match="was updated after it was built"):
        build_rows("grown", rows)
    assert len(build_rows("grown", rows, fresh=True).documents) == 30


def test_an_encoder_can_be_added(build_rows, update):
    index = build_rows("grown", linked_rows(30))
    update(index, removed=["d3"])
    update(index, encoders=["second"])
    opened = OpenIndex.open(index.path)
    assert opened.encoders == ["fake", "second"] and len(opened.dense("second")) == len(opened.passages)
    assert opened.manifest.default_encoder == "fake" and len(opened.manifest.updates) == 1


def test_another_model_at_the_same_place_is_refused(build_rows, update, encoder):
    index = build_rows("grown", linked_rows(30))
    encoder._seed = 1
    with pytest.raises(MismatchError, match="not the model that made"):
        update(index, linked_rows(35)[30:])


def test_a_damaged_file_is_not_copied(build_rows, update):
    index = build_rows("grown", linked_rows(30), faiss="HNSW8")
    shard = next(index.path.glob("dense/fake/vectors/*.npy"))
    content = bytearray(shard.read_bytes())
    content[-3] ^= 1
    shard.write_bytes(content)
    with pytest.raises(DamagedIndexError, match="altered"):
        update(index, removed=["d1"])


# --- the commands -----------------------------------------------------------------------------------


def test_the_commands(tmp_path, capsys):
    rows = [document(name, f"text of {name}") for name in ("a", "b", "c", "d, e", "f")]
    index = str(build_linked(tmp_path / "index", rows).path)
    update_command.main(["--index", index, "--merge"])
    assert "nothing to merge" in capsys.readouterr().out
    added = write_jsonl(tmp_path / "added.jsonl", [document("g", "text of g"), document("f", "another f")])
    (tmp_path / "ids").write_bytes("\ufeffb\r\n\r\n".encode())  # as Notepad writes it
    remove = ["--remove", "d, e", "none,a", "--remove", f"@{tmp_path / 'ids'}", "--on-error", "skip"]
    update_command.main(["--index", index, "--add", str(added), *remove])
    assert "2 documents added, of which 1 replaced others, 3 removed" in capsys.readouterr().out
    assert [d.id for d in OpenIndex.open(index).documents] == ["c", "g", "f"]
    update_command.main(["--index", index, "--merge"])
    assert "are merged" in capsys.readouterr().out
    assert [d.id for d in OpenIndex.open(index).documents] == ["c", "g", "f"]


def test_ids_that_cannot_be_read(tmp_path):
    index = build_linked(tmp_path / "index", [document("a", "text")])
    with pytest.raises(InputError, match="none: no such file"):
        update_command.main(["--index", str(index.path), "--remove", f"@{tmp_path / 'none'}"])
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(InputError, match="a pipe or a device, not a file"):
            update_command.main(["--index", str(index.path), "--remove", f"@{path}"])
    (tmp_path / "ids").write_bytes(b"a\n\xff\n")
    with pytest.raises(InputError, match="cannot be read"):
        update_command.main(["--index", str(index.path), "--remove", f"@{tmp_path / 'ids'}"])
    with pytest.raises(InputError, match=r"--remove '\\udcff': not UTF-8"):
        update_command.main(["--index", str(index.path), "--remove", "\udcff"])


def test_an_index_whose_passages_are_not_those_of_its_documents_is_not_compacted(build, index_path):
    """As where someone altered the number of words in a manifest."""
    build(encoders=[])
    update_index(
        index_path, Changes(removed=["d0"]), BuildPlan(index_path), lambda name, title: FakeEncoder(name)
    )
    folder = index_path / "passages"
    write_manifest(folder, read_part(folder, PassagesPart).replace(words=5))
    with pytest.raises(DamagedIndexError, match="not the passages of its documents"):
        update_command.main(["--index", str(index_path), "--merge"])
