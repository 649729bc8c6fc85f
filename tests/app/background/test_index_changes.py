"""Indexes deleted, renamed and estimated from the page."""

import shutil

import pytest

from linkseek.app.background.index_changes import change_index_name, delete_index
from linkseek.app.background.jobs import Jobs
from linkseek.app.service import list_indexes
from linkseek.indexer.building.updating.removal import remove_index, rename_index
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import BusyError, UsageError
from linkseek.indexer.store.outputs import locked
from tests.support.pages import address, bodies, button, labels, notices, run


@pytest.fixture
def two(own_index):
    """The index that the application was started with, and another one next to it."""
    return own_index, shutil.copytree(own_index, own_index.with_name("other"))


def test_an_index_is_deleted_while_others_read_it(two):
    own, other = two
    reading = OpenIndex.open(other)
    delete_index(Jobs.next_to(own), own, "other")
    assert [*list_indexes(own)] == ["own"] and reading.passages[0].text
    assert sorted(path.name for path in own.parent.iterdir()) == ["own"]


def test_an_index_is_renamed(two):
    own, _ = two
    assert change_index_name(Jobs.next_to(own), own, "other", " notes ") == "notes"
    assert [*list_indexes(own)] == ["notes", "own"] and len(
        OpenIndex.open(own.with_name("notes")).passages
    ) == 6
    assert sorted(path.name for path in own.parent.iterdir()) == ["notes", "own"]


@pytest.mark.parametrize("name", ["../own", "/etc", "..", "", "other/", "OTHER", "x\0", "<script>" * 999])
def test_names_are_looked_up(two, name):
    own, other = two
    for act in (delete_index, lambda *given: change_index_name(*given, "new")):
        with pytest.raises(UsageError, match="there is no index") as caught:
            act(Jobs.next_to(own), own, name)
        assert len(caught.value.message) < 200
    assert other.exists() and own.exists()


@pytest.mark.parametrize("new", ["", "../x", "a/b", "own", ".hidden", "x" * 65, "a b", "con\n"])
def test_new_names_are_checked(two, new):
    own, other = two
    with pytest.raises(UsageError):
        change_index_name(Jobs.next_to(own), own, "other", new)
    assert other.exists()


def refused(own, other, match, error=UsageError):
    for act in (delete_index, lambda *given: change_index_name(*given, "new")):
        with pytest.raises(error, match=match):
            act(Jobs.next_to(own), own, other.name)
    assert (other / "manifest.json").exists() and not own.with_name("new").exists()


def test_what_is_in_use_is_refused(two, monkeypatch):
    own, other = two
    refused(own, own, "was started with")
    with locked(other):
        refused(own, other, "another process is writing it", BusyError)
    live = Jobs(own.parent / ".jobs")
    job = type("Job", (), {"live": True})()
    job.order = type(
        "Order", (), {"command": ("evaluate", "--index", str(other)), "title": "An evaluation"}
    )()
    monkeypatch.setattr(Jobs, "list", lambda self, kind=None: [job])
    refused(own, other, "An evaluation: it uses this index", BusyError)
    assert live.list() == [job]


def test_files_of_the_user_stay(two):
    own, other = two
    (other / "passages" / "notes.txt").write_text("mine")
    refused(own, other, r"not of an index \(passages/notes.txt\)")
    (other / "passages" / "notes.txt").unlink()
    link = own.with_name("linked")
    link.symlink_to(other)
    for act in (remove_index, lambda index: rename_index(index, own.with_name("new"))):
        with pytest.raises(UsageError, match="a link"):
            act(link)
        with pytest.raises(UsageError, match="not an index"):
            act(own.parent)
    assert other.exists()


def test_a_damaged_index_can_be_deleted(two, open_page):
    own, other = two
    (other / "passages" / "offsets.npy").write_bytes(b"x")
    test = open_page("index", own, index="other")
    assert "offsets.npy" in notices(test)[0]
    button(test, "Delete it").click()
    run(test)
    assert not other.exists() and address(test)["index"] == ["own"] and "Parts and sizes" in bodies(test)


def test_an_index_is_renamed_and_deleted_on_its_page(two, open_page):
    own, other = two
    assert not {"Delete it", "Rename it"} & {*labels(open_page("index", own))}
    test = open_page("index", own, index="other")
    assert '<a href="./?index=other">Search it</a>' in bodies(test)
    test.text_input(key="new_name").set_value("../x")
    button(test, "Rename it").click()
    assert "is made of letters" in notices(run(test))[0] and other.exists()
    test.text_input(key="new_name").set_value("notes")
    button(test, "Rename it").click()
    run(test)
    assert address(test)["index"] == ["notes"] and not other.exists() and not notices(test)
    assert own.with_name("notes").is_dir()
    button(test, "Delete it").click()
    run(test)
    assert address(test)["index"] == ["own"] and [*list_indexes(own)] == ["own"]
