"""Mirrors: an index that is kept in step with a folder is the index that is built from the folder."""

from __future__ import annotations

import json
import random
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from linkseek.indexer import build as build_command
from linkseek.indexer.building.builder import build_index
from linkseek.indexer.building.plan import BuildPlan
from linkseek.indexer.building.updating.changes import Changes
from linkseek.indexer.building.updating.growth import update_index
from linkseek.indexer.building.updating.mirror import CorpusComparison, Mirror, mirror_index, preview
from linkseek.indexer.commands import update as update_command
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.indexer.readers.choices import Choices, ReadingOptions
from linkseek.indexer.readers.formats import open_reader
from linkseek.indexer.store.artifacts import index_stamp
from tests.indexer.building.test_growth import PAGE, WIKI, assert_equal, wiki
from tests.support.command import Done, run_forked
from tests.support.tiny.corpus import linked_rows, write_jsonl
from tests.support.tiny.encoder import FakeEncoder
from tests.support.tiny.index import TINY, built
from tests.support.tiny.linked import document

ENCODER = FakeEncoder()


def open_fake(name: str, title: bool) -> FakeEncoder:
    return ENCODER


def build(corpus: Path, index: Path, **options: Any) -> OpenIndex:
    return built(index, corpus, ENCODER, **TINY | options)


def mirror(index: Path, path: Path, **options: Any) -> CorpusComparison | None:
    choices = options.pop("reading", ReadingOptions())
    comparison, _ = mirror_index(
        index, Mirror(path, choices, **options), BuildPlan(index, processes=1), open_fake
    )
    return comparison


@pytest.mark.parametrize("mirrored", [False, True])
def test_another_address_of_the_site(tmp_path: Path, mirrored: bool) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("x")
    before = build(tmp_path / "docs", tmp_path / "index", base_url="https://old.example/")
    plan = BuildPlan(tmp_path / "index", processes=1, base_url="https://new.example/v2/")
    if mirrored:
        mirror_index(tmp_path / "index", Mirror(tmp_path / "docs", ReadingOptions()), plan, open_fake)
    else:
        update_index(tmp_path / "index", Changes(), plan, open_fake)
    index = OpenIndex.open(tmp_path / "index")
    assert index.passage_url(0).startswith("https://new.example/v2/a")
    assert index.parts.dense["fake"].fingerprint == before.parts.dense["fake"].fingerprint
    assert mirror(tmp_path / "index", tmp_path / "docs") is None  # and it stays
    assert OpenIndex.open(tmp_path / "index").manifest.corpus.base_url == "https://new.example/v2/"


def page(name: str, draw: random.Random) -> str:
    """Links of every kind: relative, from the root, by name, to what is not there."""
    links = [f"[to](p{draw.randrange(34)}.md)", f"[[p{draw.randrange(34)}]]", "[root](/sub/p1.md)"]
    words = [f"word{draw.randrange(90)}" for _ in range(draw.randrange(3, 50))]
    return f"# {name}\n\n{' '.join(words)} {' '.join(links)}\n\n## Part\n\nmore {draw.random()}\n"


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    folder, draw = tmp_path / "pages", random.Random(1)
    (folder / "sub").mkdir(parents=True)
    for n in range(30):
        (folder / f"{'sub/' if n % 3 == 0 else ''}p{n}.md").write_text(page(f"Page {n}", draw), "utf-8")
    return folder


def edit(folder: Path, draw: random.Random) -> dict[str, Any]:
    """Change, delete, rename and add some pages; what is then to be reported."""
    files = sorted(folder.rglob("*.md"))
    *changed, gone, moved = draw.sample(files, 5)
    for file in changed:
        file.write_text(file.read_text("utf-8") + f"\nand {draw.random()}\n", "utf-8")
    gone.unlink()
    new = folder / "elsewhere" / f"q{draw.randrange(10**9)}.md"
    new.parent.mkdir(exist_ok=True)
    moved.rename(new)
    added = folder / f"a{draw.randrange(10**9)}.md"
    added.write_text(page(added.stem, draw), "utf-8")

    def names(*paths: Path) -> list[str]:
        return sorted(path.relative_to(folder).as_posix() for path in paths)

    return {
        "changed": names(*changed),
        "removed": names(gone),
        "added": names(added),
        "renamed": list(zip(names(moved), names(new), strict=True)),
    }


@pytest.mark.parametrize("factory", ["Flat", "compact"])
def test_after_any_changes_the_index_is_that_of_the_folder(pages, tmp_path, factory):
    index, draw = tmp_path / "index", random.Random(2)
    opened = build(pages, index, faiss=factory)
    relinked = 0
    for _ in range(2):
        before = {(passage.title, passage.text) for passage in opened.passages}
        expected = edit(pages, draw)
        stamp = index_stamp(index)
        seen = preview(index, Mirror(pages, ReadingOptions()), BuildPlan(index, processes=1))
        assert index_stamp(index) == stamp
        assert sorted(path.name for path in tmp_path.iterdir()) == ["index", "pages"]
        ENCODER.batches.clear()
        comparison = mirror(index, pages)
        assert comparison == seen
        assert {name: sorted(getattr(comparison, name)) for name in expected} == expected
        relinked += len(comparison.links)
        opened = OpenIndex.open(index)
        new = [p for p in opened.passages if (p.title, p.text) not in before]
        assert 0 < sum(map(len, ENCODER.batches)) == len(new) < len(opened.passages) / 2
        fresh = build(pages, tmp_path / "fresh", faiss=factory, fresh=True)
        assert_equal(opened, fresh)
        for part in ("documents", "passages", "links"):  # byte for byte
            assert opened.parts[part].files == fresh.parts[part].files
        assert opened.manifest.skipped == fresh.manifest.skipped
        shutil.rmtree(tmp_path / "fresh")
    assert relinked
    assert mirror(index, pages) is None
    assert mirror(index, pages.parent / "pages" / "sub" / "..") is None


def test_a_build_after_a_mirror_reuses_all_and_so_does_a_mirror_after_a_merge(pages, tmp_path):
    index = tmp_path / "index"
    build(pages, index)
    for _ in range(2):
        edit(pages, random.Random(3))
        mirror(index, pages)
        update_index(index, Changes(merge=True), BuildPlan(index), open_fake)
    ENCODER.batches.clear()
    assert_equal(build(pages, index), build(pages, tmp_path / "fresh"))
    edit(pages, random.Random(4))
    mirror(index, pages)
    built = build_index(index, BuildPlan(pages, passage_words=10, bm25=False, encoders=["fake"]), open_fake)
    assert set(built.reused) == {"documents", "passages", "links", "dense/fake"}  # some at the same time
    update_index(index, Changes(removed=["sub/p0.md"]), BuildPlan(index), open_fake)
    with pytest.raises(UsageError, match="was updated after it was built"):
        build(pages, index)
    assert mirror(index, pages).added == ("sub/p0.md",)  # which the folder still has
    assert_equal(build(pages, index), build(pages, tmp_path / "again"))


def test_redirects_are_compared(tmp_path):
    dump = wiki(tmp_path / "w.xml", {"A": "a [[B]]", "B": "&gt;A", "C": "c"})
    build(dump, tmp_path / "index")
    wiki(dump, {"A": "a [[B]]", "B": "&gt;C", "C": "c", "D": "&gt;C"})
    comparison = mirror(tmp_path / "index", dump)
    assert comparison.counts["redirects"] == 3 and comparison.unchanged == 2
    assert_equal(OpenIndex.open(tmp_path / "index"), build(dump, tmp_path / "fresh"))


def test_the_guessed_site_is_kept_when_unrelated_pages_go(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    for n in range(5):
        (folder / f"p{n}.md").write_text(f"# P\n\n[next](https://own.example/p{n // 4}) words of {n}")
    addresses = "> <".join(f"https://own.example/p{n}" for n in range(5))
    (folder / "z.md").write_text(f"<{addresses}>")
    (folder / "mkdocs.yml").write_text("")
    index = build(folder, tmp_path / "index")

    def guessed() -> dict[str, str]:
        return dict(OpenIndex.open(index.path).parts.documents.fingerprint["guessed"])

    assert guessed() == {"markdown": "mkdocs", "site": "https://own.example/"}
    (folder / "z.md").unlink()  # two addresses would be too few for a guess
    (folder / "mkdocs.yml").unlink()
    assert mirror(index.path, folder) == CorpusComparison(removed=("z.md",), unchanged=5)
    assert guessed() == {"markdown": "mkdocs", "site": "https://own.example/"}
    (folder / "mkdocs.yml").write_text("site_url: https://new.example/\n")  # which is no guess
    mirror(index.path, folder)
    assert guessed()["site"] == "https://new.example/"


# --- options of the build ---------------------------------------------------------------------------

CHOSEN = Choices((0, 12), True, (("datum", "{1}"),), ("drafts/*",), "https://x.org/", "mkdocs")


def test_choices_are_read_again_as_they_were_written():
    assert Choices.from_json(json.loads(json.dumps(CHOSEN.to_json() | {"format": "html"}))) == CHOSEN
    assert ReadingOptions().choices_over(CHOSEN) == CHOSEN
    given = ReadingOptions(namespace=[4], site="/x/", exclude=["a"], markdown="")
    assert given.choices_over(CHOSEN) == Choices((4,), True, CHOSEN.templates, ("a",), "/x/", "")


@pytest.mark.parametrize("word", ["--add", "--mirror"])
def test_updates_read_as_the_build_did_unless_an_option_is_given(tmp_path, word, capsys):
    def dump(name: str, *titles: str) -> Path:
        text = "It is {{Datum|7}} here, and more words."
        spaces = {"A": 0, "Help:H": 12, "Talk:T": 1}
        made = [
            PAGE.format(t, n, "", text).replace("<ns>0", f"<ns>{spaces[t]}") for n, t in enumerate(titles)
        ]
        path = tmp_path / name
        path.write_text(WIKI.format("".join(made)), "utf-8")
        return path

    (tmp_path / "rules.toml").write_text('Datum = "day {1}"\n')
    index, first = str(tmp_path / "index"), dump("first.xml", "A", "Talk:T")
    options = [
        "--namespace",
        "0,12",
        "--templates",
        str(tmp_path / "rules.toml"),
        "--no-dense",
        "--no-bm25",
        "--processes",
        "1",
    ]
    build_command.main(["--corpus", str(first), "--index", index, *options])
    second = dump("first.xml" if word == "--mirror" else "second.xml", "A", "Help:H", "Talk:T")
    update = ["--index", index, "--processes", "1", word, str(second)]
    update_command.main(update)
    documents = {stored.id: stored.text for stored in OpenIndex.open(index).documents}
    assert sorted(documents) == ["A", "Help:H"] and "day 7" in documents["Help:H"]
    update_command.main([*update, "--namespace", "0,1,12"])
    assert sorted(stored.id for stored in OpenIndex.open(index).documents) == ["A", "Help:H", "Talk:T"]


# --- several corpora, and those that are not there ---------------------------------------------------


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path, Path]:
    """An index of two files, of which the second replaced "b" of the first."""
    one, other, index = tmp_path / "one.jsonl", tmp_path / "other.jsonl", tmp_path / "index"
    write_jsonl(one, [document("a", "to [b]"), document("b", "first b"), document("c", "to [x]")])
    write_jsonl(other, [document("b", "second b to [c]"), document("x", "to [a]")])
    build(one, index)
    update_index(index, Changes(open_reader(other)), BuildPlan(index, processes=1), open_fake)
    return index, one, other


def texts(index: Path) -> dict[str, str]:
    OpenIndex.open(index).verify()
    return {stored.id: stored.text for stored in OpenIndex.open(index).documents}


def test_documents_of_other_corpora_stay(two):
    index, one, other = two
    assert mirror(index, one) is None and mirror(index, other) is None
    write_jsonl(one, [document("a", "new a"), document("b", "newer, but hidden"), document("d", "to [b]")])
    seen = preview(index, Mirror(one, ReadingOptions()), BuildPlan(index))
    assert seen == mirror(index, one)
    assert (seen.added, seen.changed, seen.removed) == (("d",), ("a",), ("c",))
    assert texts(index) == {"a": "new a", "d": "to b", "b": "second b to c", "x": "to a"}
    assert OpenIndex.open(index).manifest.counts.dangling == 1  # b's link to c
    write_jsonl(other, [document("x", "new x")])
    assert mirror(index, other).removed == ("b",)
    assert texts(index) == {"a": "new a", "d": "to b", "x": "new x"}
    one.write_text(one.read_text() + "\n")
    assert mirror(index, one).added == ("b",)
    assert list(texts(index)) == ["a", "b", "d", "x"]
    counts = [source.documents for source in OpenIndex.open(index).parts.documents.sources]
    assert counts == [3, 1] and OpenIndex.open(index).parts.documents.records == 4
    with pytest.raises(UsageError, match="was updated after it was built"):
        build(one, index)


def test_a_corpus_that_was_added_twice_is_one_corpus(two):
    index, _, other = two
    write_jsonl(other, [document("b", "third b"), document("y", "to [a]")])
    update_index(index, Changes(open_reader(other)), BuildPlan(index, processes=1), open_fake)
    assert list(texts(index)) == ["a", "c", "x", "b", "y"]
    write_jsonl(other, [document("b", "fourth b"), document("z", "to [b]")])
    seen = preview(index, Mirror(other, ReadingOptions(), max_removed=70), BuildPlan(index))
    assert (seen.added, seen.changed, seen.removed) == (("z",), ("b",), ("x", "y"))
    with pytest.raises(UsageError, match="2 of 3 documents are no longer there"):
        mirror(index, other)
    assert mirror(index, other, max_removed=70) == seen and mirror(index, other) is None
    assert list(texts(index).values()) == ["to b", "to x", "fourth b", "to b"]


def test_a_corpus_that_moved_is_the_one_that_is_gone(two, tmp_path):
    index, one, other = two
    copied = shutil.copy(other, tmp_path / "copy.jsonl")
    with pytest.raises(UsageError, match="no document of the index comes from it"):
        mirror(index, Path(copied))
    other.unlink()
    with pytest.raises(InputError, match="does not exist, so nothing was changed"):
        mirror(index, other)
    assert mirror(index, Path(copied)).counts["unchanged"] == 2
    one.unlink()
    Path(copied).unlink()
    moved = write_jsonl(tmp_path / "moved.jsonl", linked_rows(3))
    with pytest.raises(UsageError, match=r"but from .*one\.jsonl, .*copy\.jsonl"):
        mirror(index, moved)


# --- mistakes ---------------------------------------------------------------------------------------


def test_a_folder_that_is_empty_or_lost_most_pages_changes_nothing(pages, tmp_path):
    index = tmp_path / "index"
    build(pages, index)
    stamp = index_stamp(index)
    kept = pages.rename(tmp_path / "kept")
    for wrong in (pages, tmp_path / "none"):
        with pytest.raises(InputError, match="does not exist"):
            mirror(index, wrong)
    pages.mkdir()
    with pytest.raises(InputError, match="no documents"):
        mirror(index, pages)
    for file in sorted(kept.glob("*.md"))[:10]:
        shutil.copy(file, pages)
    with pytest.raises(UsageError, match="20 of 30 documents are no longer there") as raised:
        mirror(index, pages)
    assert raised.value.hint.endswith("--max-removed 67.")
    assert index_stamp(index) == stamp
    assert len(mirror(index, pages, max_removed=67).removed) == 20
    assert_equal(OpenIndex.open(index), build(pages, tmp_path / "fresh"))


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (["--add", "a", "--dry-run"], "--dry-run needs --mirror"),
        (["--remove", "a", "--json"], "--json needs --mirror"),
        (["--add", "a", "--max-removed", "5"], "--max-removed needs --mirror"),
        (["--mirror", "a", "--remove", "x"], "excludes"),
    ],
)
def test_options_that_do_not_go_together(argv, problem):
    with pytest.raises(UsageError, match=problem):
        update_command.main(["--index", "i", *argv])


def test_the_command_lists_what_changes(pages, tmp_path, capsys):
    index = ["--index", str(tmp_path / "index"), "--processes", "1"]
    build(pages, tmp_path / "index", encoders=())
    expected = edit(pages, random.Random(7))
    update_command.main([*index, "--mirror", str(pages), "--dry-run"])
    assert " would change: 1 added, 3 changed" in (shown := capsys.readouterr().out)
    assert "  renamed: {} -> {}\n".format(*expected["renamed"][0]) in shown
    outputs = []
    for more in (["--dry-run"], []):
        update_command.main([*index, "--mirror", str(pages), "--json", *more])
        outputs.append(json.loads(capsys.readouterr().out))
    assert outputs[0] == outputs[1] and outputs[0]["removed"] == expected["removed"]
    update_command.main([*index, "--mirror", str(pages)])
    assert "up to date, nothing has changed" in capsys.readouterr().out


# --- killed -----------------------------------------------------------------------------------------

_KILLED = """
import os, signal, sys
from pathlib import Path
index, folder, last = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
events = 0
def count(event, details):
    global events
    writes = event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "shutil.rmtree")
    writes |= event == "open" and bool({"w", "x", "a"} & set(str(details[1])))
    if writes and str(index) in str(details):
        events += 1
        if events == last:
            os.kill(os.getpid(), signal.SIGKILL)
from tests.indexer.building.test_mirror import mirror
sys.addaudithook(count)
mirror(index, folder)
print(events)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="SIGKILL")
@pytest.mark.timeout(600)
def test_killed_at_six_moments_the_index_is_the_old_or_the_new_one(pages, tmp_path):
    """The moments are spread evenly over all that a mirror writes, renames and deletes."""
    old, index = tmp_path / "old", tmp_path / "index"
    build(pages, old)
    edit(pages, random.Random(6))
    before, fresh = texts(old), build(pages, tmp_path / "fresh")
    after = texts(fresh.path)

    def run(moment: int) -> Done:
        shutil.rmtree(index, ignore_errors=True)
        shutil.copytree(old, index)
        return run_forked(["-c", _KILLED, index, pages, moment])

    whole = run(0)
    assert whole.returncode == 0, whole.stderr
    events = int(whole.stdout.split()[-1])
    assert events > 30
    for n in range(6):
        done = run(1 + n * (events - 2) // 5)
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert texts(index) in (before, after)
        mirror(index, pages)
        assert_equal(OpenIndex.open(index), fresh)
        assert mirror(index, pages) is None
        assert sorted(path.name for path in tmp_path.iterdir()) == ["fresh", "index", "old", "pages"]
