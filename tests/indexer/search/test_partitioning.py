"""An index of partitions answers as one index of all documents does."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import psutil
import pytest

from linkseek.indexer.build import SAMPLE, verify
from linkseek.indexer.building.plan import BuildPlan
from linkseek.indexer.building.updating.changes import Changes
from linkseek.indexer.building.updating.growth import update_index
from linkseek.indexer.building.workspace import link_tree
from linkseek.indexer.commands import partition as partitioning
from linkseek.indexer.commands.partition import join_indexes, split_index
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import (
    BusyError,
    DamagedIndexError,
    InputError,
    LinkseekError,
    MismatchError,
    UsageError,
)
from linkseek.indexer.readers.choices import Choices
from linkseek.indexer.store.artifacts import BM25, DENSE
from linkseek.retriever.queries import read_queries
from linkseek.retriever.ranking import Query, Ranking
from linkseek.retriever.search.fusion import reciprocal_rank
from linkseek.retriever.search.searchers import Bm25, Dense, QueryLikelihood
from tests.support.tiny.corpus import linked_rows
from tests.support.tiny.encoder import FakeEncoder
from tests.support.tiny.index import TINY, built


def open_fake(name: str, title: bool) -> FakeEncoder:
    return FakeEncoder(name)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    return built(tmp_path_factory.mktemp("sample") / "whole", SAMPLE, encoders=["fake"])


@pytest.fixture
def build(tmp_path):
    return lambda name, rows, **options: built(tmp_path / name, rows, **TINY | options).path


def rankings(index: OpenIndex, queries: Sequence[Query]) -> dict[str, Ranking]:
    encoder: Any = FakeEncoder("fake")
    first = {
        "bm25": Bm25(index)(queries, 100),
        "ql": QueryLikelihood(index)(queries, 100),
        "dense": Dense(index, encoder)(queries, 100),
    }
    return first | {"hybrid": reciprocal_rank([first["bm25"], first["dense"]], 100)}


def assert_same_content(made: OpenIndex, whole: OpenIndex) -> None:
    made.verify()
    assert list(made.documents) == list(whole.documents)
    assert list(made.passages) == list(whole.passages)
    for array in fields(whole.links):
        np.testing.assert_array_equal(getattr(made.links, array.name), getattr(whole.links, array.name))
    assert made.manifest.counts == whole.manifest.counts
    ids = [*(passage.id for passage in whole.passages), "d0", "none#0"]
    np.testing.assert_array_equal(made.passages.rows_of(ids), whole.passages.rows_of(ids))


@pytest.fixture(scope="module")
def queries() -> list[Query]:
    return read_queries(SAMPLE.with_name("questions.jsonl"), 40)


@pytest.fixture(scope="module")
def expected(sample: OpenIndex, queries: list[Query]) -> dict[str, Ranking]:
    return rankings(sample, queries)


@pytest.mark.parametrize("count", [1, 2, 4, 7])
def test_rankings_and_links_are_those_of_one_index(sample, queries, expected, tmp_path, count):
    made = split_index(tmp_path / "parts", sample.path, count)
    assert len(made.partitions) == count
    assert max(map(len, (p.passages for p in made.partitions))) < 1.5 * len(sample.passages) / count
    assert_same_content(made, sample)
    for name, ranking in rankings(made, queries).items():
        np.testing.assert_array_equal(ranking.rows, expected[name].rows, name)
        np.testing.assert_array_equal(ranking.scores, expected[name].scores, name)
    assert made.manifest.skipped == sample.manifest.skipped
    for partition in made.partitions:  # each is an index for itself
        assert set(partition.parts) == set(sample.parts)
        assert partition.lucene().count == len(partition.passages) == len(partition.dense())


def test_separate_builds_join_to_the_index_of_all_documents(build, tmp_path):
    rows = linked_rows(50)
    whole = OpenIndex.open(build("whole", rows))
    parts = [
        build(f"part{n}", rows[start:stop]) for n, (start, stop) in enumerate([(0, 17), (17, 30), (30, 50)])
    ]
    alone = sum(OpenIndex.open(part).manifest.counts.links for part in parts)
    first = join_indexes(tmp_path / "two", parts[:2])
    made = join_indexes(tmp_path / "made", [first.path, parts[2]])  # two partitions, and one more
    assert [p.manifest.counts.documents for p in made.partitions] == [17, 13, 20]
    assert made.manifest.counts.links > alone  # others lead across partitions
    assert_same_content(made, whole)
    queries = FakeEncoder("fake").encode_queries(["word1 word2", "naïve 東京", "word7"])
    for k in (1, 10, 1000):
        for mine, expected in zip(
            made.dense().search(queries, k), whole.dense().search(queries, k), strict=True
        ):
            np.testing.assert_array_equal(mine, expected)
    assert made.bytes > sum(partition.bytes for partition in made.partitions)
    assert made.encoders == ["fake"] and f"{DENSE}/fake" in made.parts and BM25 not in made.parts


def test_partitions_that_do_not_belong_together_are_refused(build, tmp_path):
    rows = linked_rows(30)
    first, other = build("first", rows[:15]), build("other", rows[15:], encoders=["another"])
    with pytest.raises(MismatchError, match="partition 2 differs from the first in encoders"):
        join_indexes(tmp_path / "made", [first, other])
    again = build("again", rows[14:])
    with pytest.raises(InputError, match="'d14' is in two partitions"):
        join_indexes(tmp_path / "made", [first, again])
    with pytest.raises(UsageError, match="--split 31: 30 documents are too few"):
        split_index(tmp_path / "made", build("whole", rows), 31)
    assert not (tmp_path / "made").exists()


def test_more_links_than_a_graph_can_number_are_refused(build, tmp_path, monkeypatch):
    whole = build("whole", linked_rows(30))
    links = OpenIndex.open(whole).manifest.counts.links
    monkeypatch.setattr("linkseek.indexer.links._MAX_LINKS", links - 1)
    with pytest.raises(InputError, match=f"more than {links - 1} links"):
        split_index(tmp_path / "made", whole, 2)


def test_a_changed_partition_is_noticed(build, tmp_path):
    made = split_index(tmp_path / "made", build("whole", linked_rows(30)), 2)
    made.verify()
    with pytest.raises(UsageError, match="an index of 2 partitions"):
        update_index(made.path, Changes(removed=["d0"]), BuildPlan(made.path), open_fake)
    with pytest.raises(UsageError, match="an index of 2 partitions"):
        made.own_dense()
    partition = made.partitions[0].path
    update_index(partition, Changes(removed=["d0"]), BuildPlan(partition), open_fake)
    with pytest.raises(DamagedIndexError, match="one of its partitions was changed"):
        OpenIndex.open(made.path)
    repaired = join_indexes(tmp_path / "repaired", [partition, made.partitions[1].path])
    assert len(repaired.documents) == len(made.documents) - 1


def test_it_replaces_an_index_but_no_file_of_the_user(build, tmp_path):
    whole, place = build("whole", linked_rows(30)), tmp_path / "made"
    split_index(place, whole, 3)
    assert len(split_index(place, whole, 2).partitions) == 2
    built(place, linked_rows(30), bm25=False)  # and back
    assert split_index(place, whole, 2).verify() is None
    (place / "partitions" / "00001" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="notes"):
        split_index(place, whole, 3)


def test_the_command_joins_and_splits(build, tmp_path, capsys):
    whole = build("whole", linked_rows(30))
    partitioning.main(["--index", str(tmp_path / "made"), "--split", "2", str(whole)])
    counts = OpenIndex.open(whole).manifest.counts
    expected = f"30 documents, {counts.passages} passages and {counts.links} links"
    assert f"2 partitions with {expected}" in capsys.readouterr().out
    with pytest.raises(UsageError, match="--index or the indexes to join are missing"):
        partitioning.main(["--index", str(tmp_path / "made")])


# --- partitions that are changed in place ----------------------------------------------------------


@pytest.mark.parametrize(
    ("encoder", "options", "words"),
    [
        (FakeEncoder("fake", seed=1), {}, "encoder fake: sha256"),
        (FakeEncoder("fake", dimension=16), {}, "encoder fake: "),
        (FakeEncoder("fake", title=False), {}, "encoder fake: identity: title: False, there True"),
        (FakeEncoder("fake"), {"encoders": ["fake", "more"]}, "encoders"),
        (FakeEncoder("fake"), {"title": False}, "text: title"),
    ],
)
def test_a_partition_with_other_vectors_is_refused(build, tmp_path, encoder, options, words):
    """Its passages are the same: only the manifests tell."""
    rows = linked_rows(30)
    parts = [build("a", rows[:15]), build("b", rows[15:])]
    made = join_indexes(tmp_path / "made", parts)
    built(made.partitions[1].path, rows[15:], encoder, **TINY | options)
    with pytest.raises(MismatchError, match=f"made: partition 2 differs from the first in {words}") as raised:
        OpenIndex.open(made.path)
    assert "linkseek partition" in raised.value.hint
    with pytest.raises(MismatchError, match="partition 2 differs"):
        verify(made.path)
    with pytest.raises(MismatchError, match="partition 2 differs"):
        join_indexes(tmp_path / "again", [partition.path for partition in made.partitions])


def test_a_partition_whose_links_changed_is_refused(build, tmp_path):
    """With the same passages: the links of the whole would be those of the documents before."""
    rows = linked_rows(20)
    made = join_indexes(tmp_path / "made", [build("a", rows[:10]), build("b", rows[10:])])
    built(made.partitions[1].path, [row | {"links": []} for row in rows[10:]], **TINY)
    with pytest.raises(DamagedIndexError, match="one of its partitions was changed"):
        OpenIndex.open(made.path)


def test_a_bit_of_any_manifest_is_noticed(build, tmp_path):
    made = split_index(tmp_path / "made", build("whole", linked_rows(30)), 2)
    draw = random.Random(0)
    for path in sorted(made.path.rglob("manifest.json")):
        before = path.read_bytes()
        for _ in range(10):
            place, content = draw.randrange(len(before)), bytearray(before)
            content[place] ^= 1 << draw.randrange(7)
            path.write_bytes(content)
            try:
                same = orjson.loads(bytes(content)) == orjson.loads(before)
            except orjson.JSONDecodeError:
                same = False
            if not same:
                with pytest.raises(LinkseekError):
                    verify(made.path)
        path.write_bytes(before)
    verify(made.path)


def test_a_source_that_is_replaced_while_it_is_split(build, tmp_path, monkeypatch):
    whole = build("whole", linked_rows(30))

    def link_and_replace(source: Path, target: Path) -> None:
        link_tree(source, target)
        build("whole", linked_rows(40))

    monkeypatch.setattr(partitioning, "link_tree", link_and_replace)
    with pytest.raises(BusyError, match="a new index has since replaced it"):
        split_index(tmp_path / "made", whole, 2)
    with pytest.raises(BusyError, match="a new index has since replaced it"):
        join_indexes(tmp_path / "made", [whole])


def test_what_a_build_of_the_first_documents_skipped_is_counted_once(build, tmp_path):
    rows = [{"id": "short", "title": "x", "text": "A title of one letter."}, *linked_rows(12)]
    whole = OpenIndex.open(build("whole", rows, reading=Choices(min_title=2, limit=8)))
    assert whole.manifest.corpus.sha256 is None
    split_index(tmp_path / "parts", whole.path, 3)
    assert OpenIndex.open(tmp_path / "parts").manifest.skipped == whole.manifest.skipped
    assert [record.count for record in whole.manifest.skipped.values()] == [1]


def test_many_partitions_raise_the_limit_of_open_files(build, tmp_path):
    resource = pytest.importorskip("resource")
    made = split_index(tmp_path / "made", build("whole", linked_rows(30)), 2)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(psutil.Process().num_fds() + 200, before[1]), before[1]))
    try:
        OpenIndex.open(made.path)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(before[1], 1 << 20)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
